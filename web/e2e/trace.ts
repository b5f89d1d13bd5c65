/** What a browser's own trace says of the page's main thread: its tasks, and what the long ones did. */

import type { Page } from "playwright-core";

export interface Task {
  /** Since the trace began. */
  atMs: number;
  wallMs: number;
  /** Time on a processor: much less than the wall time where others had the processor. */
  cpuMs: number | null;
  /** What it was made of, the longest first. */
  parts: { name: string; ms: number }[];
}

interface TraceEvent {
  name: string;
  ph: string;
  pid: number;
  tid: number;
  ts: number;
  dur?: number;
  tdur?: number;
  args?: { name?: string; data?: { functionName?: string; type?: string } };
}

/** One of them names the tasks of a thread, depending on the browser's version. */
const TASKS = new Set(["RunTask", "ThreadControllerImpl::RunTask"]);
/** They say who called, not what was done. */
const FRAMES = /^(ThreadController|TaskGraphRunner|SimpleWatcher|Receive |RunTask|Connector|MessagePipe)/;

/** Runs something and returns the tasks of the page's main thread meanwhile. */
export async function traced(page: Page, run: () => Promise<void>): Promise<{ tasks: Task[]; seconds: number }> {
  const browser = page.context().browser();
  if (!browser) throw new Error("the page has no browser");
  await browser.startTracing(page, { categories: ["toplevel", "devtools.timeline", "v8", "disabled-by-default-v8.gc"] });
  const started = performance.now();
  let seconds = 0;
  try {
    await run();
  } finally {
    seconds = (performance.now() - started) / 1000;
  }
  const { traceEvents } = JSON.parse((await browser.stopTracing()).toString()) as { traceEvents: TraceEvent[] };
  return { tasks: tasksOf(traceEvents), seconds };
}

/** Exported for its test: tasks of the busiest main thread of a page, nested ones not counted twice. */
export function tasksOf(events: readonly TraceEvent[]): Task[] {
  const mains = new Set(
    events
      .filter((event) => event.ph === "M" && event.name === "thread_name" && event.args?.name === "CrRendererMain")
      .map((event) => `${event.pid}/${event.tid}`),
  );
  const byThread = new Map<string, TraceEvent[]>();
  for (const event of events) {
    if (event.ph !== "X" || event.dur === undefined) continue;
    const thread = `${event.pid}/${event.tid}`;
    if (!mains.has(thread)) continue;
    const list = byThread.get(thread);
    if (list) list.push(event);
    else byThread.set(thread, [event]);
  }
  const busy = (list: readonly TraceEvent[]) =>
    list.reduce((sum, event) => sum + (TASKS.has(event.name) ? event.dur! : 0), 0);
  const main = [...byThread.values()].sort((a, b) => busy(b) - busy(a))[0];
  if (!main) throw new Error("the trace has no main thread of a page");
  main.sort((a, b) => a.ts - b.ts || b.dur! - a.dur!);
  const begin = main[0]!.ts;
  const tasks: Task[] = [];
  for (let at = 0; at < main.length; ) {
    const task = main[at]!;
    at++;
    if (!TASKS.has(task.name)) continue;
    const inside: TraceEvent[] = [];
    while (at < main.length && main[at]!.ts < task.ts + task.dur!) inside.push(main[at++]!);
    tasks.push({
      atMs: (task.ts - begin) / 1000,
      wallMs: task.dur! / 1000,
      cpuMs: task.tdur === undefined ? null : task.tdur / 1000,
      parts: selfTimes(task, inside),
    });
  }
  return tasks;
}

/** Time of each kind of event less that of the events inside of it. */
function selfTimes(task: TraceEvent, inside: readonly TraceEvent[]): Task["parts"] {
  const own = new Map<string, number>();
  const add = (name: string, ms: number) => own.set(name, (own.get(name) ?? 0) + ms);
  const open: TraceEvent[] = [task];
  const title = (event: TraceEvent) => {
    const detail = event.args?.data?.functionName ?? event.args?.data?.type;
    return detail ? `${event.name} ${detail}` : event.name;
  };
  add(title(task), task.dur! / 1000);
  for (const event of inside) {
    while (open.length > 1 && open.at(-1)!.ts + open.at(-1)!.dur! <= event.ts) open.pop();
    add(title(open.at(-1)!), -event.dur! / 1000);
    add(title(event), event.dur! / 1000);
    open.push(event);
  }
  return [...own]
    .map(([name, ms]) => ({ name: FRAMES.test(name) ? "other" : name, ms }))
    .sort((a, b) => b.ms - a.ms)
    .slice(0, 5);
}

export function longTasks(tasks: readonly Task[], limitMs = 50): Task[] {
  return tasks.filter((task) => task.wallMs > limitMs).sort((a, b) => b.wallMs - a.wallMs);
}

export function describe(task: Task): string {
  const parts = task.parts.map((part) => `${part.name} ${part.ms.toFixed(0)}`).join(", ");
  const cpu = task.cpuMs === null ? "" : `, ${task.cpuMs.toFixed(0)} on the processor`;
  return `at ${(task.atMs / 1000).toFixed(1)} s: ${task.wallMs.toFixed(0)} ms${cpu} (${parts})`;
}
