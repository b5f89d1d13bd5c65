import { describe, expect, it } from "vitest";
import { back, grow, looksDifferent, numbers, pan, reset, select, show, start, zoom } from "./viewport";

const finished = start({ from: 0, to: 1000 }, false);

describe("viewport", () => {
  it("shows all of a recording and the end of a live source", () => {
    expect(finished.range).toEqual({ from: 0, to: 1000 });
    const live = start({ from: 0, to: 200_000 }, true);
    expect(live.range).toEqual({ from: 140_000, to: 200_000 });
    expect(live.following).toBe(true);
  });

  it("keeps the moment under the cursor in its place", () => {
    const zoomed = zoom(finished, 250, 0.5);
    expect(zoomed.range).toEqual({ from: 125, to: 625 });
    expect((250 - zoomed.range.from) / 500).toBe(0.25);
  });

  it("stays inside of what there is", () => {
    expect(pan(zoom(finished, 500, 0.5), 5).range).toEqual({ from: 500, to: 1000 });
    expect(zoom(finished, 500, 4).range).toEqual({ from: 0, to: 1000 });
    expect(show(finished, { from: 10, to: 10 }).range.to).toBeGreaterThan(10);
  });

  it("goes back one step at a time, the selection first", () => {
    let view = zoom(finished, 500, 0.5);
    view = zoom(view, 500, 0.5);
    view = select(view, { from: 520, to: 480 });
    expect(numbers(view)).toEqual({ from: 480, to: 520 });
    view = back(view);
    expect(view.selection).toBeNull();
    view = back(view);
    expect(view.range).toEqual({ from: 250, to: 750 });
    expect(back(back(view)).range).toEqual({ from: 0, to: 1000 });
  });

  it("does not remember the steps of one movement", () => {
    let view = zoom(finished, 500, 0.9);
    for (let i = 0; i < 20; i++) view = zoom(view, 500, 0.9, false);
    expect(view.history).toHaveLength(1);
    expect(back(view).range).toEqual({ from: 0, to: 1000 });
    expect(reset(view, false).range).toEqual({ from: 0, to: 1000 });
  });

  it("follows a source that grows, until the user looks at something", () => {
    let live = grow(start({ from: 0, to: 100_000 }, true), 101_000);
    expect(live.range).toEqual({ from: 41_000, to: 101_000 });
    live = zoom(live, 90_000, 0.5, true, true);
    expect(live.following).toBe(true);
    expect(live.range).toEqual({ from: 71_000, to: 101_000 });
    live = pan(live, -0.5, true, true);
    expect(live.following).toBe(false);
    const before = live.range;
    live = grow(live, 105_000);
    expect(live.range).toEqual(before);
    live = back(live);
    expect(live.following).toBe(true);
    expect(live.range.to).toBe(105_000);
  });

  it("has a bounded history", () => {
    let view = finished;
    for (let i = 0; i < 200; i++) view = zoom(view, 500, i % 2 ? 2 : 0.4);
    expect(view.history.length).toBeLessThanOrEqual(50);
  });

  it("is drawn again only when a pixel of it changes", () => {
    const first = start({ from: 0, to: 100_000 }, true);
    expect(looksDifferent(null, first, 600)).toBe(true);
    // 60 s on 600 pixels: a pixel is 100 ms.
    expect(looksDifferent(first, grow(first, 100_050), 600)).toBe(false);
    expect(looksDifferent(first, grow(first, 100_101), 600)).toBe(true);
    expect(looksDifferent(first, zoom(first, 0, 0.999), 600)).toBe(true);
    expect(looksDifferent(first, select(first, { from: 1, to: 2 }), 600)).toBe(true);
  });
});
