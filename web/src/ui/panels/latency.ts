/** How fast: gauges, latency over time and its distribution, from one answer of /latency. */

import { get } from "../../api/client";
import type { Latency, LatencyReport, SessionReport, SessionNow, SlowInference } from "../../api/types";
import { Histogram } from "../../draw/histogram";
import { Spark } from "../../draw/spark";
import { currentTheme } from "../../draw/surface";
import { TimeChart } from "../../draw/timechart";
import * as around from "../../logic/around";
import { count, digits, duration, metric, share, text, type Quantity } from "../../logic/format";
import { lineColour } from "../../logic/palette";
import { rebin } from "../../logic/series";
import * as viewport from "../../logic/viewport";
import type { App } from "../app";
import { card, fact, loader, rangeText, type Card } from "../card";
import { fill, h, setQuantity, setText, type Scope } from "../dom";

/** The session whose figures are shown: the chosen one, or the one with most inferences. */
export function focused(latency: Latency, app: App): SessionReport | null {
  const chosen = latency.sessions.find((session) => session.session_id === app.session);
  if (chosen) return chosen;
  return [...latency.sessions].sort((a, b) => b.counts.total - a.counts.total)[0] ?? null;
}

class Gauge {
  readonly element: HTMLElement;
  private readonly number = h("div", { class: "gauge-value" });
  private readonly note = h("div", { class: "gauge-note" });

  constructor(
    label: string,
    private readonly name: string,
    spark?: Spark,
  ) {
    this.element = h(
      "div",
      { class: "gauge", "data-metric": name },
      h("div", { class: "gauge-label" }, label),
      this.number,
      this.note,
      spark?.element,
    );
  }

  set(value: Quantity, raw: number | null, note: string): void {
    setQuantity(this.number, value);
    this.element.dataset["value"] = raw === null ? "" : String(raw);
    this.element.classList.toggle("missing", raw === null);
    setText(this.note, note);
    if (this.note.title !== note) this.note.title = note;
    void this.name;
  }
}

export interface LatencyPanels {
  gauges: HTMLElement;
  overTime: Card;
  distribution: Card;
  /** Called with every answer. */
  onData(listener: (latency: Latency, session: SessionReport | null) => void): void;
}

const MEANING = {
  p50: "the call into ONNX Runtime",
  p90: "9 of 10 are faster",
  p95: "19 of 20 are faster",
  p99: "99 of 100 are faster",
  p99_9: "999 of 1000 are faster",
} as const;

function intervalText(figures: LatencyReport, name: "p50" | "p90" | "p95" | "p99" | "p99_9"): string {
  const interval = figures.intervals[name];
  if (interval && interval[0] !== null) {
    const high = interval[1] === null ? "?" : text(duration(interval[1]));
    return `${duration(interval[0]).value} to ${high} (95\u202f%)`;
  }
  const needs = figures.needs_runs[name];
  return needs ? `needs ${count(needs)} runs` : `of ${count(figures.runs)} runs`;
}

