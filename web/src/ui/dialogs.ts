/** Help, settings, export, and questions before something is deleted. */

import { send } from "../api/client";
import type { ControlState } from "../api/types";
import { exportCommand, exportName, exportPath, filterLine, FORMATS } from "../logic/command";
import { KEYS } from "../logic/filter";
import { bytes, metric, percent, text } from "../logic/format";
import { RATES_HERTZ } from "../logic/live";
import type { App } from "./app";
import { explain } from "./card";
import { button, command, fill, h, type Child } from "./dom";
import type { Settings } from "./settings";
import type { View } from "./views";

/** A modal window with the browser's own focus trap and Esc. */
export function openDialog(title: string, ...content: Child[]): HTMLDialogElement {
  const before = document.activeElement;
  const dialog = h(
    "dialog",
    { class: "dialog", "aria-label": title },
    h(
      "header",
      { class: "dialog-head" },
      h("h2", {}, title),
      button("Close", () => dialog.close(), { icon: "close", iconOnly: true, class: "button icon-only quiet" }),
    ),
    h("div", { class: "dialog-body" }, ...content),
  );
  dialog.addEventListener("close", () => {
    dialog.remove();
    if (before instanceof HTMLElement) before.focus();
  });
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  document.body.append(dialog);
  dialog.showModal();
  dialog.querySelector<HTMLElement>(".dialog-body select, .dialog-body input")?.focus();
  return dialog;
}

export function ask(question: string, action: string): Promise<boolean> {
  return new Promise((resolve) => {
    let answer = false;
    const yes = button(
      action,
      () => {
        answer = true;
        dialog.close();
      },
      { class: "button danger" },
    );
    const dialog = openDialog(
      action,
      h("p", {}, question),
      h(
        "div",
        { class: "row end" },
        button("Cancel", () => dialog.close()),
        yes,
      ),
    );
    dialog.addEventListener("close", () => resolve(answer));
  });
}

export function helpDialog(views: readonly View[]): void {
  const rows = (list: readonly (readonly [string, string])[]) =>
    h(
      "dl",
      { class: "keys" },
      ...list.flatMap(([keys, meaning]) => [
        h("dt", {}, ...keys.split(" ").map((each) => h("kbd", {}, each))),
        h("dd", {}, meaning),
      ]),
    );
  openDialog(
    "Keys and filter",
    h(
      "div",
      { class: "help-columns" },
      h(
        "div",
        {},
        h("h3", {}, "Time"),
        rows([
          ["W S", "zoom in, zoom out"],
          ["A D", "move left, right"],
          ["← →", "move left, right"],
          ["↑ ↓", "zoom (when a chart has the focus)"],
          ["[ ]", "start or end the selection at the pointer"],
          ["F", "zoom to the selection"],
          ["Esc", "clear the selection, then go back"],
          ["X", "reset: show everything"],
          [", .", "previous or next operator (on the timeline)"],
          ["Space", "pause, resume a live view"],
        ]),
        h(
          "p",
          { class: "note" },
          "The wheel zooms the timeline (charts: with Ctrl, or after a click). Drag to move, Shift-drag to select, double-click to reset. All figures cover the selection.",
        ),
      ),
      h(
        "div",
        {},
        h("h3", {}, "Page"),
        rows([
          ["/", "go to the filter"],
          ["E", "export"],
          ["T", "dark, light or system theme"],
          [",", "settings (Ctrl+comma)"],
          ["?", "this help"],
          ...views.map((view) => [view.key, view.title] as const),
        ]),
      ),
      h(
        "div",
        {},
        h("h3", {}, "Filter"),
        h(
          "dl",
          { class: "keys" },
          ...KEYS.flatMap(({ example, meaning }) => [h("dt", {}, h("code", {}, example)), h("dd", {}, meaning)]),
          h("dt", {}, h("code", {}, "!Relu")),
          h("dd", {}, "excludes; a bare word is searched for in names and types"),
        ),
      ),
    ),
  );
}

export function settingsDialog(app: App): void {
  const choice = <K extends keyof Settings>(
    name: K,
    label: string,
    options: readonly (readonly [Settings[K], string])[],
    note?: Child,
  ) => {
    const select = h("select", { class: "input", "data-setting": name });
    for (const [value, shown] of options) {
      const option = h("option", { value: String(value) }, shown);
      option.selected = app.settings[name] === value;
      select.append(option);
    }
    select.addEventListener("change", () => {
      const found = options.find(([value]) => String(value) === select.value);
      if (found) app.change({ [name]: found[0] } as Partial<Settings>);
    });
    return h("label", { class: "setting" }, h("span", {}, label), select, note);
  };
  const cost = h("span", { class: "note", "data-field": "cost" });
  const showCost = () => {
    const own = app.ownCost;
    fill(
      cost,
      app.source.growing
        ? `current cost: sampling ${text(percent(own?.cpu_percent))} and server ${text(percent(own?.server_cpu_percent))} of a core; this page receives ${text(bytes(app.receivedPerSecond))}/s`
        : "viewing a finished recording costs nothing",
    );
  };
  showCost();
  const timer = setInterval(showCost, 1000);
  const dialog = openDialog(
    "Settings",
    choice("theme", "Theme", [
      ["system", "System"],
      ["dark", "Dark"],
      ["light", "Light"],
    ]),
    choice(
      "rateHertz",
      "Page updates",
      RATES_HERTZ.map((rate) => [rate, `${rate} per second`] as const),
      cost,
    ),
    choice("liveSpanMs", "Live view", [
      [30_000, "30 s"],
      [60_000, "60 s"],
      [300_000, "5 min"],
      [900_000, "15 min"],
    ]),
    choice("timeAxis", "Time axis", [
      ["auto", "Time of day if live, otherwise since the start"],
      ["start", "Since the start"],
      ["day", "Time of day"],
    ]),
    choice("dim", "Filtered events", [
      [false, "are hidden"],
      [true, "are dimmed on the timeline"],
    ]),
    app.live ? controlSettings(app) : null,
  );
  dialog.addEventListener("close", () => clearInterval(timer));
}

