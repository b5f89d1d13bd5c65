/** Reads large answers beside the page: no frame waits for megabytes of JSON. */

import { Failure, type Query } from "./client";
import { ask, type Questions } from "./timeline";

export type ToWorker = { id: number; kind: keyof Questions; query: Query } | { id: number; kind: "abort" };

export type FromWorker =
  | { id: number; data: Questions[keyof Questions] }
  | { id: number; failure: { status: number; code: string; message: string; hint: string | null } }
  | { id: number; lost: string };

const running = new Map<number, AbortController>();

function say(answer: FromWorker, transfer: ArrayBuffer[] = []): void {
  postMessage(answer, { transfer });
}

onmessage = async ({ data: message }: MessageEvent<ToWorker>) => {
  const { id } = message;
  if (message.kind === "abort") {
    running.get(id)?.abort();
    return;
  }
  const controller = new AbortController();
  running.set(id, controller);
  try {
    const { data, buffers } = await ask(message.kind, message.query, controller.signal);
    if (!controller.signal.aborted) say({ id, data }, buffers);
  } catch (error) {
    if (controller.signal.aborted) return;
    if (error instanceof Failure) {
      const { status, code, message: text, hint } = error;
      say({ id, failure: { status, code, message: text, hint } });
    } else say({ id, lost: String(error) });
  } finally {
    running.delete(id);
  }
};
