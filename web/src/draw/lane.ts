/**
 * One lane of the timeline: rectangles, hatching of fallbacks, names.
 *
 * It is drawn with every movement, so it does little: what depends on the tiles alone is made once for them ([`Paint`]),
 * rectangles stand on whole pixels of the screen, and one that lies where another is painted already is left out. So a
 * row costs at most as many rectangles as it has pixels, whatever was sent.
 */

import type { SessionInfo } from "../api/types";
import { matches, type Term } from "../logic/filter";
import { count } from "../logic/format";
import { MAX_ROWS, type LaneBox } from "../logic/layout";
import { colourOf, isFallback } from "../logic/palette";
import type { Scale } from "../logic/scale";
import type { Lane, Tiles } from "../logic/tiles";
import { currentTheme, faded } from "./surface";

/** Narrower rectangles have no text. */
const TEXT_FROM = 34;
/** Steps of opacity: neighbours that differ by less are painted without a change of the pen. */
const OPACITIES = 10;
const DIMMED = 0.14;

/** What does not change while the same tiles are moved and zoomed. */
export interface Paint {
  tiles: Tiles;
  /** By index of the type. */
  colours: string[];
  /** Of each lane, by index of the provider: whether its operators fell back. */
  fallbacks: Map<string, boolean[]>;
  /** Of each lane, by index of the rectangle: 1 where the filter leaves it out. */
  dimmed: Map<string, Uint8Array>;
}

export function preparePaint(
  tiles: Tiles,
  sessions: ReadonlyMap<string, SessionInfo>,
  dim: readonly Term[],
): Paint {
  const paint: Paint = { tiles, colours: tiles.types.map(colourOf), fallbacks: new Map(), dimmed: new Map() };
  for (const lane of tiles.lanes) {
    if (lane.kind !== "operators") continue;
    const session = lane.session_id ? sessions.get(lane.session_id) : undefined;
    const fallback = tiles.providers.map((each) =>
      session ? isFallback(each || null, session.execution_providers) : false,
    );
    if (fallback.includes(true)) paint.fallbacks.set(lane.id, fallback);
    if (dim.length > 0) paint.dimmed.set(lane.id, leftOut(lane, tiles, dim));
  }
  return paint;
}

function leftOut(lane: Lane, tiles: Tiles, dim: readonly Term[]): Uint8Array {
  const { rects } = lane;
  return Uint8Array.from({ length: rects.t_ms.length }, (_, i) => {
    const found = matches(dim, {
      name: tiles.names[rects.name[i]!] ?? "",
      type: tiles.types[rects.type[i]!] ?? "",
      providers: [lane.provider ?? "", tiles.providers[rects.provider[i]!] ?? lane.execution_provider ?? ""],
      durationMs: rects.duration_ms[i]!,
    });
    return found ? 0 : 1;
  });
}

export interface LaneView {
  x: Scale;
  left: number;
  right: number;
  /** Pixels of the screen per pixel of the page. */
  ratio: number;
  hatch: CanvasPattern | null;
  /** Id of the rectangle with a frame; null: none in this lane. */
  picked: number | null;
}

