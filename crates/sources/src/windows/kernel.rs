//! Kernel events on Windows: sessions of event tracing with the kernel's flags.

pub use crate::absent::ThreadSnapshot;
pub use crate::etw::{EtwSamples as SampleTrace, EtwTrace as KernelTrace};
use crate::kernel::{BackendChoice, TraceWay};

pub const WAYS: &[TraceWay] = &[TraceWay {
    name: "etw events",
    choice: BackendChoice::Auto,
    sees: "every context switch, exact to the event; every class of events",
}];

/// What would show more of samples.
pub const SAMPLING_HINT: &str =
    "Windows Performance Analyzer names functions in a trace of `ortscope etl start --stacks`";

/// Processes are not held here: the beginning of a program is seen by the session that runs already.
pub fn hold(_pid: u32) -> bool {
    false
}

pub fn release(_pid: u32) {}

/// Asked beside a trace; the sampler's snapshot has it too.
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
