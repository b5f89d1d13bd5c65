import { describe, expect, it } from "vitest";
import { read, write, type Address } from "./address";
import { exportCommand, exportPath, filterLine, shellQuote } from "./command";
import { backoffMs, pill, pillText } from "./live";
import { COLOURS, colourOf, hash, isFallback } from "./palette";

describe("address", () => {
  it("is read as it was written", () => {
    const address: Address = {
      view: "timeline",
      source: "2026-11-16-abc",
      session: null,
      filter: 'op:Conv !Relu dur>1ms "a&b"',
      range: { from: 1.5, to: 20.25 },
      selection: { from: 2, to: 3 },
      a: null,
      b: null,
    };
    expect(read(write(address), ["overview", "timeline"])).toEqual(address);
  });

  it("survives nonsense", () => {
    expect(read("?view=nothing&range=5~1&sel=x", ["overview"])).toMatchObject({
      view: "overview",
      range: null,
      selection: null,
    });
  });
});

describe("command to copy", () => {
  it("is safe in a shell and equals the download", () => {
    expect(shellQuote("it's")).toBe("'it'\\''s'");
    const filter = filterLine("op:Conv dur>1ms", { from: 1500, to: 2000 });
    expect(filter).toBe("op:Conv dur>1ms from:1.5s to:2s");
    const choice = { format: "csv", table: "operators", gzip: false };
    expect(exportCommand("run1", choice, filter)).toBe(
      "ortscope export run1 --to csv --table operators --filter 'op:Conv dur>1ms from:1.5s to:2s' --output run1-operators.csv",
    );
    expect(new URL(exportPath("run1", choice, filter), "http://x").searchParams.get("filter")).toBe(filter);
  });

  it("compresses where asked, and names a directory for formats of several files", () => {
    const packed = { format: "perfetto", table: null, gzip: true };
    expect(exportCommand("run1", packed, "")).toBe(
      "ortscope export run1 --to perfetto --gzip --output run1.pftrace.gz",
    );
    expect(exportPath("run1", packed, "")).toBe("/api/v1/recordings/run1/export?format=perfetto&gzip=true");
    expect(exportCommand("run1", { format: "tensorboard", table: null, gzip: false }, "")).toBe(
      "ortscope export run1 --to tensorboard --output tensorboard",
    );
  });
});

describe("live state", () => {
  it("says how far behind a paused view is", () => {
    const state = { connection: "open" as const, paused: true, shownMs: 1000, newestMs: 8700 };
    expect(pill(state)).toEqual({ kind: "paused", behindSeconds: 7 });
    expect(pillText(pill(state))).toBe("+7 s behind");
    expect(pill({ ...state, paused: false })).toEqual({ kind: "live" });
    expect(pillText(pill({ ...state, connection: "lost" }, 3500))).toContain("3 s");
  });

  it("backs off to ten seconds and no further", () => {
    const waits = Array.from({ length: 12 }, (_, i) => backoffMs(i, () => 0.5));
    expect(waits.slice(0, 3)).toEqual([250, 500, 1000]);
    expect(Math.max(...waits)).toBe(10_000);
    expect(backoffMs(3, () => 0)).not.toBe(backoffMs(3, () => 0.99));
  });
});

describe("palette", () => {
  it("is stable", () => {
    expect(hash("Conv")).toBe(hash("Conv"));
    expect(colourOf("Conv")).toBe(COLOURS[0]);
    expect(colourOf("MyCustomOp")).toBe(colourOf("MyCustomOp"));
    expect(
      new Set(["Conv", "MatMul", "Relu", "Softmax", "Add", "MaxPool", "LayerNormalization", "Concat"].map(colourOf))
        .size,
    ).toBe(8);
  });

  it("tells a fallback", () => {
    expect(isFallback("CPUExecutionProvider", ["QNNExecutionProvider", "CPUExecutionProvider"])).toBe(true);
    expect(isFallback("CPUExecutionProvider", ["CPUExecutionProvider"])).toBe(false);
    expect(isFallback("QNNExecutionProvider", ["QNNExecutionProvider", "CPUExecutionProvider"])).toBe(false);
  });
});
