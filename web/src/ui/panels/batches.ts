/** Latency, throughput and memory against the batch size. */

import { get } from "../../api/client";
import type { Batches } from "../../api/types";
import { currentTheme, Surface } from "../../draw/surface";
import { bytes, count, digits, duration, metric, share, text, words } from "../../logic/format";
import { lineColour } from "../../logic/palette";
import { linear, niceTop, ticks } from "../../logic/scale";
import type { App } from "../app";
import { card, loader, rangeText, type Card } from "../card";
import { h, type Scope } from "../dom";
import { Table } from "../table";
import { key } from "./latency";

type Row = Batches["rows"][number];

export function batchPanel(scope: Scope, app: App): Card {
  const panel = card("Batches", { id: "batches" });
  let rows: Row[] = [];
  const chart = (
    label: string,
    value: (row: Row) => number | null,
    format: (value: number) => string,
    colour: string,
  ) => {
    const surface = new Surface(`${label} by batch size`, (context, width, height) =>
      drawBars(context, width, height, rows, value, format, colour),
    );
    scope.add(() => surface.dispose());
    app.on(scope, "theme", () => surface.request());
    return {
      surface,
      element: h(
        "figure",
        { class: "figure" },
        h("figcaption", {}, key(colour, label)),
        h("div", { class: "chart short" }, surface.canvas),
      ),
    };
  };
  const charts = [
    chart(
      "Latency p50",
      (row) => row.latency_p50_ms,
      (value) => text(duration(value)),
      lineColour(0),
    ),
    chart(
      "Samples per second",
      (row) => row.samples_per_second ?? row.requests_per_second,
      (value) => text(metric(value, "/s")),
      lineColour(2),
    ),
    chart(
      "Peak memory",
      (row) => row.peak_memory_bytes,
      (value) => text(bytes(value)),
      lineColour(1),
    ),
  ];
  const table = new Table<Row>(
    "Batches",
    [
      { title: "Model", class: "name-column", sort: (row) => row.title, cell: (row) => row.title },
      { title: "Batch", number: true, sort: (row) => row.batch_size, cell: (row) => count(row.batch_size) },
      { title: "Inferences", number: true, sort: (row) => row.inferences, cell: (row) => count(row.inferences) },
      {
        title: "p50",
        number: true,
        sort: (row) => row.latency_p50_ms,
        cell: (row) => text(duration(row.latency_p50_ms)),
      },
      {
        title: "p99",
        number: true,
        sort: (row) => row.latency_p99_ms,
        cell: (row) => text(duration(row.latency_p99_ms)),
      },
      {
        title: "Requests",
        number: true,
        sort: (row) => row.requests_per_second,
        cell: (row) => text(metric(row.requests_per_second, "/s")),
      },
      {
        title: "Samples",
        number: true,
        sort: (row) => row.samples_per_second,
        cell: (row) => text(metric(row.samples_per_second, "/s")),
      },
      { title: "Per sample", number: true, sort: perSample, cell: (row) => text(duration(perSample(row))) },
      {
        title: "Peak memory",
        number: true,
        sort: (row) => row.peak_memory_bytes,
        cell: (row) => text(bytes(row.peak_memory_bytes)),
      },
      {
        title: "Padding",
        number: true,
        hint: "padded share of the input",
        sort: (row) => row.padding_ratio,
        cell: (row) => text(share(row.padding_ratio)),
      },
      {
        title: "Queue mean · max",
        number: true,
        cell: (row) =>
          row.queue_depth_mean === null ? "–" : `${digits(row.queue_depth_mean, 2)} · ${count(row.queue_depth_max)}`,
      },
    ],
    { sort: 1, ascending: true },
  );
  const figures = h("div", { class: "figures" }, ...charts.map((each) => each.element));
  const notes = h("div");
  panel.body.append(figures, table.element, notes);
  loader<Batches>(scope, app, {
    on: ["numbers", "source"],
    every: 5,
    card: panel,
    fetch: (signal) => {
      const { session: _, ...query } = app.query();
      return get("/batches", query, signal);
    },
    show: (data) => {
      panel.covers(rangeText(app, data.from_ms, data.to_ms));
      rows = data.rows;
      if (rows.length === 0) {
        panel.say(
          "No inference in this range.",
          h("p", {}, "Compare batch sizes with: ortscope run MODEL --batch 1,2,4,8"),
        );
        return;
      }
      figures.hidden = rows.filter((row) => row.batch_size !== null).length < 2;
      table.set(rows);
      notes.replaceChildren(
        ...(figures.hidden
          ? [h("p", { class: "note" }, "Only one batch size was used. Compare several with: ortscope run MODEL --batch 1,2,4,8")]
          : []),
        ...Object.entries(data.unavailable).map(([name, why]) =>
          h("p", { class: "note" }, `${words(name)}: ${why}`),
        ),
      );
      for (const each of charts) each.surface.request();
    },
  });
  return panel;
}

function perSample(row: Row): number | null {
  return row.latency_p50_ms !== null && row.batch_size ? row.latency_p50_ms / row.batch_size : null;
}

function drawBars(
  context: CanvasRenderingContext2D,
  width: number,
  height: number,
  rows: readonly Row[],
  value: (row: Row) => number | null,
  format: (value: number) => string,
  colour: string,
): void {
  const theme = currentTheme();
  const shown = rows
    .filter((row) => row.batch_size !== null && value(row) !== null)
    .sort((a, b) => a.batch_size! - b.batch_size!)
    .slice(0, 24);
  if (shown.length === 0) return;
  const [left, right, top, bottom] = [58, width - 8, 10, height - 20];
  const peak = niceTop(Math.max(...shown.map((row) => value(row)!)), 3);
  const y = linear(0, peak, bottom, top);
  context.textBaseline = "middle";
  context.textAlign = "right";
  for (const tick of ticks(0, peak, 3)) {
    context.fillStyle = theme.grid;
    context.fillRect(left, Math.round(y(tick)), right - left, 1);
    context.fillStyle = theme.faint;
    context.fillText(format(tick), left - 6, y(tick));
  }
  const step = (right - left) / shown.length;
  context.textAlign = "center";
  context.textBaseline = "top";
  shown.forEach((row, index) => {
    const x = left + step * index;
    context.fillStyle = colour;
    context.fillRect(x + step * 0.18, y(value(row)!), step * 0.64, bottom - y(value(row)!));
    context.fillStyle = theme.faint;
    context.fillText(String(row.batch_size), x + step / 2, bottom + 4);
  });
}
