/** Lanes of operators, inferences and kernel events on one axis. Draws tiles that the server made for the range. */

import type { SessionInfo, TimelineRef } from "../api/types";
import type { App } from "../ui/app";
import { h, setText, type Scope } from "../ui/dom";
import type { Term } from "../logic/filter";
import { count, duration, provider, share, text } from "../logic/format";
import { laneAt, neighbour, rectAt, stack, type LaneBox } from "../logic/layout";
import { linear, type Scale } from "../logic/scale";
import { indexWhere, type Lane, type Tiles } from "../logic/tiles";
import * as viewport from "../logic/viewport";
import { drawTimeAxis, timeScale } from "./axis";
import { attachTime } from "./interact";
import { drawLane, fit, preparePaint, type Paint } from "./lane";
import { currentTheme, faded, Surface } from "./surface";

export interface Picked {
  lane: string;
  id: number;
  t: number;
  duration: number;
}

export interface TimelineOptions {
  /** Room for the names of lanes, in pixels. */
  labels: number;
  /** Height of rows, 1 is the smallest that can be read. */
  scale: number;
  pick?(lane: Lane, index: number, tiles: Tiles): void;
}

const RIGHT = 10;
const RULER = 22;
/** More provider changes than this are lines without arrows. */
const FEW_TRANSITIONS = 200;

export class TimelineCanvas {
  readonly element: HTMLElement;
  private readonly surface: Surface;
  private readonly tip = h("div", { class: "chart-tip" });
  private readonly cursor = h("div", { class: "cursor-line" });
  private paint: Paint | null = null;
  private boxes: LaneBox[] = [];
  private sessions = new Map<string, SessionInfo>();
  private picked: Picked | null = null;
  private needs: TimelineRef[] = [];
  private neededBy: TimelineRef[] = [];
  private x: Scale = linear(0, 1, 0, 1);
  private hatch: CanvasPattern | null = null;
  private drawn: viewport.Viewport | null = null;

  constructor(
    scope: Scope,
    private readonly app: App,
    private readonly options: TimelineOptions,
  ) {
    this.surface = new Surface("Execution timeline", (context, width, height) => this.draw(context, width, height));
    this.surface.canvas.classList.add("timeline-canvas");
    this.element = h(
      "div",
      {
        class: "timeline",
        tabindex: "0",
        role: "application",
        "aria-label":
          "Timeline. W and S zoom, A and D move, comma and period go to the previous and next operator, Enter shows it.",
        onkeydown: (event: KeyboardEvent) => this.key(event),
      },
      this.surface.canvas,
      this.cursor,
      this.tip,
    );
    attachTime(app, {
      element: this.element,
      left: () => options.labels,
      right: () => this.surface.width - RIGHT,
      wheel: true,
      click: (x, y) => this.click(x, y),
      hover: (x, y) => this.hover(x, y),
    });
    app.on(scope, "settings", () => this.surface.request());
    app.on(scope, "range", () => {
      if (viewport.looksDifferent(this.drawn, app.time, this.surface.width * this.surface.ratio)) this.surface.request();
    });
    app.on(scope, "theme", () => {
      this.hatch = null;
      this.surface.request();
    });
    app.on(scope, "cursor", () => this.showCursor());
    scope.add(() => this.surface.dispose());
  }

  /** Pixels that a tile request should be made for. */
  get pixels(): number {
    // Before the first layout the window is the best guess.
    return Math.max(200, (this.surface.width || innerWidth - 240) - this.options.labels - RIGHT);
  }

  set(tiles: Tiles, sessions: readonly SessionInfo[], dim: readonly Term[]): void {
    this.sessions = new Map(sessions.map((session) => [session.session_id, session]));
    this.paint = preparePaint(tiles, this.sessions, dim);
    const stacked = stack(tiles.lanes, RULER + 4, tiles.lanes.length > 12 ? 1 : this.options.scale);
    this.boxes = stacked.boxes;
    this.surface.canvas.style.height = `${Math.max(stacked.height, 80)}px`;
    this.surface.request(true);
  }

  showPicked(picked: Picked | null, needs: TimelineRef[] = [], neededBy: TimelineRef[] = []): void {
    this.picked = picked;
    this.needs = needs;
    this.neededBy = neededBy;
    this.surface.request();
  }

  private labelsOf() {
    return { originUnixMs: this.app.axisOrigin() };
  }

