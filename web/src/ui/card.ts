/** A panel: a title, the range that its numbers cover, and one of three bodies: content, a reason, an error. */

import { Failure } from "../api/client";
import { moment } from "../logic/format";
import type { App, Change } from "./app";
import { fill, h, setText, type Child, type Scope } from "./dom";

export interface Card {
  element: HTMLElement;
  body: HTMLElement;
  /** Buttons and choices at the right of the title. */
  tools: HTMLElement;
  /** Says what the numbers cover. */
  covers(text: string): void;
  /** Shows a sentence instead of the content; null shows the content again. */
  say(title: string | null, ...details: Child[]): void;
}

export function card(title: string, options: { id?: string; span?: number; class?: string } = {}): Card {
  const covers = h("span", { class: "covers" });
  const tools = h("div", { class: "card-tools" });
  const body = h("div", { class: "card-body" });
  const message = h("div", { class: "empty", hidden: true });
  const headingId = `h-${options.id ?? title.toLowerCase().replace(/[^a-z]+/g, "-")}`;
  const element = h(
    "section",
    {
      class: `card span-${options.span ?? 12} ${options.class ?? ""}`,
      "aria-labelledby": headingId,
      "data-panel": options.id ?? null,
    },
    h("header", { class: "card-head" }, h("h2", { id: headingId }, title), covers, tools),
    body,
    message,
  );
  return {
    element,
    body,
    tools,
    covers: (text) => setText(covers, text),
    say: (title, ...details) => {
      message.hidden = title === null;
      body.hidden = title !== null;
      if (title !== null) fill(message, h("p", { class: "empty-title" }, title), ...details);
    },
  };
}

/** `last 60 s`, or from when to when. */
export function rangeText(app: App, from: number, to: number): string {
  if (app.time.following && !app.time.selection) return `last ${Math.round((to - from) / 1000)} s`;
  const span = Math.max(to - from, 1e-6);
  return `${moment(from - app.source.from_ms, span)} to ${moment(to - app.source.from_ms, span)}`;
}

export function explain(error: unknown): { title: string; hint: string | null } {
  if (error instanceof Failure) return { title: error.message, hint: error.hint };
  return { title: "The server does not answer.", hint: "The page retries when the connection is back." };
}

export interface LoaderOptions<T> {
  /** Changes after which it asks again. */
  on: readonly Change[];
  /** Seconds between questions while a live view follows; 0: never. */
  every?: number;
  fetch(signal: AbortSignal): Promise<T>;
  show(data: T): void;
  /** The card that shows what went wrong. */
  card?: Card;
}

/** Asks the server and shows the answer; a newer question cancels an older one, a slow server is not asked twice. */
export function loader<T>(scope: Scope, app: App, options: LoaderOptions<T>): () => void {
  let running: AbortController | null = null;
  let ticks = 0;
  const load = async () => {
    running?.abort();
    const controller = new AbortController();
    running = controller;
    try {
      const data = await options.fetch(controller.signal);
      if (controller.signal.aborted) return;
      options.card?.say(null);
      options.card?.element.classList.remove("stale");
      keepFocus(options.card?.element, () => options.show(data));
    } catch (error) {
      if (controller.signal.aborted) return;
      if (!(error instanceof Failure) && !(error instanceof TypeError)) throw error;
      const { title, hint } = explain(error);
      // While the connection is lost the last picture stays, marked as old.
      if (error instanceof TypeError && app.source.growing) options.card?.element.classList.add("stale");
      else options.card?.say(title, hint ? h("p", {}, hint) : null);
    } finally {
      if (running === controller) running = null;
    }
  };
  app.on(scope, options.on, () => void load());
  if (options.every) {
    app.on(scope, "tick", () => {
      if (++ticks % options.every! === 0 && !running) void load();
    });
  }
  scope.add(() => running?.abort());
  void load();
  return () => void load();
}

/** Runs a change; what had the focus before and was made anew has it again, found by what it says. */
function keepFocus(inside: HTMLElement | undefined, change: () => void): void {
  const before = document.activeElement;
  const mine = inside && before instanceof HTMLElement && inside.contains(before) ? before : null;
  change();
  if (!mine || !inside || mine.isConnected) return;
  const same = [...inside.querySelectorAll<HTMLElement>(mine.tagName)].find(
    (each) => each.textContent === mine.textContent,
  );
  same?.focus();
}

/** What a view is made of, top to bottom. */
export function grid(...children: Child[]): HTMLElement {
  const element = h("div", { class: "grid" });
  fill(element, ...children);
  return element;
}

/** A pair of facts. */
export function fact(name: string, value: Child): HTMLElement {
  return h("div", { class: "fact" }, h("dt", {}, name), h("dd", {}, value));
}

/** Commands stand between backticks in the server's sentences. */
export function prose(sentence: string): Child[] {
  return sentence.split("`").map((part, index) => (index % 2 === 1 ? h("code", {}, part) : part));
}

/** Why a number is missing, in the place of the number. */
export function reason(why: string | undefined, fallback: string): HTMLElement {
  return h("p", { class: "reason" }, ...prose(why ?? fallback));
}
