/**
 * Which part of time is seen, with the steps that led there.
 *
 * All charts share one viewport, in milliseconds since the source's origin. It either follows the end of a growing
 * source with a fixed width, or stands still. A selection inside of it is what the numbers follow.
 */

export interface Range {
  from: number;
  to: number;
}

export interface Viewport {
  /** All there is. */
  bounds: Range;
  range: Range;
  /** The range ends at the newest data and moves with it. */
  following: boolean;
  selection: Range | null;
  /** Ranges before this one, the oldest first. */
  history: readonly { range: Range; following: boolean }[];
}

/** Narrower than this nothing is recorded: 100 ns. */
export const MIN_SPAN_MS = 1e-4;
const MAX_HISTORY = 50;
/** Live view this much until the user zooms. */
export const LIVE_SPAN_MS = 60_000;

export function span(range: Range): number {
  return range.to - range.from;
}

export function start(bounds: Range, growing: boolean): Viewport {
  const range = growing ? { from: bounds.to - LIVE_SPAN_MS, to: bounds.to } : { ...bounds };
  return { bounds, range, following: growing, selection: null, history: [] };
}

function clamp(range: Range, bounds: Range, growing: boolean): Range {
  const width = Math.max(span(range), MIN_SPAN_MS);
  // A live view may look at the time before the first data: the axis keeps its width.
  const low = growing ? Math.min(bounds.from, bounds.to - width) : bounds.from;
  if (width >= bounds.to - low) return { from: low, to: bounds.to };
  const from = Math.min(Math.max(range.from, low), bounds.to - width);
  return { from, to: from + width };
}

function remembered(view: Viewport): Viewport["history"] {
  const last = view.history.at(-1);
  const same = last && last.range.from === view.range.from && last.range.to === view.range.to;
  const entry = { range: view.range, following: view.following };
  return same ? view.history : [...view.history, entry].slice(-MAX_HISTORY);
}

/** Goes to a range. `remember` false: part of a movement whose beginning was remembered. */
export function show(view: Viewport, range: Range, remember = true, growing = false): Viewport {
  const next = clamp(range, view.bounds, growing);
  if (next.from === view.range.from && next.to === view.range.to) return view;
  return { ...view, range: next, following: false, history: remember ? remembered(view) : view.history };
}

/** Zooms around a moment: factor 0.5 shows half as much. A following view keeps following, anchored at its end. */
export function zoom(view: Viewport, at: number, factor: number, remember = true, growing = false): Viewport {
  if (view.following) {
    const width = Math.min(Math.max(span(view.range) * factor, 1000), Math.max(span(view.bounds), LIVE_SPAN_MS));
    const range = { from: view.range.to - width, to: view.range.to };
    return { ...view, range, history: remember ? remembered(view) : view.history };
  }
  const width = Math.max(span(view.range) * factor, MIN_SPAN_MS);
  const share = span(view.range) > 0 ? (at - view.range.from) / span(view.range) : 0.5;
  const from = at - width * share;
  return show(view, { from, to: from + width }, remember, growing);
}

/** Moves by a share of what is seen: 0.1 is a tenth to the right. */
export function pan(view: Viewport, share: number, remember = true, growing = false): Viewport {
  const by = span(view.range) * share;
  return show(view, { from: view.range.from + by, to: view.range.to + by }, remember, growing);
}

export function select(view: Viewport, selection: Range | null): Viewport {
  if (!selection) return { ...view, selection: null };
  const from = Math.min(selection.from, selection.to);
  const to = Math.max(selection.from, selection.to);
  return { ...view, selection: to - from < MIN_SPAN_MS ? null : { from, to } };
}

/** Esc: first the selection goes, then one step back. */
export function back(view: Viewport): Viewport {
  if (view.selection) return { ...view, selection: null };
  const last = view.history.at(-1);
  if (!last) return view;
  const range = last.following ? { from: view.bounds.to - span(last.range), to: view.bounds.to } : last.range;
  return { ...view, range, following: last.following, history: view.history.slice(0, -1) };
}

export function reset(view: Viewport, growing: boolean): Viewport {
  return start(view.bounds, growing);
}

/** The source grew: a following view moves along. */
export function grow(view: Viewport, to: number): Viewport {
  if (to <= view.bounds.to) return view;
  const bounds = { from: view.bounds.from, to };
  if (!view.following) return { ...view, bounds };
  return { ...view, bounds, range: { from: to - span(view.range), to } };
}

/** Whether a picture of one viewport, `pixels` wide, looks different with the other. */
export function looksDifferent(drawn: Viewport | null, now: Viewport, pixels: number): boolean {
  if (!drawn || drawn.selection !== now.selection) return true;
  const width = span(now.range);
  // The width of a following view is computed anew with every step, and not always to the last digit.
  const same = Math.abs(span(drawn.range) - width) < width * 1e-9;
  return !same || (Math.abs(drawn.range.from - now.range.from) / width) * pixels >= 1;
}

/** What the numbers on the page cover. */
export function numbers(view: Viewport): Range {
  return view.selection ?? view.range;
}
