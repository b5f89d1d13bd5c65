/** Top findings, gravest first, with evidence and what to try. */

import { get } from "../../api/client";
import type { FindingReport, Findings } from "../../api/types";
import { count, grouped, words } from "../../logic/format";
import type { App } from "../app";
import { card, loader, rangeText, type Card } from "../card";
import { button, command, fill, h, type Scope } from "../dom";

const NAMES = { error: "Error", warning: "Warning", advice: "Advice" } as const;

function item(finding: FindingReport, full: boolean): HTMLElement {
  return h(
    "li",
    { class: `finding ${finding.severity}`, "data-finding": finding.id },
    h(
      "div",
      { class: "finding-head" },
      h("span", { class: `badge ${finding.severity}` }, NAMES[finding.severity]),
      h("span", { class: "finding-id" }, finding.id.replaceAll("-", " ")),
    ),
    h("p", { class: "finding-evidence" }, finding.evidence),
    h("p", { class: "finding-advice" }, finding.advice),
    full && finding.command ? command(finding.command) : null,
  );
}

export function findingsPanel(scope: Scope, app: App, options: { span?: number; full?: boolean } = {}): Card {
  const full = options.full ?? false;
  const panel = card(full ? "Findings" : "Top findings", { id: "findings", span: options.span ?? 12 });
  if (!full) panel.tools.append(button("All findings", () => app.setView("findings"), { class: "button small quiet" }));
  loader<Findings>(scope, app, {
    on: ["numbers", "source"],
    every: 5,
    card: panel,
    fetch: (signal) => {
      const { session: _, ...query } = app.query();
      return get("/findings", query, signal);
    },
    show: (data) => {
      panel.covers(rangeText(app, data.from_ms, data.to_ms));
      if (data.findings.length === 0) {
        panel.say("No findings.", h("p", {}, "No check found a problem in this range."));
        return;
      }
      const shown = full ? data.findings : data.findings.slice(0, 4);
      const more = data.findings.length - shown.length;
      fill(
        panel.body,
        h("ul", { class: full ? "finding-list full" : "finding-list" }, ...shown.map((finding) => item(finding, full))),
        more > 0 ? h("p", { class: "note" }, `${count(more)} more under Findings.`) : null,
      );
    },
  });
  return panel;
}

/** A note that a part of the program wrote as JSON, in words; others as they are. */
function readable(note: string): string {
  if (!note.startsWith("{")) return note;
  try {
    return Object.entries(JSON.parse(note) as Record<string, unknown>)
      .map(([name, value]) => `${words(name)}: ${typeof value === "number" ? grouped(String(value)) : String(value)}`)
      .join(" · ");
  } catch {
    return note;
  }
}

export function annotationsPanel(scope: Scope, app: App): Card {
  const panel = card("Annotations", { id: "annotations" });
  loader<Findings>(scope, app, {
    on: ["numbers", "source"],
    card: panel,
    fetch: (signal) => {
      const { session: _, ...query } = app.query();
      return get("/findings", query, signal);
    },
    show: (data) => {
      panel.element.hidden = data.annotations.length === 0;
      if (panel.element.hidden) return;
      fill(
        panel.body,
        h(
          "ul",
          { class: "plain-list notes" },
          ...data.annotations
            .slice(0, 100)
            .map((note) =>
              h(
                "li",
                {},
                h("span", { class: "when" }, `${note.offset_seconds.toFixed(3)} s`),
                h("span", { class: "tag" }, note.kind),
                h("span", {}, readable(note.text)),
              ),
            ),
        ),
      );
    },
  });
  return panel;
}
