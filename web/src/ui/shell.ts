/** The frame of the page: menu, top bar with source, filter and range, status line with losses and own cost. */

import { parse, print } from "../logic/filter";
import { bytes, count, percent, text } from "../logic/format";
import { pillText, RATES_HERTZ } from "../logic/live";
import * as viewport from "../logic/viewport";
import type { App } from "./app";
import { rangeText } from "./card";
import { exportDialog, helpDialog, settingsDialog } from "./dialogs";
import { button, fill, h, icon, Scope, setText } from "./dom";
import { applyTheme } from "./settings";
import { VIEWS, type View } from "./views";
import { forgetTheme } from "../draw/surface";

export function mountShell(root: HTMLElement, app: App): void {
  const scope = new Scope();
  const main = h("main", { id: "main", tabindex: "-1" });
  fill(
    root,
    h("a", { class: "skip", href: "#main" }, "Skip to content"),
    menu(scope, app),
    h("div", { class: "column" }, topBar(scope, app), problemBar(scope, app), main, statusBar(scope, app)),
  );

  let viewScope: Scope | null = null;
  const show = () => {
    const view = VIEWS.find((each) => each.id === app.view) ?? VIEWS[0]!;
    const first = viewScope === null;
    viewScope?.dispose();
    viewScope = new Scope();
    document.title = `${view.title} · ${app.source.title} · ortscope`;
    main.setAttribute("aria-label", view.title);
    fill(main, view.mount(viewScope, app));
    // Scrolling lays the page out at once, which the first view need not wait for.
    if (!first) main.scrollTop = 0;
  };
  app.on(scope, "view", show);
  app.on(scope, "source", show);
  app.on(scope, "theme", () => {
    applyTheme(app.settings.theme);
    forgetTheme();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    forgetTheme();
    app.emit("theme");
  });
  show();
}

function menu(scope: Scope, app: App): HTMLElement {
  const item = (view: View) =>
    h(
      "button",
      {
        type: "button",
        class: "menu-item",
        "data-view": view.id,
        title: `${view.title} (${view.key})`,
        onclick: () => app.setView(view.id),
      },
      icon(view.id),
      h("span", {}, view.title),
    );
  const items = VIEWS.map((view) => item(view));
  const mark = () =>
    items.forEach((each, index) => {
      if (VIEWS[index]!.id === app.view) each.setAttribute("aria-current", "page");
      else each.removeAttribute("aria-current");
    });
  app.on(scope, "view", mark);
  mark();
  const split = VIEWS.findIndex((view) => view.apart);
  const logo = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  logo.setAttribute("viewBox", "0 0 32 32");
  logo.setAttribute("class", "logo");
  logo.setAttribute("aria-hidden", "true");
  const line = document.createElementNS("http://www.w3.org/2000/svg", "path");
  line.setAttribute("d", "M3 17h6l3.5-10 6 19 3.5-9h7");
  logo.append(line);
  return h(
    "nav",
    { class: "menu", "aria-label": "Views" },
    h("div", { class: "brand" }, logo, h("span", {}, "ortscope")),
    ...items.slice(0, split),
    h("div", { class: "menu-gap" }),
    ...items.slice(split),
    h("div", { class: "menu-foot" }, `${app.hello.ortscope_version} · ${app.hello.role}`),
  );
}

function topBar(scope: Scope, app: App): HTMLElement {
  const dot = h("span", { class: "dot" });
  const sourceName = h("span", { class: "source-name" });
  const source = h(
    "button",
    {
      type: "button",
      class: "source-button",
      title: "Choose a source (R)",
      onclick: () => app.setView("recordings"),
    },
    dot,
    sourceName,
  );
  const back = h(
    "button",
    {
      type: "button",
      class: "button small quiet",
      title: "Back to the live view",
      onclick: () => void app.openById("live"),
    },
    "Go live",
  );
  const session = h("select", { class: "input session", "aria-label": "Session" });
  session.addEventListener("change", () => app.setSession(session.value || null));
  const showSource = () => {
    setText(sourceName, app.source.title);
    dot.classList.toggle("live", app.live);
    back.hidden = app.live || !app.hello.has_live;
    const many = app.source.sessions.length > 1;
    session.hidden = !many;
    if (many) {
      fill(
        session,
        h("option", { value: "" }, `All ${app.source.sessions.length} sessions`),
        ...app.source.sessions
          .slice(0, 200)
          .map((each) => h("option", { value: each.session_id }, `${each.title} · ${each.session_id.slice(0, 8)}`)),
      );
      session.value = app.session ?? "";
    }
  };
  app.on(scope, ["source", "sources", "session"], showSource);
  showSource();
  return h(
    "header",
    { class: "top" },
    h(
      "div",
      { class: "top-row" },
      source,
      back,
      session,
      filterBox(scope, app),
      h("div", { class: "spacer" }),
      liveControls(scope, app),
      h(
        "div",
        { class: "tool-group" },
        button("Export", () => exportDialog(app), { icon: "export", key: "E", class: "button" }),
        button("Theme", () => nextTheme(app), { icon: "theme", iconOnly: true, key: "T", class: "button icon-only" }),
        button("Settings", () => settingsDialog(app), {
          icon: "settings",
          iconOnly: true,
          key: "Ctrl ,",
          class: "button icon-only",
        }),
        button("Help", () => helpDialog(VIEWS), { icon: "help", iconOnly: true, key: "?", class: "button icon-only" }),
      ),
    ),
    rangeRow(scope, app),
  );
}

