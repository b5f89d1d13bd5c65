/** The list of all series, which is long on a machine with many processes: all charts of a view share one answer. */

import { get } from "./client";
import type { Catalog } from "./types";

/** Charts of a live view ask at the same moment, every few seconds. */
const FRESH_MS = 3000;

let kept: { source: string; at: number; answer: Promise<Catalog> } | null = null;

export function catalogOf(source: string, growing: boolean): Promise<Catalog> {
  if (kept?.source === source && (!growing || performance.now() - kept.at < FRESH_MS)) return kept.answer;
  const mine = { source, at: performance.now(), answer: get<Catalog>("/metrics/catalog", { source }) };
  // Who asks after a failure asks the server again.
  mine.answer.catch(() => {
    if (kept === mine) kept = null;
  });
  kept = mine;
  return mine.answer;
}
