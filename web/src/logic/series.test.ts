import { describe, expect, it } from "vitest";
import { aggregate, decimate, percentile, rebin, Ring } from "./series";
import { linear, niceStep, niceTimeStep, niceTop, ticks, timeTicks } from "./scale";

describe("decimation", () => {
  it("keeps every spike and at most one column per pixel", () => {
    const n = 100_000;
    const t = Array.from({ length: n }, (_, i) => i);
    const value = t.map((i) => (i === 54_321 ? 99 : 1));
    const columns = decimate(t, value, value, value, linear(0, n, 0, 500), 500);
    expect(columns.length).toBeLessThanOrEqual(501);
    expect(Math.max(...columns.map((column) => column.max))).toBe(99);
    expect(Math.min(...columns.map((column) => column.min))).toBe(1);
  });

  it("interrupts the line where nothing was measured", () => {
    const t = [0, 1, 2, 50, 51];
    const columns = decimate(t, t, t, t, linear(0, 100, 0, 100), 100, 10);
    expect(columns.filter((column) => Number.isNaN(column.mean))).toHaveLength(1);
  });
});

describe("ring", () => {
  it("is bounded, ordered and takes nothing twice", () => {
    const ring = new Ring(4);
    for (const t of [1, 2, 2, 3, 1, 4, 5, 6]) ring.push(t, t * 10);
    expect(ring.since(0)).toEqual({ t: [3, 4, 5, 6], value: [30, 40, 50, 60] });
    expect(ring.since(5).t).toEqual([5, 6]);
    expect(ring.newest()).toBe(6);
  });
});

describe("histogram", () => {
  it("puts bins together without losing a count, the tail apart", () => {
    const edges = Array.from({ length: 12 }, (_, i) => i);
    const counts = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 99];
    const out = rebin(edges, counts, 5, true);
    expect(out.counts).toEqual([3, 7, 11, 15, 19, 99]);
    expect(out.edges).toEqual([0, 2, 4, 6, 8, 10, 11]);
    expect(rebin([0, 1], [7], 10, false)).toEqual({ edges: [0, 1], counts: [7] });
  });
});

describe("figures", () => {
  it("are exact", () => {
    expect(percentile([1, 2, 3, 4], 0.5)).toBe(2);
    expect(percentile([], 0.5)).toBeNull();
    expect(aggregate([4, 1, 3, 2])).toEqual({ n: 4, sum: 10, mean: 2.5, p50: 2, p99: 4 });
  });
});

describe("scales", () => {
  it("have nice ticks", () => {
    expect(niceStep(1, 5)).toBe(0.2);
    expect(ticks(0, 10, 5)).toEqual([0, 2, 4, 6, 8, 10]);
    expect(niceTimeStep(60_000, 6)).toBe(10_000);
    expect(niceTimeStep(3_600_000, 5)).toBe(900_000);
    expect(timeTicks({ from: 0.5, to: 3.2 }, 5)).toEqual([1, 2, 3]);
    expect(timeTicks({ from: 0, to: 60_000 }, 6, 1_000_003_000)).toEqual([
      7000, 17_000, 27_000, 37_000, 47_000, 57_000,
    ]);
    expect(niceTop(97)).toBe(100);
    expect(niceTop(0)).toBe(1);
    const scale = linear(10, 20, 0, 100);
    expect(scale(15)).toBe(50);
    expect(scale.invert(50)).toBe(15);
  });
});
