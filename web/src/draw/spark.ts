/** A small line without axes, beside a number. */

import type { Scope } from "../ui/dom";
import type { App } from "../ui/app";
import { currentTheme, faded, Surface } from "./surface";

export class Spark {
  readonly element: HTMLCanvasElement;
  private readonly surface: Surface;
  private values: () => readonly number[] = () => [];

  constructor(scope: Scope, app: App, label: string) {
    this.surface = new Surface(label, (context, width, height) => this.draw(context, width, height));
    this.element = this.surface.canvas;
    this.element.classList.add("spark");
    app.on(scope, "theme", () => this.surface.request());
    scope.add(() => this.surface.dispose());
  }

  /** The values are asked for when they are drawn. */
  set(values: () => readonly number[]): void {
    this.values = values;
    this.surface.request();
  }

  private draw(context: CanvasRenderingContext2D, width: number, height: number): void {
    const values = this.values();
    if (values.length < 2) return;
    const theme = currentTheme();
    const low = Math.min(...values);
    const high = Math.max(...values);
    // A quiet series is a line in the middle, not noise blown up to the full height.
    const room = Math.max(high - low, Math.abs(high) * 0.1, 1e-9);
    const centre = (high + low) / 2;
    const y = (value: number) => height / 2 - ((value - centre) / room) * (height - 4);
    const x = (index: number) => (index / (values.length - 1)) * width;
    context.beginPath();
    values.forEach((value, index) => (index === 0 ? context.moveTo(0, y(value)) : context.lineTo(x(index), y(value))));
    context.strokeStyle = theme.accent;
    context.lineWidth = 1.25;
    context.stroke();
    context.lineTo(width, height);
    context.lineTo(0, height);
    context.fillStyle = faded(theme.accent, 0.1);
    context.fill();
  }
}
