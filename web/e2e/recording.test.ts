/** A finished recording: every panel shows what the API says, and every control does what it says. */

import { mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Page } from "playwright-core";
import type {
  Batches,
  Findings,
  Hello,
  Latency,
  Losses,
  Operators,
  Processes,
  RecordingList,
  SystemInfo,
  TimelineTiles,
} from "../src/api/types";
import { api, Bench, settle, shown, view } from "./harness";

const bench = new Bench();
let page: Page;
let id: string;
let other: string;

beforeAll(async () => {
  other = bench.record("before", "--runs", "100", "--profile-runs", "30", "--threads", "1");
  id = bench.record("after", "--runs", "150", "--profile-runs", "30", "--threads", "2");
  const link = await bench.serve(id);
  ({ page } = await bench.open(link));
  await settle(page);
});

afterAll(() => bench.close());

const whole = () => `source=${id}`;

describe("panels equal the API", () => {
  it("opens with the recording that was named, logged in by the link, without the ticket in the address", async () => {
    const hello = await api<Hello>(page, "/hello");
    expect(hello.default_source).toBe(id);
    expect(page.url()).not.toContain("t=");
    await expect(page.locator(".source-name").textContent()).resolves.toBe(
      hello.sources.find((source) => source.id === id)?.title,
    );
  });

  it("gauges", async () => {
    const latency = await api<Latency>(page, `/latency?${whole()}`);
    const figures = latency.sessions[0]!.inference!;
    for (const name of ["p50", "p90", "p95", "p99", "p99_9"] as const) {
      expect(await shown(page, `.gauge[data-metric="${name}_ms"]`), name).toBe(figures.percentiles[name]);
    }
    expect(await shown(page, '.gauge[data-metric="jitter_ms"]')).toBe(figures.jitter.iqr_ms);
    expect(await shown(page, '.gauge[data-metric="requests_per_second"]')).toBe(
      latency.sessions[0]!.throughput!.requests_per_second,
    );
  });

  it("where the time goes, with the unattributed part as a row of its own", async () => {
    const operators = await api<Operators>(page, `/operators?${whole()}`);
    const session = operators.sessions.find((each) => each.events > 0)!;
    const rows = await page
      .locator('[data-panel="where"] .share-list li')
      .evaluateAll((items) =>
        items.map((item) => [item.getAttribute("data-type"), Number(item.getAttribute("data-share"))]),
      );
    const top = [...session.by_type].sort((a, b) => (b.times.share ?? 0) - (a.times.share ?? 0))[0]!;
    expect(rows).toContainEqual([top.op_type, top.times.share]);
    if (session.unattributed && session.unattributed.share > 0.05)
      expect(rows.map(([name]) => name)).toContain("Unattributed");
    const total = rows.reduce((sum, [, share]) => sum + (share as number), 0);
    const wanted = session.by_type.reduce((sum, row) => sum + (row.times.share ?? 0), session.unattributed?.share ?? 0);
    expect(total).toBeCloseTo(wanted, 2);
  });

  it("findings", async () => {
    const findings = await api<Findings>(page, `/findings?${whole()}`);
    await view(page, "findings");
    await settle(page);
    expect(await page.locator(".finding").count()).toBe(findings.findings.length);
    if (findings.findings[0])
      expect(await page.locator(".finding-evidence").first().textContent()).toBe(findings.findings[0].evidence);
  });

  it("operator table, sorted by a click", async () => {
    const operators = await api<Operators>(page, `/operators?${whole()}`);
    const session = operators.sessions.find((each) => each.events > 0)!;
    await view(page, "operators");
    await settle(page);
    const names = () => page.locator('[data-panel="operators"] tbody tr td:first-child').allTextContents();
    const byShare = [...session.by_node].sort((a, b) => (b.times.share ?? 0) - (a.times.share ?? 0));
    expect((await names())[0]).toBe(byShare[0]!.name);
    await page.click('[data-panel="operators"] th:nth-child(1) .sort');
    const sorted = await names();
    expect(sorted).toEqual([...sorted].sort((a, b) => a.localeCompare(b)));
  });

  it("latency view explains the outliers", async () => {
    const latency = await api<Latency>(page, `/latency?${whole()}`);
    const slow = latency.sessions[0]!.slow;
    await view(page, "latency");
    await settle(page);
    const said = await page.locator('[data-panel="outliers"]').textContent();
    if (slow && slow.shown.length > 0) expect(said).toContain(slow.shown[0]!.sentence);
    else expect(said).toContain("No slow inferences");
    // What was read around them has a table each.
    const withReadings = (slow?.shown ?? []).slice(0, 12).filter((each) => each.around.length > 0);
    expect(await page.locator('[data-panel="outliers"] details.around').count()).toBe(withReadings.length);
    if (withReadings.length > 0) {
      await page.locator('[data-panel="outliers"] details.around summary').first().click();
      const rows = page.locator('[data-panel="outliers"] details.around').first().locator("tbody tr");
      expect(await rows.count()).toBe(withReadings[0]!.around.length);
    }
    expect(await page.locator('[data-panel="latency-figures"]').textContent()).toContain("Median");
  });

  it("batches, energy, resources: a value or a reason", async () => {
    const batches = await api<Batches>(page, `/batches?${whole()}`);
    await view(page, "batches");
    await settle(page);
    expect(await page.locator('[data-panel="batches"] tbody tr').count()).toBe(batches.rows.length);
    await view(page, "energy");
    await settle(page);
    const energy = await page.locator('[data-panel="energy"]').innerText();
    expect(energy).toMatch(/\d|not measured/);
    await view(page, "resources");
    await settle(page);
    for (const panel of ["resources", "usage", "memory-over-time", "arena", "sensors"]) {
      const text = await page.locator(`[data-panel="${panel}"]`).innerText();
      expect(text.length, panel).toBeGreaterThan(20);
    }
    expect(await page.locator('[data-panel="resources"]').innerText()).toMatch(/NPU/);
  });

  it("processes, system, losses", async () => {
    const processes = await api<Processes>(page, `/processes?${whole()}`);
    await view(page, "processes");
    await settle(page);
    if (processes.processes.length > 0)
      expect(await page.locator('[data-panel="processes"] tbody tr').count()).toBe(
        Math.min(processes.processes.length, 300),
      );
    const [system, losses] = [
      await api<SystemInfo>(page, `/system?${whole()}`),
      await api<Losses>(page, `/losses?${whole()}`),
    ];
    await view(page, "system");
    await settle(page);
    const machine = await page.locator('[data-panel="system"]').innerText();
    // Sizes are shown in the unit that fits.
    const facts = Object.entries(system.machine).filter(([name]) => !name.endsWith("_bytes"));
    for (const [, value] of facts.slice(0, 4)) expect(machine).toContain(value.trim());
    expect(await page.locator('[data-panel="losses"] h3').first().textContent()).toContain(String(losses.total));
    expect(await shown(page, '[data-status="lost"]')).toBe(losses.total);
  });

  it("recordings", async () => {
    const list = await api<RecordingList>(page, "/recordings");
    await view(page, "recordings");
    await settle(page);
    expect(await page.locator('[data-panel="recordings"] tbody tr').count()).toBe(list.recordings.length);
    expect(list.recordings.map((entry) => entry.id)).toEqual(expect.arrayContaining([id, other]));
  });
});

