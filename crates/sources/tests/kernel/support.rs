//! Opens a trace, or skips the test with the reason.

use std::time::{Duration, Instant};

use ortscope_core::kernel::KernelEvent;
use ortscope_sources::kernel::{BackendChoice, DrainStats, TraceError, TraceOptions};
use ortscope_sources::{KernelTrace, ThreadSnapshot};

use crate::skips;

/// A trace that no other test of this program disturbs.
#[derive(Debug)]
pub struct Alone {
    trace: KernelTrace,
    _lock: std::fs::File,
}

impl std::ops::Deref for Alone {
    type Target = KernelTrace;

    fn deref(&self) -> &KernelTrace {
        &self.trace
    }
}

impl std::ops::DerefMut for Alone {
    fn deref_mut(&mut self) -> &mut KernelTrace {
        &mut self.trace
    }
}

/// `None` after noting the skip. A refusal despite sufficient privileges is a failure.
pub fn open(options: &TraceOptions) -> Option<Alone> {
    let lock = std::fs::File::create(concat!(env!("CARGO_TARGET_TMPDIR"), "/kernel-trace.lock")).unwrap();
    lock.lock().unwrap();
    Some(Alone { trace: or_skip(KernelTrace::open(options))?, _lock: lock })
}

pub fn snapshot() -> Option<ThreadSnapshot> {
    or_skip(ThreadSnapshot::open())
}

pub fn or_skip<T>(opened: Result<T, TraceError>) -> Option<T> {
    match opened {
        Ok(opened) => Some(opened),
        Err(error @ (TraceError::Rejected { .. } | TraceError::System { .. })) => panic!("{error}"),
        Err(error) => {
            skips::skipped(&error.to_string().replace('\n', " "));
            None
        }
    }
}

/// With rings that are large enough for a test that is not scheduled for a while.
pub fn by(backend: BackendChoice) -> TraceOptions {
    TraceOptions { backend, ring_bytes_per_cpu: 8 << 20, ..TraceOptions::default() }
}

/// Drains 20 times per second until the work is done, and once more.
pub fn drain_while(trace: &mut KernelTrace, done: impl Fn() -> bool) -> (Vec<KernelEvent>, DrainStats) {
    let (mut events, mut sum) = (Vec::new(), DrainStats::default());
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut finished = false;
    while !finished && Instant::now() < deadline {
        finished = done();
        std::thread::sleep(Duration::from_millis(50));
        let stats = trace.drain(&mut |event| events.push(event));
        sum.events += stats.events;
        sum.lost += stats.lost;
        sum.recursion_misses += stats.recursion_misses;
        sum.late += stats.late;
        sum.unknown += stats.unknown;
    }
    (events, sum)
}
