//! Ctrl-C: once stops and still reports, twice ends immediately.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Counts the user's requests to stop.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicU32>);

impl Interrupt {
    /// Catches the signal for the rest of the program. If that fails, the default remains: ending immediately.
    pub fn install() -> Self {
        let interrupt = Self::default();
        let count = Arc::clone(&interrupt.0);
        let installed = ctrlc::set_handler(move || {
            count.fetch_add(1, Ordering::SeqCst);
        });
        if let Err(error) = installed {
            tracing::warn!(%error, "Ctrl-C will end ortscope without a report");
        }
        interrupt
    }

    /// Ignores the signal in a worker: the terminal sends it to every process, but the supervisor decides.
    pub fn ignore() {
        if let Err(error) = ctrlc::set_handler(|| {}) {
            tracing::warn!(%error, "Ctrl-C will end the worker too");
        }
    }

    pub fn requested(&self) -> bool {
        self.0.load(Ordering::SeqCst) > 0
    }

    pub fn insisted(&self) -> bool {
        self.0.load(Ordering::SeqCst) > 1
    }
}
