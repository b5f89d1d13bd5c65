/** The live stream: one WebSocket for the whole page, which comes back by itself. */

import { backoffMs } from "../logic/live";
import type { ClientFrame, MetricsFrame, ServerFrame, Topic } from "./types";

export interface StreamEvents {
  frame(frame: MetricsFrame, bytes: number): void;
  /** `lostAt` is the time (Date.now) since when there is no connection. */
  connection(state: "connecting" | "open" | "lost", lostAt: number | null): void;
  /** The connection is there again after a loss: what was missed can be asked for. */
  caughtUp(): void;
  /** Frames that this page was too slow for, since it connected. */
  dropped(frames: number): void;
  problem(message: string): void;
}

/** What the page shows with every frame. Processes and single inferences it asks for when they are looked at. */
const TOPICS: Topic[] = ["system", "sessions", "devices", "losses"];
/** Without a frame or an answer for this long the connection is dead, whatever the browser thinks. */
const SILENCE_MS = 15_000;

export class Stream {
  private socket: WebSocket | null = null;
  private attempt = 0;
  private retry: ReturnType<typeof setTimeout> | undefined;
  private watchdog: ReturnType<typeof setInterval> | undefined;
  private lastHeard = 0;
  private lostAt: number | null = null;
  private closed = false;

  constructor(
    private readonly source: string,
    private rate: number,
    private readonly events: StreamEvents,
  ) {
    this.connect();
    this.watchdog = setInterval(() => this.check(), 5000);
    // The browser knows of a lost network before the connection does.
    addEventListener("offline", this.drop);
  }

  setRate(rate: number): void {
    this.rate = rate;
    this.subscribe();
  }

  close(): void {
    this.closed = true;
    clearTimeout(this.retry);
    clearInterval(this.watchdog);
    removeEventListener("offline", this.drop);
    this.socket?.close();
  }

  private connect(): void {
    if (this.closed) return;
    this.events.connection(this.lostAt === null ? "connecting" : "lost", this.lostAt);
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const socket = new WebSocket(`${scheme}://${location.host}/api/v1/ws/metrics`);
    this.socket = socket;
    socket.onopen = () => {
      this.lastHeard = Date.now();
      this.subscribe();
    };
    socket.onmessage = (event) => {
      if (typeof event.data === "string") this.take(event.data);
    };
    socket.onclose = () => {
      if (this.socket === socket) this.lose();
    };
  }

  private subscribe(): void {
    this.say({ type: "subscribe", source: this.source, topics: TOPICS, rate_hertz: this.rate });
  }

  private say(frame: ClientFrame): void {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(frame));
  }

  private take(text: string): void {
    this.lastHeard = Date.now();
    let frame: ServerFrame;
    try {
      frame = JSON.parse(text) as ServerFrame;
    } catch {
      this.events.problem("The server sent an invalid frame.");
      return;
    }
    if (frame.type === "hello") {
      const wasLost = this.lostAt !== null;
      this.attempt = 0;
      this.lostAt = null;
      this.events.connection("open", null);
      if (wasLost) this.events.caughtUp();
    } else if (frame.type === "metrics") {
      this.events.frame(frame, text.length);
    } else if (frame.type === "dropped") {
      this.events.dropped(frame.dropped);
    } else if (frame.type === "error") {
      this.events.problem(frame.error.message);
    }
  }

  private lose(): void {
    if (this.closed) return;
    this.socket = null;
    this.lostAt ??= Date.now();
    this.events.connection("lost", this.lostAt);
    clearTimeout(this.retry);
    this.retry = setTimeout(() => this.connect(), backoffMs(this.attempt++));
  }

  private readonly drop = (): void => {
    const socket = this.socket;
    if (!socket) return;
    this.lose();
    socket.close();
  };

  private check(): void {
    if (this.socket?.readyState !== WebSocket.OPEN) return;
    if (Date.now() - this.lastHeard > SILENCE_MS) {
      this.drop();
    } else {
      this.say({ type: "ping" });
    }
  }
}
