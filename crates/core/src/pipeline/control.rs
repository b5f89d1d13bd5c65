//! The way back: stop, pause and rate, from the user to the sources.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::clock::Clock;

#[derive(Debug)]
struct Shared {
    stop: AtomicBool,
    paused: AtomicBool,
    /// Sampling rate in thousandths of a hertz; 0 = the source's own.
    rate_millihertz: AtomicU64,
    lock: Mutex<()>,
    changed: Condvar,
    clock: Arc<dyn Clock>,
}

/// Commands to running sources. Clones share their state.
#[derive(Debug, Clone)]
pub struct Control(Arc<Shared>);

impl Control {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self(Arc::new(Shared {
            stop: AtomicBool::new(false),
            paused: AtomicBool::new(false),
            rate_millihertz: AtomicU64::new(0),
            lock: Mutex::new(()),
            changed: Condvar::new(),
            clock,
        }))
    }

    pub fn clock(&self) -> &dyn Clock {
        &*self.0.clock
    }

    pub fn stop(&self) {
        self.0.stop.store(true, Ordering::SeqCst);
        self.wake();
    }

    pub fn is_stopped(&self) -> bool {
        self.0.stop.load(Ordering::SeqCst)
    }

    pub fn pause(&self, paused: bool) {
        self.0.paused.store(paused, Ordering::SeqCst);
        self.wake();
    }

    pub fn is_paused(&self) -> bool {
        self.0.paused.load(Ordering::SeqCst)
    }

    /// Asks every polled source for this rate; zero returns to each one's own.
    pub fn set_rate_hertz(&self, hertz: f64) {
        let millihertz = if hertz.is_finite() && hertz > 0.0 { (hertz * 1000.0).round() as u64 } else { 0 };
        self.0.rate_millihertz.store(millihertz, Ordering::SeqCst);
        self.wake();
    }

    pub fn rate_hertz(&self) -> Option<f64> {
        match self.0.rate_millihertz.load(Ordering::SeqCst) {
            0 => None,
            millihertz => Some(millihertz as f64 / 1000.0),
        }
    }

    /// Sleeps until the deadline on the pipeline's clock. Returns `false` at once when stopped.
    pub fn sleep_until(&self, deadline_ns: u64) -> bool {
        loop {
            if self.is_stopped() {
                return false;
            }
            let wait = self.0.clock.real_wait(deadline_ns);
            if wait.is_zero() {
                return true;
            }
            let guard = self.0.lock.lock().unwrap_or_else(PoisonError::into_inner);
            if self.is_stopped() {
                return false;
            }
            // Woken early by a command: the loop looks again.
            drop(
                self.0
                    .changed
                    .wait_timeout(guard, wait.min(Duration::from_secs(3600)))
                    .unwrap_or_else(PoisonError::into_inner),
            );
        }
    }

    fn wake(&self) {
        // Taking the lock first means a sleeper either saw the change or is already waiting for the notification.
        drop(self.0.lock.lock().unwrap_or_else(PoisonError::into_inner));
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{SystemClock, VirtualClock, now_ns};

    #[test]
    fn stop_wakes_a_sleeper() {
        let control = Control::new(Arc::new(SystemClock));
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| control.sleep_until(now_ns() + 600_000_000_000));
            control.stop();
            assert!(!sleeper.join().expect("sleeper"));
        });
    }

    #[test]
    fn virtual_time_passes_at_once() {
        let control = Control::new(Arc::new(VirtualClock::default()));
        assert!(control.sleep_until(86_400_000_000_000));
        assert_eq!(control.clock().now_ns(), 86_400_000_000_000);
    }

    #[test]
    fn rates_are_kept_to_the_millihertz() {
        let control = Control::new(Arc::new(SystemClock));
        assert_eq!(control.rate_hertz(), None);
        control.set_rate_hertz(0.25);
        assert_eq!(control.rate_hertz(), Some(0.25));
        control.set_rate_hertz(f64::NAN);
        assert_eq!(control.rate_hertz(), None);
    }
}
