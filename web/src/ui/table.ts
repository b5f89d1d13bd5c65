/** A table that sorts, keeps its rows' elements (and so the focus) when its numbers change, and shows at most `limit` rows. */

import { fill, h, setText, type Child } from "./dom";

export interface ColumnSpec<T> {
  title: string;
  /** Explains the column. */
  hint?: string;
  cell(row: T): Child;
  /** Numbers sort descending first; without it the column does not sort. */
  sort?(row: T): number | string | null;
  /** Right aligned, with figures of equal width. */
  number?: boolean;
  class?: string;
}

export class Table<T> {
  readonly element: HTMLElement;
  private readonly head: HTMLTableRowElement;
  private readonly body = h("tbody");
  private readonly note = h("p", { class: "table-note" });
  private rows: readonly T[] = [];
  private sortBy: number;
  private descending: boolean;

  constructor(
    label: string,
    private readonly columns: readonly ColumnSpec<T>[],
    private readonly options: {
      sort?: number;
      ascending?: boolean;
      limit?: number;
      open?(row: T): void;
      selected?(row: T): boolean;
      class?(row: T): string;
    } = {},
  ) {
    this.sortBy = options.sort ?? -1;
    this.descending = !options.ascending;
    this.head = h("tr", {}, ...columns.map((column, index) => this.header(column, index)));
    this.element = h(
      "div",
      { class: "table-wrap" },
      h("table", { "aria-label": label }, h("thead", {}, this.head), this.body),
      this.note,
    );
    this.mark();
  }

  set(rows: readonly T[]): void {
    this.rows = rows;
    this.render();
  }

  private header(column: ColumnSpec<T>, index: number): HTMLElement {
    const className = `${column.number ? "number" : ""} ${column.class ?? ""}`;
    if (!column.sort) return h("th", { scope: "col", class: className, title: column.hint }, column.title);
    const sort = () => {
      if (this.sortBy === index) this.descending = !this.descending;
      else {
        this.sortBy = index;
        this.descending = column.number ?? false;
      }
      this.mark();
      this.render();
    };
    return h(
      "th",
      { scope: "col", class: className, title: column.hint },
      h("button", { type: "button", class: "sort", onclick: sort }, column.title),
    );
  }

  private mark(): void {
    [...this.head.children].forEach((cell, index) => {
      if (index === this.sortBy) cell.setAttribute("aria-sort", this.descending ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
    });
  }

  private sorted(): T[] {
    const key = this.columns[this.sortBy]?.sort;
    const rows = [...this.rows];
    if (!key) return rows;
    const direction = this.descending ? -1 : 1;
    return rows.sort((a, b) => {
      const [x, y] = [key(a), key(b)];
      // What has no value comes last in both directions.
      if (x === null || y === null) return x === y ? 0 : x === null ? 1 : -1;
      return (typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y))) * direction;
    });
  }

  private render(): void {
    const sorted = this.sorted();
    const shown = sorted.slice(0, this.options.limit ?? 500);
    while (this.body.rows.length > shown.length) this.body.deleteRow(-1);
    shown.forEach((row, index) => {
      let line = this.body.rows[index];
      if (!line) {
        line = this.body.insertRow();
        for (const column of this.columns) {
          const cell = line.insertCell();
          cell.className = `${column.number ? "number" : ""} ${column.class ?? ""}`;
        }
      }
      const { open } = this.options;
      line.onclick = open ? () => open(row) : null;
      line.onkeydown = open
        ? (event) => {
            if (event.key === "Enter" && event.target === line) open(row);
          }
        : null;
      line.tabIndex = open ? 0 : -1;
      line.className = `${open ? "clickable" : ""} ${this.options.selected?.(row) ? "selected" : ""} ${this.options.class?.(row) ?? ""}`;
      this.columns.forEach((column, at) => {
        const cell = line.cells[at]!;
        const content = column.cell(row);
        if (typeof content === "string") {
          if (cell.childElementCount > 0) cell.replaceChildren();
          setText(cell, content);
        } else fill(cell, content);
      });
    });
    setText(
      this.note,
      sorted.length > shown.length
        ? `${sorted.length - shown.length} more rows are hidden; use a filter to find them.`
        : "",
    );
  }
}
