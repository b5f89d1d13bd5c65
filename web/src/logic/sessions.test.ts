import { describe, expect, it } from "vitest";
import type { SessionNow } from "../api/types";
import { againstOthers } from "./sessions";

const session = (id: string, model: string, p50: number | null) => ({
  session_id: id,
  model_name: model,
  latency_ms: { p50 } as SessionNow["latency_ms"],
});

describe("sessions against each other", () => {
  it("names the one that is held back, and not the others for it", () => {
    const list = [session("a", "m", 5), session("b", "m", 6), session("c", "m", 50), session("d", "m", 7)];
    const found = againstOthers(list);
    expect(found.get("c")).toBeCloseTo(50 / 6);
    expect(found.get("a")).toBeCloseTo(5 / 7);
    expect([...found.values()].filter((value) => value > 2)).toHaveLength(1);
  });

  it("says nothing of models that run once, and of sessions without a latency", () => {
    const found = againstOthers([session("a", "m", 5), session("b", "n", 9), session("c", "m", null)]);
    expect(found.size).toBe(0);
  });
});
