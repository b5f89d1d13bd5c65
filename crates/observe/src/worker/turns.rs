//! This worker's half of a comparison in which two workers take turns.

use std::time::Duration;

use ortscope_channel::turn_taking::{Side, TurnTaking};
use ortscope_core::clock::now_ns;

use crate::measure::plan::TurnsPlan;
use ortscope_core::failure::Failure;

/// The turns of this worker.
#[derive(Debug)]
pub struct Turns {
    page: TurnTaking,
    side: Side,
    length_ns: u64,
    /// The end of the present turn; 0 before the first.
    until_ns: u64,
    waited_ns: u64,
}

impl Turns {
    pub fn open(plan: &TurnsPlan) -> Result<Self, Failure> {
        Ok(Self {
            page: TurnTaking::open(&plan.directory).map_err(Failure::internal)?,
            side: plan.side,
            length_ns: plan.length_ns,
            until_ns: 0,
            waited_ns: 0,
        })
    }

    /// Ends the turn when its time is over, and waits for the next. Returns whether a turn has just begun, or `None` if stopped.
    pub fn take(&mut self, stop: impl FnMut() -> bool) -> Option<bool> {
        let now = now_ns();
        if now < self.until_ns {
            return Some(false);
        }
        if self.until_ns != 0 {
            self.page.pass(self.side);
        }
        // The other worker needs at least this long, and polling would disturb it.
        let nap = if self.until_ns == 0 { 0 } else { self.length_ns / 10 * 9 };
        if !self.page.wait(self.side, Duration::from_nanos(nap), stop) {
            return None;
        }
        let begun = now_ns();
        self.waited_ns += begun - now;
        self.until_ns = begun + self.length_ns;
        Some(true)
    }

    /// Time of the other worker's turns, which is not part of the measurement.
    pub fn waited_ns(&self) -> u64 {
        self.waited_ns
    }
}

impl Drop for Turns {
    fn drop(&mut self) {
        self.page.finish(self.side);
    }
}
