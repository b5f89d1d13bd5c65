//! The loop: keys at once, data at the refresh rate, a frame only when something changed.

use std::io;
use std::time::{Duration, Instant};

use ortscope_core::clock::now_ns;
use ortscope_core::live::LiveView;
use ratatui::crossterm::event::{self, Event};

use crate::app::App;
use crate::facts::ProcessFacts;
use crate::options::TopOptions;
use crate::terminal::Screen;

/// `stop` is called at least this often.
const MAX_WAIT: Duration = Duration::from_millis(200);
/// Events handled before the next frame: a held key must not keep the screen from changing.
const MAX_EVENTS: usize = 64;

/// Shows the live memory until the user quits, `stop` returns true or the terminal is gone.
///
/// # Errors
/// If input or output is not a terminal, or the terminal fails. It is restored in every case.
pub fn run(
    view: LiveView,
    facts: &dyn ProcessFacts,
    options: &TopOptions<'_>,
    stop: impl Fn() -> bool,
) -> io::Result<()> {
    let mut app = App::new(view, facts, options);
    let mut screen = Screen::enter()?;
    let mut next_refresh = Instant::now();
    let mut changed = true;
    while !stop() && !app.state.quit {
        let now = Instant::now();
        let due = now >= next_refresh;
        if due {
            changed |= app.refresh(now_ns());
        }
        if changed {
            screen.terminal.draw(|frame| {
                let area = frame.area();
                app.draw(area, frame.buffer_mut(), now_ns());
            })?;
            changed = false;
        }
        if due {
            let period = app.state.period_after(now.elapsed());
            // From now on, not from when it was due: after a suspension there is nothing to catch up.
            next_refresh = now + period;
        }
        let asked = Instant::now();
        let wait = next_refresh.saturating_duration_since(asked).min(MAX_WAIT);
        if options.terminal.gone_within(wait) {
            break;
        }
        if event::poll(wait.saturating_sub(asked.elapsed()))? {
            changed |= handle_events(&mut app)?;
        }
    }
    Ok(())
}

/// Handles pending events; returns whether the frame changed.
fn handle_events(app: &mut App<'_>) -> io::Result<bool> {
    let mut changed = false;
    for _ in 0..MAX_EVENTS {
        changed |= match event::read()? {
            Event::Key(key) => app.key(key),
            // The terminal is measured again when it is drawn to.
            Event::Resize(..) => true,
            Event::FocusGained | Event::FocusLost | Event::Mouse(_) | Event::Paste(_) => false,
        };
        if app.state.quit || !event::poll(Duration::ZERO)? {
            break;
        }
    }
    Ok(changed)
}
