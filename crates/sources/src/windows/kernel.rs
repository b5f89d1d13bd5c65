//! Kernel events on Windows: event tracing sessions with the kernel's flags.

pub use crate::absent::ThreadSnapshot;
pub use crate::etw::{EtwSamples as SampleTrace, EtwTrace as KernelTrace};
use crate::kernel::{BackendChoice, TraceWay};

pub const WAYS: &[TraceWay] = &[TraceWay {
    name: "etw events",
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