  private fallbackPattern(context: CanvasRenderingContext2D): CanvasPattern | null {
    if (this.hatch) return this.hatch;
    const tile = document.createElement("canvas");
    tile.width = tile.height = 6;
    const pen = tile.getContext("2d");
    if (!pen) return null;
    pen.strokeStyle = "rgba(0,0,0,0.55)";
    pen.lineWidth = 1.5;
    pen.beginPath();
    pen.moveTo(-1, 7);
    pen.lineTo(7, -1);
    pen.moveTo(-1, 1);
    pen.lineTo(1, -1);
    pen.moveTo(5, 7);
    pen.lineTo(7, 5);
    pen.stroke();
    return (this.hatch = context.createPattern(tile, "repeat"));
  }

  private draw(context: CanvasRenderingContext2D, width: number, height: number): void {
    const theme = currentTheme();
    const { range, selection } = this.app.time;
    this.drawn = this.app.time;
    const left = this.options.labels;
    const right = width - RIGHT;
    this.x = timeScale(range, left, right);
    context.save();
    context.translate(0, -2);
    drawTimeAxis(context, range, this.x, left, right, RULER, RULER - 18, this.labelsOf());
    context.restore();
    context.fillStyle = theme.grid;
    context.fillRect(left, RULER - 1, right - left, 1);
    const paint = this.paint;
    if (!paint) return;
    const { tiles } = paint;
    context.save();
    context.beginPath();
    context.rect(left, 0, right - left, height);
    context.clip();
    const hatch = this.fallbackPattern(context);
    for (const box of this.boxes) {
      const picked = this.picked?.lane === box.lane.id && this.picked.id >= 0 ? this.picked.id : null;
      drawLane(context, box, paint, { x: this.x, left, right, ratio: this.surface.ratio, hatch, picked });
    }
    this.drawTransitions(context, tiles);
    this.drawMarks(context, tiles, height);
    this.drawDependencies(context);
    if (selection) {
      const [from, to] = [this.x(selection.from), this.x(selection.to)];
      context.fillStyle = faded(theme.accent, 0.13);
      context.fillRect(from, 0, to - from, height);
      context.fillStyle = theme.accent;
      context.fillRect(from, 0, 1, height);
      context.fillRect(to - 1, 0, 1, height);
    }
    context.restore();
    context.textBaseline = "middle";
    context.textAlign = "left";
    for (const box of this.boxes) {
      const middle = box.y + Math.min(box.height / 2, 12);
      context.fillStyle = box.lane.kind === "operators" ? theme.text : theme.muted;
      context.fillText(fit(context, this.title(box.lane), left - 58), 0, middle);
      context.fillStyle = theme.faint;
      context.textAlign = "right";
      context.fillText(text(share(box.lane.busy_ratio)), left - 10, middle);
      context.textAlign = "left";
    }
  }

  /** Lanes of several sessions say whose they are. */
  private title(lane: Lane): string {
    const session = this.sessions.size > 1 && lane.session_id ? this.sessions.get(lane.session_id) : undefined;
    return session ? `${session.title} · ${lane.title.replace(/ · stream 0$/, "")}` : lane.title;
  }

  private middleOf(lane: string): number | null {
    const box = this.boxes.find((each) => each.lane.id === lane);
    return box ? box.y + box.rowHeight / 2 : null;
  }

  /** A line from lane to lane; with an arrow where they are few enough to be followed. */
  private drawTransitions(context: CanvasRenderingContext2D, tiles: Tiles): void {
    const theme = currentTheme();
    const middles = new Map(this.boxes.map((box) => [box.lane.id, box.y + box.rowHeight / 2]));
    const { from: first, to: end } = this.app.time.range;
    const seen = tiles.transitions.filter((each) => each.t_ms >= first && each.t_ms <= end);
    const few = seen.length <= FEW_TRANSITIONS;
    context.fillStyle = theme.warn;
    context.globalAlpha = few ? 0.9 : 0.35;
    let last = "";
    for (const transition of seen) {
      const [from, to] = [middles.get(transition.from_lane), middles.get(transition.to_lane)];
      if (from === undefined || to === undefined || from === to) continue;
      const x = Math.round(this.x(transition.t_ms));
      // Of those at the same pixel one is seen.
      const key = `${x}/${Math.min(from, to)}/${Math.max(from, to)}`;
      if (key === last) continue;
      last = key;
      context.fillRect(x, Math.min(from, to), 1, Math.abs(to - from));
      if (!few) continue;
      const tip = to > from ? -4 : 4;
      context.beginPath();
      context.moveTo(x + 0.5, to);
      context.lineTo(x - 2.5, to + tip);
      context.lineTo(x + 3.5, to + tip);
      context.fill();
    }
    context.globalAlpha = 1;
  }

  private drawMarks(context: CanvasRenderingContext2D, tiles: Tiles, height: number): void {
    const theme = currentTheme();
    for (const mark of tiles.marks) {
      const x = Math.round(this.x(mark.t_ms)) + 0.5;
      context.strokeStyle = faded(theme.good, 0.7);
      context.setLineDash([2, 3]);
      context.beginPath();
      context.moveTo(x, RULER);
      context.lineTo(x, height);
      context.stroke();
      context.setLineDash([]);
      context.fillStyle = theme.good;
      context.fillRect(x - 3, RULER - 5, 6, 5);
    }
  }

