/** A canvas that is as sharp as the screen, follows its element's size and draws at most once per frame. */

export interface Theme {
  text: string;
  muted: string;
  faint: string;
  grid: string;
  surface: string;
  raised: string;
  accent: string;
  warn: string;
  bad: string;
  good: string;
}

let theme: Theme | null = null;

export function currentTheme(): Theme {
  if (!theme) {
    const style = getComputedStyle(document.documentElement);
    const colour = (name: string) => style.getPropertyValue(`--${name}`).trim();
    theme = {
      text: colour("text"),
      muted: colour("muted"),
      faint: colour("faint"),
      grid: colour("grid"),
      surface: colour("surface"),
      raised: colour("raised"),
      accent: colour("accent"),
      warn: colour("warn"),
      bad: colour("bad"),
      good: colour("good"),
    };
  }
  return theme;
}

/** The colours changed: they are read again. */
export function forgetTheme(): void {
  theme = null;
}

export const FONT = '11px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';

export class Surface {
  readonly canvas = document.createElement("canvas");
  readonly context: CanvasRenderingContext2D;
  width = 0;
  height = 0;
  private scheduled = 0;
  private readonly observer: ResizeObserver;

  constructor(
    label: string,
    private readonly draw: (context: CanvasRenderingContext2D, width: number, height: number) => void,
  ) {
    const context = this.canvas.getContext("2d");
    if (!context) throw new Error("this browser cannot draw on a canvas");
    this.context = context;
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", label);
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.canvas);
  }

  /** Draws in the next frame. */
  request(): void {
    if (this.scheduled === 0) {
      this.scheduled = requestAnimationFrame(() => {
        this.scheduled = 0;
        this.now();
      });
    }
  }

  dispose(): void {
    this.observer.disconnect();
    cancelAnimationFrame(this.scheduled);
  }

  private resize(): void {
    const width = this.canvas.clientWidth;
    const height = this.canvas.clientHeight;
    if (width === this.width && height === this.height) return;
    this.width = width;
    this.height = height;
    // Sizing clears the canvas: it is drawn at once, or it would flicker.
    this.now();
  }

  private now(): void {
    if (this.width === 0 || this.height === 0) return;
    const ratio = Math.min(devicePixelRatio || 1, 3);
    const [width, height] = [Math.round(this.width * ratio), Math.round(this.height * ratio)];
    if (this.canvas.width !== width || this.canvas.height !== height) {
      this.canvas.width = width;
      this.canvas.height = height;
    }
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.context.clearRect(0, 0, this.width, this.height);
    this.context.font = FONT;
    this.draw(this.context, this.width, this.height);
  }
}

/** A colour with an opacity; takes #rrggbb. */
export function faded(colour: string, opacity: number): string {
  const alpha = Math.round(opacity * 255)
    .toString(16)
    .padStart(2, "0");
  return /^#[0-9a-f]{6}$/i.test(colour) ? colour + alpha : colour;
}
