import { describe, expect, it } from "vitest";
import { durationMs, matches, parse, print, toggle, type Row } from "./filter";

const conv: Row = { name: "/block1/Conv_3", type: "Conv", providers: ["CPU", "CPUExecutionProvider"], durationMs: 1.5 };

function keeps(line: string, row: Row): boolean {
  const parsed = parse(line);
  if (!parsed.ok) throw new Error(parsed.problem.message);
  return matches(parsed.terms, row);
}

describe("filter", () => {
  it("matches as the command line does", () => {
    expect(keeps("op:Conv prov:CPU !Relu dur>1ms", conv)).toBe(true);
    expect(keeps("op:conv,gemm", conv)).toBe(true);
    expect(keeps("op:Con", conv)).toBe(false);
    expect(keeps("op:Con*", conv)).toBe(true);
    expect(keeps("prov:NPU", conv)).toBe(false);
    expect(keeps("prov:CPUExecutionProvider", conv)).toBe(true);
    expect(keeps("!conv_3", conv)).toBe(false);
    expect(keeps("dur>=1500us dur<=1.5ms", conv)).toBe(true);
    expect(keeps("name:/block*_3", conv)).toBe(true);
    expect(keeps('"op:Conv"', conv)).toBe(false);
  });

  it("leaves to the server what only the server knows", () => {
    expect(keeps("node_index:7", conv)).toBe(true);
    expect(keeps("!node_index:7", conv)).toBe(true);
  });

  it("names the term that cannot be used", () => {
    for (const line of ['op:"Conv', "op:", "dur>1", "dur>1ms,2ms", "!", "op>Conv", "!from:2s", "op:a,,b"]) {
      expect(parse(line), line).toMatchObject({ ok: false });
    }
    expect(parse("x".repeat(5000)).ok).toBe(false);
  });

  it("prints what it read", () => {
    for (const line of ["op:Conv prov:CPU !Relu dur>1ms", 'name:"a b"*c', "op:Conv,Gemm", '"quo\\"te"', "a*b"]) {
      const parsed = parse(line);
      expect(parsed.ok && print(parsed.terms)).toBe(line);
    }
  });

  it("knows durations", () => {
    expect(durationMs("2s")).toBe(2000);
    expect(durationMs("1.5 ms")).toBe(1.5);
    expect(durationMs("250us")).toBe(0.25);
    expect(durationMs("1")).toBeNull();
    expect(durationMs("1parsec")).toBeNull();
  });

  it("toggles terms by a click", () => {
    expect(toggle("", "op", "Conv")).toBe("op:Conv");
    expect(toggle("op:Conv dur>1ms", "op", "Gemm")).toBe("op:Conv,Gemm dur>1ms");
    expect(toggle("op:Conv,Gemm dur>1ms", "op", "Conv")).toBe("op:Gemm dur>1ms");
    expect(toggle("op:Conv", "op", "Conv")).toBe("");
    expect(toggle("op:Conv", "op", "Relu", true)).toBe("op:Conv !op:Relu");
    expect(toggle("", "name", "a b")).toBe('name:"a b"');
  });
});
