/** The hardware: a bar per core, GPU, NPU and memory; use over time; memory. */

import { get } from "../../api/client";
import type { Current, DeviceValue, Memory, MetricsFrame, Unavailable } from "../../api/types";
import { bytes, inUnit, percent, share, text, unitOfName, words } from "../../logic/format";
import type { App } from "../app";
import { card, loader, rangeText, reason, type Card } from "../card";
import { fill, h, setBar, setText, type Scope } from "../dom";
import { Table } from "../table";
import { trackChart } from "./tracks";

class Bar {
  readonly element: HTMLElement;
  private readonly inner = h("span", { class: "bar-fill" });
  private readonly value = h("span", { class: "bar-value" });

  constructor(label: string, name: string) {
    this.element = h(
      "div",
      { class: "meter", "data-meter": name },
      h("span", { class: "meter-label" }, label),
      h("span", { class: "bar" }, this.inner),
      this.value,
    );
  }

  set(percentValue: number, shown: string): void {
    setBar(this.inner, percentValue / 100);
    this.inner.classList.toggle("hot", percentValue > 90);
    this.element.dataset["value"] = String(percentValue);
    setText(this.value, shown);
  }
}

interface Now {
  system: Current["system"];
  cores: Current["cores"];
  memory: Current["memory"];
  devices: DeviceValue[];
  unavailable: Unavailable;
}

function fromFrame(frame: MetricsFrame): Now | null {
  if (!frame.system) return null;
  return {
    ...frame.system,
    devices: frame.devices?.devices ?? [],
    unavailable: frame.system.system?.unavailable ?? {},
  };
}

/** A bar per thing; what has no value says why. */
export function resourceBars(scope: Scope, app: App, span = 4): Card {
  const panel = card("Resources", { id: "resources", span });
  const bars = new Map<string, Bar>();
  const host = h("div", { class: "meters" });
  const cores = h("div", { class: "cores" });
  const missing = h("div", { class: "missing-list" });
  let shownMissing = "";
  panel.body.append(host, cores, missing);

  const bar = (parent: HTMLElement, name: string, label: string): Bar => {
    let existing = bars.get(name);
    if (!existing) {
      existing = new Bar(label, name);
      bars.set(name, existing);
      parent.append(existing.element);
    }
    return existing;
  };
  const show = (now: Now) => {
    const { system, memory } = now;
    const absent: [string, string | undefined][] = [];
    const level = (
      name: string,
      label: string,
      value: number | null | undefined,
      why: string | undefined,
      fallback: string,
    ) => {
      if (value === null || value === undefined) absent.push([label, why ?? fallback]);
      else bar(host, name, label).set(value, text(percent(value)));
    };
    level("cpu", "CPU", system?.cpu_percent, now.unavailable["cpu_percent"], "the machine was not sampled");
    if (memory.used_bytes !== null && memory.total_bytes) {
      bar(host, "memory", "Memory").set(
        (memory.used_bytes / memory.total_bytes) * 100,
        `${text(bytes(memory.used_bytes))} of ${text(bytes(memory.total_bytes))}`,
      );
    } else
      level(
        "memory",
        "Memory",
        system?.memory_percent,
        now.unavailable["memory_percent"],
        "the machine was not sampled",
      );
    level(
      "gpu",
      "GPU",
      system?.gpu_percent,
      now.unavailable["gpu_percent"],
      "no GPU counter on this machine; ortscope doctor shows what is missing",
    );
    level(
      "npu",
      "NPU",
      system?.npu_percent,
      now.unavailable["npu_percent"],
      "no NPU counter on this machine; ortscope doctor shows what is missing",
    );
    for (const core of now.cores)
      bar(cores, `core${core.core}`, `Core ${core.core}`).set(core.busy_percent, text(percent(core.busy_percent)));
    if (now.cores.length === 0)
      absent.push(["Cores", now.unavailable["cores"] ?? "individual cores were not sampled"]);
    const said = absent.join("\n");
    if (said === shownMissing) return;
    shownMissing = said;
    fill(
      missing,
      ...absent.map(([label, why]) =>
        h(
          "div",
          { class: "missing-item" },
          h("span", { class: "meter-label" }, label),
          h("span", { class: "reason" }, why ?? ""),
        ),
      ),
    );
  };
  loader<Current>(scope, app, {
    on: ["numbers", "source"],
    card: panel,
    fetch: (signal) =>
      get(
        "/metrics/current",
        { source: app.source.id, ...(app.live && app.time.following ? {} : { at_ms: app.numbers().to }) },
        signal,
      ),
    show: (current) => {
      panel.covers(
        app.live && app.time.following
          ? "now"
          : `at ${rangeText(app, current.from_ms, current.at_ms).split(" to ").at(-1)}`,
      );
      show(current);
    },
  });
  app.on(scope, "frame", () => {
    const now = app.frame && app.time.following && !app.time.selection ? fromFrame(app.frame) : null;
    if (now) show(now);
  });
  return panel;
}

