/** Counts by latency, one or two series over the same bins, with marks for percentiles. */

import { h, setText, type Scope } from "../ui/dom";
import type { App } from "../ui/app";
import { count, duration, percent, text } from "../logic/format";
import { linear, niceTop, ticks } from "../logic/scale";
import { currentTheme, faded, Surface } from "./surface";

export interface HistogramData {
  edges: number[];
  series: { label: string; counts: number[]; colour: string }[];
  /** The heights are percent of each series, not counts. */
  percent?: boolean;
  /** The last bin holds all above. */
  tail: boolean;
  marks: { value: number; label: string }[];
}

const LEFT = 44;
const RIGHT = 10;
const TOP = 20;
const BOTTOM = 20;
const LABEL_GAP = 8;

export class Histogram {
  readonly element: HTMLElement;
  private readonly surface: Surface;
  private readonly tip = h("div", { class: "chart-tip" });
  private data: HistogramData | null = null;

  constructor(scope: Scope, app: App, label: string) {
    this.surface = new Surface(label, (context, width, height) => this.draw(context, width, height));
    this.element = h("div", { class: "chart" }, this.surface.canvas, this.tip);
    this.element.addEventListener("pointermove", (event) =>
      this.hover(event.clientX - this.element.getBoundingClientRect().left),
    );
    this.element.addEventListener("pointerleave", () => this.tip.classList.remove("shown"));
    app.on(scope, "theme", () => this.surface.request());
    scope.add(() => this.surface.dispose());
  }

  set(data: HistogramData | null): void {
    this.data = data;
    this.surface.request();
  }

  private bins(): number {
    return this.data ? this.data.edges.length - 1 : 0;
  }

  private draw(context: CanvasRenderingContext2D, width: number, height: number): void {
    const data = this.data;
    if (!data || this.bins() < 1) return;
    const theme = currentTheme();
    const [right, bottom] = [width - RIGHT, height - BOTTOM];
    const peak = Math.max(...data.series.flatMap((series) => series.counts), 1);
    const most = Math.max(2, Math.floor((bottom - TOP) / 40));
    const top = niceTop(peak, most);
    const y = linear(0, top, bottom, TOP);
    const bins = this.bins();
    const x = linear(0, bins, LEFT, right);
    context.textBaseline = "middle";
    context.textAlign = "right";
    for (const tick of ticks(0, top, most)) {
      if (tick !== Math.round(tick)) continue;
      const at = Math.round(y(tick)) + 0.5;
      context.strokeStyle = theme.grid;
      context.beginPath();
      context.moveTo(LEFT, at);
      context.lineTo(right, at);
      context.stroke();
      context.fillStyle = theme.faint;
      context.fillText(data.percent ? `${count(tick)}\u202f%` : count(tick), LEFT - 6, at);
    }
    const overlaid = data.series.length > 1;
    for (const series of data.series) {
      series.counts.forEach((value, index) => {
        if (value === 0) return;
        const last = data.tail && index === bins - 1;
        context.fillStyle = last ? theme.warn : overlaid ? faded(series.colour, 0.55) : series.colour;
        const from = x(index);
        context.fillRect(
          from + 0.5,
          Math.min(y(value), bottom - 1),
          Math.max(x(index + 1) - from - 1, 1),
          Math.max(bottom - y(value), 1),
        );
      });
    }
    context.fillStyle = theme.faint;
    context.textBaseline = "top";
    context.textAlign = "center";
    const labels = Math.max(2, Math.floor((right - LEFT) / 70));
    const label = (index: number) => (data.tail && index === bins ? "more" : text(duration(data.edges[index]!)));
    // The first and the last are always there; others where there is room between their neighbours.
    const lastFrom = right - context.measureText(label(bins)).width;
    let end = -Infinity;
    for (let i = 0; i <= labels; i++) {
      const index = Math.round((i / labels) * bins);
      const half = context.measureText(label(index)).width / 2;
      const centre = Math.min(Math.max(x(index), LEFT + half), right - half);
      const fits = centre - half > end + LABEL_GAP && centre + half < lastFrom - LABEL_GAP;
      if (i > 0 && i < labels && !fits) continue;
      context.fillText(label(index), centre, bottom + 4);
      end = centre + half;
    }
    // Percentiles as marks; labels that would overlap go one line lower.
    const bodyBins = data.tail ? bins - 1 : bins;
    let lastX = -Infinity;
    for (const mark of data.marks) {
      const index = position(data.edges, mark.value, bodyBins);
      const at = Math.round(x(index)) + 0.5;
      context.strokeStyle = theme.text;
      context.globalAlpha = 0.7;
      context.setLineDash([2, 2]);
      context.beginPath();
      context.moveTo(at, TOP - 4);
      context.lineTo(at, bottom);
      context.stroke();
      context.setLineDash([]);
      context.globalAlpha = 1;
      const half = context.measureText(mark.label).width / 2;
      const centre = Math.min(Math.max(at, LEFT + half), right - half);
      if (centre - lastX < half * 2 + 6) continue;
      context.fillStyle = theme.muted;
      context.textAlign = "center";
      context.textBaseline = "bottom";
      context.fillText(mark.label, centre, TOP - 5);
      lastX = centre;
    }
  }

  private hover(px: number): void {
    const data = this.data;
    if (!data) return;
    const index = Math.floor(((px - LEFT) / Math.max(this.surface.width - LEFT - RIGHT, 1)) * this.bins());
    const inside = index >= 0 && index < this.bins();
    this.tip.classList.toggle("shown", inside);
    if (!inside) return;
    const [from, to] = [text(duration(data.edges[index]!)), text(duration(data.edges[index + 1]!))];
    const open = data.tail && index === this.bins() - 1;
    const height = (value: number) => (data.percent ? text(percent(value)) : count(value));
    const rows = data.series.map((series) => `${series.label}  ${height(series.counts[index]!)}`);
    setText(this.tip, [open ? `above ${from} (outliers)` : `${from} to ${to}`, ...rows].join("\n"));
    this.tip.style.transform =
      px > this.surface.width / 2
        ? `translate(calc(${Math.round(px)}px - 100% - 10px), 24px)`
        : `translate(${Math.round(px) + 10}px, 24px)`;
  }
}

/** Where a value stands between the bins, as a fractional index. */
function position(edges: readonly number[], value: number, bodyBins: number): number {
  for (let i = 0; i < bodyBins; i++) {
    const [from, to] = [edges[i]!, edges[i + 1]!];
    if (value <= to) return i + Math.max(0, (value - from) / (to - from || 1));
  }
  return bodyBins + 0.5;
}
