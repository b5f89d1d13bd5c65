/**
 * The state of the page and who is told when it changes. Views read it and ask for changes by its methods; nothing else
 * holds state that another view needs.
 */

import { get, Failure } from "../api/client";
import { Stream } from "../api/socket";
import type { ControlState, Hello, MetricsFrame, OwnCost, SourceInfo } from "../api/types";
import * as address from "../logic/address";
import { parse } from "../logic/filter";
import { pill, type Pill } from "../logic/live";
import { Ring } from "../logic/series";
import * as viewport from "../logic/viewport";
import type { Range, Viewport } from "../logic/viewport";
import type { Scope } from "./dom";
import { loadSettings, saveSettings, type Settings } from "./settings";

export type Change =
  | "view"
  | "source"
  | "sources"
  | "range"
  | "numbers"
  | "filter"
  | "session"
  | "cursor"
  | "frame"
  | "live"
  | "tick"
  | "theme"
  | "settings"
  | "compare"
  | "problem";

/** How long movements may go on before numbers are asked for again. */
const NUMBERS_DELAY_MS = 140;
const TICK_MS = 1000;
/** Ten minutes at 10 Hz. */
const RING_POINTS = 6000;

export class App {
  source!: SourceInfo;
  time!: Viewport;
  filter = "";
  session: string | null = null;
  view: string;
  compare: { a: string | null; b: string | null };
  cursorMs: number | null = null;
  /** An operator that the timeline shall show when it has it: the moment that it starts at. */
  wanted: number | null = null;
  settings: Settings = loadSettings();
  paused = false;
  connection: "connecting" | "open" | "lost" = "connecting";
  frame: MetricsFrame | null = null;
  newestMs = 0;
  ownCost: OwnCost | null = null;
  lost: number | null = null;
  control: ControlState | null = null;
  problem: string | null = null;
  /** What this page costs: bytes per second that it receives. */
  receivedPerSecond = 0;
  dropped = 0;
  readonly rings = new Map<string, Ring>();

  private readonly listeners = new Map<Change, Set<() => void>>();
  private stream: Stream | null = null;
  private lostAt: number | null = null;
  private numbersTimer: ReturnType<typeof setTimeout> | undefined;
  private addressTimer: ReturnType<typeof setTimeout> | undefined;
  private received: [number, number][] = [];
  private numbersKey = "";

  constructor(
    readonly hello: Hello,
    private readonly views: readonly string[],
  ) {
    const start = address.read(location.search, views);
    this.view = start.view;
    this.filter = start.filter;
    this.session = start.session;
    this.compare = { a: start.a, b: start.b };
    const wanted = hello.sources.find((source) => source.id === (start.source ?? hello.default_source));
    const source = wanted ?? hello.sources[0];
    if (source) this.open(source, start.range, start.selection);
    addEventListener("popstate", () => this.followAddress());
    setInterval(() => this.emitTick(), TICK_MS);
  }

  on(scope: Scope, changes: Change | readonly Change[], listener: () => void): void {
    for (const change of typeof changes === "string" ? [changes] : changes) {
      let set = this.listeners.get(change);
      if (!set) this.listeners.set(change, (set = new Set()));
      set.add(listener);
      scope.add(() => set.delete(listener));
    }
  }

  emit(change: Change): void {
    const set = this.listeners.get(change);
    // A listener may end a view: then the others of that view are not called any more.
    for (const listener of [...(set ?? [])]) if (set?.has(listener)) listener();
  }

  get live(): boolean {
    return this.source.kind === "live";
  }

  /** Wall time of the origin where axes show the time of day; null where they show the time since the start. */
  axisOrigin(): number | null {
    const { timeAxis } = this.settings;
    return timeAxis === "day" || (timeAxis === "auto" && this.live) ? this.source.origin_unix_ms : null;
  }

  /** The range of the numbers, inside of what there is. */
  numbers(): Range {
    return this.clip(viewport.numbers(this.time));
  }

  private clip(range: Range): Range {
    return { from: Math.max(range.from, this.time.bounds.from), to: Math.min(range.to, this.time.bounds.to) };
  }

