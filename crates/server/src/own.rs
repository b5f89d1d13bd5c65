//! CPU time and memory of the server process.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// CPU time in nanoseconds and memory in bytes of this process. The program provides it, because it depends on the system.
pub type OwnUsage = fn() -> (Option<u64>, Option<u64>);

#[derive(Debug, Clone, Copy, Default)]
struct Last {
    at: Option<Instant>,
    cpu_ns: Option<u64>,
    cpu_percent: Option<f64>,
    memory_bytes: Option<u64>,
}

/// Reads the usage at most once per second.
#[derive(Debug)]
pub struct OwnProcess {
    usage: OwnUsage,
    last: Mutex<Last>,
}

impl OwnProcess {
    pub fn new(usage: OwnUsage) -> Self {
        Self { usage, last: Mutex::default() }
    }

    /// CPU use (100 = one core) and memory in bytes.
    pub fn cost(&self) -> (Option<f64>, Option<u64>) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.at.is_none_or(|at| at.elapsed() > Duration::from_secs(1)) {
            let now = Instant::now();
            let (cpu_ns, memory_bytes) = (self.usage)();
            let passed = last.at.map(|at| now.duration_since(at).as_nanos() as f64);
            let used = cpu_ns.zip(last.cpu_ns).map(|(now, then)| now.saturating_sub(then) as f64);
            let cpu_percent = used.zip(passed).map(|(used, passed)| 100.0 * used / passed.max(1.0));
            *last = Last { at: Some(now), cpu_ns, cpu_percent, memory_bytes };
        }
        (last.cpu_percent, last.memory_bytes)
    }
}
