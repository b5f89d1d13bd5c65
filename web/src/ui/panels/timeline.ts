/** The execution timeline with what is selected on it. */

import { get } from "../../api/client";
import { calls, tiles as askTiles } from "../../api/background";
import type { Operators, TimelineEvent } from "../../api/types";
import { TimelineCanvas } from "../../draw/timeline";
import { parse, toggle } from "../../logic/filter";
import { bytes, count, digits, duration, inUnit, moment, provider, share, text, unitOfName, words } from "../../logic/format";
import { colourOf } from "../../logic/palette";
import { aggregate } from "../../logic/series";
import { indexWhere, typesByTime, type Lane, type Tiles } from "../../logic/tiles";
import * as viewport from "../../logic/viewport";
import type { App } from "../app";
import { card, explain, fact, loader, prose, rangeText, type Card } from "../card";
import { button, fill, h, type Scope } from "../dom";
import { Table } from "../table";
import { key } from "./latency";
import { shapes } from "./operators";

/** Tiles reach this share of the view beyond its edges, so that moving shows something at once. */
const MARGIN = 0.5;
/** Tiles of so many times the view are too coarse for it. */
const COARSE = 6;
/** While a movement goes on, tiles are asked for at most this often. */
const MOVING_MS = 300;
const MAX_RECORDS = 10_000;

/** Details that the inspector shows in other words already. */
const SAID_ELSEWHERE = new Set(["kind", "thread"]);

