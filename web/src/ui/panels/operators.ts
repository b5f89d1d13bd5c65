/** Time by operator: operators by type and by node. */

import { calls } from "../../api/background";
import { get } from "../../api/client";
import type {
  OperatorNodeRow,
  Operators,
  OperatorTypeRow,
  SessionInfo,
  SessionOperators,
} from "../../api/types";
import { toggle } from "../../logic/filter";
import { bytes, count, digits, duration, metric, provider, share, text } from "../../logic/format";
import { colourOf, isFallback } from "../../logic/palette";
import { indexOfMax } from "../../logic/series";
import type { App } from "../app";
import { card, loader, rangeText, type Card } from "../card";
import { bar, button, fill, h, type Child, type Scope } from "../dom";
import { Table, type ColumnSpec } from "../table";
import { boundsByNode, limitsPanel } from "./limits";

function chosen(operators: Operators, app: App): SessionOperators | null {
  const sessions = operators.sessions.filter((session) => session.events > 0);
  return (
    sessions.find((session) => session.session_id === app.session) ??
    [...sessions].sort((a, b) => b.events - a.events)[0] ??
    null
  );
}

function sessionOf(app: App, id: string): SessionInfo | undefined {
  return app.source.sessions.find((session) => session.session_id === id);
}

const NO_OPERATORS = "Operators were not profiled in this range.";
const HOW = "ortscope run profiles them in a separate pass; ortscope record profiles some inferences (--profile-every).";

function typeLabel(row: { kind: string; op_type: string }): string {
  return row.kind === "operator"
    ? row.op_type
    : `${row.kind === "copy" ? "Copy" : "Wait"}${row.op_type ? ` · ${row.op_type}` : ""}`;
}

function swatch(type: string, fallback: boolean): HTMLElement {
  const element = h("span", {
    class: `swatch${fallback ? " hatched" : ""}`,
    title: fallback ? "fell back to the CPU" : null,
  });
  element.style.backgroundColor = colourOf(type);
  return element;
}

interface Slice {
  label: string;
  type: string | null;
  provider: string;
  share: number;
  meanMs: number;
  calls: number;
  fallback: boolean;
}

/** Types with their share, and the time that no operator had as a slice of its own. */
function slices(app: App, session: SessionOperators): Slice[] {
  const providers = sessionOf(app, session.session_id)?.execution_providers ?? [];
  const out: Slice[] = session.by_type.map((row) => ({
    label: typeLabel(row),
    type: row.op_type || row.kind,
    provider: provider(row.execution_provider),
    share: row.times.share ?? 0,
    meanMs: session.runs > 0 ? row.times.self_ms / session.runs : row.times.self_ms,
    calls: row.times.calls,
    fallback: isFallback(row.execution_provider, providers),
  }));
  if (session.unattributed && session.unattributed.share > 0.0005) {
    out.push({
      label: "Unattributed",
      type: null,
      provider: "no operator",
      share: session.unattributed.share,
      meanMs: session.unattributed.mean_ms,
      calls: 0,
      fallback: false,
    });
  }
  return out.sort((a, b) => b.share - a.share);
}

export function wherePanel(scope: Scope, app: App, span = 7): Card {
  const panel = card("Time by operator", { id: "where", span });
  panel.tools.append(button("All operators", () => app.setView("operators"), { class: "button small quiet" }));
  loader<Operators>(scope, app, {
    on: ["numbers", "session", "filter", "source"],
    every: 4,
    card: panel,
    fetch: (signal) => get("/operators", { ...app.query(), filter: app.usableFilter() }, signal),
    show: (operators) => {
      panel.covers(rangeText(app, operators.from_ms, operators.to_ms));
      const session = chosen(operators, app);
      if (!session) {
        panel.say(
          app.usableFilter() ? "No operator matches the filter in this range." : NO_OPERATORS,
          h("p", {}, app.usableFilter() ? "Clear it with the cross in the filter box." : HOW),
        );
        return;
      }
      const parts = slices(app, session);
      const stackBar = h("div", {
        class: "stack",
        role: "img",
        "aria-label": parts
          .slice(0, 6)
          .map((part) => `${part.label} ${text(share(part.share))}`)
          .join(", "),
      });
      for (const part of parts) {
        if (part.share < 0.002) continue;
        const segment = h(
          "span",
          {
            class: `stack-part${part.type === null ? " unattributed" : ""}${part.fallback ? " hatched" : ""}`,
            title: `${part.label} ${text(share(part.share))}`,
          },
          part.share > 0.07 ? part.label : null,
        );
        segment.style.flexGrow = String(part.share);
        if (part.type !== null) segment.style.backgroundColor = colourOf(part.type);
        stackBar.append(segment);
      }
      const shown = parts.slice(0, 7);
      const rest = parts.slice(7);
      const list = h("ol", { class: "share-list" }, ...shown.map((part) => shareRow(app, part)));
      if (rest.length > 0)
        list.append(
          shareRow(app, {
            label: `${rest.length} more types`,
            type: null,
            provider: "",
            share: rest.reduce((sum, part) => sum + part.share, 0),
            meanMs: rest.reduce((sum, part) => sum + part.meanMs, 0),
            calls: 0,
            fallback: false,
          }),
        );
      const facts = [
        session.run_median_ms === null ? null : `profiled run ${text(duration(session.run_median_ms))}`,
        session.observer_factor === null ? null : `${digits(session.observer_factor, 3)}× the time without profiling`,
        `${count(session.runs)} runs`,
        placementText(session),
      ].filter((each) => each !== null && each !== "");
      fill(panel.body, stackBar, list, h("p", { class: "note" }, facts.join(" · ")));
    },
  });
  return panel;
}

