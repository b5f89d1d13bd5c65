import { describe, expect, it } from "vitest";
import type { Compare, CompareMetric, SourceInfo } from "../api/types";
import { inWords, markdown, reach } from "./comparison";

function metric(a: number | null, b: number | null, more: Partial<CompareMetric> = {}): CompareMetric {
  const both = a !== null && b !== null;
  return {
    name: "p50_ms",
    unit: "ms",
    a,
    b,
    difference: both ? b - a : null,
    ratio: both ? b / a - 1 : null,
    better: "lower",
    a_interval: null,
    b_interval: null,
    ...more,
  };
}

describe("comparison", () => {
  it("says the direction and never a verdict", () => {
    expect(inWords(metric(2, 1.5))).toBe("faster");
    expect(inWords(metric(2, 3))).toBe("slower");
    expect(inWords(metric(100, 120, { name: "requests_per_second", better: "higher" }))).toBe("faster");
    expect(inWords(metric(5, 6, { name: "peak_memory_bytes" }))).toBe("higher");
    expect(inWords(metric(5, 6, { name: "jitter_ms" }))).toBe("higher");
    expect(inWords(metric(2, 2))).toBe("equal");
    expect(inWords(metric(null, 3))).toBe("–");
  });

  it("says whether the recordings alone vary as much", () => {
    const within = metric(2, 2.2, { a_interval: [1.8, 2.3], b_interval: [2.1, 2.4] });
    expect(reach(within)).toBe("within");
    expect(inWords(within)).toBe("slower, within the variation of both");
    const beyond = metric(2, 2.2, { a_interval: [1.9, 2.05], b_interval: [2.1, 2.4] });
    expect(reach(beyond)).toBe("beyond");
    expect(inWords(beyond)).toBe("slower, beyond the variation of both");
    // An end that is not known reaches as far as it takes.
    expect(reach(metric(2, 9, { a_interval: [1.9, null], b_interval: [8, 10] }))).toBe("within");
    expect(reach(metric(2, 2.01))).toBe("open");
  });

  it("writes a table in which a hostile title breaks nothing", () => {
    const source = { id: "r1", title: "a|b\n# c" } as SourceInfo;
    const compare: Compare = {
      a: source,
      b: source,
      kind: "difference",
      machine_differences: [],
      comparable: true,
      comparable_note: "Same machine.",
      sessions: [{ title: "m", a_session_id: null, b_session_id: null, metrics: [metric(2, 3)], histogram: null }],
      operators: [],
      nodes: [],
      nodes_not_listed: 0,
    };
    const text = markdown(compare);
    expect(text).toContain("| p50_ms | 2.00 ms | 3.00 ms | +50.0 % | slower |");
    expect(text).toContain("not a verdict. `ortscope compare r1 r1` gives one.");
    expect(text).not.toMatch(/better|worse/);
    expect(text.split("\n")[0]).toBe("# a\\|b # c (A) against a\\|b # c (B)");
  });
});
