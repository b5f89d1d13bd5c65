/** Axes that all charts share. */

import { dateTime, moment, tickMoment, wallTime } from "../logic/format";
import { linear, niceTimeStep, timeTicks, type Scale } from "../logic/scale";
import type { Range } from "../logic/viewport";
import { currentTheme } from "./surface";

export interface TimeLabels {
  /** Wall time of the origin; null: times since the start are shown. */
  originUnixMs: number | null;
}

export function timeLabel(ms: number, range: Range, labels: TimeLabels): string {
  const span = range.to - range.from;
  return labels.originUnixMs === null ? moment(ms, span) : wallTime(labels.originUnixMs + ms, span);
}

export function longTimeLabel(ms: number, labels: TimeLabels): string {
  return labels.originUnixMs === null ? moment(ms, 1) : dateTime(labels.originUnixMs + ms);
}

/** Grid lines and labels of time along the lower edge. */
export function drawTimeAxis(
  context: CanvasRenderingContext2D,
  range: Range,
  x: Scale,
  left: number,
  right: number,
  top: number,
  bottom: number,
  labels: TimeLabels,
): void {
  const theme = currentTheme();
  const most = Math.max(2, Math.floor((right - left) / 100));
  context.textBaseline = "top";
  context.textAlign = "center";
  const step = niceTimeStep(range.to - range.from, most);
  for (const tick of timeTicks(range, most, labels.originUnixMs ?? 0)) {
    const at = Math.round(x(tick)) + 0.5;
    if (at < left || at > right) continue;
    context.strokeStyle = theme.grid;
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(at, top);
    context.lineTo(at, bottom);
    context.stroke();
    const text = labels.originUnixMs === null ? tickMoment(tick, step) : timeLabel(tick, range, labels);
    const half = context.measureText(text).width / 2;
    context.fillStyle = theme.faint;
    context.fillText(text, Math.min(Math.max(at, left + half), right - half), bottom + 4);
  }
}

export function timeScale(range: Range, left: number, right: number): Scale {
  return linear(range.from, range.to, left, right);
}
