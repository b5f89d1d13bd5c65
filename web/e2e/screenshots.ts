/** Makes the pictures of docs/images from a real run; `cargo xtask screenshots`. */

import { statSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Page } from "playwright-core";
import type { TimelineRecords } from "../src/api/types";
import { api, Bench, settle } from "./harness";

const IMAGES = join(import.meta.dirname, "..", "..", "docs", "images");
const MAX_BYTES = 300_000;
const bench = new Bench();
let page: Page;
let light: Page;
let ids: { before: string; after: string };

beforeAll(async () => {
  ids = {
    before: bench.record("optimisation off", "--runs", "600", "--threads", "1", "--opt", "none"),
    after: bench.record("optimisation on", "--runs", "600", "--threads", "1"),
  };
  const link = await bench.serve(ids.after);
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

it("dashboard, dark and light", async () => {
  await take(page, "", "dashboard-dark");
  await light.setViewportSize({ width: 1440, height: 900 });
  await take(light, "", "dashboard-light");
});

it("timeline", async () => {
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

it("compare", async () => {
  await take(page, `?view=compare&a=${ids.before}&b=${ids.after}`, "compare");
});
