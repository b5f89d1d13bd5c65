import { describe, expect, it } from "vitest";
import type { TimelineLane } from "../api/types";
import { laneAt, neighbour, rectAt, stack } from "./layout";

function lane(kind: TimelineLane["kind"], rows: number, rects: [number, number, number][]): TimelineLane {
  const column = (index: number) => rects.map((rect) => rect[index]!);
  const zeros = rects.map(() => 0);
  return {
    id: `${kind}`,
    title: kind,
    kind,
    session_id: null,
    provider: null,
    execution_provider: null,
    pid: null,
    thread: null,
    rows,
    busy_ratio: 1,
    rects: {
      t_ms: column(0),
      duration_ms: column(1),
      busy_ms: column(1),
      row: column(2),
      name: zeros,
      type: zeros,
      provider: zeros,
      count: zeros,
      id: zeros,
    },
  };
}

const operators = lane("operators", 2, [
  [0, 5, 0],
  [5, 1, 0],
  [1, 2, 1],
  [10, 0.001, 0],
]);

describe("timeline layout", () => {
  it("stacks lanes and finds them again", () => {
    const { boxes, height } = stack([lane("inferences", 1, []), operators], 20);
    expect(boxes.map((box) => [box.y, box.height])).toEqual([
      [20, 16],
      [42, 40],
    ]);
    expect(height).toBe(88);
    expect(laneAt(boxes, 30)?.lane.kind).toBe("inferences");
    expect(laneAt(boxes, 37)).toBeNull();
  });

  it("finds what is under the pointer, thin ones with slack", () => {
    const box = stack([operators], 0).boxes[0]!;
    expect(rectAt(box, 2, 5, 0)).toBe(0);
    expect(rectAt(box, 2, 25, 0)).toBe(2);
    expect(rectAt(box, 9.9, 5, 0)).toBeNull();
    expect(rectAt(box, 9.9, 5, 0.2)).toBe(3);
  });

  it("walks along a row", () => {
    expect(neighbour(operators, 0, 1)).toBe(1);
    expect(neighbour(operators, 1, 1)).toBe(3);
    expect(neighbour(operators, 1, -1)).toBe(0);
    expect(neighbour(operators, 0, -1)).toBeNull();
  });
});
