/**
 * The limits of operators, the possible parallelism of the graph and the effect of the optimizer. From the profiling pass
 * of `ortscope run`; missing parts are left out.
 */

import type { OperatorSection, SessionOperators } from "../../api/types";
import { bytes, count, digits, duration, metric, share, text } from "../../logic/format";
import { card, fact, type Card } from "../card";
import { fill, h } from "../dom";
import { key } from "./latency";

/** The limit of each node (compute, memory or overhead) and the share of the roofline that it reaches. */
export function boundsByNode(
  insight: OperatorSection | null,
): Map<string, { bound: string; roof: number | null }> {
  return new Map(
    (insight?.by_node ?? []).flatMap((node) =>
      node.bound ? [[node.name, { bound: node.bound, roof: node.roof_fraction }]] : [],
    ),
  );
}

export interface LimitsPanel {
  card: Card;
  show(session: SessionOperators | null): void;
}

const BOUNDS = [
  {
    name: "compute_bound",
    label: "Arithmetic",
    hint: "faster only with fewer or cheaper operations",
    colour: "#3b8fd6",
  },
  {
    name: "memory_bound",
    label: "Memory",
    hint: "faster with smaller types or fewer passes over the data",
    colour: "#e69f00",
  },
  {
    name: "overhead_bound",
    label: "Overhead",
    hint: "many small operators; faster with fusion or larger batches",
    colour: "#c9669b",
  },
  { name: "without_numbers", label: "Unknown", hint: "operators without known work", colour: "#5f7f95" },
] as const;

const NO_OPERATOR = "#7d8794";

export function limitsPanel(): LimitsPanel {
  const panel = card("Limits", { id: "limits" });
  const show = (session: SessionOperators | null) => {
    const insight = session?.insight ?? null;
    panel.element.hidden = insight === null;
    if (!insight || !session) return;
    panel.covers(
      `${session.title} · ${count(session.runs)} profiled runs · estimated from shapes and a measured peak`,
    );
    const { flops, roofline: roof, critical_path: path, peak, fusion, transitions: changes } = insight;
    const memory = insight.memory?.last_run ?? null;
    const rest = 1 - BOUNDS.reduce((sum, each) => sum + (roof?.[each.name] ?? 0), 0);
    const stack = h("div", {
      class: "stack",
      role: "img",
      "aria-label": BOUNDS.map((each) => `${each.label} ${text(share(roof?.[each.name] ?? null))}`).join(", "),
    });
    if (roof) {
      for (const each of BOUNDS) {
        const part = roof[each.name];
        if (part < 0.002) continue;
        const segment = h(
          "span",
          { class: "stack-part", title: `${each.label}: ${each.hint}` },
          part > 0.08 ? each.label : null,
        );
        segment.style.flexGrow = String(part);
        segment.style.backgroundColor = each.colour;
        stack.append(segment);
      }
      if (rest > 0.002) {
        const segment = h("span", { class: "stack-part", title: "time between operators" });
        segment.style.flexGrow = String(rest);
        segment.style.backgroundColor = NO_OPERATOR;
        stack.append(segment);
      }
    }
    const facts = [
      flops.flops_per_run
        ? fact("Work per run", text(metric(flops.flops_per_run, "FLOP")))
        : null,
      flops.flops_per_second !== null
        ? fact(
            "Speed",
            `${text(metric(flops.flops_per_second, "FLOP/s"))}${flops.share_of_peak === null ? "" : `, ${text(share(flops.share_of_peak))} of the peak`}`,
          )
        : null,
      peak
        ? fact(
            "Machine peak",
            `${text(metric(peak.flops_per_second, "FLOP/s"))}, ${text(bytes(peak.bytes_per_second))}/s`,
          )
        : null,
      flops.bytes_moved_per_run
        ? fact("Data moved per run", text(bytes(flops.bytes_moved_per_run)))
        : null,
      path
        ? fact(
            "Critical path",
            `${text(duration(path.length_ms))} of ${text(duration(path.work_ms))}, ${count(path.nodes)} nodes`,
          )
        : null,
      path ? fact("Possible parallelism", digits(path.possible_parallelism, 2)) : null,
      fusion
        ? fact(
            "Nodes, optimized",
            `${count(fusion.before)} → ${count(fusion.after)}`,
          )
        : null,
      changes.per_run ? fact("Provider changes per run", count(changes.per_run)) : null,
      memory ? fact("Peak activations", text(bytes(memory.peak_in_use_bytes))) : null,
    ];
    const missed = fusion?.missed ?? [];
    fill(
      panel.body,
      roof ? stack : null,
      roof
        ? h(
            "div",
            { class: "legend wrap" },
            ...BOUNDS.filter((each) => (roof?.[each.name] ?? 0) >= 0.002).map((each) =>
              h(
                "span",
                { title: each.hint },
                key(each.colour, `${each.label} ${text(share(roof?.[each.name] ?? null))}`),
              ),
            ),
            rest > 0.002 ? key(NO_OPERATOR, `No operator ${text(share(rest))}`) : null,
          )
        : null,
      h("dl", { class: "facts" }, ...facts),
      missed.length > 0
        ? h(
            "p",
            { class: "note" },
            `Fusions that did not happen: ${missed
              .slice(0, 4)
              .map((each) => each.pattern)
              .join(", ")}${missed.length > 4 ? ` and ${missed.length - 4} more` : ""}.`,
          )
        : null,
      ...insight.notes.slice(0, 4).map((note) => h("p", { class: "note" }, note)),
    );
  };
  show(null);
  return { card: panel, show };
}
