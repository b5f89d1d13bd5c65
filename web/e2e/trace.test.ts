/** The figures of `npm run perf` are only as good as the reading of traces. */

import { expect, it } from "vitest";
import { longTasks, tasksOf } from "./trace";

const event = (name: string, tid: number, ts: number, dur: number, tdur = dur) =>
  ({ name, ph: "X", pid: 1, tid, ts: ts * 1000, dur: dur * 1000, tdur: tdur * 1000 }) as const;
const thread = (tid: number, name: string) =>
  ({ name: "thread_name", ph: "M", pid: 1, tid, ts: 0, args: { name } }) as const;

it("counts tasks of the page's main thread once, with what they were made of", () => {
  const tasks = tasksOf([
    thread(1, "CrRendererMain"),
    thread(2, "Compositor"),
    event("RunTask", 2, 0, 900),
    event("RunTask", 1, 0, 60, 20),
    event("ThreadControllerImpl::RunTask", 1, 1, 58),
    event("FunctionCall", 1, 5, 40),
    event("Layout", 1, 10, 15),
    event("RunTask", 1, 70, 10),
  ]);
  expect(tasks.map((task) => [task.atMs, task.wallMs, task.cpuMs])).toEqual([
    [0, 60, 20],
    [70, 10, 10],
  ]);
  expect(longTasks(tasks)).toHaveLength(1);
  const parts = new Map(tasks[0]!.parts.map((part) => [part.name, part.ms]));
  expect(parts.get("FunctionCall")).toBeCloseTo(25);
  expect(parts.get("Layout")).toBeCloseTo(15);
});
