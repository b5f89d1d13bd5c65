/** Start: who am I, what is there, then the page. */

import { Failure, get } from "./api/client";
import type { Hello, Losses } from "./api/types";
import { App } from "./ui/app";
import { explain } from "./ui/card";
import { Scope } from "./ui/dom";
import { attachKeys } from "./ui/keys";
import { mountFailure, mountLogin } from "./ui/login";
import { applyTheme, loadSettings } from "./ui/settings";
import { mountShell } from "./ui/shell";
import { VIEWS } from "./ui/views";
import * as address from "./logic/address";

async function start(root: HTMLElement): Promise<void> {
  applyTheme(loadSettings().theme);
  let hello: Hello;
  try {
    hello = await get<Hello>("/hello");
  } catch (error) {
    if (error instanceof Failure && error.status === 401) mountLogin(root);
    else {
      const { title, hint } = explain(error);
      mountFailure(root, title, hint);
    }
    return;
  }
  const ids = VIEWS.map((view) => view.id);
  // A shared address may name a recording that the server has not opened yet.
  const wanted = address.read(location.search, ids).source;
  if (wanted && !hello.sources.some((source) => source.id === wanted)) {
    try {
      const detail = await get<{ source: Hello["sources"][number] }>(`/recordings/${encodeURIComponent(wanted)}`);
      hello = { ...hello, sources: [...hello.sources, detail.source] };
    } catch {
      // It was deleted: the default is shown instead.
    }
  }
  if (hello.sources.length === 0) {
    mountFailure(root, "Nothing to show yet.", "Record something first: ortscope run MODEL. Then try again.");
    return;
  }
  const app = new App(hello, ids);
  mountShell(root, app);
  attachKeys(app);
  keepLossesVisible(app);
}

/** Losses and own cost of a finished recording do not come by the stream. */
function keepLossesVisible(app: App): void {
  const load = async () => {
    try {
      const losses = await get<Losses>("/losses", { source: app.source.id });
      if (losses.source !== app.source.id) return;
      app.lost = losses.total;
      app.ownCost = losses.own_cost;
      app.emit("sources");
    } catch {
      // The status line goes on saying that it is not known.
    }
  };
  app.on(new Scope(), "source", () => void load());
  void load();
}

const root = document.getElementById("app");
if (root) void start(root);
