/** Asks for large answers by a worker; where there can be none, by the page itself. */

import { Failure, type Query } from "./client";
import { ask, type Calls, type Questions } from "./timeline";
import type { FromWorker, ToWorker } from "./worker";
import type { Tiles } from "../logic/tiles";

interface Waiting {
  resolve(data: never): void;
  reject(error: unknown): void;
  /** The same question without the worker. */
  again(): void;
}

/** undefined: not tried yet; null: this browser has none. */
let worker: Worker | null | undefined;
let last = 0;
const waiting = new Map<number, Waiting>();

function start(): Worker | null {
  try {
    const made = new Worker(new URL("./worker.ts", import.meta.url), { type: "module" });
    made.onmessage = ({ data: answer }: MessageEvent<FromWorker>) => {
      const asked = waiting.get(answer.id);
      waiting.delete(answer.id);
      if (!asked) return;
      if ("data" in answer) asked.resolve(answer.data as never);
      else if ("failure" in answer) {
        const { status, code, message, hint } = answer.failure;
        asked.reject(new Failure(status, code, message, hint));
      } else asked.reject(new TypeError(answer.lost));
    };
    // It could not be loaded.
    made.onerror = () => {
      worker = null;
      const left = [...waiting.values()];
      waiting.clear();
      for (const asked of left) asked.again();
    };
    return made;
  } catch {
    return null;
  }
}

async function inBackground<K extends keyof Questions>(
  kind: K,
  query: Query,
  signal: AbortSignal,
): Promise<Questions[K]> {
  const here = async () => (await ask(kind, query, signal)).data;
  if (worker === undefined) worker = start();
  const to = worker;
  if (!to) return here();
  const id = ++last;
  return new Promise<Questions[K]>((resolve, reject) => {
    waiting.set(id, { resolve, reject, again: () => resolve(here()) });
    const stop = () => {
      if (waiting.delete(id)) to.postMessage({ id, kind: "abort" } satisfies ToWorker);
      reject(signal.reason);
    };
    signal.addEventListener("abort", stop, { once: true });
    to.postMessage({ id, kind, query } satisfies ToWorker);
  });
}

/** Rectangles for drawing. */
export function tiles(query: Query & { width: number }, signal: AbortSignal): Promise<Tiles> {
  return inBackground("tiles", query, signal);
}

/** Every call in the range; null: there are more than `limit`. */
export function calls(query: Query & { limit: number }, signal: AbortSignal): Promise<Calls | null> {
  return inBackground("calls", query, signal);
}
