/** Two recordings in one view: figures, distributions, operators and time lines side by side. */

import { get } from "../../api/client";
import type {
  Compare,
  CompareMetric,
  CompareOperator,
  RecordingEntry,
  SourceInfo,
  TimelineAnswer,
  TimelineTiles,
} from "../../api/types";
import { Histogram } from "../../draw/histogram";
import { colourOf } from "../../logic/palette";
import { currentTheme, FONT, Surface } from "../../draw/surface";
import { shellQuote } from "../../logic/command";
import { inMetric, inWords, markdown, nameOfMetric, reach } from "../../logic/comparison";
import { change, count, dateTime, duration, provider, text, words } from "../../logic/format";
import { stack } from "../../logic/layout";
import { linear } from "../../logic/scale";
import { rebin } from "../../logic/series";
import type { App } from "../app";
import { card, explain, grid, loader } from "../card";
import { button, command, fill, h, type Child, type Scope } from "../dom";
import { Table } from "../table";
import { key } from "./latency";
import { allRecordings, nameOf } from "./recordings";

const A = "#3b8fd6";
const B = "#e69f00";

export function compareView(scope: Scope, app: App): HTMLElement {
  const head = card("Compare", { id: "compare" });
  const result = h("div", { class: "grid span-12" });
  const picker = (label: string, side: "a" | "b", colour: string) => {
    const select = h("select", { class: "input", "aria-label": label, "data-side": side });
    select.addEventListener("change", () => app.setCompare({ ...app.compare, [side]: select.value || null }));
    return { select, element: h("label", { class: "picker" }, key(colour, label), select) };
  };
  const [a, b] = [picker("A, the base", "a", A), picker("B, the new one", "b", B)];
  const swap = button("Swap", () => app.setCompare({ a: app.compare.b, b: app.compare.a }), { class: "button" });
  head.body.append(h("div", { class: "pickers" }, a.element, b.element, swap));
  const fillPickers = (list: RecordingEntry[]) => {
    for (const [side, { select }] of [
      ["a", a],
      ["b", b],
    ] as const) {
      fill(
        select,
        h("option", { value: "" }, "Choose a recording"),
        ...list.map((entry) =>
          h("option", { value: entry.id }, `${nameOf(entry)} · ${dateTime(entry.started_unix_ms)}`),
        ),
      );
      select.value = app.compare[side] ?? "";
    }
  };
  let recordings: RecordingEntry[] = [];
  loader<RecordingEntry[]>(scope, app, {
    on: [],
    card: head,
    fetch: (signal) => allRecordings(signal),
    show: (list) => {
      recordings = list;
      if (list.length < 2) {
        head.say("Two recordings are needed.", h("p", {}, "Each ortscope run MODEL creates one."));
        return;
      }
      // The two newest of the same subject are the likeliest question.
      if (!app.compare.a && !app.compare.b) {
        const newest = list[0];
        const other =
          list.slice(1).find((entry) => entry.subject === newest?.subject && entry.origin === newest.origin) ?? list[1];
        if (newest && other) app.setCompare({ a: other.id, b: newest.id });
      }
      fillPickers(recordings);
    },
  });
  app.on(scope, "compare", () => fillPickers(recordings));

  let inner: Scope | null = null;
  scope.add(() => inner?.dispose());
  let asked = 0;
  const load = async () => {
    const { a: idA, b: idB } = app.compare;
    const mine = ++asked;
    if (!idA || !idB) {
      fill(
        result,
        h(
          "div",
          { class: "empty span-12" },
          h("p", { class: "empty-title" }, "Choose two recordings."),
          h("p", {}, "A is the baseline, B the new state."),
        ),
      );
      return;
    }
    try {
      const compare = await get<Compare>("/compare", { a: idA, b: idB });
      if (mine !== asked) return;
      inner?.dispose();
      inner = new (scope.constructor as new () => Scope)();
      fill(result, ...show(inner, app, compare));
    } catch (error) {
      const { title, hint } = explain(error);
      fill(
        result,
        h("div", { class: "empty span-12" }, h("p", { class: "empty-title" }, title), hint ? h("p", {}, hint) : null),
      );
    }
  };
  app.on(scope, "compare", () => void load());
  void load();
  return grid(head.element, result);
}

