/** Series for drawing: never more points than pixels, and never unbounded. */

/** A column of pixels: the extremes of the points in it, and its last mean. */
export interface Column {
  x: number;
  min: number;
  max: number;
  mean: number;
}

/**
 * One column per pixel that has points: the extremes survive, so that no spike disappears. `breakAfter` is the time
 * without points after which the line is interrupted, as NaN.
 */
export function decimate(
  t: ArrayLike<number>,
  min: ArrayLike<number>,
  max: ArrayLike<number>,
  mean: ArrayLike<number>,
  toPixel: (t: number) => number,
  pixels: number,
  breakAfter = Infinity,
): Column[] {
  const columns: Column[] = [];
  let sum = 0;
  let n = 0;
  let last = -Infinity;
  for (let i = 0; i < t.length; i++) {
    const x = Math.round(toPixel(t[i]!));
    if (x < -1 || x > pixels + 1 || !Number.isFinite(mean[i]!)) continue;
    if (t[i]! - last > breakAfter && columns.length > 0) columns.push({ x, min: NaN, max: NaN, mean: NaN });
    last = t[i]!;
    const column = columns.at(-1);
    if (column && column.x === x && !Number.isNaN(column.mean)) {
      column.min = Math.min(column.min, min[i]!);
      column.max = Math.max(column.max, max[i]!);
      sum += mean[i]!;
      column.mean = sum / ++n;
    } else {
      sum = mean[i]!;
      n = 1;
      columns.push({ x, min: min[i]!, max: max[i]!, mean: mean[i]! });
    }
  }
  return columns;
}

/** The last values of a live series; the oldest go first. */
export class Ring {
  readonly t: Float64Array;
  readonly value: Float64Array;
  private start = 0;
  length = 0;

  constructor(readonly capacity: number) {
    this.t = new Float64Array(capacity);
    this.value = new Float64Array(capacity);
  }

  /** Values that are not newer than the newest are left out: a frame may repeat one. */
  push(t: number, value: number): void {
    if (this.length > 0 && t <= this.newest()) return;
    const at = (this.start + this.length) % this.capacity;
    this.t[at] = t;
    this.value[at] = value;
    if (this.length < this.capacity) this.length++;
    else this.start = (this.start + 1) % this.capacity;
  }

  newest(): number {
    return this.length === 0 ? -Infinity : this.t[(this.start + this.length - 1) % this.capacity]!;
  }

  /** The part of it from a time on, in the order of time. */
  since(from: number): { t: number[]; value: number[] } {
    const t: number[] = [];
    const value: number[] = [];
    for (let i = 0; i < this.length; i++) {
      const at = (this.start + i) % this.capacity;
      if (this.t[at]! < from) continue;
      t.push(this.t[at]!);
      value.push(this.value[at]!);
    }
    return { t, value };
  }

  clear(): void {
    this.start = 0;
    this.length = 0;
  }
}

/** Adjoining bins put together until there are at most `most`; an open last bin stays alone. */
export function rebin(
  edges: readonly number[],
  counts: readonly number[],
  most: number,
  tail: boolean,
): { edges: number[]; counts: number[] } {
  const body = tail ? counts.length - 1 : counts.length;
  const by = Math.max(1, Math.ceil(body / Math.max(most, 1)));
  const out = { edges: [edges[0] ?? 0], counts: [] as number[] };
  for (let i = 0; i < body; i += by) {
    out.counts.push(counts.slice(i, Math.min(i + by, body)).reduce((a, b) => a + b, 0));
    out.edges.push(edges[Math.min(i + by, body)]!);
  }
  if (tail) {
    out.counts.push(counts.at(-1)!);
    out.edges.push(edges.at(-1)!);
  }
  return out;
}

/** Exact percentile of values, nearest rank. */
export function percentile(sorted: ArrayLike<number>, share: number): number | null {
  if (sorted.length === 0) return null;
  return sorted[Math.min(sorted.length - 1, Math.max(0, Math.ceil(share * sorted.length) - 1))]!;
}

/** Where the largest value stands; -1 where there is none. */
export function indexOfMax(values: ArrayLike<number>): number {
  let best = -1;
  for (let i = 0; i < values.length; i++) if (best < 0 || values[i]! > values[best]!) best = i;
  return best;
}

export interface Aggregate {
  n: number;
  sum: number;
  mean: number | null;
  p50: number | null;
  p99: number | null;
}

export function aggregate(values: ArrayLike<number>): Aggregate {
  // Numbers in a buffer sort by value, and much faster.
  const sorted = Float64Array.from(values).sort();
  const sum = sorted.reduce((a, b) => a + b, 0);
  return {
    n: values.length,
    sum,
    mean: values.length > 0 ? sum / values.length : null,
    p50: percentile(sorted, 0.5),
    p99: percentile(sorted, 0.99),
  };
}
