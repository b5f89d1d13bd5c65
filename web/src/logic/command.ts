/** The command line that does what the page does, to copy: the page teaches automation. */

import type { Range } from "./viewport";

/** Quoted for a POSIX shell, where something in it has a meaning. */
export function shellQuote(text: string): string {
  return /^[A-Za-z0-9_./:@%+=,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** The filter of the page and its range, as one line of terms. `range` in milliseconds since the start. */
export function filterLine(filter: string, range: Range | null): string {
  const seconds = (ms: number) => `${Number((ms / 1000).toFixed(6))}s`;
  const times = range ? [`from:${seconds(Math.max(range.from, 0))}`, `to:${seconds(range.to)}`] : [];
  return [filter.trim(), ...times].filter((part) => part !== "").join(" ");
}

export interface ExportChoice {
  format: string;
  table: string | null;
}

const ENDINGS: Record<string, string> = { chrome: "trace.json", sqlite: "db" };

/** A file name for an export, the same for the download and for the command. */
export function exportName(recording: string, choice: ExportChoice): string {
  const parts = [recording, choice.table].filter((part) => part !== null);
  return `${parts.join("-")}.${ENDINGS[choice.format] ?? choice.format}`;
}

export function exportCommand(recording: string, choice: ExportChoice, filter: string): string {
  const words = ["ortscope", "export", recording, "--to", choice.format];
  if (choice.table) words.push("--table", choice.table);
  if (filter) words.push("--filter", filter);
  words.push("--output", exportName(recording, choice));
  return words.map(shellQuote).join(" ");
}

export function exportPath(recording: string, choice: ExportChoice, filter: string): string {
  const query = new URLSearchParams({ format: choice.format });
  if (choice.table) query.set("table", choice.table);
  if (filter) query.set("filter", filter);
  return `/api/v1/recordings/${encodeURIComponent(recording)}/export?${query}`;
}
