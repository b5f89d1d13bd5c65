/** State of a live view: how far behind a paused one is, and when to try again after a lost connection. */

export interface LiveState {
  connection: "connecting" | "open" | "lost";
  paused: boolean;
  /** Newest moment that is drawn, and newest that is known. */
  shownMs: number;
  newestMs: number;
}

export type Pill =
  { kind: "live" } | { kind: "paused"; behindSeconds: number } | { kind: "lost"; sinceSeconds: number };

export function pill(state: LiveState, lostForMs = 0): Pill {
  if (state.connection === "lost") return { kind: "lost", sinceSeconds: Math.floor(lostForMs / 1000) };
  if (state.paused)
    return { kind: "paused", behindSeconds: Math.max(0, Math.floor((state.newestMs - state.shownMs) / 1000)) };
  return { kind: "live" };
}

export function pillText(state: Pill): string {
  switch (state.kind) {
    case "live":
      return "Live";
    case "paused":
      return state.behindSeconds > 0 ? `+${state.behindSeconds} s behind` : "Paused";
    case "lost":
      return `Connection lost for ${state.sinceSeconds} s, trying again`;
  }
}

/** Twice as long each time, from 0.25 s to 10 s, spread so that many pages do not come back at once. */
export function backoffMs(attempt: number, random: () => number = Math.random): number {
  const base = Math.min(250 * 2 ** Math.min(attempt, 10), 10_000);
  return base * (0.75 + random() * 0.5);
}

export const RATES_HERTZ: readonly number[] = [0.2, 0.5, 1, 2, 5, 10];
