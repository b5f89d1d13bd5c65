/**
 * The filter line `op:Conv prov:CPU !Relu dur>1ms`, as the server and the command line read it (crates/core/src/filter).
 *
 * The server filters; the page reads the line as well, to mark mistakes while they are typed, to dim what does not match
 * without asking again, and to add and remove terms by a click. It knows the keys that concern operators; others are
 * passed on to the server, which knows every column.
 */

export type Compare = ":" | ">" | ">=" | "<" | "<=";

export interface Term {
  exclude: boolean;
  /** null: a bare word. */
  key: string | null;
  compare: Compare;
  /** Choices of a text, or one number as it was written. Stars outside quotes are kept as `WILD`. */
  values: string[];
}

export interface FilterProblem {
  term: string;
  message: string;
}

export type Parsed = { ok: true; terms: Term[] } | { ok: false; problem: FilterProblem };

/** Stands for an unquoted star; U+0000 cannot be typed. */
const WILD = "\u0000";
const MAX_BYTES = 4096;
const MAX_TERMS = 64;

/** Keys that the page explains and completes. */
export const KEYS: readonly { key: string; example: string; meaning: string }[] = [
  { key: "op", example: "op:Conv", meaning: "operator type; * matches any text, a,b matches a or b" },
  { key: "prov", example: "prov:CPU", meaning: "device or execution provider" },
  { key: "dur", example: "dur>1ms", meaning: "duration; also >=, <, <=" },
  { key: "name", example: "name:*attn*", meaning: "node name" },
  { key: "session", example: "session:7f3a", meaning: "prefix of the session id" },
  { key: "model", example: "model:bert*", meaning: "model name" },
  { key: "tid", example: "tid:4711", meaning: "thread" },
  { key: "kind", example: "kind:copy", meaning: "operator, copy, wait, or kind of kernel event" },
  { key: "from", example: "from:2s", meaning: "at or after this time since the start" },
  { key: "to", example: "to:10s", meaning: "before this time since the start" },
];

interface Char {
  c: string;
  quoted: boolean;
}

interface Token {
  written: string;
  chars: Char[];
}

function tokenize(text: string): Token[] | FilterProblem {
  const tokens: Token[] = [];
  let current: Token | null = null;
  let inQuotes = false;
  const chars = [...text];
  for (let i = 0; i < chars.length; i++) {
    const c = chars[i] as string;
    if (!inQuotes && /\s/.test(c)) {
      if (current) tokens.push(current);
      current = null;
      continue;
    }
    current ??= { written: "", chars: [] };
    current.written += c;
    const next = chars[i + 1];
    if (c === '"') {
      inQuotes = !inQuotes;
    } else if (inQuotes && c === "\\" && (next === '"' || next === "\\")) {
      current.written += next;
      current.chars.push({ c: next, quoted: true });
      i++;
    } else {
      current.chars.push({ c, quoted: inQuotes });
    }
  }
  if (current) tokens.push(current);
  if (inQuotes) return { term: tokens.at(-1)?.written ?? text, message: "its quote is not closed" };
  return tokens;
}

/** `key>=value` in its parts; null for a bare word. */
function splitKey(chars: Char[]): { key: string; compare: Compare; rest: Char[] } | null {
  let end = 0;
  while (end < chars.length && !chars[end]!.quoted && /[A-Za-z0-9_]/.test(chars[end]!.c)) end++;
  const sign = chars[end];
  if (end === 0 || !sign || sign.quoted) return null;
  const key = chars
    .slice(0, end)
    .map((char) => char.c)
    .join("")
    .toLowerCase();
  const orEqual = chars[end + 1]?.c === "=" && !chars[end + 1]?.quoted;
  if (sign.c === ":" || sign.c === "=") return { key, compare: ":", rest: chars.slice(end + 1) };
  if (sign.c !== ">" && sign.c !== "<") return null;
  const compare = (sign.c + (orEqual ? "=" : "")) as Compare;
  return { key, compare, rest: chars.slice(end + compare.length) };
}

function pattern(chars: Char[]): string {
  return chars.map((char) => (char.c === "*" && !char.quoted ? WILD : char.c)).join("");
}

function splitChoices(chars: Char[]): Char[][] {
  const choices: Char[][] = [[]];
  for (const char of chars) {
    if (char.c === "," && !char.quoted) choices.push([]);
    else choices.at(-1)!.push(char);
  }
  return choices;
}

export function parse(text: string): Parsed {
  const fail = (term: string, message: string): Parsed => ({ ok: false, problem: { term, message } });
  if (new TextEncoder().encode(text).length > MAX_BYTES)
    return fail("", `the filter is longer than ${MAX_BYTES} bytes`);
  const tokens = tokenize(text);
  if (!Array.isArray(tokens)) return { ok: false, problem: tokens };
  if (tokens.length > MAX_TERMS) return fail("", `the filter has more than ${MAX_TERMS} terms`);
  const terms: Term[] = [];
  for (const token of tokens) {
    const first = token.chars[0];
    const exclude = first?.c === "!" && !first.quoted;
    const chars = exclude ? token.chars.slice(1) : token.chars;
    const split = splitKey(chars);
    if (!split) {
      const word = pattern(chars);
      if (word.replaceAll(WILD, "") === "") return fail(token.written, "it has no text");
      terms.push({ exclude, key: null, compare: ":", values: [word] });
      continue;
    }
    const { key, compare, rest } = split;
    if (rest.length === 0) return fail(token.written, "there is no value behind it");
    if ((key === "from" || key === "to") && exclude)
      return fail(token.written, "a time cannot be excluded; swap from and to");
    const textKeys = ["op", "prov", "name", "session", "model", "kind", "table", "from", "to"];
    if (textKeys.includes(key) && compare !== ":") return fail(token.written, `${key} is written with a colon`);
    const values = splitChoices(rest).map(pattern);
    if (values.some((value) => value === "")) return fail(token.written, "a choice between two commas is empty");
    if (key === "dur") {
      if (compare !== ":" && values.length > 1)
        return fail(token.written, "only one number can stand behind a comparison");
      if (values.some((value) => durationMs(value) === null))
        return fail(token.written, "a duration is a number with ns, us, ms, s, min or h");
    }
    terms.push({ exclude, key, compare, values });
  }
  return { ok: true, terms };
}