export function latencyPanels(
  scope: Scope,
  app: App,
  spans: { overTime: number; distribution: number } = { overTime: 8, distribution: 4 },
): LatencyPanels {
  const p50Spark = new Spark(scope, app, "Median latency over time");
  const rateSpark = new Spark(scope, app, "Throughput over time");
  const gauges = {
    p50: new Gauge("Latency p50", "p50_ms", p50Spark),
    p90: new Gauge("p90", "p90_ms"),
    p95: new Gauge("p95", "p95_ms"),
    p99: new Gauge("p99", "p99_ms"),
    p99_9: new Gauge("p99.9", "p99_9_ms"),
    jitter: new Gauge("Jitter", "jitter_ms"),
    rate: new Gauge("Throughput", "requests_per_second", rateSpark),
    first: new Gauge("First token", "first_token_ms"),
  };
  const covers = h("span", { class: "covers" });
  const title = h("span", { class: "strip-title" });
  const strip = h(
    "section",
    { class: "strip span-12", "aria-label": "Performance", "data-panel": "gauges" },
    h("header", { class: "strip-head" }, title, covers),
    h("div", { class: "gauges" }, ...Object.values(gauges).map((gauge) => gauge.element)),
  );
  gauges.first.element.hidden = true;

  const overTime = card("Latency over time", { id: "latency-over-time", span: spans.overTime });
  const chart = new TimeChart(scope, app, { label: "Latency over time", unit: "milliseconds" });
  const legend = h("div", { class: "legend" });
  overTime.tools.append(legend);
  overTime.body.append(chart.element);

  const distribution = card("Distribution", { id: "latency-distribution", span: spans.distribution });
  const histogram = new Histogram(scope, app, "Latency histogram");
  const outliers = h("p", { class: "note", "data-field": "outliers" });
  distribution.body.append(histogram.element, outliers);

  const listeners: ((latency: Latency, session: SessionReport | null) => void)[] = [];

  const showLive = () => {
    if (!app.time.following || app.time.selection || app.paused) return;
    const sessions = app.frame?.sessions ?? [];
    const session =
      sessions.find((each) => each.session_id === app.session) ??
      [...sessions].sort((a, b) => b.inferences - a.inferences)[0];
    if (session) liveGauges(session);
  };
  const liveGauges = (session: SessionNow) => {
    setText(title, session.title);
    setText(covers, `last ${digits(session.window_seconds, 2)} s · ${count(session.inferences)} inferences`);
    for (const name of ["p50", "p90", "p95", "p99", "p99_9"] as const) {
      const value = session.latency_ms[name];
      gauges[name].set(
        duration(value),
        value,
        value === null ? (session.unavailable[`latency_ms.${name}`] ?? "too few runs") : MEANING[name],
      );
    }
    gauges.jitter.set(duration(session.jitter_ms), session.jitter_ms, "middle half of the runs");
    gauges.rate.set(
      metric(session.requests_per_second, "/s"),
      session.requests_per_second,
      samplesNote(session.samples_per_second),
    );
    gauges.first.element.hidden = session.first_token_ms === null;
    gauges.first.set(duration(session.first_token_ms), session.first_token_ms, "median");
    const since = (ring: string) => () => app.rings.get(ring)?.since(app.time.range.from).value ?? [];
    p50Spark.set(since(`p50/${session.session_id}`));
    rateSpark.set(since(`rate/${session.session_id}`));
  };

  const show = (latency: Latency, visible: Latency) => {
    const session = focused(latency, app);
    for (const listener of listeners) listener(latency, session);
    const range = rangeText(app, latency.from_ms, latency.to_ms);
    overTime.covers(visible === latency ? range : "visible range with the selection");
    distribution.covers(range);
    if (!session) {
      const why = app.live
        ? "No inference yet. Start an observed program, or run: ortscope run MODEL"
        : "No inference in this range.";
      overTime.say("No inferences here.", h("p", {}, why));
      distribution.say("No inferences here.");
      setText(title, app.source.title);
      setText(covers, range);
      for (const gauge of Object.values(gauges)) gauge.set(duration(null), null, "no inference in this range");
      return;
    }
    const follow = app.time.following && !app.time.selection && !app.paused && (app.frame?.sessions?.length ?? 0) > 0;
    if (!follow) stillGauges(session, range);
    drawOverTime(visible.sessions.find((each) => each.session_id === session.session_id) ?? session, visible);
    drawDistribution(session);
  };

  const stillGauges = (session: SessionReport, range: string) => {
    setText(title, session.title);
    const figures = session.inference;
    setText(
      covers,
      `${range} · ${count(figures?.runs ?? session.counts.total)} inferences${session.warm_up?.discarded ? ` after ${count(session.warm_up.discarded)} of warm-up` : ""}`,
    );
    for (const name of ["p50", "p90", "p95", "p99", "p99_9"] as const) {
      const value = figures?.percentiles[name] ?? null;
      gauges[name].set(duration(value), value, figures ? intervalText(figures, name) : "too few runs");
    }
    gauges.jitter.set(duration(figures?.jitter.iqr_ms), figures?.jitter.iqr_ms ?? null, "middle half of the runs");
    gauges.rate.set(
      metric(session.throughput?.requests_per_second, "/s"),
      session.throughput?.requests_per_second ?? null,
      samplesNote(session.throughput?.samples_per_second ?? null),
    );
    const first = session.generation?.first_token_median_ms ?? null;
    gauges.first.element.hidden = first === null;
    gauges.first.set(duration(first), first, "median");
    p50Spark.set(() => session.over_time?.points.map((point) => point.median_ms) ?? []);
    rateSpark.set(() => []);
  };

  const drawOverTime = (session: SessionReport, latency: Latency) => {
    const points = session.over_time?.points ?? [];
    const bucket = session.over_time?.bucket_seconds ?? 0;
    const t = points.map((point) => (point.offset_seconds + bucket / 2) * 1000);
    const limit = session.slow?.limit_ms ?? null;
    const slow = session.slow?.shown ?? [];
    const theme = currentTheme();
    const each = bucket === 0;
    fill(
      legend,
      key(lineColour(0), each ? "each inference" : "median"),
      each ? null : key(lineColour(6), "p99"),
      limit === null ? null : key(theme.warn, "outlier"),
    );
    chart.set({
      lines: [
        {
          label: each ? "latency" : "median",
          colour: lineColour(0),
          t,
          mean: points.map((p) => p.median_ms),
          ...(each ? {} : { min: points.map((p) => p.min_ms), max: points.map((p) => p.median_ms) }),
        },
        ...(each ? [] : [{ label: "p99", colour: lineColour(6), t, mean: points.map((p) => p.p99_ms) }]),
        { label: "outlier", colour: theme.warn, dots: true, ...outlierPoints(slow) },
      ],
      levels: limit === null ? [] : [{ value: limit, label: `outliers from ${text(duration(limit))}` }],
      gaps: session.over_time?.warm_up_ends_seconds
        ? [{ from: latency.from_ms, to: session.over_time.warm_up_ends_seconds * 1000, reason: "warm-up" }]
        : [],
    });
  };

  const drawDistribution = (session: SessionReport) => {
    const data = session.histogram;
    const figures = session.inference;
    if (!data || !figures) {
      distribution.say("Too few inferences for a distribution.");
      return;
    }
    const bins = rebin(data.edges_ms, data.counts, 60, data.tail);
    const marks = (["p50", "p90", "p99"] as const).flatMap((name) => {
      const value = figures.percentiles[name] ?? null;
      return value === null ? [] : [{ value, label: name }];
    });
    histogram.set({
      edges: bins.edges,
      series: [{ label: "inferences", counts: bins.counts, colour: lineColour(0) }],
      tail: data.tail,
      marks,
    });
    const found = figures.outliers;
    setText(
      outliers,
      found.count === 0
        ? `No outliers among ${count(figures.runs)} runs. Spread: ${figures.stability.reason}`
        : `${found.count === 1 ? "1 outlier" : `${count(found.count)} outliers`} (${text(share(found.share))} of runs, ${text(share(found.share_of_time))} of time): ${found.note}.`,
    );
  };

  loader<{ numbers: Latency; visible: Latency }>(scope, app, {
    on: ["numbers", "session", "source"],
    every: 2,
    card: overTime,
    fetch: async (signal) => {
      const numbers = await get<Latency>("/latency", app.query(), signal);
      // Numbers follow the selection; the chart goes on showing what is around it.
      const visible = app.time.selection ? await get<Latency>("/latency", app.query(app.time.range), signal) : numbers;
      return { numbers, visible };
    },
    show: ({ numbers, visible }) => show(numbers, visible),
  });
  app.on(scope, "frame", showLive);
  return { gauges: strip, overTime, distribution, onData: (listener) => listeners.push(listener) };
}

