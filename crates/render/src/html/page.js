"use strict";
// Adds what a static page cannot do: tooltips, sorting, filters, and zoom of the operator timeline. Texts are only ever
// written as text content.
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const make = (name, attributes = {}, text = "") => {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.textContent = text;
    return node;
  };
  const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
  const digits = (value) => {
    const size = Math.abs(value);
    if (size >= 99.95 || size === 0) return value.toFixed(0);
    if (size >= 9.995) return value.toFixed(1);
    return size >= 0.0095 ? value.toFixed(2) : value.toPrecision(2);
  };
  const time = (ms) => {
    const size = Math.abs(ms);
    if (size >= 999.5) return digits(ms / 1e3) + " s";
    if (size >= 0.9995) return digits(ms) + " ms";
    return size >= 0.0009995 ? digits(ms * 1e3) + " µs" : digits(ms * 1e6) + " ns";
  };
  const prefixed = (value, unit) => {
    const step = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]].find(([size]) => Math.abs(value) >= size);
    return step ? digits(value / step[0]) + " " + step[1] + unit : digits(value) + " " + unit;
  };
  const units = {
    ms: time, percent: (v) => digits(v) + " %", bytes: (v) => prefixed(v, "B"), hertz: (v) => prefixed(v, "Hz"),
    per_second: (v) => prefixed(v, "").trim() + "/s", ratio: (v) => digits(v * 100) + " %", watts: (v) => digits(v) + " W",
    joules: (v) => digits(v) + " J", celsius: (v) => digits(v) + " °C",
  };

  // Light or dark.
  const theme = document.getElementById("theme");
  theme.hidden = false;
  theme.addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });

  // Tooltips: the titles of shapes, shown at once. The native ones stay for readers without this script.
  const tip = document.getElementById("tip");
  const showTip = (text, x, y) => {
    tip.textContent = text;
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    const left = clamp(x + 14, 4, Math.max(4, innerWidth - width - 4));
    const top = y + 18 + height > innerHeight ? y - height - 10 : y + 18;
    tip.style.transform = `translate(${left}px, ${Math.max(4, top)}px)`;
  };
  const hideTip = () => { tip.hidden = true; };
  const titles = new WeakMap();
  for (const shape of all(".shapes rect")) {
    const title = shape.querySelector("title");
    if (!title) continue;
    titles.set(shape, title.textContent);
    title.remove();
  }
  document.addEventListener("pointermove", (event) => {
    const text = titles.get(event.target);
    if (text) showTip(text, event.clientX, event.clientY);
    else if (!event.target.closest || !event.target.closest(".plot .area")) hideTip();
  });
  document.addEventListener("scroll", hideTip, { passive: true });

  // Readings at the pointer for charts over time.
  for (const figure of all(".chart")) {
    const source = figure.querySelector("script.data");
    const area = figure.querySelector(".plot .area");
    if (!source || !area) continue;
    const data = JSON.parse(source.textContent);
    const lists = data.series || data.names.map((name, index) => ({ name, t: data.t, v: data.v[index] }));
    const first = Math.min(...lists.map((list) => list.t[0]));
    const last = Math.max(...lists.map((list) => list.t[list.t.length - 1]));
    const cursor = document.createElementNS(SVG, "line");
    cursor.setAttribute("class", "cursor");
    cursor.setAttribute("y1", "0");
    cursor.setAttribute("y2", "100%");
    cursor.setAttribute("visibility", "hidden");
    area.append(cursor);
    const show = units[data.unit] || digits;
    area.addEventListener("pointermove", (event) => {
      const box = area.getBoundingClientRect();
      const share = clamp((event.clientX - box.left) / box.width, 0, 1);
      const at = first + share * (last - first);
      cursor.setAttribute("x1", share * 100 + "%");
      cursor.setAttribute("x2", share * 100 + "%");
      cursor.setAttribute("visibility", "visible");
      const lines = [`at ${at.toFixed(3)} s`];
      let shown = -1;
      for (const list of lists) {
        let low = 0, high = list.t.length - 1;
        while (low < high) {
          const middle = (low + high + 1) >> 1;
          if (list.t[middle] <= at) low = middle; else high = middle - 1;
        }
        if (low + 1 < list.t.length && list.t[low + 1] - at < at - list.t[low]) low += 1;
        shown = low;
        lines.push(`${list.name}: ${show(list.v[low])}`);
      }
      if (data.n && shown >= 0) lines.push(`n = ${data.n[shown]}`);
      showTip(lines.join("\n"), event.clientX, event.clientY);
    });
    area.addEventListener("pointerleave", () => { cursor.setAttribute("visibility", "hidden"); hideTip(); });
  }

  // Words that must all be in a text; a word after ! must not.
  const matcher = (query) => {
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    return (text) => words.every((word) => word[0] === "!" ? word.length < 2 || !text.includes(word.slice(1)) : text.includes(word));
  };

  // Tables: sort by a click on a heading, filter long ones.
  for (const scroll of all(".scroll")) {
    const body = scroll.querySelector("tbody");
    const rows = all("tr", body);
    if (rows.length > 1) {
      all("th", scroll).forEach((head, column) => {
        const button = make("button", { type: "button" }, head.textContent || "·");
        head.textContent = "";
        head.append(button);
        button.addEventListener("click", () => {
          const numeric = head.classList.contains("num");
          const was = head.getAttribute("aria-sort");
          const down = was ? was === "ascending" : numeric;
          all("th", scroll).forEach((other) => other.removeAttribute("aria-sort"));
          head.setAttribute("aria-sort", down ? "descending" : "ascending");
          const key = (row) => {
            const cell = row.children[column];
            if (!cell) return null;
            if (cell.dataset.s !== undefined) return Number(cell.dataset.s);
            return numeric ? null : cell.textContent;
          };
          const sorted = rows.map((row) => [key(row), row]).sort(([a], [b]) => {
            if (a === null || b === null) return (a === null) - (b === null);
            const order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
            return down ? -order : order;
          });
          body.append(...sorted.map(([, row]) => row));
        });
      });
    }
    if (!("filter" in scroll.dataset)) continue;
    const box = make("div", { class: "filter" });
    const input = make("input", { type: "search", name: "filter", placeholder: "Filter rows, !not", "aria-label": "Filter rows" });
    const output = make("output");
    box.append(input, output);
    scroll.before(box);
    const texts = rows.map((row) => row.textContent.toLowerCase());
    const apply = () => {
      const matches = matcher(input.value);
      let shown = 0;
      rows.forEach((row, index) => {
        row.hidden = !matches(texts[index]);
        shown += row.hidden ? 0 : 1;
      });
      output.textContent = `${shown} of ${rows.length} rows`;
    };
    input.addEventListener("input", apply);
    apply();
  }

  // The operator timeline.
  for (const figure of all(".timeline")) {
    const track = figure.querySelector(".track");
    const shapes = figure.querySelector(".shapes");
    // The nested drawing measures what it contains, so sizes are taken from the one around it.
    const area = track.querySelector(".area");
    const texts = figure.querySelector(".texts");
    const axis = figure.querySelector(".xs");
    const output = figure.querySelector("output");
    const input = figure.querySelector("input");
    const total = Number(figure.dataset.ns) / 1e6;
    const [, , span, height] = shapes.getAttribute("viewBox").split(" ").map(Number);
    const rectangles = all("rect", shapes).map((node) => ({
      node, x: Number(node.getAttribute("x")), width: Number(node.getAttribute("width")),
      y: Number(node.getAttribute("y")), height: Number(node.getAttribute("height")),
      text: titles.get(node) || "", whole: node.classList.contains("whole"),
      operators: Number(node.dataset.n || 1), busy: Number(node.dataset.busy || 1), strong: node.classList.contains("strong"),
    }));
    let view = { from: 0, to: span };
    let history = [];
    let lastKept = 0;
    let matches = () => true;

    const remember = (wait = 0) => {
      const now = performance.now();
      if (now - lastKept > wait) history.push({ ...view });
      if (history.length > 100) history.shift();
      lastKept = now;
    };
    const round = (value) => {
      const power = 10 ** Math.floor(Math.log10(value));
      return [1, 2, 5, 10].map((digit) => digit * power).find((step) => step >= value * 0.999);
    };
    let waiting = false;
    const draw = () => {
      waiting = false;
      const width = view.to - view.from;
      shapes.setAttribute("viewBox", `${view.from} 0 ${width} ${height}`);
      const pixels = area.getBoundingClientRect().width || 1;
      const perPixel = width / pixels;
      texts.textContent = "";
      let count = 0, busy = 0, labels = 0;
      for (const { node, x, width: w, y, height: h, text, whole, operators, busy: filled, strong } of rectangles) {
        if (x + w <= view.from || x >= view.to || node.classList.contains("dim")) continue;
        if (!whole) {
          count += operators;
          busy += (Math.min(x + w, view.to) - Math.max(x, view.from)) * filled;
        }
        const left = Math.max(x, view.from), room = (Math.min(x + w, view.to) - left) / perPixel;
        if (room < 34 || h < 12 || labels > 300) continue;
        labels += 1;
        const label = document.createElementNS(SVG, "text");
        const [full, details = ""] = text.split("\n");
        const most = Math.floor((room - 8) / 6.2);
        // A path says most at its end; where even that is too long, the type says more than half a name.
        const names = [full, full.split("/").pop(), details.split(" · ")[0]];
        const name = names.find((part) => part && part.length <= most) || names[2] || full;
        label.textContent = name.length > most ? name.slice(0, Math.max(1, most - 1)) + "…" : name;
        label.setAttribute("x", (left - view.from) / perPixel + 4);
        label.setAttribute("y", y + h / 2 + 4);
        if (whole || strong) label.setAttribute("class", whole ? "onwhole" : "onstrong");
        texts.append(label);
      }
      // Marks at round times.
      axis.textContent = "";
      const start = view.from / span * total, end = view.to / span * total;
      const step = round((end - start) / clamp(pixels / 110, 2, 9));
      for (let value = Math.ceil(start / step - 1e-9) * step; value <= end + step * 1e-6; value += step) {
        const share = (value - start) / (end - start);
        const mark = document.createElementNS(SVG, "text");
        mark.textContent = value === 0 ? "0" : time(value);
        mark.setAttribute("x", share * 100 + "%");
        mark.setAttribute("y", "13");
        mark.setAttribute("text-anchor", share < 0.04 ? "start" : share > 0.96 ? "end" : "middle");
        axis.append(mark);
      }
      const everything = width >= span * 0.9999;
      output.textContent = `${everything ? "whole run" : time(start) + " to " + time(end)}: ${count} operators, ` +
        `${time(busy / span * total)} of operator time in ${time(end - start)}`;
    };
    const later = () => {
      if (!waiting) requestAnimationFrame(draw);
      waiting = true;
    };
    const set = (from, to) => {
      const width = clamp(to - from, span * 1e-6, span);
      const start = clamp(from, 0, span - width);
      view = { from: start, to: start + width };
      later();
    };
    const zoom = (factor, share = 0.5) => {
      const width = view.to - view.from;
      const at = view.from + width * share;
      set(at - width * factor * share, at + width * factor * (1 - share));
    };
    const reset = () => { remember(); set(0, span); };
    const move = (share) => { const by = (view.to - view.from) * share; set(view.from + by, view.to + by); };
    const shareAt = (event) => {
      const box = area.getBoundingClientRect();
      return clamp((event.clientX - box.left) / box.width, 0, 1);
    };

    track.addEventListener("wheel", (event) => {
      const whole = view.to - view.from >= span * 0.9999;
      // At the whole run, scrolling on scrolls the page.
      if (whole && event.deltaY > 0) return;
      event.preventDefault();
      remember(400);
      zoom(Math.exp(clamp(event.deltaY, -200, 200) / 300), shareAt(event));
    }, { passive: false });
    track.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      const from = event.clientX, before = { ...view };
      const perPixel = (view.to - view.from) / area.getBoundingClientRect().width;
      let moved = false;
      const onMove = (moving) => {
        if (!moved && Math.abs(moving.clientX - from) < 3) return;
        if (!moved) { remember(); moved = true; track.classList.add("moving"); }
        hideTip();
        set(before.from - (moving.clientX - from) * perPixel, before.to - (moving.clientX - from) * perPixel);
      };
      const onUp = () => {
        removeEventListener("pointermove", onMove);
        removeEventListener("pointerup", onUp);
        removeEventListener("pointercancel", onUp);
        track.classList.remove("moving");
      };
      addEventListener("pointermove", onMove);
      addEventListener("pointerup", onUp);
      addEventListener("pointercancel", onUp);
    });
    track.addEventListener("dblclick", reset);
    const back = () => { const before = history.pop(); if (before) set(before.from, before.to); };
    track.addEventListener("keydown", (event) => {
      const actions = {
        ArrowLeft: () => move(-0.2), ArrowRight: () => move(0.2), "+": () => { remember(); zoom(0.6); }, "=": () => { remember(); zoom(0.6); },
        "-": () => { remember(); zoom(1 / 0.6); }, 0: reset, Home: reset, Escape: back,
      };
      const action = actions[event.key];
      if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      action();
    });
    const buttons = { in: () => { remember(); zoom(0.6); }, out: () => { remember(); zoom(1 / 0.6); }, reset };
    for (const button of all("[data-do]", figure)) button.addEventListener("click", buttons[button.dataset.do]);
    input.addEventListener("input", () => {
      matches = matcher(input.value);
      for (const { node, text, whole } of rectangles) node.classList.toggle("dim", !whole && !matches(text.toLowerCase()));
      later();
    });
    input.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      input.value = "";
      input.dispatchEvent(new Event("input"));
    });
    for (const node of all(".tools, .help", figure)) node.hidden = false;
    // The written unit now stands with each mark.
    figure.querySelector(".xtitle").textContent = "time in the run";
    addEventListener("resize", later);
    const details = figure.closest("details");
    if (details) details.addEventListener("toggle", later);
    draw();
  }

  addEventListener("beforeprint", () => { for (const details of all("details")) details.open = true; });
  document.documentElement.dataset.ready = "yes";
})();
