/** All sessions side by side: which one is slow, which one is held back. */

import { get } from "../../api/client";
import type { Current, SessionNow } from "../../api/types";
import { count, duration, metric, provider, text } from "../../logic/format";
import { againstOthers } from "../../logic/sessions";
import type { App } from "../app";
import { card, loader, type Card } from "../card";
import { h, type Scope } from "../dom";
import { Table } from "../table";

/** So much slower than the others of its model is no accident. */
const HELD_BACK = 2;

export function sessionsPanel(scope: Scope, app: App): Card {
  const panel = card("Sessions", { id: "sessions" });
  let worst: string | null = null;
  let against = new Map<string, number>();
  const ms = (value: number | null) => text(duration(value));
  const table = new Table<SessionNow>(
    "Sessions",
    [
      { title: "Model", class: "name-column", sort: (row) => row.title, cell: (row) => row.title },
      { title: "Session", cell: (row) => h("code", {}, row.session_id.slice(0, 8)) },
      {
        title: "Process",
        number: true,
        sort: (row) => row.pid,
        cell: (row) => (row.pid === null ? "–" : String(row.pid)),
      },
      { title: "Providers", cell: (row) => row.execution_providers.map(provider).join(", ") || "–" },
      { title: "Inferences", number: true, sort: (row) => row.inferences, cell: (row) => count(row.inferences) },
      { title: "Failed", number: true, sort: (row) => row.failures, cell: (row) => count(row.failures) },
      {
        title: "Rate",
        number: true,
        sort: (row) => row.requests_per_second,
        cell: (row) => text(metric(row.requests_per_second, "/s")),
      },
      { title: "p50", number: true, sort: (row) => row.latency_ms.p50, cell: (row) => ms(row.latency_ms.p50) },
      { title: "p99", number: true, sort: (row) => row.latency_ms.p99, cell: (row) => ms(row.latency_ms.p99) },
      {
        title: "p99 / p50",
        number: true,
        hint: "p99 divided by p50",
        sort: ratio,
        cell: (row) => {
          const value = ratio(row);
          return value === null
            ? "–"
            : h("span", { class: row.session_id === worst && value > 2 ? "flag" : "" }, `${value.toFixed(1)}×`);
        },
      },
      {
        title: "Others",
        number: true,
        hint: "median relative to the other sessions of the same model: far above 1, something other than the model slows it down",
        sort: (row) => against.get(row.session_id) ?? null,
        cell: (row) => {
          const value = against.get(row.session_id);
          return value === undefined
            ? "–"
            : h("span", { class: value > HELD_BACK ? "flag" : "" }, `${value.toFixed(1)}×`);
        },
      },
      { title: "Jitter", number: true, sort: (row) => row.jitter_ms, cell: (row) => ms(row.jitter_ms) },
      { title: "Queue", number: true, sort: (row) => row.queue_depth, cell: (row) => count(row.queue_depth) },
    ],
    {
      sort: 4,
      limit: 100,
      open: (row) => app.setSession(app.session === row.session_id ? null : row.session_id),
      selected: (row) => row.session_id === app.session,
    },
  );
  panel.body.append(table.element);
  const show = (sessions: readonly SessionNow[]) => {
    panel.element.hidden = sessions.length < 2;
    const ranked = sessions
      .filter((session) => session.latency_ms.p50 !== null)
      .sort((a, b) => (ratio(b) ?? 0) - (ratio(a) ?? 0));
    worst = ranked[0]?.session_id ?? null;
    against = againstOthers(sessions);
    panel.covers(
      sessions[0]
        ? `${count(sessions.length)} sessions · ${app.live ? `last ${Math.round(sessions[0].window_seconds)} s` : "whole recording"} · click a session to select it`
        : "",
    );
    table.set(sessions);
  };
  loader<Current>(scope, app, {
    on: ["numbers", "session", "source"],
    card: panel,
    fetch: (signal) => get("/metrics/current", { source: app.source.id }, signal),
    show: (current) => show(current.sessions),
  });
  let last = 0;
  app.on(scope, "frame", () => {
    // Twice a second is as often as anybody reads a table.
    if (!app.frame?.sessions || !app.time.following || performance.now() - last < 500) return;
    last = performance.now();
    show(app.frame.sessions);
  });
  return panel;
}

function ratio(row: SessionNow): number | null {
  const { p50, p99 } = row.latency_ms;
  return p50 !== null && p99 !== null && p50 > 0 ? p99 / p50 : null;
}