/** Sampling and recording of the live source; the server decides whether this role may. */
function controlSettings(app: App): HTMLElement {
  const state = h("p", { class: "note" });
  const may = app.hello.role !== "viewer";
  const show = (control: ControlState | null) => {
    app.control = control;
    fill(
      state,
      control === null
        ? "The sampling state is unknown."
        : `${control.paused ? "Sampling is paused" : `Sampling at ${text(metric(control.rate_hertz, "Hz"))}`}${control.recording ? `, recording ${control.recording.id}` : ", not recording"}.`,
    );
  };
  const act = async (route: string, body: unknown = {}) => {
    try {
      show(await send<ControlState>("POST", route, body));
    } catch (error) {
      const { title, hint } = explain(error);
      fill(state, [title, hint].filter(Boolean).join(" "));
    }
  };
  show(app.control);
  const rate = h(
    "select",
    { class: "input", "aria-label": "Sampling rate" },
    ...[1, 2, 5, 10, 20, 50, 100].map((hertz) => {
      const option = h("option", { value: String(hertz) }, `${hertz} Hz`);
      option.selected = app.control?.asked_hertz === hertz;
      return option;
    }),
  );
  rate.addEventListener("change", () => void act("/control/rate", { hertz: Number(rate.value) }));
  if (!may)
    return h(
      "fieldset",
      { class: "control" },
      h("legend", {}, "Sampling of this machine"),
      state,
      h("p", { class: "note" }, "Your role is viewer: only operators can change it."),
    );
  return h(
    "fieldset",
    { class: "control" },
    h("legend", {}, "Sampling of this machine"),
    state,
    h("label", { class: "setting" }, h("span", {}, "Rate"), rate),
    h(
      "div",
      { class: "row" },
      button("Pause sampling", () => void act("/control/pause")),
      button("Resume", () => void act("/control/resume")),
      button("Start a recording", () => void act("/control/record/start", { name: null }), { icon: "record" }),
      button("Stop it", () => void act("/control/record/stop")),
    ),
  );
}

export function exportDialog(app: App): void {
  const { source } = app;
  if (source.kind === "live") {
    const recording = app.control?.recording ?? null;
    openDialog(
      "Export",
      recording
        ? h(
            "p",
            {},
            `The recording ${recording.id} is being written. Stop it in the settings, then open it under Recordings and export it.`,
          )
        : h(
            "p",
            {},
            "To export live data, record it first: start a recording in the settings; it appears under Recordings.",
          ),
      command("ortscope record -- python program.py"),
    );
    return;
  }
  const range = app.time.selection ?? (app.time.history.length > 0 ? app.time.range : null);
  const filter = filterLine(app.usableFilter(), range);
  const tables = Object.keys(source.rows);
  const format = h(
    "select",
    { class: "input", "data-field": "format", "aria-label": "Format" },
    ...FORMATS.map((each) => h("option", { value: each.format }, each.label)),
  );
  const table = h(
    "select",
    { class: "input", "data-field": "table", "aria-label": "Table" },
    ...tables.map((name) => h("option", { value: name }, `${name} (${source.rows[name]} rows)`)),
  );
  if (tables.includes("operators")) table.value = "operators";
  const tableRow = h("label", { class: "setting" }, h("span", {}, "Table"), table);
  const gzip = h("input", { type: "checkbox", "data-field": "gzip" });
  const gzipRow = h("label", { class: "setting" }, h("span", {}, "Compress (gzip)"), gzip);
  const host = h("div", { class: "export-result" });
  const update = () => {
    const chosen = FORMATS.find((each) => each.format === format.value)!;
    tableRow.hidden = !chosen.table;
    gzipRow.hidden = !chosen.gzip;
    const choice = {
      format: chosen.format,
      table: chosen.table ? table.value : null,
      gzip: chosen.gzip && gzip.checked,
    };
    fill(
      host,
      h(
        "p",
        {},
        filter ? h("span", {}, "Only events that match the filter: ", h("code", {}, filter)) : "The whole recording.",
      ),
      ...(chosen.directory
        ? [h("p", { class: "note" }, "Multiple files in a directory; use the command line:")]
        : [
            h(
              "a",
              {
                class: "button primary",
                href: exportPath(source.id, choice, filter),
                download: exportName(source.id, choice),
                "data-field": "download",
              },
              "Download",
            ),
            h("p", { class: "note" }, "The same on the command line:"),
          ]),
      command(exportCommand(source.id, choice, filter)),
    );
  };
  for (const field of [format, table, gzip]) field.addEventListener("change", update);
  update();
  openDialog("Export", h("label", { class: "setting" }, h("span", {}, "Format"), format), tableRow, gzipRow, host);
}
