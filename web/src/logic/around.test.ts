import { describe, expect, it } from "vitest";
import { inWords, key, rows, type Reading } from "./around";

const plain = (value: string) => value.replaceAll("\u202f", " ");
const one = (device: string, metric: string, value: number, more: Partial<Reading> = {}): Reading => ({
  device,
  metric,
  value,
  distance_ms: 0,
  mean_of_ms: null,
  ...more,
});

describe("readings around an inference", () => {
  it("say first what held a clock down, and leave parts out", () => {
    const found = [
      one("machine", "cpu_percent", 85),
      one("gpu0", "power_watts", 45),
      one("gpu0", "utilization_ratio", 0.92),
      one("gpu0/3D", "utilization_ratio", 0.9),
      one("cpu3", "frequency_hertz", 3e9),
      one("cpu3", "throttle_count", 2),
      one("package-0", "throttle_count", 0),
      one("gpu0", "throttle_reasons", 1),
      one("package-0", "temperature_celsius", 71),
    ];
    expect(inWords(found).map(plain)).toEqual([
      "cpu3 was throttled",
      "gpu0 92.0 % busy",
      "gpu0 45.0 W",
      "machine 85.0 % busy",
    ]);
    expect(inWords([])).toEqual([]);
  });

  // They were known by the number of the inference alone: what was opened in one session was open in the next.
  it("belong to an inference of one session", () => {
    expect(key("a", { sequence: 12 })).toBe(key("a", { sequence: 12 }));
    expect(key("a", { sequence: 12 })).not.toBe(key("b", { sequence: 12 }));
    expect(key("a1", { sequence: 2 })).not.toBe(key("a", { sequence: 12 }));
  });

  it("are listed by device with the time that they are of", () => {
    const listed = rows([
      one("package-0", "power_watts", 31.25, { mean_of_ms: 100.4 }),
      one("gpu0", "memory_used_bytes", 2e9, { distance_ms: 12.5 }),
      one("gpu0", "frequency_hertz", 1.41e9),
      one("gpu0", "throttle_reasons", 4),
      one("gpu0", "throttle_power_milliseconds", 5),
    ]);
    expect(listed.map((row) => `${row.device} | ${row.figure} | ${plain(row.value)} | ${plain(row.when)}`)).toEqual([
      "gpu0 | Frequency | 1.41 GHz | during it",
      "gpu0 | Memory used | 2.00 GB | 12.5 ms away",
      "gpu0 | Throttle power | 5.00 ms | during it",
      "gpu0 | Throttle reasons | 4.00 | during it",
      "package-0 | Power | 31.3 W | mean of 100 ms",
    ]);
  });
});
