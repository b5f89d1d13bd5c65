/** What devices and the machine did around an inference, in words and in figures. */

import type { SlowInference } from "../api/types";
import { digits, duration, inUnit, percent, share, text, unitOfName, words } from "./format";

export type Reading = SlowInference["around"][number];

/** Names one inference among those of all sessions: each session counts its own. */
export function key(session: string, inference: Pick<SlowInference, "sequence">): string {
  return `${session} ${inference.sequence}`;
}

/** Sentences that are shown without asking. */
const MAX_SHOWN = 4;

/** What stands out: what held a clock down first, then how busy devices were and what they used. */
export function inWords(around: readonly Reading[]): string[] {
  return around
    .map(word)
    .filter((found) => found !== null)
    .sort((a, b) => a.rank - b.rank)
    .slice(0, MAX_SHOWN)
    .map((found) => found.said);
}

function word(one: Reading): { rank: number; said: string } | null {
  const throttles = one.metric.startsWith("throttle") && one.value > 0;
  // Engines of a GPU, processes and single processors are in the table.
  if ((one.device.includes("/") || one.device.startsWith("cpu")) && !throttles) return null;
  // NVML tells so that a GPU idles or has a fixed clock.
  if (one.metric === "throttle_reasons" && (one.value & ~3) === 0) return null;
  if (throttles) return { rank: 0, said: `${one.device} was throttled` };
  switch (one.metric) {
    case "utilization_ratio":
      return { rank: 1, said: `${one.device} ${text(share(one.value))} busy` };
    case "power_watts":
      return { rank: 2, said: `${one.device} ${text(inUnit(one.value, "watts"))}` };
    case "cpu_percent":
      return { rank: 3, said: `${one.device} ${text(percent(one.value))} busy` };
    case "temperature_celsius":
      return { rank: 4, said: `${one.device} ${text(inUnit(one.value, "celsius"))}` };
    default:
      return null;
  }
}

/** One row of the table of readings: device, figure, value, and when it was read. */
export interface ReadingRow {
  device: string;
  figure: string;
  value: string;
  when: string;
}

export function rows(around: readonly Reading[]): ReadingRow[] {
  return [...around]
    .sort((a, b) => (a.device === b.device ? order(a.metric, b.metric) : order(a.device, b.device)))
    .map((one) => {
      const unit = unitOfName(one.metric);
      return {
        device: one.device,
        figure: words(one.metric.replace(/_(ratio|bytes|watts|percent|hertz|celsius|milliseconds|count)$/, "")),
        value: unit === "none" ? digits(one.value) : text(inUnit(one.value, unit)),
        when: when(one),
      };
    });
}

const order = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

function when(one: Reading): string {
  if (one.mean_of_ms !== null) return `mean of ${text(duration(one.mean_of_ms))}`;
  return one.distance_ms === 0 ? "during it" : `${text(duration(one.distance_ms))} away`;
}