function filterBox(scope: Scope, app: App): HTMLElement {
  const input = h("input", {
    type: "text",
    class: "filter-input",
    id: "filter",
    placeholder: "Filter: op:Conv prov:CPU !Relu dur>1ms",
    "aria-label": "Operator filter",
    "aria-describedby": "filter-problem",
    spellcheck: "false",
    autocomplete: "off",
  });
  const problem = h("span", { class: "filter-problem", id: "filter-problem", role: "status" });
  const clear = button(
    "Clear the filter",
    () => {
      app.setFilter("");
      input.focus();
    },
    { icon: "close", iconOnly: true, class: "filter-clear" },
  );
  let timer: ReturnType<typeof setTimeout> | undefined;
  const check = () => {
    const parsed = parse(input.value);
    input.setAttribute("aria-invalid", String(!parsed.ok));
    setText(problem, parsed.ok ? "" : `${parsed.problem.term} ${parsed.problem.message}`);
    return parsed.ok;
  };
  input.addEventListener("input", () => {
    clearTimeout(timer);
    clear.hidden = input.value === "";
    if (check()) timer = setTimeout(() => app.setFilter(input.value.trim()), 250);
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") {
      clearTimeout(timer);
      const parsed = parse(input.value);
      if (parsed.ok) {
        input.value = print(parsed.terms);
        app.setFilter(input.value);
      }
    } else if (event.key === "Escape") {
      input.blur();
    }
    event.stopPropagation();
  });
  const show = () => {
    if (document.activeElement !== input || app.filter === "") input.value = app.filter;
    clear.hidden = input.value === "";
    check();
  };
  app.on(scope, "filter", show);
  show();
  return h("div", { class: "filter", role: "search" }, icon("search"), input, clear, problem);
}

function liveControls(scope: Scope, app: App): HTMLElement {
  const toggle = h("button", {
    type: "button",
    class: "button",
    id: "pause",
    title: "Freeze this view; recording continues (Space)",
    onclick: () => app.setPaused(!app.paused),
  });
  const state = h("button", {
    type: "button",
    class: "pill",
    id: "pill",
    "aria-live": "off",
    onclick: () => resume(app),
  });
  const rate = h(
    "select",
    { class: "input", "aria-label": "Updates per second", title: "Page updates per second", id: "rate" },
    ...RATES_HERTZ.map((hertz) => h("option", { value: String(hertz) }, `${hertz} Hz`)),
  );
  rate.addEventListener("change", () => app.change({ rateHertz: Number(rate.value) }));
  const element = h("div", { class: "tool-group" }, state, toggle, rate);
  let shown = "";
  let shownKind = "";
  const show = () => {
    element.hidden = !app.source.growing;
    if (element.hidden) return;
    const pill = app.pill();
    const behind = pill.kind === "live" && !app.time.following;
    setText(state, behind ? "Not following" : pillText(pill));
    const kind = behind ? "paused" : pill.kind;
    if (kind !== shownKind) {
      shownKind = kind;
      state.className = `pill ${kind}`;
      state.title = kind === "live" ? "The view follows the newest data" : "Catch up with the newest data";
    }
    const key = String(app.paused);
    if (key !== shown) {
      shown = key;
      fill(toggle, icon(app.paused ? "play" : "pause"), h("span", {}, app.paused ? "Resume" : "Pause"));
      toggle.setAttribute("aria-pressed", key);
    }
    if (rate.value !== String(app.settings.rateHertz)) rate.value = String(app.settings.rateHertz);
  };
  app.on(scope, ["live", "source", "range", "settings"], show);
  show();
  return element;
}

function resume(app: App): void {
  if (app.paused) app.setPaused(false);
  else app.move((time, growing) => viewport.reset(time, growing));
}

