/** From numbers to pixels, and where the ticks stand. */

import type { Range } from "./viewport";

export interface Scale {
  (value: number): number;
  invert(pixel: number): number;
}

export function linear(from: number, to: number, pixelFrom: number, pixelTo: number): Scale {
  const width = to - from || 1;
  const factor = (pixelTo - pixelFrom) / width;
  const scale = ((value: number) => pixelFrom + (value - from) * factor) as Scale;
  scale.invert = (pixel) => from + (pixel - pixelFrom) / factor;
  return scale;
}

/** 1, 2 or 5 times a power of ten: the step that gives at most `most` ticks. */
export function niceStep(width: number, most: number): number {
  if (!(width > 0) || most < 1) return 1;
  const raw = width / most;
  const power = 10 ** Math.floor(Math.log10(raw));
  const lead = raw / power;
  const nice = lead <= 1 ? 1 : lead <= 2 ? 2 : lead <= 5 ? 5 : 10;
  return nice * power;
}

/** Steps of time are those of a clock from one second on. */
export function niceTimeStep(widthMs: number, most: number): number {
  const step = niceStep(widthMs, most);
  if (step < 1000) return step;
  const seconds = widthMs / most / 1000;
  const known = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400];
  return (known.find((value) => value >= seconds) ?? Math.ceil(seconds / 86400) * 86400) * 1000;
}

function steps(from: number, to: number, step: number): number[] {
  const ticks: number[] = [];
  // Adding 0 turns a negative zero into zero.
  const first = Math.ceil(from / step - 1e-9) + 0;
  for (let i = first; i * step <= to + step * 1e-9 && ticks.length < 1000; i++) ticks.push(i * step);
  return ticks;
}

export function ticks(from: number, to: number, most: number): number[] {
  return steps(from, to, niceStep(to - from, most));
}

/** Ticks of time; with the wall time of the origin they stand at whole seconds and minutes of the day. */
export function timeTicks(range: Range, most: number, originUnixMs = 0): number[] {
  const step = niceTimeStep(range.to - range.from, most);
  const shift = originUnixMs % step;
  return steps(range.from + shift, range.to + shift, step).map((tick) => tick - shift);
}

/** The top of an axis that begins at zero. */
export function niceTop(max: number, most = 4): number {
  if (!(max > 0)) return 1;
  const step = niceStep(max, most);
  return Math.ceil(max / step - 1e-9) * step;
}
