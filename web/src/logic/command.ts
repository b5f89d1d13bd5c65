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
  gzip: boolean;
}

export interface ExportFormat {
  format: string;
  label: string;
  /** Whether a table must be chosen. */
  table: boolean;
  /** Whether it can be compressed; the others compress in their own way or are read at random. */
  gzip: boolean;
  /** Several files in a directory: nothing to download, the command writes it. */
  directory?: boolean;
}

export const FORMATS: readonly ExportFormat[] = [
  { format: "json", label: "JSON", table: false, gzip: true },
  { format: "jsonl", label: "JSON lines", table: false, gzip: true },
  { format: "csv", label: "CSV (one table)", table: true, gzip: true },
  { format: "parquet", label: "Parquet (one table)", table: true, gzip: false },
  { format: "sqlite", label: "SQLite", table: false, gzip: false },
  { format: "chrome", label: "Chrome trace", table: false, gzip: true },
  { format: "perfetto", label: "Perfetto trace", table: false, gzip: true },
  { format: "etl", label: "ETL (PerfView, Windows Performance Analyzer)", table: false, gzip: false },
  { format: "prometheus", label: "Prometheus text", table: false, gzip: true },
  { format: "tensorboard", label: "TensorBoard (a directory)", table: false, gzip: false, directory: true },
  { format: "fleet", label: "Fleet: Parquet of many machines (a directory)", table: false, gzip: false, directory: true },
];

const ENDINGS: Record<string, string> = {
  chrome: "trace.json",
  perfetto: "pftrace",
  prometheus: "prom",
  sqlite: "db",
};

/** A file name for an export, the same for the download and for the command. */
export function exportName(recording: string, choice: ExportChoice): string {
  if (isDirectory(choice.format)) return choice.format;
  const parts = [recording, choice.table].filter((part) => part !== null);
  return `${parts.join("-")}.${ENDINGS[choice.format] ?? choice.format}${choice.gzip ? ".gz" : ""}`;
}

function isDirectory(format: string): boolean {
  return FORMATS.some((each) => each.format === format && each.directory === true);
}

export function exportCommand(recording: string, choice: ExportChoice, filter: string): string {
  const words = ["ortscope", "export", recording, "--to", choice.format];
  if (choice.table) words.push("--table", choice.table);
  if (filter) words.push("--filter", filter);
  if (choice.gzip) words.push("--gzip");
  words.push("--output", exportName(recording, choice));
  return words.map(shellQuote).join(" ");
}

export function exportPath(recording: string, choice: ExportChoice, filter: string): string {
  const query = new URLSearchParams({ format: choice.format });
  if (choice.table) query.set("table", choice.table);
  if (filter) query.set("filter", filter);
  if (choice.gzip) query.set("gzip", "true");
  return `/api/v1/recordings/${encodeURIComponent(recording)}/export?${query}`;
}