function rangeRow(scope: Scope, app: App): HTMLElement {
  const label = h("span", { class: "range-text", id: "range", "data-from": "", "data-to": "" });
  const back = button("Back", () => app.move(viewport.back), { icon: "back", key: "Esc", class: "button small quiet" });
  const reset = button("Reset", () => app.move((time, growing) => viewport.reset(time, growing)), {
    icon: "reset",
    key: "X",
    class: "button small quiet",
  });
  const zoom = button("Zoom to selection", () => zoomToSelection(app), { key: "F", class: "button small" });
  const clear = button("Clear selection", () => app.move((time) => viewport.select(time, null)), {
    class: "button small quiet",
  });
  back.id = "range-back";
  reset.id = "range-reset";
  const track = h("div", { class: "scroll-track", "aria-hidden": "true" });
  const thumb = h("div", { class: "scroll-thumb" });
  const chosen = h("div", { class: "scroll-selection" });
  track.append(thumb, chosen);
  const show = () => {
    const { range, selection, bounds, history } = app.time;
    const seen = selection ?? range;
    setText(
      label,
      `${selection ? "Selected " : app.time.following ? "" : "Showing "}${rangeText(app, seen.from, seen.to)}`,
    );
    label.dataset["from"] = String(seen.from);
    label.dataset["to"] = String(seen.to);
    label.classList.toggle("selected", selection !== null);
    back.hidden = history.length === 0 && !selection;
    reset.hidden = back.hidden;
    zoom.hidden = clear.hidden = selection === null;
    const width = Math.max(bounds.to - bounds.from, 1e-9);
    const place = (element: HTMLElement, from: number, to: number) => {
      const left = Math.max((from - bounds.from) / width, 0) * 100;
      // To a tenth of a percent: nothing is laid out again for less than a pixel.
      element.style.left = `${Math.min(left, 99.7).toFixed(1)}%`;
      element.style.width = `${Math.max(Math.min(((to - bounds.from) / width) * 100, 100) - left, 0.3).toFixed(1)}%`;
    };
    place(thumb, range.from, range.to);
    chosen.hidden = selection === null;
    if (selection) place(chosen, selection.from, selection.to);
  };
  app.on(scope, ["range", "source"], show);
  show();
  const row = h(
    "div",
    { class: "range-row" },
    label,
    track,
    h("div", { class: "range-tools" }, zoom, clear, back, reset),
  );
  // Lists of recordings have no range.
  const fits = () => (row.hidden = VIEWS.find((view) => view.id === app.view)?.apart ?? false);
  app.on(scope, "view", fits);
  fits();
  return row;
}

export function zoomToSelection(app: App): void {
  const { selection } = app.time;
  if (selection) app.move((time, growing) => viewport.select(viewport.show(time, selection, true, growing), null));
}

function problemBar(scope: Scope, app: App): HTMLElement {
  const message = h("span");
  const element = h(
    "div",
    { class: "problem", role: "alert", hidden: true },
    message,
    button("Close", () => app.tell(null), { icon: "close", iconOnly: true, class: "button icon-only quiet" }),
  );
  app.on(scope, "problem", () => {
    element.hidden = app.problem === null;
    setText(message, app.problem ?? "");
  });
  return element;
}

function statusBar(scope: Scope, app: App): HTMLElement {
  const part = (id: string) => h("span", { class: "status-part", "data-status": id });
  const [condition, lost, cost, page] = [part("condition"), part("lost"), part("cost"), part("page")];
  const open = h(
    "button",
    { type: "button", class: "status", title: "Losses and own cost", onclick: () => app.setView("system") },
    condition,
    lost,
    cost,
    page,
  );
  const show = () => {
    const { source } = app;
    setText(condition, source.condition.length > 0 ? source.condition.join(" ") : "Data complete");
    condition.classList.toggle("bad", source.condition.length > 0);
    setText(lost, app.lost === null ? "Lost: unknown" : app.lost === 0 ? "Lost: 0" : `Lost: ${count(app.lost)}`);
    lost.classList.toggle("bad", (app.lost ?? 0) > 0);
    lost.dataset["value"] = app.lost === null ? "" : String(app.lost);
    const own = app.ownCost;
    const sampling =
      own?.cpu_percent == null ? "off" : `${text(percent(own.cpu_percent))} of a core`;
    setText(
      cost,
      own
        ? `Cost: sampling ${sampling}, server ${text(percent(own.server_cpu_percent))}, ${text(bytes(own.server_memory_bytes))}`
        : "Cost: unknown",
    );
    setText(
      page,
      source.growing
        ? `This page: ${text(bytes(app.receivedPerSecond))}/s, ${count(app.dropped)} frames dropped`
        : "Finished recording",
    );
  };
  let last = 0;
  app.on(scope, ["source", "sources", "settings"], show);
  app.on(scope, "live", () => {
    if (performance.now() - last < 1000) return;
    last = performance.now();
    show();
  });
  show();
  return h("footer", { class: "status-bar" }, open);
}

export function nextTheme(app: App): void {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = app.settings.theme === "system" ? (dark ? "dark" : "light") : app.settings.theme;
  app.change({ theme: now === "dark" ? "light" : "dark" });
}
