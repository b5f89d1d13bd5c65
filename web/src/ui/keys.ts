/** Keys of the whole page. */

import * as viewport from "../logic/viewport";
import type { App } from "./app";
import { exportDialog, helpDialog, settingsDialog } from "./dialogs";
import { nextTheme, zoomToSelection } from "./shell";
import { VIEWS } from "./views";

const STEP = 0.15;

export function attachKeys(app: App): void {
  // Holding a key is one movement: Esc goes back to where it began.
  let lastMove = 0;
  const fresh = () => {
    const now = performance.now();
    const is = now - lastMove > 600;
    lastMove = now;
    return is;
  };
  const centre = () => app.cursorMs ?? (app.time.range.from + app.time.range.to) / 2;
  const zoom = (factor: number) => {
    const remember = fresh();
    app.move((time, growing) => viewport.zoom(time, centre(), factor, remember, growing));
  };
  const pan = (share: number) => {
    const remember = fresh();
    app.move((time, growing) => viewport.pan(time, share, remember, growing));
  };
  addEventListener("keydown", (event) => {
    const target = event.target as HTMLElement;
    // Of one that was just closed something may still have the focus, until the next frame.
    if (target.closest("dialog[open]")) return;
    if (event.ctrlKey || event.metaKey || event.altKey) {
      if (event.key === "," && !event.altKey) {
        event.preventDefault();
        settingsDialog(app);
      }
      return;
    }
    const editing = target.matches("input:not([type=checkbox]), textarea, select");
    if (editing) return;
    const onChart = target.matches(".chart, .timeline");
    const onControl = target.matches("button, a, tr, input");
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const view = VIEWS.find((each) => each.key.toLowerCase() === key);
    switch (key) {
      case "w":
        zoom(0.7);
        break;
      case "s":
        zoom(1 / 0.7);
        break;
      case "a":
        pan(-STEP);
        break;
      case "d":
        pan(STEP);
        break;
      case "ArrowLeft":
        pan(-STEP);
        break;
      case "ArrowRight":
        pan(STEP);
        break;
      case "ArrowUp":
        if (!onChart) return;
        zoom(0.7);
        break;
      case "ArrowDown":
        if (!onChart) return;
        zoom(1 / 0.7);
        break;
      case "Escape":
        app.move(viewport.back);
        break;
      case "x":
        app.move((time, growing) => viewport.reset(time, growing));
        break;
      case "f":
        zoomToSelection(app);
        break;
      case "[":
        app.move((time) => viewport.select(time, { from: centre(), to: time.selection?.to ?? time.range.to }));
        break;
      case "]":
        app.move((time) => viewport.select(time, { from: time.selection?.from ?? time.range.from, to: centre() }));
        break;
      case " ":
        if (onControl) return;
        app.setPaused(!app.paused);
        break;
      case "/":
        document.getElementById("filter")?.focus();
        break;
      case "e":
        exportDialog(app);
        break;
      case "t":
        nextTheme(app);
        break;
      case "?":
        helpDialog(VIEWS);
        break;
      default:
        if (!view) return;
        app.setView(view.id);
    }
    event.preventDefault();
  });
}
