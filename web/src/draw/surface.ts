/** A canvas that is as sharp as the screen, follows its element's size, and draws at most once per frame and only when seen. */

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
  /** Pixels of the screen per pixel of the page. */
  ratio = 1;
  private scheduled = 0;
  /** Outside of the window nothing is drawn; what was asked for meanwhile is drawn when it comes into view. */
  private seen = true;
  private waiting = false;
  private resized = false;
  private readonly size: ResizeObserver;
  private readonly view: IntersectionObserver;

  constructor(
    label: string,
    private readonly draw: (context: CanvasRenderingContext2D, width: number, height: number) => void,
  ) {
    const context = this.canvas.getContext("2d");
    if (!context) throw new Error("this browser cannot draw on a canvas");
    this.context = context;
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", label);
    this.size = new ResizeObserver(() => this.resize());
    this.size.observe(this.canvas);
    this.view = new IntersectionObserver((entries) => {
      this.seen = entries.at(-1)?.isIntersecting ?? true;
      if (this.seen && this.waiting) this.now();
    });
    this.view.observe(this.canvas);
  }

  /** Draws in the next frame. `resized`: the element has another size by then, which it is drawn with at once. */
  request(resized = false): void {
    this.resized ||= resized;
    if (!this.seen) {
      this.waiting = true;
    } else if (this.scheduled === 0) {
      this.scheduled = requestAnimationFrame(() => {
        this.scheduled = 0;
        this.now();
      });
    }
  }

  dispose(): void {
    this.size.disconnect();
    this.view.disconnect();
    cancelAnimationFrame(this.scheduled);
  }

  private resize(): void {
    const width = this.canvas.clientWidth;
    const height = this.canvas.clientHeight;
    if (width === this.width && height === this.height) return;
    this.width = width;
    this.height = height;
    // Sizing clears the canvas: it is drawn at once, or it would flicker.
    if (this.seen) this.now();
    else this.waiting = true;
  }

  private now(): void {
    if (this.resized) [this.width, this.height] = [this.canvas.clientWidth, this.canvas.clientHeight];
    this.waiting = this.resized = false;
    if (this.width === 0 || this.height === 0) return;
    const ratio = (this.ratio = Math.min(devicePixelRatio || 1, 3));
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