  /** Parameters of every question about figures. A whole finished recording is asked for without a range. */
  query(wanted: Range = viewport.numbers(this.time)): {
    source: string;
    from_ms?: number;
    to_ms?: number;
    session?: string;
  } {
    const range = this.clip(wanted);
    const whole = !this.source.growing && range.from <= this.source.from_ms && range.to >= this.source.to_ms;
    return {
      source: this.source.id,
      ...(whole ? {} : { from_ms: range.from, to_ms: range.to }),
      ...(this.session ? { session: this.session } : {}),
    };
  }

  /** The filter as far as it can be used. */
  usableFilter(): string {
    return parse(this.filter).ok ? this.filter.trim() : "";
  }

  open(source: SourceInfo, range: Range | null = null, selection: Range | null = null): void {
    const changed = this.source?.id !== source.id;
    this.source = source;
    this.newestMs = source.to_ms;
    this.time = viewport.start(
      { from: source.from_ms, to: Math.max(source.to_ms, source.from_ms + viewport.MIN_SPAN_MS) },
      source.growing,
    );
    if (source.growing) this.setSpan(this.settings.liveSpanMs);
    if (range) this.time = viewport.show(this.time, range, true, source.growing);
    if (selection) this.time = viewport.select(this.time, selection);
    if (this.session && !source.sessions.some((session) => session.session_id === this.session)) this.session = null;
    if (!changed) return;
    this.paused = false;
    this.frame = null;
    this.rings.clear();
    this.ownCost = null;
    this.lost = null;
    this.stream?.close();
    this.stream = null;
    this.connection = "connecting";
    if (source.growing) this.connect();
    this.emit("source");
    this.changedTime(true);
    this.emit("live");
  }

  private setSpan(spanMs: number): void {
    const { to } = this.time.range;
    this.time = { ...this.time, range: { from: to - spanMs, to } };
  }

  private connect(): void {
    this.stream = new Stream(this.source.id, this.settings.rateHertz, {
      frame: (frame, bytes) => this.take(frame, bytes),
      connection: (state, lostAt) => {
        this.connection = state;
        this.lostAt = lostAt;
        this.emit("live");
      },
      caughtUp: () => this.emit("numbers"),
      dropped: (frames) => (this.dropped = frames),
      problem: (message) => this.tell(message),
    });
  }

  private take(frame: MetricsFrame, bytes: number): void {
    const now = performance.now();
    this.received.push([now, bytes]);
    while (this.received.length > 0 && now - this.received[0]![0] > 5000) this.received.shift();
    this.receivedPerSecond = this.received.reduce((sum, [, each]) => sum + each, 0) / 5;
    this.newestMs = Math.max(this.newestMs, frame.at_ms);
    if (frame.losses) {
      this.lost = frame.losses.lost;
      this.ownCost = frame.losses.own_cost;
    }
    if (frame.system) this.control = frame.system.control;
    this.remember(frame);
    if (!this.paused) {
      this.frame = frame;
      this.adoptSessions(frame);
      const before = this.time.range;
      this.time = viewport.grow(this.time, frame.at_ms);
      this.emit("frame");
      if (before !== this.time.range) this.emit("range");
    }
    this.emit("live");
  }

  /** A program that began after the page was opened is a session like any other. */
  private adoptSessions(frame: MetricsFrame): void {
    const known = new Set(this.source.sessions.map((session) => session.session_id));
    const fresh = (frame.sessions ?? []).filter((session) => !known.has(session.session_id));
    if (fresh.length === 0) return;
    this.source = { ...this.source, sessions: [...this.source.sessions, ...fresh] };
    this.emit("sources");
  }

  private remember(frame: MetricsFrame): void {
    const push = (name: string, t: number, value: number | null | undefined) => {
      if (value === null || value === undefined) return;
      let ring = this.rings.get(name);
      if (!ring) {
        // Names come from the machine: sessions and devices, bounded all the same.
        if (this.rings.size >= 256) return;
        this.rings.set(name, (ring = new Ring(RING_POINTS)));
      }
      ring.push(t, value);
    };
    const system = frame.system?.system;
    if (system) {
      for (const key of ["cpu_percent", "memory_percent", "gpu_percent", "npu_percent"] as const)
        push(key, system.t_ms, system[key]);
    }
    for (const session of frame.sessions ?? []) {
      push(`rate/${session.session_id}`, frame.at_ms, session.requests_per_second);
      push(`p50/${session.session_id}`, frame.at_ms, session.latency_ms.p50);
    }
    push("power", frame.at_ms, frame.devices?.energy.power_w);
  }

