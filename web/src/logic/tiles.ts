/** Rectangles of a timeline as the page keeps them: columns of numbers that cost nothing to hand from thread to thread. */

import type { TimelineLane, TimelineRects, TimelineTiles } from "../api/types";

/** Columns of equal length. */
export type Columns = { readonly [K in keyof TimelineRects]: ArrayLike<number> };

export type Lane = Omit<TimelineLane, "rects"> & { rects: Columns };

export type Tiles = Omit<TimelineTiles, "lanes"> & { lanes: Lane[] };

/** The same tiles in buffers, and the buffers. */
export function pack(tiles: TimelineTiles): { tiles: Tiles; buffers: ArrayBuffer[] } {
  const buffers: ArrayBuffer[] = [];
  const column = (values: readonly number[]) => {
    const packed = Float64Array.from(values);
    buffers.push(packed.buffer);
    return packed;
  };
  const lanes = tiles.lanes.map(({ rects, ...lane }) => ({
    ...lane,
    rects: {
      t_ms: column(rects.t_ms),
      duration_ms: column(rects.duration_ms),
      busy_ms: column(rects.busy_ms),
      row: column(rects.row),
      name: column(rects.name),
      type: column(rects.type),
      provider: column(rects.provider),
      count: column(rects.count),
      id: column(rects.id),
    },
  }));
  return { tiles: { ...tiles, lanes }, buffers };
}

/** The first place where something holds; -1: nowhere. */
export function indexWhere(values: ArrayLike<number>, holds: (value: number, index: number) => boolean): number {
  for (let i = 0; i < values.length; i++) if (holds(values[i]!, i)) return i;
  return -1;
}

/** Operator types by the time they had, the longest first. */
export function typesByTime(tiles: Tiles): string[] {
  const busy = new Float64Array(tiles.types.length);
  for (const lane of tiles.lanes) {
    if (lane.kind !== "operators") continue;
    const { type, busy_ms: ms } = lane.rects;
    for (let i = 0; i < type.length; i++) busy[type[i]!]! += ms[i]!;
  }
  return tiles.types
    .map((type, index) => ({ type, ms: busy[index]! }))
    .filter(({ type, ms }) => type !== "" && ms > 0)
    .sort((a, b) => b.ms - a.ms)
    .map(({ type }) => type);
}
