/** The machine, where numbers come from, what was lost and what watching costs. */

import { get } from "../../api/client";
import type { Losses, OwnCost, SystemInfo } from "../../api/types";
import { bytes, count, digits, metric, percent, provider, text, words } from "../../logic/format";
import type { App } from "../app";
import { card, fact, loader, type Card } from "../card";
import { command, fill, h, type Scope } from "../dom";
import { Table } from "../table";

export function machinePanel(scope: Scope, app: App): Card {
  const panel = card("System", { id: "system", span: 6 });
  loader<SystemInfo>(scope, app, {
    on: ["source"],
    card: panel,
    fetch: (signal) => get("/system", { source: app.source.id }, signal),
    show: (system) => {
      fill(
        panel.body,
        h(
          "dl",
          { class: "facts" },
          // The versions of ONNX Runtime stand below, of all sessions.
          ...Object.entries(system.machine)
            .filter(([name]) => name !== "ort_version")
            .map(([name, value]) => machineFact(name, value)),
          fact("ONNX Runtime", system.ort_versions.join(", ") || "none seen yet"),
          fact("Providers", system.execution_providers.map(provider).join(", ") || "none seen yet"),
          fact(
            "ortscope",
            system.recorded_by && system.recorded_by !== system.ortscope_version
              ? `${system.ortscope_version}, recorded by ${system.recorded_by}`
              : system.ortscope_version,
          ),
          system.started_utc ? fact("Started", system.started_utc) : null,
          fact(
            "Length",
            `${digits(system.duration_seconds)} s, ${system.ended}${system.complete ? "" : " (incomplete)"}`,
          ),
        ),
        system.command ? command(system.command) : null,
      );
    },
  });
  return panel;
}

function machineFact(name: string, value: string): HTMLElement {
  const amount = name.endsWith("_bytes") ? Number(value) : NaN;
  return Number.isFinite(amount)
    ? fact(words(name.replace(/_bytes$/, "")), text(bytes(amount)))
    : fact(words(name), value);
}

export function provenancePanel(scope: Scope, app: App): Card {
  const panel = card("Provenance", { id: "provenance", span: 6 });
  type Row = SystemInfo["provenance"][number];
  const table = new Table<Row>("Provenance", [
    { title: "Numbers", class: "wrap-column", cell: (row) => row.numbers },
    { title: "Source", class: "wrap-column", cell: (row) => row.source },
    { title: "How", class: "wrap-column", cell: (row) => row.method },
    { title: "n", number: true, sort: (row) => row.n, cell: (row) => count(row.n) },
  ]);
  panel.body.append(table.element);
  loader<SystemInfo>(scope, app, {
    on: ["source"],
    card: panel,
    fetch: (signal) => get("/system", { source: app.source.id }, signal),
    show: (system) => {
      if (system.provenance.length === 0) panel.say("Nothing has been recorded yet.");
      else table.set(system.provenance);
    },
  });
  return panel;
}

export function costFacts(cost: OwnCost): HTMLElement[] {
  const server = fact(
    "Server",
    `${text(percent(cost.server_cpu_percent))} of a core, ${text(bytes(cost.server_memory_bytes))}`,
  );
  if (cost.cpu_percent === null && cost.rate_hertz === null) return [server];
  return [
    fact("Sampling", `${text(percent(cost.cpu_percent))} of a core, ${text(bytes(cost.memory_bytes))}`),
    server,
    fact("Rate", `${text(metric(cost.rate_hertz, "Hz"))}, requested ${text(metric(cost.asked_hertz, "Hz"))}`),
    fact("Late ticks", count(cost.late_ticks)),
    fact("Skipped ticks", count(cost.skipped_ticks)),
  ];
}

export function lossesPanel(scope: Scope, app: App): Card {
  const panel = card("Losses and own cost", { id: "losses", span: 12 });
  loader<Losses>(scope, app, {
    on: ["source"],
    every: 2,
    card: panel,
    fetch: (signal) => get("/losses", { source: app.source.id }, signal),
    show: (losses) => {
      panel.covers(app.live ? "since the start" : "whole recording");
      const list = (title: string, rows: HTMLElement[], none: string, below: HTMLElement | null = null): HTMLElement =>
        h(
          "div",
          { class: "third" },
          h("h3", {}, title),
          rows.length > 0 ? h("ul", { class: "plain-list" }, ...rows) : h("p", { class: "note" }, none),
          below,
        );
      fill(
        panel.body,
        h(
          "div",
          { class: "thirds" },
          list(
            `Lost: ${count(losses.total)}`,
            [
              ...losses.losses.map((each) =>
                h(
                  "li",
                  {},
                  h("span", {}, `${each.place}: ${each.kind}`),
                  h("span", { class: "when" }, count(each.count)),
                ),
              ),
              ...losses.condition.map((each) => h("li", {}, each)),
              ...losses.left_out.map((each) => h("li", {}, each)),
            ],
            "Nothing was lost.",
            losses.memory.some((each) => each.count > 0)
              ? list(
                  "Not kept in memory",
                  losses.memory
                    .filter((each) => each.count > 0)
                    .map((each) =>
                      h("li", {}, h("span", {}, each.meaning), h("span", { class: "when" }, count(each.count))),
                    ),
                  "",
                )
              : null,
          ),
          list(
            "Not available",
            losses.unavailable
              .slice(0, 60)
              .map((each) =>
                h(
                  "li",
                  { class: "stacked" },
                  h("strong", {}, each.metric),
                  h("span", {}, each.reason),
                  each.hint ? h("span", { class: "hint" }, each.hint) : null,
                ),
              ),
            "All requested metrics have values.",
          ),
          h(
            "div",
            { class: "third" },
            h("h3", {}, "Cost of observing"),
            h(
              "dl",
              { class: "facts" },
              ...costFacts(losses.own_cost),
              fact("Live clients", count(losses.clients.websockets)),
              fact("Frames sent", count(losses.clients.frames_sent)),
              fact("Frames dropped", count(losses.clients.frames_dropped)),
            ),
          ),
        ),
      );
    },
  });
  return panel;
}
