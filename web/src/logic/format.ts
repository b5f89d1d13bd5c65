/** Numbers for people: three significant digits, a unit always, a thin space between. */

const THIN = "\u202f";
export const NONE = "–";

/** About three significant digits, without an exponent. */
export function digits(value: number, significant = 3): string {
  if (!Number.isFinite(value)) return NONE;
  if (value === 0) return "0";
  const magnitude = Math.floor(Math.log10(Math.abs(value)));
  const decimals = Math.min(Math.max(significant - 1 - magnitude, 0), 6);
  const text = Math.abs(value) >= 10 ** significant ? String(Math.round(value)) : value.toFixed(decimals);
  return grouped(text);
}

/** Thin spaces between groups of three, from five digits on. */
export function grouped(text: string): string {
  const [whole, fraction] = text.split(".");
  const sign = whole!.startsWith("-") ? "−" : "";
  const bare = whole!.replace("-", "");
  const spaced = bare.length > 4 ? bare.replace(/\B(?=(\d{3})+$)/g, THIN) : bare;
  return sign + spaced + (fraction === undefined ? "" : `.${fraction}`);
}

export function count(value: number | null | undefined): string {
  return value === null || value === undefined || !Number.isFinite(value) ? NONE : grouped(String(Math.round(value)));
}

export interface Quantity {
  value: string;
  unit: string;
}

function scaled(value: number, steps: readonly [number, string][], significant = 3): Quantity {
  const size = Math.abs(value);
  const step = steps.find(([limit]) => size >= limit) ?? steps.at(-1)!;
  return { value: digits(value / step[0], significant), unit: step[1] };
}

/** Milliseconds in the unit that fits. */
export function duration(ms: number | null | undefined, significant = 3): Quantity {
  if (ms === null || ms === undefined || !Number.isFinite(ms)) return { value: NONE, unit: "" };
  if (ms === 0) return { value: "0", unit: "ms" };
  if (Math.abs(ms) >= 120_000) return { value: clock(ms), unit: "" };
  return scaled(
    ms,
    [
      [1000, "s"],
      [1, "ms"],
      [1e-3, "µs"],
      [1e-6, "ns"],
    ],
    significant,
  );
}

/** `1:02:03` for long times. */
export function clock(ms: number): string {
  const seconds = Math.round(Math.abs(ms) / 1000);
  const two = (value: number) => String(value).padStart(2, "0");
  const hours = Math.floor(seconds / 3600);
  const text =
    hours > 0
      ? `${hours}:${two(Math.floor(seconds / 60) % 60)}:${two(seconds % 60)} h`
      : `${Math.floor(seconds / 60)}:${two(seconds % 60)} min`;
  return (ms < 0 ? "−" : "") + text;
}

export function bytes(value: number | null | undefined): Quantity {
  if (value === null || value === undefined || !Number.isFinite(value)) return { value: NONE, unit: "" };
  if (value === 0) return { value: "0", unit: "B" };
  return scaled(value, [
    [1e12, "TB"],
    [1e9, "GB"],
    [1e6, "MB"],
    [1e3, "kB"],
    [1, "B"],
  ]);
}

export function metric(value: number | null | undefined, unit: string): Quantity {
  if (value === null || value === undefined || !Number.isFinite(value)) return { value: NONE, unit: "" };
  if (value === 0) return { value: "0", unit };
  const size = Math.abs(value);
  if (size >= 1 && size < 1e4) return { value: digits(value), unit };
  const q = scaled(value, [
    [1e12, "T"],
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
    [1, ""],
    [1e-3, "m"],
    [1e-6, "µ"],
  ]);
  return { value: q.value, unit: q.unit + unit };
}

/** A ratio of 0 to 1 as percent. */
export function share(ratio: number | null | undefined): Quantity {
  return percent(ratio === null || ratio === undefined ? ratio : ratio * 100);
}

export function percent(value: number | null | undefined): Quantity {
  if (value === null || value === undefined || !Number.isFinite(value)) return { value: NONE, unit: "" };
  const size = Math.abs(value);
  const text =
    size >= 100 ? value.toFixed(0) : size >= 10 || size === 0 ? value.toFixed(1) : value.toFixed(size < 0.1 ? 2 : 1);
  return { value: text.replace("-", "−"), unit: "%" };
}

