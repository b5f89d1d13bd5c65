/** Lines over time: mean as a line, extremes as a band, gaps with their reason, a cursor that all charts share. */

import type { App } from "../ui/app";
import { h, setText, type Scope } from "../ui/dom";
import { inUnit, text, tickText } from "../logic/format";
import { linear, niceTop, ticks, type Scale } from "../logic/scale";
import { decimate } from "../logic/series";
import * as viewport from "../logic/viewport";
import { drawTimeAxis, timeLabel, timeScale, type TimeLabels } from "./axis";
import { attachTime } from "./interact";
import { currentTheme, faded, Surface } from "./surface";

export interface Line {
  label: string;
  colour: string;
  t: ArrayLike<number>;
  mean: ArrayLike<number>;
  min?: ArrayLike<number>;
  max?: ArrayLike<number>;
  /** The line is interrupted where no point stands for this long. */
  breakAfterMs?: number;
  dashed?: boolean;
  /** Points instead of a line: outliers. */
  dots?: boolean;
}

export interface Gap {
  from: number;
  to: number;
  reason: string;
}

export interface ChartData {
  lines: Line[];
  gaps?: Gap[];
  /** Level lines: an outlier limit, a median. */
  levels?: { value: number; label: string; colour?: string }[];
}

export interface ChartOptions {
  label: string;
  unit: string;
  /** Fixed top of the axis, e.g. 100 for percent. */
  top?: number;
}

const LEFT = 52;
const RIGHT = 10;
const TOP = 8;
const BOTTOM = 20;

export class TimeChart {
  readonly element: HTMLElement;
  private readonly surface: Surface;
  private readonly cursor = h("div", { class: "cursor-line" });
  private readonly tip = h("div", { class: "chart-tip" });
  private data: ChartData = { lines: [] };
  /** Data that nobody has looked at yet. */
  private fresh: (() => ChartData) | null = null;
  private x: Scale = linear(0, 1, 0, 1);
  private drawn: viewport.Viewport | null = null;

  constructor(
    scope: Scope,
    private readonly app: App,
    private readonly options: ChartOptions,
  ) {
    this.surface = new Surface(options.label, (context, width, height) => this.draw(context, width, height));
    this.element = h(
      "div",
      { class: "chart", tabindex: "0", role: "group", "aria-label": `${options.label}. W and S zoom, A and D move.` },
      this.surface.canvas,
      this.cursor,
      this.tip,
    );
    attachTime(app, { element: this.element, left: () => LEFT, right: () => this.surface.width - RIGHT, wheel: false });
    app.on(scope, ["theme", "settings"], () => this.surface.request());
    app.on(scope, "range", () => {
      const pixels = this.surface.width * this.surface.ratio;
      if (viewport.looksDifferent(this.drawn, app.time, pixels)) this.surface.request();
    });
    app.on(scope, "cursor", () => this.showCursor());
    scope.add(() => this.surface.dispose());
  }

  /** A function is called when its data is drawn: a chart that is not seen costs nothing. */
  set(data: ChartData | (() => ChartData)): void {
    this.fresh = typeof data === "function" ? data : () => data;
    this.surface.request();
    if (this.app.cursorMs !== null) this.showCursor();
  }

  private current(): ChartData {
    if (this.fresh) this.data = this.fresh();
    this.fresh = null;
    return this.data;
  }

  private labels(): TimeLabels {
    return { originUnixMs: this.app.axisOrigin() };
  }