function detail(name: string, value: string | number | null): HTMLElement {
  if (value === null) return fact(words(name), "–");
  if (typeof value === "string") return fact(words(name), value.replace(/^\[|\]$|"/g, "").replaceAll(",", ", "));
  const unit = unitOfName(name);
  const title = words(name.replace(/_(bytes|ms|ns)$/, "")).replace(/^FLOPS$/, "FLOP");
  if (unit !== "none") return fact(title, text(inUnit(value, unit)));
  return fact(title, Number.isInteger(value) ? count(value) : digits(value, 4));
}

export interface TimelinePanel {
  card: Card;
  canvas: TimelineCanvas;
}

export function timelinePanel(scope: Scope, app: App, options: { compact?: boolean } = {}): TimelinePanel {
  const compact = options.compact ?? false;
  const panel = card("Timeline", { id: "timeline", class: compact ? "compact" : "" });
  const summary = h("p", { class: "note" });
  const legend = h("div", { class: "legend wrap" });
  const inspector = h("div", { class: "inspector" });
  let request = 0;
  const canvas = new TimelineCanvas(scope, app, {
    labels: compact ? 190 : 220,
    scale: compact ? 1 : 1.35,
    pick: (lane, index, tiles) => void pick(lane, index, tiles),
  });
  if (compact)
    panel.tools.append(button("Open timeline", () => app.setView("timeline"), { class: "button small quiet" }));
  else {
    const dim = h(
      "button",
      {
        type: "button",
        class: "button small",
        "aria-pressed": "false",
        title: "Dim filtered events instead of hiding them",
        onclick: () => app.change({ dim: !app.settings.dim }),
      },
      "Dim others",
    );
    app.on(scope, "settings", () => dim.setAttribute("aria-pressed", String(app.settings.dim)));
    dim.setAttribute("aria-pressed", String(app.settings.dim));
    panel.tools.append(legend, dim);
  }
  panel.body.append(
    h("div", { class: compact ? "timeline-scroll short" : "timeline-scroll" }, canvas.element),
    summary,
  );
  if (!compact) panel.body.append(inspector);

  const show = (tiles: Tiles) => {
    panel.covers(rangeText(app, app.time.range.from, app.time.range.to));
    const parsed = parse(app.filter);
    const dim = app.settings.dim && parsed.ok ? parsed.terms : [];
    if (tiles.lanes.length === 0) {
      const filtered = app.usableFilter() !== "" && !app.settings.dim;
      panel.say(
        filtered ? "Nothing matches the filter in this range." : "Nothing ran in this range.",
        h(
          "p",
          {},
          filtered
            ? "Clear the filter, or dim events that do not match."
            : "Profile operators with: ortscope run MODEL.",
        ),
      );
      return;
    }
    canvas.set(tiles, app.source.sessions, dim);
    showWanted(tiles);
    fill(
      legend,
      ...typesByTime(tiles).slice(0, 8).map((type) => {
        const item = h("button", {
          type: "button",
          class: "key",
          title: `Show only ${type}`,
          onclick: () => app.setFilter(toggle(app.filter, "op", type)),
        });
        item.append(...key(colourOf(type), type).childNodes);
        return item;
      }),
    );
    const notes = [
      `${count(tiles.events)} events`,
      tiles.merged_events > 0
        ? `${count(tiles.merged_events)} are merged: zoom in to see each`
        : null,
      tiles.transitions.length > 0
        ? `${count(tiles.transitions.length + tiles.transitions_not_listed)} provider changes`
        : null,
      tiles.hidden_lanes > 0
        ? `${count(tiles.hidden_lanes)} lanes with ${count(tiles.hidden_events)} events are not drawn`
        : null,
      compact
        ? null
        : Object.entries(tiles.unavailable)
            .map(([, why]) => why)
            .join(" · "),
    ].filter(Boolean);
    fill(summary, ...prose(notes.join(" · ")));
  };

  const showWanted = (tiles: Tiles) => {
    if (app.wanted === null || compact) return;
    for (const lane of tiles.lanes) {
      if (lane.kind !== "operators") continue;
      const { rects } = lane;
      const index = indexWhere(rects.t_ms, (t, at) => rects.id[at]! >= 0 && Math.abs(t - app.wanted!) < 1e-3);
      if (index < 0) continue;
      app.wanted = null;
      void pick(lane, index, tiles);
      return;
    }
  };

  let askedAt = 0;
  let asked: viewport.Range = { from: 0, to: 0 };
  const load = loader<Tiles>(scope, app, {
    on: ["numbers", "session", "filter", "source"],
    every: 2,
    card: panel,
    fetch: (signal) => {
      const { range, bounds } = app.time;
      const margin = viewport.span(range) * MARGIN;
      const from = Math.max(range.from - margin, bounds.from);
      const to = Math.max(Math.min(range.to + margin, bounds.to), bounds.from + viewport.MIN_SPAN_MS);
      const pixels = (canvas.pixels * (to - from)) / viewport.span(range);
      asked = { from, to };
      askedAt = performance.now();
      return askTiles(
        {
          source: app.source.id,
          from_ms: from,
          to_ms: to,
          width: Math.min(Math.max(Math.round(pixels), 16), 8192),
          session: app.session,
          filter: app.settings.dim ? null : app.usableFilter(),
        },
        signal,
      );
    },
    show,
  });
  app.on(scope, "settings", load);
  // A long movement leaves its tiles, or comes so close that they are coarse: it does not wait for its end.
  app.on(scope, "range", () => {
    if (app.time.following || performance.now() - askedAt < MOVING_MS) return;
    const { range, bounds } = app.time;
    const left = range.from < asked.from && asked.from > bounds.from;
    const right = range.to > asked.to && asked.to < bounds.to;
    if (left || right || viewport.span(asked) > viewport.span(range) * COARSE) load();
  });

  const pick = async (lane: Lane, index: number, tiles: Tiles): Promise<void> => {
    const { rects } = lane;
    const [t, length, id] = [rects.t_ms[index]!, rects.duration_ms[index]!, rects.id[index]!];
    if (compact) {
      app.move((time, growing) => viewport.show(time, { from: t - length, to: t + length * 2 }, true, growing));
      app.setView("timeline");
      return;
    }
    if (id < 0) {
      // A merged rectangle: go closer.
      app.move((time, growing) => viewport.show(time, { from: t - length * 0.1, to: t + length * 1.1 }, true, growing));
      return;
    }
    canvas.showPicked({ lane: lane.id, id, t, duration: length });
    const mine = ++request;
    try {
      const event = await get<TimelineEvent>("/timeline/event", { source: app.source.id, lane: lane.id, id });
      if (mine !== request) return;
      canvas.showPicked(
        { lane: lane.id, id, t, duration: length },
        event.dependencies?.needs ?? [],
        event.dependencies?.needed_by ?? [],
      );
      showEvent(event, lane, {
        t,
        length,
        type: tiles.types[rects.type[index]!] ?? "",
        name: tiles.names[rects.name[index]!] ?? "",
      });
    } catch (error) {
      fill(inspector, h("p", { class: "note" }, explain(error).title));
    }
  };

  const showEvent = (
    event: TimelineEvent,
    lane: Lane,
    rect: { t: number; length: number; type: string; name: string },
  ) => {
    const operation = event.operation;
    const facts = [
      fact("Duration", text(duration(rect.length))),
      fact("Starts at", moment(rect.t - app.source.from_ms, 1)),
      fact("Lane", lane.title),
    ];
    if (operation) {
      facts.push(
        fact("Provider", provider(operation.execution_provider)),
        fact("Inputs", shapes(operation.input_shapes)),
        fact("Outputs", shapes(operation.output_shapes)),
        fact(
          "Memory",
          operation.memory_bytes === null
            ? (operation.unavailable["memory_bytes"] ?? "not recorded")
            : text(bytes(operation.memory_bytes)),
        ),
        operation.cycles === null
          ? fact("Cycles", operation.unavailable["cycles"] ?? "not recorded")
          : fact("Cycles", count(operation.cycles)),
      );
    }
    if (event.inference)
      facts.push(
        fact("End to end", text(duration(event.inference.latency.end_to_end_ms))),
        fact("Batch", count(event.inference.batch_context.batch_size)),
      );
    if (event.kernel)
      facts.push(fact("Processor", count(event.kernel.processor)), fact("Detail", event.kernel.detail ?? "–"));
    for (const [name, value] of Object.entries(event.details)
      .filter(([name, value]) => value !== null && !SAID_ELSEWHERE.has(name))
      .slice(0, 20))
      facts.push(detail(name, value));
    const deps = event.dependencies;
    const refs = (
      title: string,
      list: { lane: string; id: number; name: string; t_ms: number; duration_ms: number }[],
    ) =>
      h(
        "div",
        {},
        h("h3", {}, title),
        list.length === 0
          ? h("p", { class: "note" }, "none")
          : h(
              "ul",
              { class: "plain-list" },
              ...list.slice(0, 12).map((ref) =>
                h(
                  "li",
                  {},
                  h(
                    "button",
                    {
                      type: "button",
                      class: "link",
                      onclick: () =>
                        app.move((time, growing) =>
                          viewport.show(
                            time,
                            { from: ref.t_ms - ref.duration_ms * 2, to: ref.t_ms + ref.duration_ms * 3 },
                            true,
                            growing,
                          ),
                        ),
                    },
                    ref.name,
                  ),
                  h("span", { class: "when" }, text(duration(ref.duration_ms))),
                ),
              ),
            ),
      );
    fill(
      inspector,
      h(
        "div",
        { class: "inspector-main", "data-panel": "event" },
        h("h3", {}, `${rect.type || words(lane.kind)}${rect.name && rect.name !== rect.type ? ` · ${rect.name}` : ""}`),
        h("dl", { class: "facts" }, ...facts),
        h(
          "div",
          { class: "row" },
          button(
            "Select this time",
            () => app.move((time) => viewport.select(time, { from: rect.t, to: rect.t + rect.length })),
            { class: "button small" },
          ),
          operation
            ? button("Only this node", () => app.setFilter(toggle("", "name", operation.operation_id)), {
                class: "button small",
              })
            : null,
        ),
      ),
      deps ? refs("Needs", deps.needs) : null,
      deps
        ? refs("Needed by", deps.needed_by)
        : operation
          ? h(
              "p",
              { class: "note" },
              event.unavailable["dependencies"] ?? "The recording has no graph; dependencies are unknown.",
            )
          : null,
    );
  };
  return { card: panel, canvas };
}

/** What the selection, or all that is seen, adds up to. */
export function selectionPanel(scope: Scope, app: App): Card {
  const panel = card("Selection", { id: "selection" });
  const total = h("div", { class: "totals" });
  const ms = (value: number | null) => text(duration(value));
  type Row = {
    type: string;
    provider: string;
    n: number;
    sum: number;
    mean: number;
    p50: number | null;
    p99: number | null;
    share: number | null;
  };
  const swatch = (type: string) => {
    const element = h("span", { class: "swatch" });
    element.style.backgroundColor = colourOf(type);
    return element;
  };
  const table = new Table<Row>(
    "Selected operators by type",
    [
      {
        title: "Type",
        sort: (row) => row.type,
        cell: (row) => h("span", { class: "type-cell" }, swatch(row.type), row.type),
      },
      { title: "Provider", sort: (row) => row.provider, cell: (row) => row.provider },
      { title: "n", number: true, sort: (row) => row.n, cell: (row) => count(row.n) },
      { title: "Sum", number: true, sort: (row) => row.sum, cell: (row) => ms(row.sum) },
      { title: "Mean", number: true, sort: (row) => row.mean, cell: (row) => ms(row.mean) },
      { title: "p50", number: true, sort: (row) => row.p50, cell: (row) => ms(row.p50) },
      { title: "p99", number: true, sort: (row) => row.p99, cell: (row) => ms(row.p99) },
      {
        title: "Share",
        number: true,
        hint: "share of the run time in the range",
        sort: (row) => row.share,
        cell: (row) => text(share(row.share)),
      },
    ],
    { sort: 3, limit: 40 },
  );
  panel.body.append(total, table.element);
  loader<{ operators: Operators; all: ReturnType<typeof aggregate> | null; events: number }>(scope, app, {
    on: ["numbers", "session", "filter", "source"],
    card: panel,
    fetch: async (signal) => {
      const query = { ...app.query(), filter: app.usableFilter() };
      const operators = await get<Operators>("/operators", query, signal);
      const events = operators.sessions.reduce((sum, session) => sum + session.events, 0);
      let all = null;
      if (events > 0 && events <= MAX_RECORDS) {
        const each = await calls({ ...query, limit: MAX_RECORDS }, signal);
        if (each) all = aggregate(each.duration_ms);
      }
      return { operators, all, events };
    },
    show: ({ operators, all, events }) => {
      const selected = app.time.selection !== null;
      panel.covers(
        `${selected ? "selection" : "visible range"}: ${rangeText(app, operators.from_ms, operators.to_ms)}`,
      );
      if (events === 0) {
        panel.say(
          "No operator in this range.",
          h("p", {}, "Shift-drag on the timeline to select a range; all figures then cover it."),
        );
        return;
      }
      const rows = operators.sessions.flatMap((session) =>
        session.by_type.map((each) => ({
          type: each.op_type || each.kind,
          provider: provider(each.execution_provider),
          n: each.times.calls,
          sum: each.times.self_ms,
          mean: each.times.mean_ms,
          p50: each.times.p50_ms,
          p99: each.times.p99_ms,
          share: each.times.share,
        })),
      );
      const item = (name: string, value: string, raw: number | null, hint?: string) =>
        h(
          "div",
          { class: "total", title: hint, "data-total": name, "data-value": raw ?? "" },
          h("span", { class: "gauge-label" }, name),
          h("strong", {}, value),
        );
      const [n, sum] = [rows.reduce((a, row) => a + row.n, 0), rows.reduce((a, row) => a + row.sum, 0)];
      const width = operators.to_ms - operators.from_ms;
      fill(
        total,
        item("n", count(n), n),
        item("sum", ms(sum), sum),
        item("mean", ms(n > 0 ? sum / n : null), n > 0 ? sum / n : null),
        all ? item("p50", ms(all.p50), all.p50) : item("p50", "per type", null),
        all ? item("p99", ms(all.p99), all.p99) : item("p99", "per type", null),
        item(
          "share of range",
          text(share(sum / width)),
          sum / width,
          "Operators at the edges of the range count fully, and several can run at once.",
        ),
      );
      table.set(rows);
    },
  });
  return panel;
}
