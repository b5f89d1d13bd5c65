//! Live capture, behind one seam.
//!
//! Each operating system has a folder that offers the same functions; the one for this system is re-exported as `sys`.
//! Everything else in this crate, and in the crates above it, is the same everywhere.

mod channel_source;
pub mod devices;
pub mod etw;
pub mod kernel;
mod kernel_source;
mod kernel_stacks;
pub mod key_store;
mod machine;
mod peak;
mod process;
mod processors;
pub mod programs;
mod python_stacks;
pub mod sampler;
mod usage_watch;

std::cfg_select! {
    target_os = "linux" => {
        #[path = "linux/mod.rs"]
        mod sys;
        use sys::kernel as kernel_events;
    }
    windows => {
        #[path = "windows/mod.rs"]
        mod sys;
        #[path = "kernel/absent.rs"]
        mod absent;
        use sys::kernel as kernel_events;
    }
    _ => {
        #[path = "stub/mod.rs"]
        mod sys;
        #[path = "kernel/absent.rs"]
        mod absent;
        #[path = "kernel/absent_trace.rs"]
        mod kernel_events;
    }
}

pub use channel_source::{ChannelSource, MESSAGE_KIND};
pub use kernel_events::{KernelTrace, SampleTrace, ThreadSnapshot};
pub use kernel_source::{
    ClassCost, KernelCounts, KernelHandle, KernelSource, KernelSummary, OnMilli, ProcessMilli,
};
pub use kernel_stacks::{StackSource, Stacks, StacksHandle};
pub use machine::{
    Inventory, MachineFacts, MachineModel, SYSTEM_TYPES, complete as complete_inventory, host_name,
};
pub use peak::{MachinePeak, measure_peak};
pub use process::{ProcessUsage, UsageError};
pub use processors::{CoreKind, Processor};
pub use python_stacks::PythonStackSource;
pub use sampler::{OwnCost, OwnCostHandle, ProcessSampler, SamplerOptions};
pub use usage_watch::{MemoryReading, UsageWatch, UsageWatchCounts};

/// CPU time and memory of a process.
pub fn process_usage(pid: u32) -> Result<ProcessUsage, UsageError> {
    sys::process_usage(pid)
}

/// CPU time and memory of this process, with the most exact clock the system has for its own processes.
pub fn own_usage() -> Result<ProcessUsage, UsageError> {
    sys::own_usage()
}

/// Gives up rights that a server does not need, before it has a second thread: on Linux every capability but those to read
/// what other processes do, to read files of others, to count events and to listen on low ports. What lies in `places` stays
/// writable. With `never_more`, no program that is started can get more. How many were given up.
pub fn drop_unneeded_privileges(places: &[std::path::PathBuf], never_more: bool) -> Result<u32, String> {
    sys::privileges::drop_unneeded(places, never_more)
}

/// Names the present boot of the machine, where the system does: monotonic times of one boot can be compared.
pub fn boot_id() -> Option<String> {
    sys::boot_id()
}

/// The machine, as far as it can be read without rights.
pub fn machine_facts() -> MachineFacts {
    sys::machine_facts()
}

/// What kind of machine this is, as far as its firmware says.
pub fn machine_model() -> MachineModel {
    sys::machine_model()
}

/// The processors that are switched on; empty where the system does not say.
pub fn processors() -> Vec<Processor> {
    sys::processors_online()
}

/// Keeps the calling thread on one of the processors it may use: the one with this index, counted round. Its number, or
/// `None` where the system refuses or is not asked.
pub fn keep_on_processor(index: usize) -> Option<u32> {
    sys::keep_on_processor(index)
}

/// Has this program's allocator give memory back that it does not need, where it would keep it. For programs that run for long;
/// never for one that runs a model, whose memory is measured.
pub fn give_back_freed_memory() {
    sys::give_back_freed_memory();
}

/// The same at once, after work that took much and will not be done again soon.
pub fn give_back_freed_memory_now() {
    sys::give_back_freed_memory_now();
}

/// Waits until the terminal on standard input has something to read, at most so long; true when the terminal is gone. Where
/// the system is not asked (all but Linux) it returns at once.
pub fn terminal_gone_within(wait: std::time::Duration) -> bool {
    sys::terminal_gone_within(wait)
}

/// The ways to read kernel events that this system has, best first.
pub fn trace_ways() -> &'static [kernel::TraceWay] {
    kernel_events::WAYS
}

/// The functions of Windows' event tracing; `None` on other systems.
pub fn etw_functions() -> Option<std::sync::Arc<dyn etw::EtwApi>> {
    sys::etw_functions()
}

/// Stops a program that was just started until everything that watches it is ready; dropping it lets it go on.
#[derive(Debug)]
pub struct Held(Option<u32>);

impl Held {
    pub fn new(pid: u32) -> Self {
        Self(kernel_events::hold(pid).then_some(pid))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(pid) = self.0 {
            kernel_events::release(pid);
        }
    }
}

/// Every process there is now. One that ends while it is looked at is left out.
pub fn processes() -> Result<Vec<sampler::ProcessFacts>, sampler::ReadError> {
    let mut backend = sys::process_backend();
    let mut pids = Vec::new();
    backend.list(&mut pids)?;
    let mut facts = sampler::ProcessFacts::default();
    let mut found = Vec::with_capacity(pids.len());
    for pid in pids {
        match backend.look(pid, &mut facts) {
            Ok(()) => found.push(facts.clone()),
            Err(sampler::ReadError::Gone | sampler::ReadError::Denied) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// A clock of the CPU time that the calling thread has used, in nanoseconds; cheap to read. `None` where there is none.
pub fn thread_cpu_clock() -> impl FnMut() -> Option<u64> {
    let mut backend = sys::process_backend();
    move || backend.own_cpu_ns()
}