export function usageChart(scope: Scope, app: App, span = 8): Card {
  const names: Record<string, string> = {
    cpu_percent: "CPU",
    gpu_percent: "GPU",
    npu_percent: "NPU",
    memory_percent: "Memory",
  };
  return trackChart(scope, app, {
    id: "usage",
    title: "Use over time",
    span,
    unit: "percent",
    top: 100,
    empty: "The machine was not sampled in this source.",
    hint: "ortscope serve, attach and record sample it; ortscope run does not, to avoid disturbing the model.",
    tracks: (catalog) =>
      catalog.tracks.filter(
        (track) =>
          (track.track.startsWith("system/") && track.unit === "percent") ||
          /^device\/(gpu|npu)\d*\/utilization_(ratio|percent)$/.test(track.track),
      ),
    ring: (track) => (track.track.startsWith("system/") ? track.metric : null),
    label: (track) =>
      names[track.metric] ??
      (track.track.startsWith("device/") ? (track.track.split("/")[1] ?? track.metric) : words(track.metric)),
  });
}

export function coresChart(scope: Scope, app: App, span = 6): Card {
  return trackChart(scope, app, {
    id: "cores-over-time",
    title: "Cores over time",
    span,
    unit: "ratio",
    top: 1,
    empty: "Individual cores were not sampled in this source.",
    hint: "ortscope serve, attach and record sample them; ortscope run does not, to avoid disturbing the model.",
    tracks: (catalog) => catalog.tracks.filter((track) => /^device\/cpu\d+\/.*ratio$/.test(track.track)),
    label: (track) => track.track.split("/")[1]?.replace("cpu", "core ") ?? track.metric,
  });
}

/** Memory of the processes that have a session, or of the largest. */
export function memoryChart(scope: Scope, app: App, span = 6): Card {
  return trackChart(scope, app, {
    id: "memory-over-time",
    title: "Memory over time",
    span,
    unit: "bytes",
    empty: "Process memory was not sampled in this source.",
    hint: "ortscope serve, attach, record and run sample it; imported files do not have it.",
    tracks: (catalog, { source }) => {
      const pids = new Set(source.sessions.map((session) => session.pid));
      const all = catalog.tracks.filter(
        (track) => track.track.startsWith("process/") && track.metric === "working_set_bytes",
      );
      const own = all.filter((track) => pids.has(Number(/^process\/(\d+)/.exec(track.track)?.[1])));
      const device = catalog.tracks.filter(
        (track) => track.track.startsWith("device/") && track.metric.endsWith("memory_used_bytes"),
      );
      const machine = catalog.tracks.filter((track) => track.track === "system/memory_used_bytes");
      return [...(own.length > 0 ? own : machine), ...device];
    },
    label: (track) =>
      track.track.startsWith("process/")
        ? `${track.label ?? "process"} ${/^process\/(\d+)/.exec(track.track)?.[1] ?? ""}`
        : track.track.startsWith("device/")
          ? track.track.split("/")[1]!
          : "machine",
  });
}

interface MemoryRow {
  scope: string;
  metric: string;
  bytes: number;
  first: number;
  values: number;
  t_ms: number;
}

/** Arenas and allocators: the last value of each, and how it changed. */
export function arenaPanel(scope: Scope, app: App, span = 6): Card {
  const panel = card("Arena and process memory", { id: "arena", span });
  const signed = (value: number) => (value === 0 ? "0 B" : `${value > 0 ? "+" : "−"}${text(bytes(Math.abs(value)))}`);
  const table = new Table<MemoryRow>(
    "Memory by allocator",
    [
      { title: "Whose", sort: (row) => row.scope, cell: (row) => row.scope },
      { title: "What", sort: (row) => row.metric, cell: (row) => words(row.metric) },
      { title: "Last", number: true, sort: (row) => row.bytes, cell: (row) => text(bytes(row.bytes)) },
      {
        title: "Change",
        number: true,
        hint: "last value minus the first in the range",
        sort: (row) => row.bytes - row.first,
        cell: (row) => (row.values > 1 ? signed(row.bytes - row.first) : "–"),
      },
    ],
    { sort: 2, limit: 60 },
  );
  panel.body.append(table.element);
  loader<Memory>(scope, app, {
    on: ["numbers", "session", "source"],
    every: 5,
    card: panel,
    fetch: (signal) => get("/memory", app.query(), signal),
    show: (memory) => {
      panel.covers(rangeText(app, memory.from_ms, memory.to_ms));
      const rows = new Map<string, MemoryRow>();
      for (const row of memory.rows) {
        if (app.session && row.session_id && row.session_id !== app.session) continue;
        const name = `${row.session_id}/${row.scope}/${row.metric}`;
        const known = rows.get(name);
        rows.set(name, {
          scope: row.scope,
          metric: row.metric,
          bytes: row.bytes,
          first: known?.first ?? row.bytes,
          values: (known?.values ?? 0) + 1,
          t_ms: row.t_ms,
        });
      }
      if (rows.size === 0) {
        panel.say(
          "No allocator statistics in this range.",
          reason(Object.values(memory.unavailable)[0], "ortscope run reads them from ONNX Runtime 1.23 and newer."),
        );
        return;
      }
      table.set([...rows.values()]);
    },
  });
  return panel;
}

