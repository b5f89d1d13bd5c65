/**
 * A page of another origin shows our numbers, as an evaluation page would: by the browser's own rules, with a token, and
 * only where `--allow-origin` names it.
 */

import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Page } from "playwright-core";
import type { Catalog, Current } from "../src/api/types";
import { Bench } from "./harness";

/** What an embedding page does; it knows nothing of ours but the address and a token. */
const PAGE = `<!doctype html><meta charset="utf-8"><title>Evaluation</title><h1>Another page</h1><script>
const authorised = (token) => (token ? { Authorization: "Bearer " + token } : {});
async function read(server, path, token, options = {}) {
  try {
    const response = await fetch(server + path, { headers: authorised(token), ...options });
    return { status: response.status, body: await response.json() };
  } catch (error) {
    return { blocked: error.name };
  }
}
const ticketOf = (server, token) =>
  read(server, "/api/v1/ws/ticket", token, {
    method: "POST",
    headers: { ...authorised(token), "Content-Type": "application/json" },
    body: "{}",
  });
/** Frames until there are \`most\`, or the end of the connection. */
function stream(server, ticket, most) {
  return new Promise((resolve) => {
    const socket = new WebSocket(server.replace("http", "ws") + "/ws/metrics");
    const frames = [];
    let opened = false;
    socket.onopen = () => {
      opened = true;
      socket.send(JSON.stringify({ type: "subscribe", topics: ["system"], rate_hertz: 10, ...(ticket ? { ticket } : {}) }));
    };
    socket.onmessage = (event) => {
      frames.push(JSON.parse(event.data));
      if (frames.length >= most) socket.close(1000);
    };
    socket.onclose = (event) => resolve({ opened, code: event.code, frames });
  });
}
</script>`;

interface Answer<T> {
  status?: number;
  body?: T;
  blocked?: string;
}

interface Streamed {
  opened: boolean;
  code: number;
  frames: { type: string; system?: { system: unknown }; error?: { code: string } }[];
}

const open = new Bench();
const shut = new Bench();
let other: Server;
let page: Page;
let token: string;
let stranger: string;
let links: { open: string; shut: string };

const read = <T>(server: Bench, path: string, by?: string) =>
  page.evaluate(`read(${JSON.stringify(server.url)}, ${JSON.stringify(path)}, ${JSON.stringify(by ?? null)})`) as Promise<
    Answer<T>
  >;
const ticketOf = (server: Bench, by: string) =>
  page.evaluate(`ticketOf(${JSON.stringify(server.url)}, ${JSON.stringify(by)})`) as Promise<Answer<{ ticket: string }>>;
const stream = (server: Bench, ticket: string | null) =>
  page.evaluate(`stream(${JSON.stringify(server.url)}, ${JSON.stringify(ticket)}, 3)`) as Promise<Streamed>;

beforeAll(async () => {
  other = createServer((_, response) => response.setHeader("Content-Type", "text/html").end(PAGE));
  await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
  const origin = `http://127.0.0.1:${(other.address() as AddressInfo).port}`;
  token = open.ortscope("token", "create", "evaluation", "--role", "viewer").trim();
  stranger = shut.ortscope("token", "create", "evaluation", "--role", "viewer").trim();
  links = { open: await open.serve("--allow-origin", origin), shut: await shut.serve() };
  page = await open.bare();
  await page.goto(origin);
});

afterAll(async () => {
  await open.close();
  await shut.close();
  await new Promise((resolve) => other.close(resolve));
});

describe("a page of another origin that the server was told of", () => {
  it("reads the newest numbers and the catalogue with a token", async () => {
    const current = await read<Current>(open, "/metrics/current", token);
    expect(current.status).toBe(200);
    expect(current.body!.system!.cpu_percent).toBeGreaterThanOrEqual(0);
    const catalog = await read<Catalog>(open, "/metrics/catalog", token);
    expect(catalog.status).toBe(200);
    const cpu = catalog.body!.metrics.find((metric) => metric.name === "cpu_percent" && metric.subject === "system")!;
    expect(cpu).toMatchObject({ unit: "percent" });
    expect(cpu.description).not.toBe("");
    expect(cpu.chart).not.toBe("");
  });

  it("gets live frames with a ticket, which works once", async () => {
    const { ticket } = (await ticketOf(open, token)).body!;
    const first = await stream(open, ticket);
    expect(first.frames.map((frame) => frame.type)).toEqual(["hello", "metrics", "metrics"]);
    expect(first.frames[1]!.system).toBeDefined();
    const again = await stream(open, ticket);
    expect(again.frames.map((frame) => frame.type)).toEqual(["error"]);
    expect(again.code).toBe(4401);
  });

  it("is told why where it has no token or a wrong one", async () => {
    for (const wrong of [undefined, stranger]) {
      const answer = await read<{ error: { message: string } }>(open, "/metrics/current", wrong);
      expect(answer.status).toBe(401);
      expect(answer.body!.error.message).not.toBe("");
    }
    expect((await stream(open, null)).code).toBe(4401);
  });
});

describe("a page of another origin that the server was not told of", () => {
  it("reads nothing, whatever it knows", async () => {
    for (const path of ["/metrics/current", "/metrics/catalog"])
      expect(await read(shut, path, stranger)).toEqual({ blocked: "TypeError" });
    expect(await ticketOf(shut, stranger)).toEqual({ blocked: "TypeError" });
    expect(await stream(shut, null)).toEqual({ opened: false, code: 1006, frames: [] });
  });

  it("cannot use the login of the same browser either", async () => {
    // Both are the same site for a browser, so that the cookie of the dashboard goes with what the page asks.
    const dashboard = await page.context().newPage();
    await dashboard.goto(links.shut);
    await dashboard.waitForSelector(".menu");
    expect((await page.context().cookies(shut.url)).map((cookie) => cookie.name)).toContain("ortscope_session");
    const answer = (await page.evaluate(
      `read(${JSON.stringify(shut.url)}, "/metrics/current", null, { credentials: "include" })`,
    )) as Answer<unknown>;
    expect(answer).toEqual({ blocked: "TypeError" });
    expect(await stream(shut, null)).toEqual({ opened: false, code: 1006, frames: [] });
    await dashboard.close();
  });
});
