import { describe, expect, it } from "vitest";
import {
  bytes,
  change,
  clock,
  count,
  digits,
  duration,
  inUnit,
  metric,
  moment,
  percent,
  share,
  text,
  tickMoment,
  tickText,
  unitOfName,
  words,
} from "./format";

const plain = (value: string) => value.replaceAll("\u202f", " ");

describe("format", () => {
  it("keeps three significant digits", () => {
    expect(digits(4.7123)).toBe("4.71");
    expect(digits(471.23)).toBe("471");
    expect(digits(0.0471)).toBe("0.0471");
    expect(plain(digits(-12345.6))).toBe("−12 346");
    expect(plain(count(4210))).toBe("4210");
    expect(plain(count(1234567))).toBe("1 234 567");
    expect(count(null)).toBe("–");
  });

  it("chooses the unit that fits", () => {
    expect(plain(text(duration(0.1086)))).toBe("109 µs");
    expect(plain(text(duration(4.71)))).toBe("4.71 ms");
    expect(plain(text(duration(1500)))).toBe("1.50 s");
    expect(plain(text(duration(0)))).toBe("0 ms");
    expect(plain(text(duration(3_723_000)))).toBe("1:02:03 h");
    expect(clock(-61_000)).toBe("−1:01 min");
    expect(plain(text(bytes(41_537_536)))).toBe("41.5 MB");
    expect(plain(text(metric(1.2e12, "FLOP/W")))).toBe("1.20 TFLOP/W");
    expect(plain(text(metric(0.011, "J")))).toBe("11.0 mJ");
    expect(plain(text(inUnit(2_000_000, "nanoseconds")))).toBe("2.00 ms");
  });

  it("never shows a missing value as zero", () => {
    for (const shown of [duration(null), bytes(undefined), percent(NaN), share(null), metric(null, "W")])
      expect(text(shown)).toBe("–");
  });

  it("labels axes and figures", () => {
    expect(plain(tickMoment(2000, 2000))).toBe("2 s");
    expect(plain(tickMoment(1005, 5))).toBe("1.005 s");
    expect(plain(tickText(15, "milliseconds"))).toBe("15 ms");
    expect(plain(tickText(2.5, "milliseconds"))).toBe("2.5 ms");
    expect(plain(tickText(100, "percent"))).toBe("100 %");
    expect(words("p99_ms")).toBe("p99 ms");
    expect(words("peak_memory")).toBe("Peak memory");
    expect(words("logical_cpus")).toBe("Logical CPUs");
  });

  it("writes percent and changes", () => {
    expect(plain(text(share(0.0142)))).toBe("1.4 %");
    expect(plain(text(percent(100)))).toBe("100 %");
    expect(plain(change(0.05))).toBe("+5.0 %");
    expect(plain(change(-0.1234))).toBe("−12.3 %");
  });

  it("reads units from names and shows moments as precisely as needed", () => {
    expect(unitOfName("utilization_ratio")).toBe("ratio");
    expect(unitOfName("power_watts")).toBe("watts");
    expect(plain(moment(1234.5678, 1000))).toBe("1.23 s");
    expect(plain(moment(1234.5678, 1))).toBe("1.23457 s");
  });
});
