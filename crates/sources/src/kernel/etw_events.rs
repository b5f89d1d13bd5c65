//! Kernel events on systems other than Linux: event tracing sessions, which can be opened only on Windows. There are no
//! thread snapshots.

use ortscope_core::kernel::ThreadState;

pub use crate::etw::{EtwSamples as SampleTrace, EtwTrace as KernelTrace};
use crate::kernel::{BackendChoice, TraceError, TraceWay};

pub const WAYS: &[TraceWay] = &[TraceWay {
    name: crate::sys::KERNEL_EVENTS,
    choice: BackendChoice::Auto,
    sees: "every context switch with exact times; every event class",
}];

/// Hint for more complete samples.
pub const SAMPLING_HINT: &str =
    "Windows Performance Analyzer shows function names in a trace recorded by `ortscope etl start --stacks`";

/// Processes are not paused here: the running session observes the beginning of a program.
pub fn hold(_pid: u32) -> bool {
    false
}

pub fn release(_pid: u32) {}

/// Read in addition to a trace; the sampler's snapshot includes it too.
#[derive(Debug)]
pub struct ResidentMemory;

impl ResidentMemory {
    pub fn new() -> Self {
        Self
    }

    pub fn read_bytes(&mut self, pid: u32) -> Option<u64> {
        crate::process_usage(pid).ok().map(|usage| usage.working_set_bytes)
    }
}

/// Cannot be constructed.
#[derive(Debug)]
pub struct ThreadSnapshot(std::convert::Infallible);

impl ThreadSnapshot {
    pub fn open() -> Result<Self, TraceError> {
        Err(TraceError::not_implemented("a thread snapshot"))
    }

    pub fn refresh(&mut self) -> Result<u64, TraceError> {
        match self.0 {}
    }

    pub fn threads(&self) -> &[ThreadState] {
        match self.0 {}
    }

    pub fn changed(&self) -> &[u32] {
        match self.0 {}
    }

    pub fn take(&mut self, _out: &mut Vec<ThreadState>) -> Result<u64, TraceError> {
        match self.0 {}
    }
}