export function text(quantity: Quantity): string {
  return quantity.unit === "" ? quantity.value : `${quantity.value}${THIN}${quantity.unit}`;
}

/** A difference as percent, always with its sign. */
export function change(ratio: number | null | undefined): string {
  if (ratio === null || ratio === undefined || !Number.isFinite(ratio)) return NONE;
  const shown = text(percent(ratio * 100));
  return ratio > 0 ? `+${shown}` : shown;
}

/** A value in the unit of a track. */
export function inUnit(value: number | null | undefined, unit: string): Quantity {
  switch (unit) {
    case "nanoseconds":
      return duration(value === null || value === undefined ? value : value / 1e6);
    case "milliseconds":
      return duration(value);
    case "bytes":
      return bytes(value);
    case "ratio":
      return share(value);
    case "percent":
      return percent(value);
    case "hertz":
      return metric(value, "Hz");
    case "watts":
      return metric(value, "W");
    case "joules":
      return metric(value, "J");
    case "celsius":
      return metric(value, "°C");
    case "per_second":
      return metric(value, "/s");
    default:
      return metric(value, "");
  }
}

/** The unit that the end of a sensor's name says. */
export function unitOfName(name: string): string {
  const ends: [string, string][] = [
    ["_ms", "milliseconds"],
    ["milliseconds", "milliseconds"],
    ["_ns", "nanoseconds"],
    ["bytes", "bytes"],
    ["ratio", "ratio"],
    ["percent", "percent"],
    ["hertz", "hertz"],
    ["watts", "watts"],
    ["_w", "watts"],
    ["joules", "joules"],
    ["celsius", "celsius"],
    ["per_second", "per_second"],
  ];
  return ends.find(([end]) => name.endsWith(end))?.[1] ?? "none";
}

/** A moment of a recording: seconds since its start, as precise as the range needs (a hundredth of it). */
export function moment(ms: number, spanMs: number): string {
  const decimals = Math.min(Math.max(Math.ceil(-Math.log10(Math.max(spanMs, 1e-6) / 1e5)), 0), 7);
  return `${grouped((ms / 1000).toFixed(decimals))}${THIN}s`;
}

/** A tick of an axis of time: as many decimals as its step has. */
export function tickMoment(ms: number, stepMs: number): string {
  const decimals = Math.min(Math.max(Math.ceil(-Math.log10(stepMs / 1000) - 1e-9), 0), 9);
  return `${grouped((ms / 1000).toFixed(decimals))}${THIN}s`;
}

/** A tick of an axis of values: without zeros behind the point. */
export function tickText(value: number, unit: string): string {
  const shown = inUnit(value, unit);
  return text({ value: shown.value.replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, ""), unit: shown.unit });
}

/** Time of day of a moment, with what the span needs behind the second. */
export function wallTime(unixMs: number, spanMs: number): string {
  const date = new Date(unixMs);
  const two = (value: number) => String(value).padStart(2, "0");
  const base = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  return spanMs < 5000 ? `${base}.${String(date.getMilliseconds()).padStart(3, "0")}` : base;
}

export function dateTime(unixMs: number): string {
  const date = new Date(unixMs);
  const two = (value: number) => String(value).padStart(2, "0");
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

/** CPUExecutionProvider → CPU. */
export function provider(name: string | null | undefined): string {
  return name ? name.replace(/ExecutionProvider$/, "") : NONE;
}

/** snake_case of the API as words. */
export function words(name: string): string {
  const spaced = name
    .replaceAll("_", " ")
    .replaceAll(".", " · ")
    .replace(/\b(cpus?|gpu|npu|os|flops|id|ort)\b/g, (word) => (word === "cpus" ? "CPUs" : word.toUpperCase()));
  // p50 stays p50.
  return /^p\d/.test(spaced) ? spaced : spaced.charAt(0).toUpperCase() + spaced.slice(1);
}
