/** What the user chose, kept in this browser. */

export interface Settings {
  theme: "system" | "dark" | "light";
  rateHertz: number;
  liveSpanMs: number;
  /** What axes show; `auto`: the time of day of a live machine, the time since the start of a recording. */
  timeAxis: "auto" | "start" | "day";
  /** What the filter leaves out is dimmed on the timeline instead of hidden. */
  dim: boolean;
}

const KEY = "ortscope.settings";
const DEFAULTS: Settings = { theme: "system", rateHertz: 2, liveSpanMs: 60_000, timeAxis: "auto", dim: false };

export function loadSettings(): Settings {
  try {
    const stored = JSON.parse(localStorage.getItem(KEY) ?? "{}") as Partial<Settings>;
    return { ...DEFAULTS, ...stored };
  } catch {
    return { ...DEFAULTS };
  }
}

export function saveSettings(settings: Settings): void {
  try {
    localStorage.setItem(KEY, JSON.stringify(settings));
  } catch {
    // A browser that keeps nothing still shows everything.
  }
}

export function applyTheme(theme: Settings["theme"]): void {
  if (theme === "system") document.documentElement.removeAttribute("data-theme");
  else document.documentElement.setAttribute("data-theme", theme);
}
