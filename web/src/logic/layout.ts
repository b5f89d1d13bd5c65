/** Where lanes and rectangles of a timeline stand, and what is under a point. */

import type { TimelineLane } from "../api/types";
import type { Lane } from "./tiles";

export interface LaneBox {
  lane: Lane;
  y: number;
  height: number;
  rowHeight: number;
}

const ROW_HEIGHT: Record<TimelineLane["kind"], number> = { inferences: 16, runs: 12, operators: 20, kernel: 10 };
const GAP = 6;
/** Deeper sub-graphs share the last row. */
export const MAX_ROWS = 6;

/** `scale` makes rows higher where there is room. */
export function stack(lanes: readonly Lane[], top: number, scale = 1): { boxes: LaneBox[]; height: number } {
  let y = top;
  const boxes = lanes.map((lane) => {
    const rowHeight = Math.round(ROW_HEIGHT[lane.kind] * scale);
    const height = rowHeight * Math.min(Math.max(lane.rows, 1), MAX_ROWS);
    const box = { lane, y, height, rowHeight };
    y += height + GAP;
    return box;
  });
  return { boxes, height: y };
}

export function laneAt(boxes: readonly LaneBox[], y: number): LaneBox | null {
  return boxes.find((box) => y >= box.y && y < box.y + box.height) ?? null;
}

/**
 * The rectangle at a moment and row, with `slack` milliseconds around it so that thin ones can be hit. Columns ascend by
 * time within a row only, so this looks at all of them; a lane has at most as many as there are pixels.
 */
export function rectAt(box: LaneBox, t: number, y: number, slack: number): number | null {
  const row = Math.floor((y - box.y) / box.rowHeight);
  const { rects } = box.lane;
  let best: number | null = null;
  let bestDistance = Infinity;
  for (let i = 0; i < rects.t_ms.length; i++) {
    if (Math.min(rects.row[i]!, MAX_ROWS - 1) !== row) continue;
    const from = rects.t_ms[i]!;
    const to = from + rects.duration_ms[i]!;
    const distance = t < from ? from - t : t > to ? t - to : 0;
    if (distance <= slack && distance < bestDistance) {
      best = i;
      bestDistance = distance;
    }
  }
  return best;
}

/** The rectangle before or after one in its lane and row; for moving by keys. */
export function neighbour(lane: Lane, index: number, step: 1 | -1): number | null {
  const { rects } = lane;
  const row = rects.row[index];
  let best: number | null = null;
  for (let i = 0; i < rects.t_ms.length; i++) {
    if (rects.row[i] !== row || i === index) continue;
    const ahead = (rects.t_ms[i]! - rects.t_ms[index]!) * step;
    if (ahead <= 0) continue;
    if (best === null || ahead < (rects.t_ms[best]! - rects.t_ms[index]!) * step) best = i;
  }
  return best;
}