const DURATION_UNITS: Record<string, number> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3,
  μs: 1e-3,
  ms: 1,
  s: 1000,
  m: 60_000,
  min: 60_000,
  h: 3_600_000,
};

/** `1.5ms` in milliseconds; null without a unit that is known. */
export function durationMs(text: string): number | null {
  const match = /^(\d+(?:\.\d*)?|\.\d+)\s*([a-zµμ]+)$/i.exec(text.trim());
  if (!match) return null;
  const unit = DURATION_UNITS[(match[2] as string).toLowerCase()];
  return unit === undefined ? null : Number(match[1]) * unit;
}

function quoted(text: string): string {
  if (text !== "" && /^[\p{L}\p{N}_\-./+]+$/u.test(text)) return text;
  return `"${text.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
}

function printPattern(value: string): string {
  return value
    .split(WILD)
    .map((part, _, parts) => (part === "" && parts.length > 1 ? "" : quoted(part)))
    .join("*");
}

export function print(terms: readonly Term[]): string {
  return terms
    .map((term) => {
      const numeric = term.key === "dur" || term.compare !== ":";
      const values = term.values.map(numeric ? (value) => value : printPattern).join(",");
      return `${term.exclude ? "!" : ""}${term.key === null ? "" : term.key + term.compare}${values}`;
    })
    .join(" ");
}

/** What the page knows about a row. */
export interface Row {
  name: string;
  type: string;
  /** Device (CPU, GPU, NPU) and ONNX Runtime's name. */
  providers: readonly string[];
  durationMs: number;
}

function anchored(value: string, text: string, openEnd = false): boolean {
  const parts = value.toLowerCase().split(WILD);
  let rest = text.toLowerCase();
  const first = parts[0] as string;
  if (!rest.startsWith(first)) return false;
  rest = rest.slice(first.length);
  if (parts.length === 1) return openEnd || rest === "";
  for (const part of parts.slice(1, -1)) {
    const at = rest.indexOf(part);
    if (at < 0) return false;
    rest = rest.slice(at + part.length);
  }
  const last = parts.at(-1) as string;
  return openEnd ? rest.includes(last) : rest.endsWith(last);
}

function contains(value: string, text: string): boolean {
  let rest = text.toLowerCase();
  return value
    .toLowerCase()
    .split(WILD)
    .every((part) => {
      const at = rest.indexOf(part);
      if (at >= 0) rest = rest.slice(at + part.length);
      return at >= 0;
    });
}

function holds(term: Term, row: Row): boolean {
  const any = (test: (value: string) => boolean) => term.values.some(test);
  switch (term.key) {
    case null:
      return any((value) => contains(value, row.name) || contains(value, row.type));
    case "op":
    case "op_type":
      return any((value) => anchored(value, row.type));
    case "name":
      return any((value) => anchored(value, row.name));
    case "prov":
      return any((value) =>
        row.providers.some((name) => anchored(value, name) || anchored(value, name.replace(/ExecutionProvider$/, ""))),
      );
    case "dur":
      return any((value) => compareNumbers(row.durationMs, term.compare, durationMs(value) ?? NaN));
    default:
      // Only the server can tell: nothing is dimmed for it.
      return !term.exclude;
  }
}

function compareNumbers(value: number, compare: Compare, wanted: number): boolean {
  switch (compare) {
    case ":":
      return value === wanted;
    case ">":
      return value > wanted;
    case ">=":
      return value >= wanted;
    case "<":
      return value < wanted;
    case "<=":
      return value <= wanted;
  }
}

export function matches(terms: readonly Term[], row: Row): boolean {
  return terms.every((term) => holds(term, row) !== term.exclude);
}

/** The line with a term for this value added, or removed when it is there: what a click on a legend does. */
export function toggle(line: string, key: string, value: string, exclude = false): string {
  const parsed = parse(line);
  if (!parsed.ok) return line;
  const same = (term: Term) => term.key === key && term.exclude === exclude && term.compare === ":";
  const present = parsed.terms.find((term) => same(term) && term.values.includes(value));
  if (present) {
    const values = present.values.filter((other) => other !== value);
    const terms = parsed.terms.filter((term) => term !== present || values.length > 0);
    return print(terms.map((term) => (term === present ? { ...term, values } : term)));
  }
  const group = parsed.terms.find(same);
  if (group)
    return print(parsed.terms.map((term) => (term === group ? { ...term, values: [...term.values, value] } : term)));
  return print([...parsed.terms, { exclude, key, compare: ":", values: [value] }]);
}
