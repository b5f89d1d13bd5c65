//! Time that tests drive: a day passes in milliseconds, and every run sees the same stamps.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::Clock;

/// Whoever waits moves the clock: a wait until `t` sets the time to `t` and returns at once.
#[derive(Debug, Default)]
pub struct VirtualClock {
    now_nanos: AtomicU64,
}

impl VirtualClock {
    pub fn starting_at(now_nanos: u64) -> Self {
        Self { now_nanos: AtomicU64::new(now_nanos) }
    }

    pub fn advance(&self, nanos: u64) {
        self.now_nanos.fetch_add(nanos, Ordering::SeqCst);
    }
}

impl Clock for VirtualClock {
    fn now_nanos(&self) -> u64 {
        self.now_nanos.load(Ordering::SeqCst)
    }

    fn real_wait(&self, deadline_nanos: u64) -> Duration {
        self.now_nanos.fetch_max(deadline_nanos, Ordering::SeqCst);
        Duration::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_moves_time_forward_only() {
        let clock = VirtualClock::starting_at(100);
        assert_eq!(clock.real_wait(1_000), Duration::ZERO);
        assert_eq!(clock.now_nanos(), 1_000);
        clock.real_wait(500);
        assert_eq!(clock.now_nanos(), 1_000);
        clock.advance(5);
        assert_eq!(clock.now_nanos(), 1_005);
    }
}