  private drawDependencies(context: CanvasRenderingContext2D): void {
    const theme = currentTheme();
    const picked = this.picked;
    const y = picked && this.middleOf(picked.lane);
    if (!picked || y === null) return;
    const arc = (fromX: number, fromY: number, toX: number, toY: number, colour: string) => {
      context.strokeStyle = colour;
      context.lineWidth = 1.5;
      context.beginPath();
      context.moveTo(fromX, fromY);
      const bend = Math.abs(fromY - toY) < 2 ? -22 : 0;
      context.bezierCurveTo(fromX + 14, fromY + bend, toX - 14, toY + bend, toX, toY);
      context.stroke();
    };
    for (const need of this.needs) {
      const needY = this.middleOf(need.lane);
      if (needY !== null) arc(this.x(need.t_ms + need.duration_ms), needY, this.x(picked.t), y, theme.good);
    }
    for (const user of this.neededBy) {
      const userY = this.middleOf(user.lane);
      if (userY !== null) arc(this.x(picked.t + picked.duration), y, this.x(user.t_ms), userY, theme.accent);
    }
  }

  private find(x: number, y: number): { box: LaneBox; index: number } | null {
    const box = laneAt(this.boxes, y);
    if (!box || x < this.options.labels) return null;
    const slack = Math.abs(this.x.invert(3) - this.x.invert(0));
    const index = rectAt(box, this.x.invert(x), y, slack);
    return index === null ? null : { box, index };
  }

  private click(x: number, y: number): void {
    const found = this.find(x, y);
    if (found && this.paint) this.options.pick?.(found.box.lane, found.index, this.paint.tiles);
  }

  private hover(x: number, y: number): void {
    const found = x < 0 ? null : this.find(x, y);
    this.tip.classList.toggle("shown", found !== null);
    this.element.classList.toggle("over", found !== null);
    if (!found || !this.paint) return;
    const { tiles } = this.paint;
    const { rects } = found.box.lane;
    const i = found.index;
    const type = tiles.types[rects.type[i]!] ?? "";
    const name = tiles.names[rects.name[i]!] ?? "";
    const executionProvider = tiles.providers[rects.provider[i]!] || found.box.lane.execution_provider;
    const lines =
      rects.count[i]! > 1
        ? [
            `${count(rects.count[i]!)} events, mostly ${type || "of one kind"}`,
            `${text(duration(rects.busy_ms[i]!))} busy in ${text(duration(rects.duration_ms[i]!))}`,
            "zoom in to see each",
          ]
        : [
            type && name && type !== name ? `${type} · ${name}` : type || name,
            text(duration(rects.duration_ms[i]!)),
            found.box.lane.kind === "operators" ? provider(executionProvider) : found.box.lane.title,
          ];
    setText(this.tip, lines.filter(Boolean).join("\n"));
    const at = Math.round(x);
    const down = Math.round(y) + 16;
    this.tip.style.transform =
      x > this.surface.width / 2
        ? `translate(calc(${at}px - 100% - 10px), ${down}px)`
        : `translate(${at + 10}px, ${down}px)`;
  }

  private key(event: KeyboardEvent): void {
    if (event.key !== "," && event.key !== "." && event.key !== "Enter") return;
    const tiles = this.paint?.tiles;
    const lanes = this.boxes
      .map((box) => box.lane)
      .filter((lane) => lane.kind === "operators" && lane.rects.t_ms.length > 0);
    const lane = lanes.find((each) => each.id === this.picked?.lane) ?? lanes[0];
    if (!tiles || !lane) return;
    event.preventDefault();
    const current = this.picked ? indexWhere(lane.rects.id, (id) => id === this.picked?.id) : -1;
    const middle = (this.app.time.range.from + this.app.time.range.to) / 2;
    const next = indexWhere(lane.rects.t_ms, (t) => t >= middle);
    const index =
      current < 0
        ? next < 0
          ? lane.rects.t_ms.length - 1
          : next
        : event.key === "Enter"
          ? current
          : neighbour(lane, current, event.key === "." ? 1 : -1);
    if (index !== null && index >= 0) this.options.pick?.(lane, index, tiles);
  }

  private showCursor(): void {
    const at = this.app.cursorMs;
    const { range } = this.app.time;
    const inside = at !== null && at >= range.from && at <= range.to;
    this.cursor.classList.toggle("shown", inside);
    if (inside) this.cursor.style.transform = `translateX(${Math.round(this.x(at))}px)`;
  }
}
