//! Progress on a terminal's stderr; a line every few seconds elsewhere; nothing with `--quiet`.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use ortscope_observe::progress::Progress;

use crate::terminal::Terminal;

/// How often a line is printed when stderr is not a terminal.
const LINE_PERIOD: Duration = Duration::from_secs(5);

/// A progress bar, or a line now and then.
#[derive(Debug)]
pub struct ProgressLine {
    bar: Option<ProgressBar>,
    lines: bool,
    last_line: Instant,
    title: String,
}

impl ProgressLine {
    pub fn start(terminal: &Terminal, title: &str) -> Self {
        let bar = (terminal.progress_bars()).then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(8));
            if let Ok(style) = ProgressStyle::with_template("{spinner} {prefix}  {msg}") {
                bar.set_style(style);
            }
            bar.set_prefix(title.to_owned());
            bar
        });
        Self { bar, lines: terminal.progress_lines(), last_line: Instant::now(), title: title.to_owned() }
    }

    /// Shows nothing: for work beside something that already shows progress.
    pub fn silent() -> Self {
        Self { bar: None, lines: false, last_line: Instant::now(), title: String::new() }
    }

    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Progress for ProgressLine {
    fn update(&mut self, text: &dyn Fn() -> String) {
        if let Some(bar) = &self.bar {
            bar.set_message(text());
            bar.tick();
        } else if self.lines && self.last_line.elapsed() >= LINE_PERIOD {
            self.last_line = Instant::now();
            crate::terminal::print_error(&format!("{}  {}", self.title, text()));
        }
    }
}