function placementText(session: SessionOperators): string {
  return session.placement
    .map((each) => `${provider(each.execution_provider)} ${count(each.nodes)} nodes (${text(share(each.share))})`)
    .join(", ");
}

function shareRow(app: App, part: Slice): HTMLElement {
  const type = part.type;
  const label =
    type === null || part.label !== type
      ? h("span", { class: "share-name" }, part.label)
      : h(
          "button",
          {
            type: "button",
            class: "share-name link",
            title: `Show only ${type}`,
            onclick: () => app.setFilter(toggle(app.filter, "op", type)),
          },
          part.label,
        );
  const key = type === null ? h("span", { class: "swatch unattributed" }) : swatch(type, part.fallback);
  return h(
    "li",
    { "data-type": part.label, "data-share": part.share },
    key,
    label,
    h("span", { class: "share-provider" }, part.provider),
    bar(part.share, type === null ? undefined : colourOf(type), type === null ? "bar plain" : "bar"),
    h("span", { class: "share-value" }, text(share(part.share))),
    h("span", { class: "share-ms" }, text(duration(part.meanMs))),
  );
}

interface Row {
  name: string;
  type: string;
  kind: string;
  provider: string;
  fallback: boolean;
  nodes: number | null;
  shapes: string | null;
  outputBytes: number | null;
  flops: number | null;
  /** What bounds it, where the profiling pass could tell. */
  bound: { bound: string; roof: number | null } | null;
  times: OperatorTypeRow["times"];
}