export function drawLane(context: CanvasRenderingContext2D, box: LaneBox, paint: Paint, view: LaneView): void {
  const theme = currentTheme();
  const { lane, rowHeight } = box;
  const { rects } = lane;
  const { x, left, right, ratio } = view;
  const operators = lane.kind === "operators";
  const plain = lane.kind === "kernel" ? theme.warn : lane.kind === "runs" ? theme.faint : theme.accent;
  const failed = lane.kind === "inferences" ? paint.tiles.types.indexOf("failed") : -1;
  const fallback = paint.fallbacks.get(lane.id);
  const dimmed = paint.dimmed.get(lane.id);
  const bar = rowHeight - (rowHeight > 12 ? 2 : 1);
  context.globalAlpha = 1;
  context.fillStyle = faded(theme.faint, 0.07);
  context.fillRect(left, box.y, right - left, box.height);

  // Where each row is painted up to.
  const painted = new Float64Array(MAX_ROWS).fill(-Infinity);
  const named: { index: number; from: number; to: number; y: number }[] = [];
  const hatched: { from: number; wide: number; y: number }[] = [];
  let frame: { from: number; wide: number; y: number } | null = null;
  let [pen, opacity] = ["", -1];
  const texts = rowHeight >= 14;
  for (let i = 0; i < rects.t_ms.length; i++) {
    const start = rects.t_ms[i]!;
    const length = rects.duration_ms[i]!;
    const to = x(start + length);
    if (to < left - 1) continue;
    let from = x(start);
    if (from > right + 1) continue;
    // A rectangle may be a thousand screens wide.
    from = Math.round(Math.max(from, left - 4) * ratio) / ratio;
    const wide = Math.max(Math.round(Math.min(to, right + 4) * ratio) / ratio - from, 1);
    const row = Math.min(rects.row[i]!, MAX_ROWS - 1);
    if (from + wide <= painted[row]!) continue;
    painted[row] = from + wide;
    const y = box.y + row * rowHeight;
    const type = rects.type[i]!;
    const many = rects.count[i]! > 1;
    const colour = operators ? (paint.colours[type] ?? plain) : type === failed ? theme.bad : plain;
    let alpha = 1;
    if (dimmed?.[i]) alpha = DIMMED;
    else if (many) {
      // Merged rectangles with gaps inside are paler: they are not one long thing.
      const density = length > 0 ? Math.min(rects.busy_ms[i]! / length, 1) : 1;
      alpha = Math.round((0.45 + 0.5 * density) * OPACITIES) / OPACITIES;
    }
    if (colour !== pen) context.fillStyle = pen = colour;
    if (alpha !== opacity) context.globalAlpha = opacity = alpha;
    // One pixel of air between neighbours that are wide enough for it.
    const filled = wide > 3 ? wide - 1 : wide;
    context.fillRect(from, y, filled, bar);
    if (fallback?.[rects.provider[i]!]) hatched.push({ from, wide: filled, y });
    if (texts && wide >= TEXT_FROM) named.push({ index: i, from, to: from + wide, y });
    if (view.picked !== null && rects.id[i] === view.picked) frame = { from, wide, y };
  }

  context.globalAlpha = 1;
  if (view.hatch && hatched.length > 0) {
    context.fillStyle = view.hatch;
    for (const { from, wide, y } of hatched) context.fillRect(from, y, wide, bar);
  }
  context.textBaseline = "middle";
  context.textAlign = "left";
  context.fillStyle = operators || lane.kind === "inferences" ? "#0b0f14" : theme.text;
  for (const { index, from, to, y } of named) {
    const begin = Math.max(from, left);
    const room = Math.min(to, right) - begin - 8;
    if (room <= TEXT_FROM - 8) continue;
    context.globalAlpha = dimmed?.[index] ? 0.3 : 1;
    context.fillText(fit(context, label(paint.tiles, lane, index, room), room), begin + 4, y + bar / 2 + 0.5);
  }
  context.globalAlpha = 1;
  if (frame) {
    context.strokeStyle = theme.text;
    context.lineWidth = 2;
    context.strokeRect(frame.from + 1, frame.y + 1, Math.max(frame.wide - 3, 1), bar - 2);
  }
}

function label(tiles: Tiles, lane: Lane, index: number, room: number): string {
  const { rects } = lane;
  const type = tiles.types[rects.type[index]!] ?? "";
  if (rects.count[index]! > 1) return `${count(rects.count[index]!)} × ${type}`;
  const name = tiles.names[rects.name[index]!] ?? "";
  return room > 120 && name && name !== type ? `${type} · ${name}` : type || name;
}

/** Measuring a text costs more than drawing it, and the same few come again with every movement. */
const widths = new Map<string, number>();
const MAX_WIDTHS = 4096;

function widthOf(context: CanvasRenderingContext2D, text: string): number {
  let width = widths.get(text);
  if (width === undefined) {
    if (widths.size >= MAX_WIDTHS) widths.clear();
    widths.set(text, (width = context.measureText(text).width));
  }
  return width;
}

/** The text, cut to the room there is. */
export function fit(context: CanvasRenderingContext2D, label: string, room: number): string {
  if (widthOf(context, label) <= room) return label;
  const letters = Math.max(Math.floor(room / widthOf(context, "n")) - 1, 0);
  return letters < 2 ? "" : `${label.slice(0, letters)}…`;
}
