/** Wheel, drag, double click and cursor: the same on every picture of time. */

import type { App } from "../ui/app";
import * as viewport from "../logic/viewport";

export interface TimeArea {
  element: HTMLElement;
  /** Where time begins and ends, in pixels of the element. */
  left(): number;
  right(): number;
  /** The wheel zooms at once; false: only with Ctrl or when the element has the focus, so that the page can be scrolled. */
  wheel: boolean;
  click?(x: number, y: number): void;
  hover?(x: number, y: number): void;
}

const CLICK_PIXELS = 4;

export function attachTime(app: App, area: TimeArea): void {
  const { element } = area;
  const timeAt = (x: number) => {
    const width = Math.max(area.right() - area.left(), 1);
    return app.time.range.from + ((x - area.left()) / width) * viewport.span(app.time.range);
  };
  const place = (event: MouseEvent) => {
    const box = element.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };

  // One turn of a wheel is one step back, however many events it makes.
  let lastWheel = 0;
  const onWheel = (event: WheelEvent) => {
    if (!area.wheel && !event.ctrlKey && !event.metaKey && document.activeElement !== element) return;
    event.preventDefault();
    const remember = performance.now() - lastWheel > 600;
    lastWheel = performance.now();
    const { x } = place(event);
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      const by = (event.deltaX || event.deltaY) / Math.max(element.clientWidth, 1);
      app.move((time, growing) => viewport.pan(time, by, remember, growing));
    } else {
      const factor = Math.exp(Math.max(Math.min(event.deltaY, 200), -200) * 0.0022);
      app.move((time, growing) => viewport.zoom(time, timeAt(x), factor, remember, growing));
    }
  };

  let drag: {
    startX: number;
    startY: number;
    lastX: number;
    select: boolean;
    startTime: number;
    moved: boolean;
  } | null = null;
  const onDown = (event: PointerEvent) => {
    if (event.button !== 0) return;
    const { x, y } = place(event);
    if (x < area.left()) return;
    element.setPointerCapture(event.pointerId);
    drag = { startX: x, startY: y, lastX: x, select: event.shiftKey, startTime: timeAt(x), moved: false };
  };
  const onMove = (event: PointerEvent) => {
    const { x, y } = place(event);
    if (drag) {
      const first = !drag.moved;
      if (Math.abs(x - drag.startX) > CLICK_PIXELS) drag.moved = true;
      if (!drag.moved) return;
      if (drag.select) {
        const range = { from: drag.startTime, to: timeAt(Math.max(Math.min(x, area.right()), area.left())) };
        app.move((time) => viewport.select(time, range));
      } else {
        const by = (drag.lastX - x) / Math.max(area.right() - area.left(), 1);
        app.move((time, growing) => viewport.pan(time, by, first, growing));
        drag.lastX = x;
      }
      return;
    }
    app.setCursor(x >= area.left() && x <= area.right() ? timeAt(x) : null);
    area.hover?.(x, y);
  };
  const onUp = (event: PointerEvent) => {
    if (drag && !drag.moved) area.click?.(drag.startX, drag.startY);
    if (element.hasPointerCapture(event.pointerId)) element.releasePointerCapture(event.pointerId);
    drag = null;
  };
  const onLeave = () => {
    app.setCursor(null);
    area.hover?.(-1, -1);
  };
  const onDouble = () => app.move((time, growing) => viewport.reset(time, growing));

  element.addEventListener("wheel", onWheel, { passive: false });
  element.addEventListener("pointerdown", onDown);
  element.addEventListener("pointermove", onMove);
  element.addEventListener("pointerup", onUp);
  element.addEventListener("pointercancel", onUp);
  element.addEventListener("pointerleave", onLeave);
  element.addEventListener("dblclick", onDouble);
}