/** The operator table, by type or by node, and what limits the operators. */
export function operatorTable(scope: Scope, app: App): { table: Card; limits: Card } {
  const panel = card("Operators", { id: "operators" });
  const limits = limitsPanel();
  let byNode = true;
  let last: Operators | null = null;
  const modes = h("div", { class: "segmented", role: "group", "aria-label": "Rows" });
  const summary = h("p", { class: "note" });
  const host = h("div");
  panel.tools.append(modes);
  panel.body.append(summary, host);

  const number = (
    title: string,
    value: (row: Row) => number | null,
    format: (value: number | null) => string,
    hint?: string,
  ): ColumnSpec<Row> => ({
    title,
    number: true,
    ...(hint ? { hint } : {}),
    cell: (row) => format(value(row)),
    sort: value,
  });
  const ms = (value: number | null) => text(duration(value));
  const shareColumn: ColumnSpec<Row> = {
    title: "Share",
    number: true,
    class: "share-column",
    hint: "share of the profiled run time",
    sort: (row) => row.times.share,
    cell: (row) =>
      h(
        "span",
        { class: "share-cell" },
        bar(row.times.share ?? 0, colourOf(row.type || row.kind)),
        h("span", {}, text(share(row.times.share))),
      ),
  };
  const typeColumn: ColumnSpec<Row> = {
    title: "Type",
    sort: (row) => typeLabel({ kind: row.kind, op_type: row.type }),
    cell: (row): Child =>
      h(
        "span",
        { class: "type-cell" },
        swatch(row.type || row.kind, row.fallback),
        typeLabel({ kind: row.kind, op_type: row.type }),
      ),
  };
  const providerColumn: ColumnSpec<Row> = {
    title: "Provider",
    sort: (row) => row.provider,
    cell: (row) => `${row.provider}${row.fallback ? " (fallback)" : ""}`,
  };
  const timeColumns = [
    number("Calls", (row) => row.times.calls, count),
    shareColumn,
    number("Total", (row) => row.times.self_ms, ms, "own time in the range"),
    number("Mean", (row) => row.times.mean_ms, ms),
    number("p50", (row) => row.times.p50_ms, ms),
    number("p99", (row) => row.times.p99_ms, ms),
    number("Max", (row) => row.times.max_ms, ms),
  ];
  const open = (row: Row) => {
    app.setFilter(byNode ? toggle("", "name", row.name) : toggle("", "op", row.type));
    void slowestCall(app).then((call) => {
      if (call) app.jumpTo(call.t_ms, call.duration_ms);
      app.setView("timeline");
    });
  };
  const nodeTable = new Table<Row>(
    "Operators by node",
    [
      { title: "Node", class: "name-column", sort: (row) => row.name, cell: (row) => row.name },
      typeColumn,
      providerColumn,
      ...timeColumns,
      {
        title: "Bound by",
        hint: "arithmetic, memory or overhead, and the share of the attainable speed; above 100 %, the measured peak is too low, for example because the machine was busy",
        sort: (row) => row.bound?.bound ?? null,
        cell: (row) =>
          row.bound === null
            ? "–"
            : `${row.bound.bound}${row.bound.roof === null ? "" : row.bound.roof > 1 ? " ≥ 100\u202f%" : ` ${text(share(row.bound.roof))}`}`,
      },
      { title: "Input shapes", class: "shape-column", cell: (row) => shapes(row.shapes) },
      number(
        "Output",
        (row) => row.outputBytes,
        (value) => text(bytes(value)),
        "output bytes",
      ),
      number(
        "FLOP",
        (row) => row.flops,
        (value) => text(metric(value, "")),
        "floating-point operations of one call",
      ),
      number(
        "FLOP/s",
        (row) => (row.flops !== null && row.times.mean_ms > 0 ? (row.flops / row.times.mean_ms) * 1000 : null),
        (value) => text(metric(value, "")),
      ),
    ],
    { sort: 4, open },
  );
  const typeTable = new Table<Row>(
    "Operators by type",
    [typeColumn, providerColumn, number("Nodes", (row) => row.nodes, count), ...timeColumns],
    { sort: 4, open },
  );

  const render = () => {
    fill(
      modes,
      ...(
        [
          ["By node", true],
          ["By type", false],
        ] as const
      ).map(([label, value]) =>
        h(
          "button",
          {
            type: "button",
            "aria-pressed": String(byNode === value),
            onclick: () => {
              byNode = value;
              render();
            },
          },
          label,
        ),
      ),
    );
    const session = last && chosen(last, app);
    limits.show(session);
    if (!last || !session) {
      panel.say(
        app.usableFilter() ? "No operator matches the filter in this range." : NO_OPERATORS,
        h("p", {}, app.usableFilter() ? "Clear it with the cross in the filter box." : HOW),
      );
      return;
    }
    panel.say(null);
    const providers = sessionOf(app, session.session_id)?.execution_providers ?? [];
    const bounds = boundsByNode(session.insight);
    const row = (each: OperatorNodeRow | OperatorTypeRow, name: string): Row => ({
      name,
      type: each.op_type,
      kind: each.kind,
      provider: provider(each.execution_provider),
      fallback: isFallback(each.execution_provider, providers),
      nodes: "nodes" in each ? each.nodes : null,
      shapes: "input_shapes" in each ? each.input_shapes : null,
      outputBytes: "output_bytes" in each ? each.output_bytes : null,
      flops: "flops" in each ? each.flops : null,
      bound: bounds.get(name) ?? null,
      times: each.times,
    });
    nodeTable.set(session.by_node.map((each) => row(each, each.name)));
    typeTable.set(session.by_type.map((each) => row(each, each.op_type)));
    host.replaceChildren(byNode ? nodeTable.element : typeTable.element);
    fill(
      summary,
      [
        `${count(session.events)} calls in ${count(session.runs)} profiled runs`,
        session.run_median_ms === null ? null : `median run ${text(duration(session.run_median_ms))}`,
        session.observer_factor === null
          ? null
          : `profiling makes runs ${digits(session.observer_factor, 3)}× as long`,
        session.unattributed ? `unattributed ${text(share(session.unattributed.share))}` : session.unattributed_unknown,
        session.parallelism === null ? null : `${digits(session.parallelism, 2)} operators in parallel`,
        byNode && session.other_nodes.nodes > 0
          ? `${count(session.other_nodes.nodes)} cheaper nodes are not listed`
          : null,
      ]
        .filter((each) => each !== null)
        .join(" · "),
    );
  };
  loader<Operators>(scope, app, {
    on: ["numbers", "session", "filter", "source"],
    every: 4,
    card: panel,
    fetch: (signal) => get("/operators", { ...app.query(), filter: app.usableFilter() }, signal),
    show: (operators) => {
      last = operators;
      panel.covers(rangeText(app, operators.from_ms, operators.to_ms));
      render();
    },
  });
  return { table: panel, limits: limits.card };
}

/** Of what the filter leaves: the call that took longest; null where single calls cannot be had. */
async function slowestCall(app: App): Promise<{ t_ms: number; duration_ms: number } | null> {
  try {
    const query = { ...app.query(), filter: app.usableFilter(), limit: 10_000 };
    const all = await calls(query, new AbortController().signal);
    if (!all) return null;
    const slowest = indexOfMax(all.duration_ms);
    return slowest < 0 ? null : { t_ms: all.t_ms[slowest]!, duration_ms: all.duration_ms[slowest]! };
  } catch {
    return null;
  }
}

/** `[[1,3,224,224]]` as 1×3×224×224. */
export function shapes(json: string | null | unknown): string {
  if (json === null || json === undefined) return "–";
  try {
    const list = typeof json === "string" ? (JSON.parse(json) as unknown) : json;
    return Array.isArray(list)
      ? list.map((shape) => (Array.isArray(shape) ? shape.join("×") || "scalar" : String(shape))).join(", ")
      : String(json);
  } catch {
    return String(json);
  }
}