/** Sensors as they are: every device, every reading, where it comes from. */
export function sensorsPanel(scope: Scope, app: App, span = 6): Card {
  const panel = card("Sensors", { id: "sensors", span });
  const table = new Table<DeviceValue>(
    "Sensors",
    [
      { title: "Device", sort: (row) => row.device, cell: (row) => row.device },
      {
        title: "Reading",
        sort: (row) => row.metric,
        cell: (row) => words(row.metric.replace(/_(watts|celsius|ratio|percent|bytes|hertz|joules)$/, "")),
      },
      { title: "Value", number: true, cell: (row) => text(inUnit(row.value, unitOfName(row.metric))) },
      { title: "Source", cell: (row) => `${row.origin}, ${row.method}` },
    ],
    { limit: 200, sort: 0, ascending: true },
  );
  panel.body.append(table.element);
  loader<Current>(scope, app, {
    on: ["numbers", "source"],
    every: 2,
    card: panel,
    fetch: (signal) =>
      get(
        "/metrics/current",
        { source: app.source.id, ...(app.live && app.time.following ? {} : { at_ms: app.numbers().to }) },
        signal,
      ),
    show: (current) => {
      if (current.devices.length === 0) {
        panel.say(
          "No device sensor was read.",
          reason(
            current.unavailable["devices"],
            "ortscope doctor lists the sensors of this machine and their requirements.",
          ),
        );
        return;
      }
      panel.covers("newest readings");
      table.set(current.devices);
    },
  });
  return panel;
}

/** What the processors report of an inference: caches, occupancy, tensor cores. */
export function hardwarePanel(scope: Scope, app: App, span = 6): Card {
  const panel = card("Caches and units", { id: "hardware", span });
  loader<Current>(scope, app, {
    on: ["numbers", "session", "source"],
    every: 5,
    card: panel,
    fetch: (signal) =>
      get(
        "/metrics/current",
        { source: app.source.id, ...(app.live && app.time.following ? {} : { at_ms: app.numbers().to }) },
        signal,
      ),
    show: (current) => {
      const session =
        current.sessions.find((each) => each.session_id === app.session) ??
        current.sessions.find((each) => each.newest);
      const newest = session?.newest;
      if (!newest) {
        panel.say("No inference yet.", h("p", {}, "Hit rates and occupancy are measured per inference."));
        return;
      }
      panel.covers(`newest inference of ${session.title}`);
      const { hardware, batch_context: batch } = newest;
      const row = (label: string, name: string, value: number | null, shown: string) =>
        h(
          "div",
          { class: "missing-item", "data-hardware": name, "data-value": value ?? "" },
          h("span", { class: "meter-label" }, label),
          value === null
            ? h(
                "span",
                { class: "reason" },
                newest.unavailable[name] ?? newest.unavailable[name.replace(/\.[^.]*$/, "")] ?? "not reported",
              )
            : h("span", {}, shown),
        );
      const ratio = (label: string, name: string, value: number | null) => row(label, name, value, text(share(value)));
      fill(
        panel.body,
        h(
          "div",
          { class: "wide-labels" },
          ratio("L1 cache hits", "hardware.cache_hit_rates.l1", hardware.cache_hit_rates.l1),
          ratio("L2 cache hits", "hardware.cache_hit_rates.l2", hardware.cache_hit_rates.l2),
          ratio("L3 cache hits", "hardware.cache_hit_rates.l3", hardware.cache_hit_rates.l3),
          ratio("GPU occupancy", "hardware.gpu_sm_occupancy", hardware.gpu_sm_occupancy),
          ratio("Tensor cores", "hardware.tensor_core_usage", hardware.tensor_core_usage),
          row("Batch size", "batch_context.batch_size", batch.batch_size, String(batch.batch_size)),
          ratio("Padding", "batch_context.padding_ratio", batch.padding_ratio),
          row("Queue depth", "batch_context.queue_depth", batch.queue_depth, String(batch.queue_depth)),
        ),
      );
    },
  });
  return panel;
}
