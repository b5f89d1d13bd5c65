import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Stream, type StreamEvents } from "./socket";

class FakeSocket {
  static readonly OPEN = 1;
  static all: FakeSocket[] = [];
  readyState = 0;
  sent: string[] = [];
  onopen: (() => void) | null = null;
  onmessage: ((event: { data: string }) => void) | null = null;
  onclose: (() => void) | null = null;

  constructor(readonly url: string) {
    FakeSocket.all.push(this);
  }
  open(): void {
    this.readyState = 1;
    this.onopen?.();
  }
  say(frame: unknown): void {
    this.onmessage?.({ data: JSON.stringify(frame) });
  }
  send(text: string): void {
    this.sent.push(text);
  }
  close(): void {
    this.readyState = 3;
    this.onclose?.();
  }
}

const HELLO = { type: "hello", source: "live", topics: [], rate_hertz: 2, origin_unix_ms: null };
let states: string[];
let events: StreamEvents;

beforeEach(() => {
  vi.useFakeTimers();
  FakeSocket.all = [];
  states = [];
  vi.stubGlobal("WebSocket", FakeSocket);
  vi.stubGlobal("location", { protocol: "https:", host: "box:9464" });
  vi.stubGlobal("addEventListener", () => undefined);
  vi.stubGlobal("removeEventListener", () => undefined);
  events = {
    frame: vi.fn(),
    connection: (state) => states.push(state),
    caughtUp: vi.fn(),
    dropped: vi.fn(),
    problem: vi.fn(),
  };
});

afterEach(() => {
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

describe("stream", () => {
  it("subscribes when open, never with a token in the address", () => {
    const stream = new Stream("live", 2, events);
    const socket = FakeSocket.all[0]!;
    expect(socket.url).toBe("wss://box:9464/api/v1/ws/metrics");
    socket.open();
    expect(JSON.parse(socket.sent[0]!)).toMatchObject({ type: "subscribe", source: "live", rate_hertz: 2 });
    socket.say(HELLO);
    socket.say({ type: "metrics", at_ms: 1 });
    socket.say({ type: "dropped", dropped: 3 });
    expect(events.frame).toHaveBeenCalledOnce();
    expect(events.dropped).toHaveBeenCalledWith(3);
    stream.setRate(10);
    expect(JSON.parse(socket.sent[1]!)).toMatchObject({ rate_hertz: 10 });
    stream.close();
  });

  it("comes back after a loss, later each time, and says when it has", () => {
    const stream = new Stream("live", 2, events);
    FakeSocket.all[0]!.open();
    FakeSocket.all[0]!.say(HELLO);
    FakeSocket.all[0]!.close();
    expect(states.at(-1)).toBe("lost");
    vi.advanceTimersByTime(400);
    expect(FakeSocket.all).toHaveLength(2);
    FakeSocket.all[1]!.close();
    vi.advanceTimersByTime(100);
    expect(FakeSocket.all).toHaveLength(2);
    vi.advanceTimersByTime(700);
    expect(FakeSocket.all).toHaveLength(3);
    FakeSocket.all[2]!.open();
    FakeSocket.all[2]!.say(HELLO);
    expect(states.at(-1)).toBe("open");
    expect(events.caughtUp).toHaveBeenCalledOnce();
    stream.close();
    vi.advanceTimersByTime(60_000);
    expect(FakeSocket.all).toHaveLength(3);
  });

  it("takes silence for a loss, whatever the browser thinks", () => {
    const stream = new Stream("live", 2, events);
    FakeSocket.all[0]!.open();
    FakeSocket.all[0]!.say(HELLO);
    vi.advanceTimersByTime(21_000);
    expect(FakeSocket.all.length).toBeGreaterThan(1);
    stream.close();
  });

  it("survives frames that are no JSON", () => {
    const stream = new Stream("live", 2, events);
    FakeSocket.all[0]!.open();
    FakeSocket.all[0]!.onmessage?.({ data: "{" });
    expect(events.problem).toHaveBeenCalledOnce();
    stream.close();
  });
});
