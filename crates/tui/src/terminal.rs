//! Takes the terminal over and gives it back on every way out: return, error, panic.
//!
//! A panic of the drawing thread restores the screen before its message is printed. Panics of other threads must not
//! write over the picture: their messages wait until the screen is restored.

use std::io::{self, IsTerminal as _, Write as _};
use std::panic::{self, PanicHookInfo};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, ThreadId};

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::crossterm::{cursor, execute};

/// Messages of other threads that are kept; more are counted.
const MAX_MESSAGES: usize = 8;

type Hook = dyn Fn(&PanicHookInfo<'_>) + Send + Sync;

/// The terminal while the view has it.
pub struct Screen {
    pub terminal: ratatui::Terminal<CrosstermBackend<io::Stdout>>,
    hook: Arc<Hook>,
    messages: Arc<Mutex<Messages>>,
}

#[derive(Debug, Default)]
struct Messages {
    texts: Vec<String>,
    more: usize,
}

impl Screen {
    pub fn enter() -> io::Result<Self> {
        if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
            let why = "the live view needs a terminal for input and output; without one use --once";
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        let messages = Arc::new(Mutex::new(Messages::default()));
        let hook: Arc<Hook> = Arc::from(panic::take_hook());
        install(&hook, &messages);
        let entered = enable_raw_mode()
            .and_then(|()| execute!(io::stdout(), EnterAlternateScreen, cursor::Hide))
            .and_then(|()| ratatui::Terminal::new(CrosstermBackend::new(io::stdout())));
        match entered {
            Ok(terminal) => {
                // From here on dropping it restores.
                let mut screen = Self { terminal, hook, messages };
                screen.terminal.clear()?;
                Ok(screen)
            }
            Err(error) => {
                restore();
                uninstall(&hook);
                Err(error)
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
        // During a panic the hook must not be changed; it has done its work.
        if !thread::panicking() {
            uninstall(&self.hook);
        }
        let messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        let mut errors = io::stderr().lock();
        for text in &messages.texts {
            ignore(writeln!(errors, "{text}"));
        }
        if messages.more > 0 {
            ignore(writeln!(errors, "and {} more panics", messages.more));
        }
    }
}

fn install(hook: &Arc<Hook>, messages: &Arc<Mutex<Messages>>) {
    let (before, messages) = (Arc::clone(hook), Arc::clone(messages));
    let drawing: ThreadId = thread::current().id();
    panic::set_hook(Box::new(move |info| {
        if thread::current().id() == drawing {
            restore();
            before(info);
            return;
        }
        let mut messages = messages.lock().unwrap_or_else(PoisonError::into_inner);
        if messages.texts.len() < MAX_MESSAGES {
            let name = thread::current().name().unwrap_or("unnamed").to_owned();
            messages.texts.push(format!("thread '{name}' {info}"));
        } else {
            messages.more += 1;
        }
    }));
}

fn uninstall(hook: &Arc<Hook>) {
    let hook = Arc::clone(hook);
    panic::set_hook(Box::new(move |info| hook(info)));
}

/// Calling it twice does no harm. Errors are not reported, because no screen is left to show them.
fn restore() {
    ignore(execute!(io::stdout(), LeaveAlternateScreen, cursor::Show));
    ignore(disable_raw_mode());
}

fn ignore(_: io::Result<()>) {}
