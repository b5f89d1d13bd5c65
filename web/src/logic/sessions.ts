/** What sessions tell about each other. */

import type { SessionNow } from "../api/types";

type Session = Pick<SessionNow, "session_id" | "model_name" | "latency_ms">;

/** Of each session: its median latency divided by the median of the medians of the others with the same model. */
export function againstOthers(sessions: readonly Session[]): Map<string, number> {
  const byModel = new Map<string, { id: string; p50: number }[]>();
  for (const { session_id: id, model_name: model, latency_ms: latency } of sessions) {
    if (latency.p50 === null) continue;
    const list = byModel.get(model) ?? [];
    list.push({ id, p50: latency.p50 });
    byModel.set(model, list);
  }
  const found = new Map<string, number>();
  for (const list of byModel.values()) {
    for (const { id, p50 } of list) {
      const others = list.filter((each) => each.id !== id).map((each) => each.p50);
      const middle = median(others);
      if (middle !== null && middle > 0) found.set(id, p50 / middle);
    }
  }
  return found;
}

function median(values: number[]): number | null {
  values.sort((a, b) => a - b);
  const half = values.length >> 1;
  if (values.length === 0) return null;
  return values.length % 2 === 1 ? values[half]! : (values[half - 1]! + values[half]!) / 2;
}
