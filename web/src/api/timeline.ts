/** Large answers of /timeline, made small: rectangles as columns, records as nothing but their times. */

import { pack, type Tiles } from "../logic/tiles";
import { get, type Query } from "./client";
import type { TimelineAnswer } from "./types";

/** When calls of operators began, and how long they took. */
export interface Calls {
  t_ms: Float64Array;
  duration_ms: Float64Array;
}

/** What can be asked for, and what comes back. */
export interface Questions {
  tiles: Tiles;
  /** null: there are more than one answer holds. */
  calls: Calls | null;
}

export async function ask<K extends keyof Questions>(
  kind: K,
  query: Query,
  signal: AbortSignal,
): Promise<{ data: Questions[K]; buffers: ArrayBuffer[] }> {
  const answer = await get<TimelineAnswer>("/timeline", query, signal);
  if (kind === "tiles") {
    if (answer.kind !== "tiles") throw new TypeError("the server sent records instead of rectangles");
    const { tiles, buffers } = pack(answer);
    return { data: tiles as Questions[K], buffers };
  }
  if (answer.kind !== "records" || answer.next !== null) return { data: null as Questions[K], buffers: [] };
  const calls: Calls = {
    t_ms: Float64Array.from(answer.operations, (each) => each.t_ms),
    duration_ms: Float64Array.from(answer.operations, (each) => each.duration_ms),
  };
  return { data: calls as Questions[K], buffers: [calls.t_ms.buffer, calls.duration_ms.buffer] as ArrayBuffer[] };
}
