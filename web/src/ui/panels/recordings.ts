/** All recordings of the store: open, compare, download, delete. */

import { get, path, send } from "../../api/client";
import type { RecordingEntry, RecordingList, RecordingRemoved } from "../../api/types";
import { bytes, count, dateTime, duration, text } from "../../logic/format";
import type { App } from "../app";
import { card, explain, loader, type Card } from "../card";
import { button, h, setText, type Scope } from "../dom";
import { Table } from "../table";

/** A few thousand recordings are listed; nobody scrolls further. */
const PAGES = 10;

export async function allRecordings(signal?: AbortSignal): Promise<RecordingEntry[]> {
  const all: RecordingEntry[] = [];
  let cursor: string | null = null;
  for (let page = 0; page < PAGES; page++) {
    const list: RecordingList = await get<RecordingList>("/recordings", { limit: 200, cursor }, signal);
    all.push(...list.recordings);
    cursor = list.next;
    if (cursor === null) break;
  }
  return all;
}

export function nameOf(entry: RecordingEntry): string {
  return entry.name ?? entry.subject;
}

export function recordingsPanel(
  scope: Scope,
  app: App,
  ask: (question: string, action: string) => Promise<boolean>,
): Card {
  const panel = card("Recordings", { id: "recordings" });
  const picked = new Set<string>();
  const compare = button(
    "Compare",
    () => {
      const [a, b] = [...picked];
      app.setCompare({ a: a ?? null, b: b ?? null });
      app.setView("compare");
    },
    { icon: "compare", class: "button" },
  );
  const search = h("input", {
    type: "search",
    placeholder: "Name, model or tag",
    "aria-label": "Find a recording",
    class: "input small",
  });
  panel.tools.append(search, compare);
  let all: RecordingEntry[] = [];
  const status = (entry: RecordingEntry) =>
    entry.being_written
      ? h("span", { class: "badge advice" }, "recording")
      : entry.damaged
        ? h("span", { class: "badge warning", title: entry.problem ?? "" }, "repaired or damaged")
        : entry.finished
          ? "finished"
          : h("span", { class: "badge warning", title: entry.reason ?? "" }, "cut off");
  const table = new Table<RecordingEntry>(
    "Recordings",
    [
      {
        title: "",
        class: "pick-column",
        cell: (row) => {
          const box = h("input", {
            type: "checkbox",
            "aria-label": `Select ${nameOf(row)} to compare`,
            "data-pick": row.id,
          });
          box.checked = picked.has(row.id);
          box.addEventListener("click", (event) => event.stopPropagation());
          box.addEventListener("change", () => {
            if (box.checked) picked.add(row.id);
            else picked.delete(row.id);
            while (picked.size > 2) picked.delete([...picked][0]!);
            update();
          });
          return box;
        },
      },
      {
        title: "Recording",
        class: "name-column",
        sort: nameOf,
        cell: (row) =>
          h(
            "span",
            { class: "two-lines" },
            h("strong", { title: nameOf(row) }, nameOf(row)),
            h("span", { class: "sub" }, row.name ? `${row.subject} · ${row.id}` : row.id),
          ),
      },
      { title: "Made by", sort: (row) => row.origin, cell: (row) => row.origin },
      {
        title: "Started",
        sort: (row) => row.started_unix_ms,
        number: true,
        cell: (row) => dateTime(row.started_unix_ms),
      },
      { title: "Length", number: true, sort: (row) => row.duration_ms, cell: (row) => text(duration(row.duration_ms)) },
      { title: "Rows", number: true, sort: (row) => row.rows, cell: (row) => count(row.rows) },
      { title: "Size", number: true, sort: (row) => row.bytes, cell: (row) => text(bytes(row.bytes)) },
      { title: "Tags", cell: (row) => h("span", {}, ...row.tags.map((tag) => h("span", { class: "tag" }, tag))) },
      { title: "State", cell: status },
      {
        title: "",
        class: "actions-column",
        cell: (row) =>
          h(
            "span",
            { class: "row" },
            h(
              "a",
              {
                class: "button small quiet",
                href: path(`/recordings/${encodeURIComponent(row.id)}/report`, { format: "html" }),
                target: "_blank",
                rel: "noopener",
                onclick: (event: Event) => event.stopPropagation(),
              },
              "Report",
            ),
            app.hello.role === "admin"
              ? h(
                  "button",
                  {
                    type: "button",
                    class: "button small quiet",
                    onclick: (event: Event) => {
                      event.stopPropagation();
                      void remove(row);
                    },
                  },
                  "Delete",
                )
              : null,
          ),
      },
    ],
    { sort: 3, limit: 500, open: (row) => void openRecording(row), selected: (row) => row.id === app.source.id },
  );
  panel.body.append(table.element);

  const openRecording = async (row: RecordingEntry) => {
    await app.openById(row.id);
    if (app.source.id === row.id) app.setView("overview");
  };
  const remove = async (row: RecordingEntry) => {
    if (
      !(await ask(
        `Delete the recording ${nameOf(row)} (${text(bytes(row.bytes))})? This cannot be undone.`,
        "Delete",
      ))
    )
      return;
    try {
      await send<RecordingRemoved>("DELETE", `/recordings/${encodeURIComponent(row.id)}`);
      reload();
    } catch (error) {
      app.tell(explain(error).title);
    }
  };
  const update = () => {
    compare.disabled = picked.size !== 2;
    setText(compare.lastElementChild!, picked.size === 2 ? "Compare the two" : `Select ${2 - picked.size} to compare`);
    const wanted = search.value.trim().toLowerCase();
    table.set(
      wanted
        ? all.filter((row) =>
            [row.name, row.subject, row.id, row.origin, ...row.tags].some((each) =>
              each?.toLowerCase().includes(wanted),
            ),
          )
        : all,
    );
  };
  search.addEventListener("input", update);
  const reload = loader<RecordingEntry[]>(scope, app, {
    on: [],
    every: 5,
    card: panel,
    fetch: (signal) => allRecordings(signal),
    show: (list) => {
      all = list;
      panel.covers(`${count(list.length)} in the store`);
      if (list.length === 0) {
        panel.say("No recording yet.", h("p", {}, "ortscope run MODEL makes one; so do record, attach and import."));
        return;
      }
      update();
    },
  });
  return panel;
}
