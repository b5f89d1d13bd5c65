/** Programs on the machine while it was watched. */

import { get } from "../../api/client";
import type { ProcessFigures, Processes } from "../../api/types";
import { bytes, count, metric, percent, text } from "../../logic/format";
import type { App } from "../app";
import { card, loader, rangeText, type Card } from "../card";
import { bar, h, type Scope } from "../dom";
import { Table } from "../table";

export function processPanel(scope: Scope, app: App): Card {
  const panel = card("Processes", { id: "processes" });
  const perSecond = (value: number | null) => text(metric(value, "/s"));
  const table = new Table<ProcessFigures>(
    "Processes",
    [
      {
        title: "Name",
        class: "name-column",
        sort: (row) => row.name,
        cell: (row) =>
          h(
            "span",
            { title: row.command_line ?? "the command line was not recorded" },
            row.name,
            row.observed ? h("span", { class: "tag" }, "ONNX Runtime") : null,
          ),
      },
      { title: "PID", number: true, sort: (row) => row.pid, cell: (row) => String(row.pid) },
      {
        title: "CPU",
        number: true,
        class: "share-column",
        hint: "100 % is one core",
        sort: (row) => row.cpu_percent,
        cell: (row) =>
          h(
            "span",
            { class: "share-cell" },
            bar((row.cpu_percent ?? 0) / 100),
            h("span", {}, text(percent(row.cpu_percent))),
          ),
      },
      {
        title: "Memory",
        number: true,
        hint: "resident",
        sort: (row) => row.working_set_bytes,
        cell: (row) => text(bytes(row.working_set_bytes)),
      },
      {
        title: "Peak",
        number: true,
        sort: (row) => row.peak_working_set_bytes,
        cell: (row) => text(bytes(row.peak_working_set_bytes)),
      },
      {
        title: "Private",
        number: true,
        sort: (row) => row.private_bytes,
        cell: (row) => text(bytes(row.private_bytes)),
      },
      { title: "Threads", number: true, sort: (row) => row.thread_count, cell: (row) => count(row.thread_count) },
      { title: "Handles", number: true, sort: (row) => row.handle_count, cell: (row) => count(row.handle_count) },
      {
        title: "Read",
        number: true,
        sort: (row) => row.read_bytes_per_second,
        cell: (row) => `${text(bytes(row.read_bytes_per_second))}${row.read_bytes_per_second === null ? "" : "/s"}`,
      },
      {
        title: "Written",
        number: true,
        sort: (row) => row.write_bytes_per_second,
        cell: (row) => `${text(bytes(row.write_bytes_per_second))}${row.write_bytes_per_second === null ? "" : "/s"}`,
      },
      {
        title: "Switches",
        number: true,
        hint: "context switches",
        sort: (row) => row.context_switches_per_second,
        cell: (row) => perSecond(row.context_switches_per_second),
      },
      {
        title: "Faults",
        number: true,
        hint: "page faults",
        sort: (row) => row.page_faults_per_second,
        cell: (row) => perSecond(row.page_faults_per_second),
      },
      { title: "Ended", cell: (row) => (row.ended_ms === null ? "" : `exit ${row.exit_code ?? "?"}`) },
    ],
    { sort: 2, limit: 300 },
  );
  const search = h("input", {
    type: "search",
    placeholder: "Name or PID",
    "aria-label": "Find a process",
    class: "input small",
  });
  panel.tools.append(search);
  panel.body.append(table.element);
  let all: ProcessFigures[] = [];
  const show = () => {
    const wanted = search.value.trim().toLowerCase();
    table.set(
      wanted ? all.filter((row) => row.name.toLowerCase().includes(wanted) || String(row.pid) === wanted) : all,
    );
  };
  search.addEventListener("input", show);
  loader<Processes>(scope, app, {
    on: ["numbers", "source"],
    every: 2,
    card: panel,
    fetch: (signal) => {
      const { session: _, ...query } = app.query();
      return get("/processes", { ...query, limit: 1000 }, signal);
    },
    show: (data) => {
      const there = data.processes.length + data.not_listed;
      panel.covers(
        `${app.live && app.time.following ? "now" : rangeText(app, data.from_ms, data.to_ms)} · ${there === 1 ? "1 process" : `${count(there)} processes`}`,
      );
      if (data.processes.length === 0) {
        panel.say(
          "No process was sampled in this source.",
          h("p", {}, "ortscope attach, record and serve sample processes."),
        );
        return;
      }
      all = data.processes;
      show();
    },
  });
  return panel;
}
