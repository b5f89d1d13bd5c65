import { describe, expect, it } from "vitest";
import type { TimelineTiles } from "../api/types";
import { indexWhere, pack, typesByTime } from "./tiles";

const rects = {
  t_ms: [0, 1, 5],
  duration_ms: [1, 2, 0.5],
  busy_ms: [1, 1.5, 0.5],
  row: [0, 0, 1],
  name: [1, 0, 2],
  type: [1, 2, 1],
  provider: [1, 1, 1],
  count: [1, 7, 1],
  id: [0, -1, 5_000_000],
};
const lane = {
  id: "a",
  title: "a",
  kind: "operators" as const,
  session_id: null,
  provider: "CPU",
  execution_provider: null,
  pid: null,
  thread: 1,
  rows: 2,
  busy_ratio: 1,
  rects,
};
const tiles = { lanes: [lane], types: ["", "Conv", "Relu", "Unused"] } as unknown as TimelineTiles;

describe("tiles", () => {
  it("are the same numbers in buffers, one for each column", () => {
    const packed = pack(tiles);
    expect(packed.buffers).toHaveLength(9);
    const columns = packed.tiles.lanes[0]!.rects;
    for (const name of Object.keys(rects) as (keyof typeof rects)[])
      expect(Array.from(columns[name]), name).toEqual(rects[name]);
    expect(packed.tiles.lanes[0]!.title).toBe("a");
  });

  it("are found by what holds for them", () => {
    expect(indexWhere(rects.t_ms, (t) => t >= 1)).toBe(1);
    expect(indexWhere(rects.t_ms, (t) => t > 9)).toBe(-1);
  });

  it("name types by their time, not those without any", () => {
    expect(typesByTime(pack(tiles).tiles)).toEqual(["Conv", "Relu"]);
  });
});