function outlierPoints(slow: { start_seconds: number; latency_ms: number }[]): { t: number[]; mean: number[] } {
  const sorted = [...slow].sort((a, b) => a.start_seconds - b.start_seconds);
  return { t: sorted.map((each) => each.start_seconds * 1000), mean: sorted.map((each) => each.latency_ms) };
}

function samplesNote(samples: number | null): string {
  return samples === null ? "requests" : `${text(metric(samples, "/s"))} samples (frames)`;
}

export function key(colour: string, label: string): HTMLElement {
  const swatch = h("span", { class: "swatch" });
  swatch.style.backgroundColor = colour;
  return h("span", { class: "key" }, swatch, label);
}

/** The slowest inferences and what was going on in them. */
export function slowPanel(app: App, panels: LatencyPanels): Card {
  const panel = card("Outliers explained", { id: "outliers", span: 7 });
  const opened = new Set<string>();
  panels.onData((latency, session) => {
    panel.covers(rangeText(app, latency.from_ms, latency.to_ms));
    const slow = session?.slow;
    if (!session || !slow || slow.shown.length === 0) {
      panel.say("No slow inferences in this range.");
      return;
    }
    panel.say(null);
    fill(
      panel.body,
      h(
        "p",
        { class: "note" },
        `${count(slow.count)} of ${count(slow.of)} inferences took longer than ${text(duration(slow.limit_ms))}; the median is ${text(duration(slow.median_ms))}.`,
      ),
      h(
        "ul",
        { class: "slow-list" },
        ...slow.shown.slice(0, 12).map((each) =>
          h(
            "li",
            {},
            h(
              "button",
              {
                type: "button",
                class: "link",
                onclick: () => zoomTo(app, each.start_seconds * 1000, each.latency_ms),
              },
              `#${each.sequence}`,
            ),
            h(
              "span",
              { class: "slow-time" },
              `${text(duration(each.latency_ms))} · ${digits(each.times_median, 2)}× the median`,
            ),
            h("div", { class: "slow-why" }, each.sentence, ...readingsAround(session.session_id, each, opened)),
          ),
        ),
      ),
      ...latency.explanation_sources.map((source) => h("p", { class: "note" }, source.sentence)),
    );
  });
  return panel;
}