  private draw(context: CanvasRenderingContext2D, width: number, height: number): void {
    const theme = currentTheme();
    const data = this.current();
    this.drawn = this.app.time;
    const { range, selection } = this.app.time;
    const [right, bottom] = [width - RIGHT, height - BOTTOM];
    this.x = timeScale(range, LEFT, right);
    const seen = data.lines.map((line) =>
      decimate(
        line.t,
        line.min ?? line.mean,
        line.max ?? line.mean,
        line.mean,
        (t) => this.x(t),
        width,
        line.breakAfterMs,
      ),
    );
    let peak = 0;
    for (const columns of seen)
      for (const column of columns) if (column.x >= LEFT - 1 && column.max > peak) peak = column.max;
    for (const level of data.levels ?? []) peak = Math.max(peak, level.value);
    const top = this.options.top ?? niceTop(peak * 1.05, Math.max(2, Math.floor((bottom - TOP) / 36)));
    const y = linear(0, top, bottom, TOP);

    drawTimeAxis(context, range, this.x, LEFT, right, TOP, bottom, this.labels());
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (const tick of ticks(0, top, Math.max(2, Math.floor((bottom - TOP) / 36)))) {
      const at = Math.round(y(tick)) + 0.5;
      context.strokeStyle = theme.grid;
      context.beginPath();
      context.moveTo(LEFT, at);
      context.lineTo(right, at);
      context.stroke();
      context.fillStyle = theme.faint;
      context.fillText(tickText(tick, this.options.unit), LEFT - 6, at);
    }

    context.save();
    context.beginPath();
    context.rect(LEFT, TOP - 2, right - LEFT, bottom - TOP + 3);
    context.clip();
    for (const gap of data.gaps ?? []) {
      const [from, to] = [this.x(gap.from), this.x(gap.to)];
      if (to - from < 2) continue;
      context.fillStyle = faded(theme.faint, 0.1);
      context.fillRect(from, TOP, to - from, bottom - TOP);
      if (to - from > 120) {
        context.fillStyle = theme.muted;
        context.textAlign = "center";
        context.fillText(
          gap.reason,
          (Math.max(from, LEFT) + Math.min(to, right)) / 2,
          TOP + 10,
          to - from - 12,
        );
      }
    }
    data.lines.forEach((line, index) => {
      const columns = seen[index]!;
      if (line.dots) {
        context.fillStyle = line.colour;
        for (const column of columns) {
          if (Number.isNaN(column.max)) continue;
          context.beginPath();
          context.arc(column.x, y(column.max), 2.5, 0, 7);
          context.fill();
        }
        return;
      }
      if (line.min && line.max) {
        context.fillStyle = faded(line.colour, 0.2);
        for (const column of columns) {
          if (Number.isNaN(column.min)) continue;
          const high = y(column.max);
          context.fillRect(column.x - 0.5, high, 1.5, Math.max(y(column.min) - high, 1));
        }
      }
      context.strokeStyle = line.colour;
      context.lineWidth = 1.5;
      context.lineJoin = "round";
      context.setLineDash(line.dashed ? [4, 3] : []);
      context.beginPath();
      let pen = false;
      for (const column of columns) {
        if (Number.isNaN(column.mean)) {
          pen = false;
          continue;
        }
        if (pen) context.lineTo(column.x, y(column.mean));
        else context.moveTo(column.x, y(column.mean));
        pen = true;
      }
      context.stroke();
      context.setLineDash([]);
      if (columns.length === 1 && !Number.isNaN(columns[0]!.mean)) {
        context.fillStyle = line.colour;
        context.fillRect(columns[0]!.x - 2, y(columns[0]!.mean) - 2, 4, 4);
      }
    });
    for (const level of data.levels ?? []) {
      const at = Math.round(y(level.value)) + 0.5;
      context.strokeStyle = level.colour ?? theme.warn;
      context.lineWidth = 1;
      context.setLineDash([3, 3]);
      context.beginPath();
      context.moveTo(LEFT, at);
      context.lineTo(right, at);
      context.stroke();
      context.setLineDash([]);
      context.fillStyle = level.colour ?? theme.warn;
      context.textAlign = "right";
      context.textBaseline = "bottom";
      context.fillText(level.label, right - 4, at - 2);
    }
    if (selection) {
      const [from, to] = [this.x(selection.from), this.x(selection.to)];
      context.fillStyle = faded(theme.accent, 0.14);
      context.fillRect(from, TOP, to - from, bottom - TOP);
      context.fillStyle = theme.accent;
      context.fillRect(from, TOP, 1, bottom - TOP);
      context.fillRect(to - 1, TOP, 1, bottom - TOP);
    }
    context.restore();
  }

  private showCursor(): void {
    const at = this.app.cursorMs;
    const { range } = this.app.time;
    const inside = at !== null && at >= range.from && at <= range.to;
    this.cursor.classList.toggle("shown", inside);
    // Values stand beside the pointer of the chart that is looked at; the others show the line alone.
    const mine = inside && this.element.matches(":hover");
    this.tip.classList.toggle("shown", mine);
    if (!inside) return;
    const x = this.x(at);
    this.cursor.style.transform = `translateX(${Math.round(x)}px)`;
    if (!mine) return;
    const rows = this.current()
      .lines
      .map((line) => {
        const index = nearest(line.t, at);
        const close = index >= 0 && Math.abs(line.t[index]! - at) < (range.to - range.from) / 20;
        return close ? `${line.label}  ${text(inUnit(line.mean[index]!, this.options.unit))}` : null;
      })
      .filter((row) => row !== null);
    setText(
      this.tip,
      [timeLabel(at, { from: 0, to: (range.to - range.from) / 20 }, this.labels()), ...rows].join("\n"),
    );
    const width = this.surface.width;
    this.tip.style.transform =
      x > width / 2
        ? `translate(calc(${Math.round(x)}px - 100% - 10px), 8px)`
        : `translate(${Math.round(x) + 10}px, 8px)`;
  }
}

function nearest(t: ArrayLike<number>, at: number): number {
  let low = 0;
  let high = t.length - 1;
  if (high < 0) return -1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (t[middle]! < at) low = middle + 1;
    else high = middle;
  }
  return low > 0 && at - t[low - 1]! < t[low]! - at ? low - 1 : low;
}
