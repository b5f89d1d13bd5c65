/** What it costs: power, joules per inference, heat and throttling. */

import { get } from "../../api/client";
import type { Energy } from "../../api/types";
import { count, duration, inUnit, metric, text, type Quantity } from "../../logic/format";
import type { App } from "../app";
import { card, fact, loader, rangeText, reason, type Card } from "../card";
import { fill, h, quantity, type Scope } from "../dom";
import { trackChart } from "./tracks";

export function energyPanel(scope: Scope, app: App, span = 12): Card {
  const panel = card("Energy", { id: "energy", span });
  loader<Energy>(scope, app, {
    on: ["numbers", "source"],
    every: 3,
    card: panel,
    fetch: (signal) => get("/energy", app.query(), signal),
    show: (energy) => {
      panel.covers(rangeText(app, energy.from_ms, energy.to_ms));
      const why = (name: string) =>
        energy.unavailable[name] ??
        energy.unavailable["power_w"] ??
        energy.unavailable["energy.power_w"] ??
        Object.values(energy.unavailable)[0];
      const tile = (label: string, name: string, value: Quantity, raw: number | null) =>
        h(
          "div",
          { class: `gauge${raw === null ? " missing" : ""}`, "data-metric": name, "data-value": raw ?? "" },
          h("div", { class: "gauge-label" }, label),
          h("div", { class: "gauge-value" }, quantity(value)),
          raw === null ? reason(why(name), "not reported") : null,
        );
      const power = energy.power_w;
      const all = [
        power?.mean ?? null,
        energy.joules_per_inference,
        energy.inferences_per_watt,
        energy.flops_per_watt,
        energy.carbon_grams,
      ];
      if (all.every((value) => value === null) && energy.temperatures.length === 0) {
        panel.say(
          "Energy is not measured on this machine.",
          reason(why("power_w"), "No power meter was found. ortscope doctor lists the supported meters and their requirements."),
        );
        return;
      }
      fill(
        panel.body,
        h(
          "div",
          { class: "gauges" },
          tile("Power, mean", "power_w", metric(power?.mean, "W"), power?.mean ?? null),
          tile(
            "Per inference",
            "joules_per_inference",
            metric(energy.joules_per_inference, "J"),
            energy.joules_per_inference,
          ),
          tile(
            "Inferences per watt",
            "inferences_per_watt",
            metric(energy.inferences_per_watt, ""),
            energy.inferences_per_watt,
          ),
          tile("FLOP/s per watt", "flops_per_watt", metric(energy.flops_per_watt, ""), energy.flops_per_watt),
          tile("Carbon", "carbon_grams", metric(energy.carbon_grams, "g"), energy.carbon_grams),
        ),
        h(
          "dl",
          { class: "facts" },
          power ? fact("Peak power", text(metric(power.max, "W"))) : null,
          energy.joules !== null ? fact("Energy in range", text(metric(energy.joules, "J"))) : null,
          ...energy.temperatures.map((each) =>
            fact(
              each.device,
              `${text(inUnit(each.last_celsius, "celsius"))}, max ${text(inUnit(each.max_celsius, "celsius"))}`,
            ),
          ),
          fact(
            "Throttling",
            energy.throttling
              ? `${count(energy.throttling.events)} times, ${text(duration(energy.throttling.total_ms))}`
              : (energy.unavailable["throttling"] ?? "not reported"),
          ),
        ),
      );
    },
  });
  return panel;
}

export function powerChart(scope: Scope, app: App, span = 12): Card {
  return trackChart(scope, app, {
    id: "power",
    title: "Power over time",
    span,
    unit: "watts",
    empty: "No power was measured.",
    hint: "Power comes from RAPL, EMI or the driver of a GPU; ortscope doctor shows what is missing.",
    tracks: (catalog) => catalog.tracks.filter((track) => /watts$/.test(track.metric)),
    label: (track) => track.track.split("/")[1] ?? track.metric,
  });
}

export function heatChart(scope: Scope, app: App, span = 12): Card {
  return trackChart(scope, app, {
    id: "heat",
    title: "Temperature over time",
    span,
    unit: "celsius",
    empty: "No temperature was measured.",
    hint: "ortscope doctor lists the sensors of this machine.",
    tracks: (catalog) => catalog.tracks.filter((track) => /celsius$/.test(track.metric)),
    label: (track) => track.track.split("/")[1] ?? track.metric,
  });
}
