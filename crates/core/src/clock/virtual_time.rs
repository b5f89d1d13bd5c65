//! Time that tests drive: a day passes in milliseconds, and every run sees the same stamps.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::Clock;

/// Whoever waits moves the clock: a wait until `t` sets the time to `t` and returns at once.
#[derive(Debug, Default)]
pub struct VirtualClock {
    now_ns: AtomicU64,
}

impl VirtualClock {
    pub fn starting_at(now_ns: u64) -> Self {
        Self { now_ns: AtomicU64::new(now_ns) }
    }

    pub fn advance(&self, nanos: u64) {
        self.now_ns.fetch_add(nanos, Ordering::SeqCst);
    }
}

impl Clock for VirtualClock {
    fn now_ns(&self) -> u64 {
        self.now_ns.load(Ordering::SeqCst)
    }

    fn real_wait(&self, deadline_ns: u64) -> Duration {
        self.now_ns.fetch_max(deadline_ns, Ordering::SeqCst);
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
        assert_eq!(clock.now_ns(), 1_000);
        clock.real_wait(500);
        assert_eq!(clock.now_ns(), 1_000);
        clock.advance(5);
        assert_eq!(clock.now_ns(), 1_005);
    }
}