  private emitTick(): void {
    if (!this.source?.growing || document.hidden) return;
    if (this.connection === "lost") this.emit("live");
    if (!this.paused && this.time.following && !this.time.selection) this.emit("tick");
  }

  pill(): Pill {
    return pill(
      { connection: this.connection, paused: this.paused, shownMs: this.time.bounds.to, newestMs: this.newestMs },
      this.lostAt ? Date.now() - this.lostAt : 0,
    );
  }

  setPaused(paused: boolean): void {
    if (!this.source.growing || paused === this.paused) return;
    this.paused = paused;
    if (!paused) this.time = viewport.grow(this.time, this.newestMs);
    this.emit("live");
    this.changedTime();
  }

  /** Changes what part of time is seen. */
  move(change: (time: Viewport, growing: boolean) => Viewport): void {
    const next = change(this.time, this.source.growing);
    if (next === this.time) return;
    this.time = next;
    this.changedTime();
  }

  private changedTime(now = false): void {
    this.emit("range");
    this.saveAddress();
    clearTimeout(this.numbersTimer);
    const tell = () => {
      const key = JSON.stringify(this.query());
      if (key === this.numbersKey && !now) return;
      this.numbersKey = key;
      this.emit("numbers");
    };
    if (now) tell();
    else this.numbersTimer = setTimeout(tell, NUMBERS_DELAY_MS);
  }

  /** The timeline goes to an operator and shows it. */
  jumpTo(atMs: number, durationMs: number): void {
    const margin = Math.max(durationMs * 2, viewport.MIN_SPAN_MS);
    this.wanted = atMs;
    this.move((time, growing) =>
      viewport.show(time, { from: atMs - margin, to: atMs + durationMs + margin }, true, growing),
    );
  }

  setCursor(ms: number | null): void {
    if (ms === this.cursorMs) return;
    this.cursorMs = ms;
    this.emit("cursor");
  }

  setView(view: string): void {
    if (!this.views.includes(view) || view === this.view) return;
    this.view = view;
    this.saveAddress(true);
    this.emit("view");
  }

  setFilter(filter: string): void {
    if (filter === this.filter) return;
    this.filter = filter;
    this.saveAddress();
    this.emit("filter");
  }

  setSession(session: string | null): void {
    if (session === this.session) return;
    this.session = session;
    this.saveAddress();
    this.emit("session");
  }

  setCompare(compare: { a: string | null; b: string | null }): void {
    this.compare = compare;
    this.saveAddress();
    this.emit("compare");
  }

  change(settings: Partial<Settings>): void {
    this.settings = { ...this.settings, ...settings };
    saveSettings(this.settings);
    if (settings.rateHertz !== undefined) this.stream?.setRate(settings.rateHertz);
    if (settings.liveSpanMs !== undefined && this.time.following) {
      this.setSpan(settings.liveSpanMs);
      this.changedTime();
    }
    if (settings.theme !== undefined) this.emit("theme");
    this.emit("settings");
  }

  tell(message: string | null): void {
    this.problem = message;
    this.emit("problem");
  }

  async openById(id: string): Promise<void> {
    try {
      const known = this.hello.sources.find((source) => source.id === id);
      const source =
        known?.kind === "live"
          ? known
          : (await get<{ source: SourceInfo }>(`/recordings/${encodeURIComponent(id)}`)).source;
      this.open(source);
    } catch (error) {
      this.tell(
        error instanceof Failure ? error.message : "The recording cannot be opened: the server does not answer.",
      );
    }
  }

  private saveAddress(push = false): void {
    const write = () => {
      const whole =
        this.time.following ||
        (this.time.range.from <= this.time.bounds.from && this.time.range.to >= this.time.bounds.to);
      const text = address.write({
        view: this.view,
        source: this.source.id === this.hello.default_source ? null : this.source.id,
        session: this.session,
        filter: this.filter,
        range: whole ? null : this.time.range,
        selection: this.time.selection,
        ...this.compare,
      });
      if (push) history.pushState(null, "", text);
      else history.replaceState(null, "", text);
    };
    clearTimeout(this.addressTimer);
    if (push) write();
    else this.addressTimer = setTimeout(write, 200);
  }

  private followAddress(): void {
    const next = address.read(location.search, this.views);
    this.view = next.view;
    this.emit("view");
    if (next.filter !== this.filter) {
      this.filter = next.filter;
      this.emit("filter");
    }
  }
}
