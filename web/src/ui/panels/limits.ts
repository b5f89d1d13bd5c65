/**
 * Why operators take their time: what bounds them, what the graph allows, what the optimiser did. From the profiling pass
 * of `ortscope run`; parts that a recording does not have are left out.
 */

import type { SessionOperators } from "../../api/types";
import { bytes, count, digits, duration, metric, share, text } from "../../logic/format";
import { card, fact, type Card } from "../card";
import { fill, h } from "../dom";
import { key } from "./latency";

type Loose = Record<string, unknown>;

function object(value: unknown): Loose | null {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Loose) : null;
}

function number(of: Loose | null, name: string): number | null {
  const value = of?.[name];
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}

function list(of: Loose | null, name: string): Loose[] {
  const value = of?.[name];
  return Array.isArray(value) ? value.map(object).filter((each) => each !== null) : [];
}

function words(of: Loose | null, name: string): string {
  const value = of?.[name];
  return typeof value === "string" ? value : "";
}

/** What bounds each node: compute, memory or overhead, and which part of the roof it reaches. */
export function boundsByNode(insight: Loose | null): Map<string, { bound: string; roof: number | null }> {
  return new Map(
    list(insight, "by_node")
      .filter((node) => words(node, "bound"))
      .map((node) => [words(node, "name"), { bound: words(node, "bound"), roof: number(node, "roof_fraction") }]),
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
    hint: "too small to matter each; faster with fusion or larger batches",
    colour: "#c9669b",
  },
  { name: "without_numbers", label: "Not known", hint: "operators whose work is not counted", colour: "#5f7f95" },
] as const;

const NO_OPERATOR = "#7d8794";

export function limitsPanel(): LimitsPanel {
  const panel = card("What limits it", { id: "limits" });
  const show = (session: SessionOperators | null) => {
    const insight = session?.insight ?? null;
    panel.element.hidden = insight === null;
    if (!insight || !session) return;
    panel.covers(
      `${session.title} · profiling pass of ${count(session.runs)} runs · estimated from shapes and a measured peak`,
    );
    const [flops, roof, path, peak] = [
      object(insight["flops"]),
      object(insight["roofline"]),
      object(insight["critical_path"]),
      object(insight["peak"]),
    ];
    const [fusion, changes, memory] = [
      object(insight["fusion"]),
      object(insight["transitions"]),
      object(object(insight["memory"])?.["last_run"]),
    ];
    const rest = 1 - BOUNDS.reduce((sum, each) => sum + (number(roof, each.name) ?? 0), 0);
    const stack = h("div", {
      class: "stack",
      role: "img",
      "aria-label": BOUNDS.map((each) => `${each.label} ${text(share(number(roof, each.name)))}`).join(", "),
    });
    if (roof) {
      for (const each of BOUNDS) {
        const part = number(roof, each.name) ?? 0;
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
      number(flops, "flops_per_run")
        ? fact("Work per run", text(metric(number(flops, "flops_per_run"), "FLOP")))
        : null,
      number(flops, "flops_per_second") !== null
        ? fact(
            "Speed",
            `${text(metric(number(flops, "flops_per_second"), "FLOP/s"))}${number(flops, "share_of_peak") === null ? "" : `, ${text(share(number(flops, "share_of_peak")))} of the peak`}`,
          )
        : null,
      peak
        ? fact(
            "Peak of this machine",
            `${text(metric(number(peak, "flops_per_second"), "FLOP/s"))}, ${text(bytes(number(peak, "bytes_per_second")))}/s`,
          )
        : null,
      number(flops, "bytes_moved_per_run")
        ? fact("Data moved per run", text(bytes(number(flops, "bytes_moved_per_run"))))
        : null,
      path
        ? fact(
            "Longest chain",
            `${text(duration(number(path, "length_ms")))} of ${text(duration(number(path, "work_ms")))}, ${count(number(path, "nodes"))} nodes`,
          )
        : null,
      path ? fact("Possible parallelism", digits(number(path, "possible_parallelism") ?? NaN, 2)) : null,
      fusion
        ? fact(
            "Nodes, optimised",
            `${count(number(fusion, "before"))} → ${count(number(fusion, "after"))}`,
          )
        : null,
      number(changes, "per_run") ? fact("Changes of provider per run", count(number(changes, "per_run"))) : null,
      memory ? fact("Activations at most", text(bytes(number(memory, "peak_in_use_bytes")))) : null,
    ];
    const missed = list(fusion, "missed");
    fill(
      panel.body,
      roof ? stack : null,
      roof
        ? h(
            "div",
            { class: "legend wrap" },
            ...BOUNDS.filter((each) => (number(roof, each.name) ?? 0) >= 0.002).map((each) =>
              h(
                "span",
                { title: each.hint },
                key(each.colour, `${each.label} ${text(share(number(roof, each.name)))}`),
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
              .map((each) => words(each, "pattern"))
              .join(", ")}${missed.length > 4 ? ` and ${missed.length - 4} more` : ""}.`,
          )
        : null,
      ...(Array.isArray(insight["notes"]) ? insight["notes"] : [])
        .filter((note) => typeof note === "string")
        .slice(0, 4)
        .map((note) => h("p", { class: "note" }, String(note))),
    );
  };
  show(null);
  return { card: panel, show };
}
