/** A difference between two recordings in words, and the comparison as text. */

import type { Compare, CompareMetric } from "../api/types";
import { change, digits, duration, inUnit, metric, NONE, text, unitOfName, words } from "./format";

export function inMetric(value: number | null, each: CompareMetric): string {
  if (each.name.endsWith("per_second")) return text(metric(value, "/s"));
  if (each.name === "cpu_cores_used") return value === null ? NONE : digits(value);
  return text(inUnit(value, unitOfName(each.name)));
}

const NAMES: Record<string, string> = {
  p99_9_ms: "p99.9",
  session_first_ms: "Session creation, first",
  requests_per_second: "Throughput",
};

export function nameOfMetric(name: string): string {
  return NAMES[name] ?? words(name.replace(/_(ms|bytes)$/, ""));
}

/** Whether the difference is larger than both recordings' own intervals allow. Never a verdict: runs differ too. */
export function reach(each: CompareMetric): "beyond" | "within" | "open" | "unknown" {
  if (each.ratio === null || each.a === null || each.b === null) return "unknown";
  const [a, b] = [each.a_interval, each.b_interval];
  if (!a || !b || a[0] === null || b[0] === null) return "open";
  const overlap = (a[1] === null || b[0] <= a[1]) && (b[1] === null || a[0] <= b[1]);
  return overlap ? "within" : "beyond";
}

/** The difference in neutral words: its direction, and whether the recordings alone vary as much. */
export function inWords(each: CompareMetric): string {
  const known = reach(each);
  if (known === "unknown") return NONE;
  if (each.ratio === 0) return "equal";
  const more = each.ratio! > 0;
  const direction = each.name.endsWith("_ms") && each.name !== "jitter_ms"
    ? more
      ? "slower"
      : "faster"
    : each.name.endsWith("per_second")
      ? more
        ? "faster"
        : "slower"
      : more
        ? "higher"
        : "lower";
  if (known === "open") return direction;
  return `${direction}, ${known === "within" ? "within" : "beyond"} the variation of both`;
}

/** The comparison for a ticket or a review. */
export function markdown(compare: Compare): string {
  const cell = (value: string) => value.replaceAll("|", "\\|").replaceAll("\u202f", " ").replaceAll("\n", " ");
  const lines = [
    `# ${cell(compare.a.title)} (A) against ${cell(compare.b.title)} (B)`,
    "",
    compare.comparable_note,
    "",
  ];
  for (const session of compare.sessions) {
    lines.push(`## ${cell(session.title)}`, "", "| figure | A | B | change | |", "|---|---:|---:|---:|---|");
    for (const each of session.metrics)
      lines.push(
        `| ${each.name} | ${cell(inMetric(each.a, each))} | ${cell(inMetric(each.b, each))} | ${cell(change(each.ratio))} | ${inWords(each)} |`,
      );
    lines.push("");
  }
  if (compare.operators.length > 0) {
    lines.push("## Operators, mean self time per run", "", "| type | A | B | difference |", "|---|---:|---:|---:|");
    for (const row of compare.operators.slice(0, 20))
      lines.push(
        `| ${cell(row.op_type)} | ${cell(text(duration(row.ms_per_run_a)))} | ${cell(text(duration(row.ms_per_run_b)))} | ${cell(text(duration(row.difference_ms)))} |`,
      );
  }
  lines.push(
    "",
    `One recording each shows differences, not a verdict. \`ortscope compare ${compare.a.id} ${compare.b.id}\` gives one.`,
    "",
  );
  return lines.join("\n");
}