/** What was read around it: the striking ones in words, all of them in a table that opens, and stays open with new data. */
function readingsAround(session: string, each: SlowInference, opened: Set<string>): HTMLElement[] {
  if (each.around.length === 0) return [];
  const own = around.key(session, each);
  const said = around.inWords(each.around);
  const title = said.length > 0 ? `Nearby: ${said.join(", ")}` : `Nearby: ${count(each.around.length)} readings`;
  const cells = (row: around.ReadingRow) => [row.device, row.figure, row.value, row.when].map((cell) => h("td", {}, cell));
  const body = around.rows(each.around).map((row) => h("tr", {}, ...cells(row)));
  const table = h("table", { class: "around-table" }, h("tbody", {}, ...body));
  const details = h("details", { class: "around" }, h("summary", {}, title), table);
  details.open = opened.has(own);
  details.addEventListener("toggle", () => {
    if (details.open) opened.add(own);
    else opened.delete(own);
  });
  return [details];
}

function zoomTo(app: App, from: number, lengthMs: number): void {
  app.move((time, growing) => viewport.show(time, { from: from - lengthMs, to: from + lengthMs * 2 }, true, growing));
  app.setView("timeline");
}

/** Parts, stability, cold start. */
export function figuresPanel(app: App, panels: LatencyPanels): Card {
  const panel = card("Figures", { id: "latency-figures", span: 5 });
  panels.onData((latency, session) => {
    panel.covers(rangeText(app, latency.from_ms, latency.to_ms));
    const figures = session?.inference;
    if (!session || !figures) {
      panel.say("Too few inferences in this range.");
      return;
    }
    panel.say(null);
    const ms = (value: number | null | undefined) => text(duration(value));
    fill(
      panel.body,
      h(
        "dl",
        { class: "facts" },
        fact("Mean", ms(figures.mean_ms)),
        fact("Median", ms(figures.median_ms)),
        fact("Minimum", ms(figures.min_ms)),
        fact("Maximum", ms(figures.max_ms)),
        fact("Standard deviation", ms(figures.std_ms)),
        fact("Mean difference between consecutive runs", ms(figures.jitter.successive_difference_ms)),
        fact("p99 − p50", ms(figures.jitter.p99_minus_p50_ms)),
        fact("Failed", count(session.counts.failed)),
        session.end_to_end ? fact("End to end, median", ms(session.end_to_end.median_ms)) : null,
        session.parts
          ? fact(
              "Copy in · run · copy out",
              `${ms(session.parts.copy_in_ms)} · ${ms(session.parts.run_ms)} · ${ms(session.parts.copy_out_ms)}`,
            )
          : null,
        session.cold
          ? fact("Cold: load · first run", `${ms(session.cold.session_first_ms)} · ${ms(session.cold.first_run_ms)}`)
          : null,
        session.cpu_cores_used !== null ? fact("CPU used", `${digits(session.cpu_cores_used, 2)} cores`) : null,
        session.throughput ? fact("Mean concurrency", digits(session.throughput.concurrency, 2)) : null,
        session.generation ? fact("Tokens per second", text(metric(session.generation.tokens_per_second, "/s"))) : null,
        fact("Noise", `${figures.stability.verdict.replaceAll("_", " ")}: ${figures.stability.reason}`),
        session.sampling.sentence ? fact("Sampling", session.sampling.sentence) : null,
      ),
      ...session.notes.map((note) => h("p", { class: "note" }, note)),
    );
  });
  return panel;
}
