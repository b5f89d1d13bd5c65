/** The address of a view: whatever is looked at can be shared by copying it. */

import type { Range } from "./viewport";

export interface Address {
  view: string;
  source: string | null;
  session: string | null;
  filter: string;
  range: Range | null;
  selection: Range | null;
  /** Compared recordings. */
  a: string | null;
  b: string | null;
}

function rangeText(range: Range): string {
  const number = (value: number) => String(Number(value.toFixed(6)));
  return `${number(range.from)}~${number(range.to)}`;
}

function readRange(text: string | null): Range | null {
  const match = /^(-?\d+(?:\.\d+)?(?:e-?\d+)?)~(-?\d+(?:\.\d+)?(?:e-?\d+)?)$/.exec(text ?? "");
  if (!match) return null;
  const range = { from: Number(match[1]), to: Number(match[2]) };
  return range.from < range.to ? range : null;
}

/** Unknown or broken parts are left out: an old link still opens. */
export function read(search: string, views: readonly string[]): Address {
  const query = new URLSearchParams(search);
  const view = query.get("view") ?? "";
  return {
    view: views.includes(view) ? view : (views[0] ?? ""),
    source: query.get("source"),
    session: query.get("session"),
    filter: query.get("filter") ?? "",
    range: readRange(query.get("range")),
    selection: readRange(query.get("sel")),
    a: query.get("a"),
    b: query.get("b"),
  };
}

export function write(address: Address): string {
  const query = new URLSearchParams();
  const set = (key: string, value: string | null) => {
    if (value) query.set(key, value);
  };
  set("view", address.view);
  set("source", address.source);
  set("session", address.session);
  set("range", address.range && rangeText(address.range));
  set("sel", address.selection && rangeText(address.selection));
  set("filter", address.filter);
  set("a", address.a);
  set("b", address.b);
  // Colons, slashes and tildes may stand in a query as they are: the address stays readable.
  return `?${query.toString().replaceAll("%3A", ":").replaceAll("%2F", "/").replaceAll("%7E", "~").replaceAll("%21", "!").replaceAll("%2C", ",")}`;
}
