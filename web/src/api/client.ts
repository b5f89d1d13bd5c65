/** Requests to the server that this page came from. The session is a cookie; nothing of it is visible here. */

import type { ApiError } from "./types";

export class Failure extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly hint: string | null,
  ) {
    super(message);
  }
}

export type Query = Record<string, string | number | boolean | readonly string[] | null | undefined>;

export function path(route: string, query: Query = {}): string {
  const parameters = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    if (value === null || value === undefined || value === "") continue;
    if (Array.isArray(value)) for (const each of value) parameters.append(key, each);
    else parameters.set(key, String(value));
  }
  const text = parameters.toString();
  return `/api/v1${route}${text ? `?${text}` : ""}`;
}

async function answer<T>(response: Response): Promise<T> {
  if (response.ok) return response.status === 204 ? (undefined as T) : ((await response.json()) as T);
  let failure: ApiError["error"] = {
    code: "unknown",
    message: `The server answered with status ${response.status}.`,
    hint: null,
  };
  try {
    failure = ((await response.json()) as ApiError).error ?? failure;
  } catch {
    // The body was no JSON: the status says enough.
  }
  throw new Failure(response.status, failure.code, failure.message, failure.hint);
}

export async function get<T>(route: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
  const request: RequestInit = { headers: { Accept: "application/json" } };
  if (signal) request.signal = signal;
  return answer<T>(await fetch(path(route, query), request));
}

export async function send<T>(method: "POST" | "DELETE", route: string, body: unknown = {}): Promise<T> {
  const headers = { "Content-Type": "application/json", "X-Requested-With": "ortscope", Accept: "application/json" };
  const request: RequestInit = { method, headers };
  if (method === "POST") request.body = JSON.stringify(body);
  return answer<T>(await fetch(path(route), request));
}