describe("interaction", () => {
  const range = async () => ({
    from: Number(await page.locator("#range").getAttribute("data-from")),
    to: Number(await page.locator("#range").getAttribute("data-to")),
  });

  it("zooms and moves by keys and wheel, goes back by Esc, and resets", async () => {
    await view(page, "timeline");
    await settle(page);
    const all = await range();
    await page.locator(".timeline").focus();
    await page.keyboard.press("w");
    await page.waitForTimeout(700);
    await page.keyboard.press("w");
    const zoomed = await range();
    expect(zoomed.to - zoomed.from).toBeLessThan((all.to - all.from) * 0.55);
    await page.waitForTimeout(700);
    await page.keyboard.press("d");
    const moved = await range();
    expect(moved.from).toBeGreaterThan(zoomed.from);
    await page.keyboard.press("Escape");
    expect(await range()).toEqual(zoomed);
    await page.keyboard.press("x");
    expect(await range()).toEqual(all);
    const box = (await page.locator(".timeline").boundingBox())!;
    await page.mouse.move(box.x + box.width * 0.6, box.y + 40);
    await page.mouse.wheel(0, -300);
    await page.waitForTimeout(200);
    expect((await range()).to - (await range()).from).toBeLessThan(all.to - all.from);
    await page.click("#range-reset");
    expect(await range()).toEqual(all);
  });

  it("selects a range by shift and drag; every number follows and says so", async () => {
    await view(page, "overview");
    await settle(page);
    const chart = page.locator('[data-panel="latency-over-time"] .chart');
    const box = (await chart.boundingBox())!;
    await page.keyboard.down("Shift");
    await page.mouse.move(box.x + box.width * 0.4, box.y + 60);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.6, box.y + 60, { steps: 5 });
    await page.mouse.up();
    await page.keyboard.up("Shift");
    await settle(page);
    const selected = await range();
    const latency = await api<Latency>(page, `/latency?${whole()}&from_ms=${selected.from}&to_ms=${selected.to}`);
    const wanted = latency.sessions[0]?.inference?.percentiles.p50 ?? null;
    expect(await shown(page, '.gauge[data-metric="p50_ms"]')).toBe(wanted);
    expect(page.url()).toContain("sel=");
    await page.keyboard.press("Escape");
    await settle(page);
    const all = await api<Latency>(page, `/latency?${whole()}`);
    expect(await shown(page, '.gauge[data-metric="p50_ms"]')).toBe(all.sessions[0]!.inference!.percentiles.p50);
  });

  it("filters, keeps the filter in the address, marks a mistake", async () => {
    await view(page, "operators");
    await settle(page);
    const operators = await api<Operators>(page, `/operators?${whole()}`);
    const type = operators.sessions
      .find((each) => each.events > 0)!
      .by_type.find((each) => each.kind === "operator")!.op_type;
    await page.keyboard.press("/");
    await page.keyboard.type(`op:${type}`);
    await page.keyboard.press("Enter");
    await settle(page);
    const types = await page.locator('[data-panel="operators"] tbody tr td:nth-child(2)').allTextContents();
    expect(types.length).toBeGreaterThan(0);
    expect(new Set(types)).toEqual(new Set([type]));
    expect(page.url()).toContain(`filter=op:${type}`);
    // The same address shows the same view.
    const copy = await page.context().newPage();
    await copy.goto(page.url());
    await copy.waitForSelector('[data-panel="operators"] tbody tr');
    expect(await copy.inputValue("#filter")).toBe(`op:${type}`);
    expect(await copy.locator('[data-panel="operators"] tbody tr').count()).toBe(types.length);
    await copy.close();
    await page.fill("#filter", 'op:"Conv');
    expect(await page.locator("#filter").getAttribute("aria-invalid")).toBe("true");
    await page.click(".filter-clear");
    await settle(page);
    expect(await page.locator('[data-panel="operators"] tbody tr').count()).toBeGreaterThan(types.length - 1);
  });

  it("shows an operator of the timeline with its figures", async () => {
    await view(page, "timeline");
    await settle(page);
    const tiles = await api<TimelineTiles>(page, `/timeline?${whole()}&width=1000`);
    const lane = tiles.lanes.find((each) => each.kind === "operators")!;
    const start = lane.rects.t_ms[0]!;
    await page.goto(`${bench.url}/?view=timeline&range=${start}~${start + 5}`);
    await page.waitForSelector(".timeline");
    await settle(page);
    await page.locator(".timeline").focus();
    await page.keyboard.press(".");
    await page.waitForSelector('[data-panel="event"]');
    expect(await page.locator('[data-panel="event"]').innerText()).toMatch(/Duration/);
    const total = await shown(page, '[data-total="n"]');
    const selected = await range();
    const operators = await api<Operators>(page, `/operators?${whole()}&from_ms=${selected.from}&to_ms=${selected.to}`);
    expect(total).toBe(
      operators.sessions.reduce((sum, session) => sum + session.by_type.reduce((n, row) => n + row.times.calls, 0), 0),
    );
  });

  it("exports exactly what is filtered, and shows the command that does the same", async () => {
    await page.goto(`${bench.url}/?view=operators&filter=op:Conv`);
    await page.waitForSelector(".menu");
    await settle(page);
    await page.keyboard.press("e");
    await page.selectOption('[data-field="format"]', "csv");
    await page.selectOption('[data-field="table"]', "operators");
    const [download] = await Promise.all([page.waitForEvent("download"), page.click('[data-field="download"]')]);
    const text = readFileSync((await download.path())!, "utf8");
    const command = (await page.locator("dialog .command code").textContent())!;
    expect(command).toContain("--filter op:Conv");
    const file = join(mkdtempSync(join(tmpdir(), "ortscope-export-")), "out.csv");
    bench.ortscope(
      ...command
        .replace(/^ortscope /, "")
        .split(" ")
        .slice(0, -1),
      file,
    );
    expect(text).toBe(readFileSync(file, "utf8"));
    await page.keyboard.press("Escape");
  });

  it("exports packed, and for formats of several files shows the command alone", async () => {
    await page.goto(`${bench.url}/?view=operators`);
    await page.waitForSelector(".menu");
    await settle(page);
    await page.keyboard.press("e");
    const downloaded = async () => {
      const [download] = await Promise.all([page.waitForEvent("download"), page.click('[data-field="download"]')]);
      return { name: download.suggestedFilename(), bytes: readFileSync((await download.path())!) };
    };
    await page.selectOption('[data-field="format"]', "perfetto");
    const plain = await downloaded();
    await page.check('[data-field="gzip"]');
    const packed = await downloaded();
    expect(packed.name).toBe(`${plain.name}.gz`);
    expect(gunzipSync(packed.bytes).equals(plain.bytes)).toBe(true);
    await page.selectOption('[data-field="format"]', "etl");
    expect(await page.isVisible('[data-field="gzip"]')).toBe(false);
    expect((await downloaded()).name).toMatch(/\.etl$/);
    await page.selectOption('[data-field="format"]', "tensorboard");
    expect(await page.locator('[data-field="download"]').count()).toBe(0);
    expect(await page.locator("dialog .command code").textContent()).toContain("--to tensorboard");
    await page.keyboard.press("Escape");
  });

  it("compares two recordings and exports the comparison", async () => {
    await page.goto(`${bench.url}/?view=compare&a=${other}&b=${id}`);
    await page.waitForSelector('[data-panel="compare-metrics"] tbody tr');
    await settle(page);
    const compare = await api<{
      sessions: { metrics: { name: string; a: number | null; b: number | null; ratio: number | null }[] }[];
    }>(page, `/compare?a=${other}&b=${id}`);
    for (const metric of compare.sessions[0]!.metrics) {
      for (const side of ["a", "b"] as const)
        expect(await shown(page, `[data-metric="${metric.name}"][data-side="${side}"]`), metric.name).toBe(
          metric[side],
        );
      expect(await shown(page, `[data-change="${metric.name}"]`)).toBe(metric.ratio);
    }
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      page.click('[data-panel="compare-metrics"] button:has-text("Markdown")'),
    ]);
    expect(readFileSync((await download.path())!, "utf8")).toContain("| p50_ms |");
  });

  it("has dark and light, settings and help, all by keys", async () => {
    await page.goto(`${bench.url}/`);
    await page.waitForSelector(".menu");
    const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const dark = await background();
    await page.keyboard.press("t");
    expect(await background()).not.toBe(dark);
    await page.keyboard.press("t");
    expect(await background()).toBe(dark);
    await page.keyboard.press("?");
    await page.waitForSelector("dialog:has-text('Keys and filter')");
    await page.keyboard.press("Escape");
    await page.keyboard.press("Control+,");
    await page.selectOption('[data-setting="timeAxis"]', "day");
    await page.keyboard.press("Escape");
    await page.waitForSelector("dialog", { state: "detached" });
    // A key in the moment in which a window closes: what had the focus in it still gets the key.
    await page.keyboard.press("?");
    await page.waitForSelector("dialog");
    await page.evaluate(() => {
      const dialog = document.querySelector("dialog");
      const focused = dialog?.querySelector("button");
      dialog?.close();
      focused?.dispatchEvent(new KeyboardEvent("keydown", { key: ",", ctrlKey: true, bubbles: true }));
    });
    await page.waitForSelector('[data-setting="timeAxis"]');
    await page.keyboard.press("Escape");
    await page.waitForSelector("dialog", { state: "detached" });
    for (const key of ["2", "3", "4", "5", "6", "7", "8", "9", "0", "r", "c", "1"]) {
      await page.keyboard.press(key);
      await settle(page);
    }
    expect(await page.locator('[data-view="overview"]').getAttribute("aria-current")).toBe("page");
  });

  it("had no console error, no exception, no refused request, and asked nobody but its server", () => {
    expect(bench.complaints).toEqual([]);
  });
});
