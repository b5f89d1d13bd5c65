/** A chart of tracks of /metrics/history, kept fresh by what the live stream brought since. */

import { catalogOf } from "../../api/catalog";
import { get } from "../../api/client";
import type { Catalog, History, HistorySeries, TrackInfo } from "../../api/types";
import { TimeChart, type Line } from "../../draw/timechart";
import { lineColour } from "../../logic/palette";
import type { App } from "../app";
import { card, loader, rangeText, type Card } from "../card";
import { fill, h, type Child, type Scope } from "../dom";
import { key } from "./latency";

export interface TrackChartOptions {
  id: string;
  title: string;
  span?: number;
  unit: string;
  top?: number;
  /** Which tracks; may depend on what exists. */
  tracks(catalog: Catalog, app: App): TrackInfo[];
  /** Where nothing exists: why, and how to have it. */
  empty: string;
  hint?: Child;
  /** Ring of the live stream that continues a track. */
  ring?(track: TrackInfo): string | null;
  label?(track: TrackInfo): string;
}

const GAP_WORDS: Record<string, string> = {
  unavailable: "not available",
  not_yet: "not yet",
  forgotten: "no longer kept",
  ended: "ended",
};
const MAX_LINES = 8;

export function trackChart(scope: Scope, app: App, options: TrackChartOptions): Card {
  const panel = card(options.title, { id: options.id, span: options.span ?? 12 });
  const chart = new TimeChart(scope, app, {
    label: options.title,
    unit: options.unit,
    ...(options.top === undefined ? {} : { top: options.top }),
  });
  const legend = h("div", { class: "legend" });
  panel.tools.append(legend);
  panel.body.append(chart.element);
  let catalog: Catalog | null = null;
  let shown: { info: TrackInfo; series: HistorySeries }[] = [];

  const data = () => {
    const lines: Line[] = shown.map(({ info, series }, index) => {
      const step = series.step_ms;
      const t = series.t_ms.map((each) => each + step / 2);
      // Devices tell ratios, the machine percent: one chart has one unit.
      const factor = info.unit === "ratio" && options.unit === "percent" ? 100 : 1;
      const scaled = (values: number[]) => values.map((value) => value * factor);
      const [mean, min, max] = [scaled(series.mean), scaled(series.min), scaled(series.max)];
      const ring = app.live ? app.rings.get(options.ring?.(info) ?? "") : undefined;
      if (ring && app.time.following) {
        const more = ring.since((t.at(-1) ?? -Infinity) + 1);
        for (const each of more.t) t.push(each);
        for (const value of more.value) {
          mean.push(value);
          min.push(value);
          max.push(value);
        }
      }
      return {
        label: options.label?.(info) ?? info.label ?? info.metric,
        colour: lineColour(index),
        t,
        mean,
        min,
        max,
        breakAfterMs: Math.max(step * 4, 10_000),
      };
    });
    const gaps = shown.length === 1 ? shown[0]!.series.gaps : [];
    return {
      lines,
      gaps: gaps.map((gap) => ({
        from: gap.from_ms,
        to: gap.to_ms,
        reason: gap.reason ?? GAP_WORDS[gap.why] ?? gap.why,
      })),
    };
  };

  loader<History | null>(scope, app, {
    on: ["numbers", "source"],
    every: 5,
    card: panel,
    fetch: async (signal) => {
      catalog = await catalogOf(app.source.id, app.source.growing);
      const tracks = options.tracks(catalog, app).slice(0, MAX_LINES);
      if (tracks.length === 0) return null;
      const { range } = app.time;
      return get<History>(
        "/metrics/history",
        {
          source: app.source.id,
          from_ms: Math.max(range.from, app.time.bounds.from),
          to_ms: Math.max(range.to, app.time.bounds.from + 1),
          points: 600,
          track: tracks.map((track) => track.track),
        },
        signal,
      );
    },
    show: (history) => {
      if (!history || history.series.length === 0) {
        panel.say(options.empty, typeof options.hint === "string" ? h("p", {}, options.hint) : options.hint);
        return;
      }
      panel.covers(rangeText(app, history.from_ms, history.to_ms));
      const infos = new Map((catalog?.tracks ?? []).map((track) => [track.track, track]));
      shown = history.series.flatMap((series) => {
        const info = infos.get(series.track);
        return info ? [{ info, series }] : [];
      });
      fill(
        legend,
        ...shown.map(({ info }, index) => key(lineColour(index), options.label?.(info) ?? info.label ?? info.metric)),
      );
      chart.set(data);
    },
  });
  if (options.ring) app.on(scope, "frame", () => chart.set(data));
  return panel;
}
