/** Elements without a framework. Text is only ever set as text: names of models and programs are not trusted. */

import { text as quantityText, type Quantity } from "../logic/format";

export type Child = Node | string | null | undefined | false;
type Attributes = Record<string, string | number | boolean | null | undefined | ((event: never) => void)>;

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value as EventListener);
    else if (name === "class") element.className = String(value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  add(element, ...children);
  return element;
}

export function add(element: Element, ...children: Child[]): void {
  for (const child of children) if (child !== null && child !== undefined && child !== false) element.append(child);
}

export function fill(element: Element, ...children: Child[]): void {
  element.replaceChildren();
  add(element, ...children);
}

/** Writes only what changed: nothing is laid out again for a number that stays. */
export function setText(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

/** A number with its unit in a lighter voice. */
export function quantity(value: Quantity, className = "quantity"): HTMLElement {
  return h(
    "span",
    { class: className },
    h("span", { class: "value" }, value.value),
    value.unit ? h("span", { class: "unit" }, `\u202f${value.unit}`) : null,
  );
}

export function setQuantity(element: HTMLElement, value: Quantity): void {
  const [number, unit] = [element.children[0], element.children[1]];
  if (number && unit) {
    setText(number, value.value);
    setText(unit, value.unit ? `\u202f${value.unit}` : "");
  } else {
    fill(
      element,
      h("span", { class: "value" }, value.value),
      h("span", { class: "unit" }, value.unit ? `\u202f${value.unit}` : ""),
    );
  }
}

export { quantityText };

const ICONS: Record<string, string> = {
  overview: "M3 11h8V3H3zM13 3v5h8V3zM13 21h8V10h-8zM3 21h8v-8H3z",
  latency: "M3 20h18M6 20v-6M10 20V6M14 20v-9M18 20v-4",
  timeline: "M3 6h9M8 12h10M5 18h6M15 18h6",
  operators: "M12 3l8 4.5v9L12 21l-8-4.5v-9zM12 12l8-4.5M12 12v9M12 12L4 7.5",
  resources: "M7 7h10v10H7zM10 3v4M14 3v4M10 17v4M14 17v4M3 10h4M3 14h4M17 10h4M17 14h4",
  energy: "M13 2L5 14h6l-1 8 8-12h-6z",
  batches: "M4 4h7v7H4zM13 4h7v7h-7zM4 13h7v7H4zM13 13h7v7h-7z",
  processes: "M4 5h16M4 10h16M4 15h10M4 20h6",
  findings: "M12 3l9 17H3zM12 10v4M12 17v.5",
  system: "M3 5h18v11H3zM8 20h8M12 16v4",
  recordings: "M4 6c0-2 16-2 16 0v12c0 2-16 2-16 0zM4 6c0 2 16 2 16 0M4 12c0 2 16 2 16 0",
  compare: "M9 4v16M15 4v16M4 8l5-4M20 16l-5 4M4 16h1M19 8h1",
  pause: "M8 5v14M16 5v14",
  play: "M7 4l13 8-13 8z",
  export: "M12 3v12M7 10l5 5 5-5M4 20h16",
  theme: "M12 3a9 9 0 100 18zM12 3a9 9 0 010 18",
  settings: "M4 7h10M18 7h2M4 17h2M10 17h10M16 5v4M8 15v4",
  help: "M9 9a3 3 0 116 0c0 2-3 2.5-3 5M12 17.5v.5",
  back: "M15 5l-7 7 7 7",
  reset: "M4 9V4h5M20 15v5h-5M4 4l6 6M20 20l-6-6",
  close: "M6 6l12 12M18 6L6 18",
  search: "M10.5 4a6.5 6.5 0 100 13 6.5 6.5 0 000-13zM15.5 15.5L21 21",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  record: "M12 6a6 6 0 100 12 6 6 0 000-12z",
};

export function icon(name: string): SVGSVGElement {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", ICONS[name] ?? "");
  svg.append(path);
  return svg;
}

export function button(
  label: string,
  action: () => void,
  options: { icon?: string; class?: string; key?: string; iconOnly?: boolean } = {},
): HTMLButtonElement {
  const title = options.key ? `${label} (${options.key})` : label;
  return h(
    "button",
    { type: "button", class: options.class ?? "button", title, "aria-label": label, onclick: action },
    options.icon ? icon(options.icon) : null,
    options.iconOnly ? null : h("span", {}, label),
  );
}

/** A bar of 0 to 1; its width is set through the object model, which the page's policy allows. */
export function bar(ratio: number, colour?: string, className = "bar"): HTMLElement {
  const inner = h("span", { class: "bar-fill" });
  setBar(inner, ratio, colour);
  return h("span", { class: className, "aria-hidden": "true" }, inner);
}

export function setBar(inner: HTMLElement, ratio: number, colour?: string): void {
  inner.style.width = `${Math.min(Math.max(ratio, 0), 1) * 100}%`;
  if (colour) inner.style.backgroundColor = colour;
}

/** Things to undo when a view goes away. */
export class Scope {
  private undo: (() => void)[] = [];
  add(undo: () => void): void {
    this.undo.push(undo);
  }
  dispose(): void {
    for (const undo of this.undo.splice(0)) undo();
  }
}

export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Not allowed in a page without focus or without TLS on another host: the old way still works there.
    const area = h("textarea", { class: "offscreen" });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

/** A command line with a button that copies it. */
export function command(text: string): HTMLElement {
  const copy = button(
    "Copy",
    () => {
      void copyText(text).then((done) => {
        setText(copy.lastElementChild as Element, done ? "Copied" : "Select and copy");
        setTimeout(() => setText(copy.lastElementChild as Element, "Copy"), 1500);
      });
    },
    { icon: "copy", class: "button small" },
  );
  return h("div", { class: "command" }, h("code", {}, text), copy);
}