function show(scope: Scope, app: App, compare: Compare): Child[] {
  const summary = card("Differences", { id: "compare-metrics", span: 7 });
  summary.covers("whole recordings, after the warm-up");
  summary.tools.append(
    button("JSON", () => download("ortscope-compare.json", JSON.stringify(compare, null, 2), "application/json"), {
      icon: "export",
      class: "button small",
    }),
    button("Markdown", () => download("ortscope-compare.md", markdown(compare), "text/markdown"), {
      icon: "export",
      class: "button small",
    }),
  );
  const banner = h("p", { class: compare.comparable ? "banner" : "banner warning" }, compare.comparable_note);
  summary.body.append(banner);
  for (const fact of compare.machine_differences)
    summary.body.append(
      h("p", { class: "note" }, `${words(fact.fact)}: ${fact.a ?? "unknown"} → ${fact.b ?? "unknown"}`),
    );
  for (const session of compare.sessions) {
    if (!session.a_session_id || !session.b_session_id) {
      summary.body.append(h("p", { class: "note" }, `${session.title} is only in ${session.a_session_id ? "A" : "B"}.`));
      continue;
    }
    const table = new Table<CompareMetric>(`Figures of ${session.title}`, [
      { title: session.title, cell: (row) => nameOfMetric(row.name) },
      { title: "A", number: true, cell: (row) => interval(row, "a") },
      { title: "B", number: true, cell: (row) => interval(row, "b") },
      {
        title: "Change",
        number: true,
        class: "change-column",
        cell: (row) =>
          h(
            "span",
            { class: `change ${reach(row)}`, "data-change": row.name, "data-value": row.ratio ?? "" },
            change(row.ratio),
          ),
      },
      { title: "Difference", class: "difference-column", cell: (row) => difference(row) },
    ]);
    table.set(session.metrics);
    summary.body.append(table.element);
  }
  summary.body.append(
    h(
      "p",
      { class: "note" },
      "A difference is not a verdict: with one recording each, a change cannot be distinguished from noise between runs. For a verdict, run:",
    ),
    command(`ortscope compare ${shellQuote(compare.a.id)} ${shellQuote(compare.b.id)}`),
  );

  const shapes = card("Distribution", { id: "compare-distribution", span: 5 });
  shapes.covers("in percent of the inferences of each");
  shapes.tools.append(h("div", { class: "legend" }, key(A, "A"), key(B, "B")));
  const withHistogram = compare.sessions.find(
    (session) => session.histogram && session.a_session_id && session.b_session_id,
  );
  if (withHistogram?.histogram) {
    const histogram = new Histogram(scope, app, "Latency distributions");
    const data = withHistogram.histogram;
    const [binsA, binsB] = [rebin(data.edges_ms, data.a, 60, false), rebin(data.edges_ms, data.b, 60, false)];
    const p50 = withHistogram.metrics.find((each) => each.name === "p50_ms");
    const marks = [p50?.a ? { value: p50.a, label: "A p50" } : null, p50?.b ? { value: p50.b, label: "B p50" } : null]
      .filter((mark) => mark !== null)
      .sort((x, y) => x.value - y.value);
    histogram.set({
      edges: binsA.edges,
      series: [
        { label: "A", counts: shares(binsA.counts), colour: A },
        { label: "B", counts: shares(binsB.counts), colour: B },
      ],
      percent: true,
      tail: false,
      marks,
    });
    histogram.element.classList.add("tall");
    shapes.body.append(histogram.element);
  } else shapes.say("No session is in both recordings.");

  const lines = card("One run of each, to scale", { id: "compare-timelines" });
  lines.covers("the middle profiled run, or the middle inferences");
  void drawRuns(scope, app, lines.body, compare.a, compare.b);

  const operators = card("Operators", { id: "compare-operators" });
  const largest = Math.max(...compare.operators.map((row) => Math.abs(row.difference_ms ?? 0)), 1e-9);
  const ms = (value: number | null) => text(duration(value));
  const table = (rows: CompareOperator[], byNode: boolean) => {
    const made = new Table<CompareOperator>(
      byNode ? "Differences by node" : "Differences by type",
      [
        ...(byNode
          ? [
              {
                title: "Node",
                class: "name-column",
                sort: (row: CompareOperator) => row.name,
                cell: (row: CompareOperator) => row.name,
              },
            ]
          : []),
        {
          title: "Type",
          sort: (row) => row.op_type,
          cell: (row) => {
            const swatch = h("span", { class: "swatch" });
            swatch.style.backgroundColor = colourOf(row.op_type);
            return h("span", { class: "type-cell" }, swatch, row.op_type);
          },
        },
        {
          title: "Provider",
          cell: (row) =>
            row.execution_provider_a === row.execution_provider_b
              ? provider(row.execution_provider_a)
              : h(
                  "span",
                  { class: "flag" },
                  `${provider(row.execution_provider_a)} → ${provider(row.execution_provider_b)}`,
                ),
        },
        { title: "Calls A", number: true, sort: (row) => row.calls_a, cell: (row) => count(row.calls_a) },
        { title: "Calls B", number: true, sort: (row) => row.calls_b, cell: (row) => count(row.calls_b) },
        { title: "A per run", number: true, sort: (row) => row.ms_per_run_a, cell: (row) => ms(row.ms_per_run_a) },
        { title: "B per run", number: true, sort: (row) => row.ms_per_run_b, cell: (row) => ms(row.ms_per_run_b) },
        {
          title: "Difference",
          number: true,
          sort: (row) => (row.difference_ms === null ? null : Math.abs(row.difference_ms)),
          cell: (row) =>
            row.difference_ms === null ? "–" : `${row.difference_ms > 0 ? "+" : ""}${ms(row.difference_ms)}`,
        },
        { title: "", class: "diverge-column", cell: (row) => diverging((row.difference_ms ?? 0) / largest) },
        { title: "Change", number: true, sort: (row) => row.ratio, cell: (row) => change(row.ratio) },
      ],
      { sort: byNode ? 7 : 6, limit: 100 },
    );
    made.set(rows);
    return made.element;
  };
  const host = h("div");
  const modes = h("div", { class: "segmented", role: "group", "aria-label": "Rows" });
  let byNode = false;
  const render = () => {
    fill(
      modes,
      ...(
        [
          ["By type", false],
          ["By node", true],
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
    host.replaceChildren(table(byNode ? compare.nodes : compare.operators, byNode));
  };
  operators.tools.append(modes);
  if (compare.operators.length === 0) operators.say("Operators were not profiled in both recordings.");
  else {
    render();
    operators.body.append(host);
  }
  operators.covers("mean self time per profiled run, largest difference first");
  return [summary.element, shapes.element, lines.element, operators.element];
}

function difference(row: CompareMetric): Child {
  const [direction, extent] = inWords(row).split(", ");
  return h(
    "span",
    { class: `two-lines change ${reach(row)}` },
    h("span", {}, direction),
    extent ? h("span", { class: "sub" }, extent) : null,
  );
}

function interval(row: CompareMetric, side: "a" | "b"): Child {
  const value = row[side];
  const range = side === "a" ? row.a_interval : row.b_interval;
  return h(
    "span",
    { class: "two-lines", "data-metric": row.name, "data-side": side, "data-value": value ?? "" },
    h("span", {}, inMetric(value, row)),
    range && range[0] !== null
      ? h(
          "span",
          { class: "sub" },
          `${inMetric(range[0], row)} to ${range[1] === null ? "?" : inMetric(range[1], row)}`,
        )
      : null,
  );
}

/** Percent of all: two recordings rarely have equally many inferences. */
function shares(counts: readonly number[]): number[] {
  const all = counts.reduce((sum, each) => sum + each, 0);
  return counts.map((each) => (all > 0 ? (each / all) * 100 : 0));
}

function diverging(ratio: number): HTMLElement {
  const inner = h("span", { class: ratio > 0 ? "diverge-fill more" : "diverge-fill less" });
  inner.style.width = `${Math.min(Math.abs(ratio), 1) * 50}%`;
  return h("span", { class: "diverge", "aria-hidden": "true" }, inner);
}

/** One profiled run of a source: the part of its time line around a run in the middle. */
async function middleRun(source: SourceInfo): Promise<{ tiles: TimelineTiles; from: number; to: number } | null> {
  const ask = (from: number, to: number) =>
    get<TimelineAnswer>("/timeline", { source: source.id, from_ms: from, to_ms: to, width: 1000 });
  const all = await ask(source.from_ms, source.to_ms);
  if (all.kind !== "tiles") return null;
  const lane =
    all.lanes.find((each) => each.kind === "runs") ??
    all.lanes.find((each) => each.kind === "operators") ??
    all.lanes[0];
  const middle = lane && Math.floor(lane.rects.t_ms.length / 2);
  if (!lane || middle === undefined || lane.rects.t_ms.length === 0) return null;
  let [from, to] = [lane.rects.t_ms[middle]!, lane.rects.t_ms[middle]! + lane.rects.duration_ms[middle]!];
  let answer = await ask(from, Math.max(to, from + 1e-3));
  // The rectangle may stand for many runs: then the one in its middle is looked for, a few times closer.
  for (let step = 0; step < 6 && answer.kind === "tiles"; step++) {
    const runs = answer.lanes.find((each) => each.id === lane.id);
    const single = runs
      ? runs.rects.count.findIndex((each, index) => each === 1 && runs.rects.t_ms[index]! >= from)
      : -1;
    if (runs && single >= 0) {
      [from, to] = [runs.rects.t_ms[single]!, runs.rects.t_ms[single]! + runs.rects.duration_ms[single]!];
      answer = await ask(from, Math.max(to, from + 1e-3));
      break;
    }
    const centre = (from + to) / 2;
    const quarter = (to - from) / 16;
    [from, to] = [centre - quarter, centre + quarter];
    answer = await ask(from, to);
  }
  return answer.kind === "tiles" ? { tiles: answer, from, to } : null;
}

async function drawRuns(scope: Scope, app: App, host: HTMLElement, a: SourceInfo, b: SourceInfo): Promise<void> {
  try {
    const [runA, runB] = await Promise.all([middleRun(a), middleRun(b)]);
    const span = Math.max(runA ? runA.to - runA.from : 0, runB ? runB.to - runB.from : 0, 1e-6);
    const one = (label: string, colour: string, run: typeof runA) => {
      if (!run)
        return h("div", { class: "half" }, key(colour, label), h("p", { class: "note" }, "Nothing was profiled here."));
      const lanes = run.tiles.lanes
        .filter((lane) => lane.kind === "operators" && lane.rects.t_ms.length > 0)
        .slice(0, 6);
      const { boxes, height } = stack(lanes, 4);
      const surface = new Surface(`One run of ${label}`, (context, width) => {
        const theme = currentTheme();
        const x = linear(run.from, run.from + span, 0, width);
        context.font = FONT;
        context.textBaseline = "middle";
        for (const box of boxes) {
          const { rects } = box.lane;
          Array.from(rects.t_ms).forEach((t, index) => {
            const type = run.tiles.types[rects.type[index]!] ?? "";
            const wide = Math.max(x(t + rects.duration_ms[index]!) - x(t), 1);
            context.fillStyle = colourOf(type);
            context.fillRect(
              x(t),
              box.y + rects.row[index]! * box.rowHeight,
              wide > 3 ? wide - 1 : wide,
              box.rowHeight - 2,
            );
            if (wide > 44) {
              context.fillStyle = "#0b0f14";
              context.fillText(
                type.slice(0, Math.floor((wide - 8) / 7)),
                x(t) + 4,
                box.y + rects.row[index]! * box.rowHeight + box.rowHeight / 2,
              );
            }
          });
        }
        context.fillStyle = theme.faint;
        context.fillRect(x(run.to), 0, 1, height);
      });
      surface.canvas.classList.add("run-canvas");
      surface.canvas.style.height = `${Math.max(height, 28)}px`;
      scope.add(() => surface.dispose());
      app.on(scope, "theme", () => surface.request());
      return h(
        "div",
        { class: "half" },
        h(
          "div",
          { class: "half-head" },
          key(colour, label),
          h("span", { class: "covers" }, text(duration(run.to - run.from))),
        ),
        surface.canvas,
      );
    };
    fill(host, h("div", { class: "halves" }, one(`A ${a.title}`, A, runA), one(`B ${b.title}`, B, runB)));
  } catch (error) {
    fill(host, h("p", { class: "note" }, explain(error).title));
  }
}

function download(name: string, content: string, type: string): void {
  const link = h("a", { href: URL.createObjectURL(new Blob([content], { type })), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
