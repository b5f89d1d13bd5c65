//! Live capture of processes, kernel events and devices.
//!
//! Each operating system has a folder with the same functions, and the one of the current system is compiled as `sys`.
//! Everything else in this crate and in the crates above it is the same on every system.

mod channel_source;
pub mod devices;
pub mod etw;
pub mod kernel;
mod kernel_source;
mod kernel_stacks;
pub mod key_store;
mod machine;
mod peak;
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
        #[path = "kernel/etw_events.rs"]
        mod kernel_events;
    }
    _ => {
        #[path = "stub/mod.rs"]
        mod sys;
        #[path = "kernel/etw_events.rs"]
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
    CoreKind, Inventory, MachineFacts, MachineModel, ProcessUsage, Processor, SYSTEM_TYPES, UsageError,
    complete as complete_inventory, host_name,
};
pub use peak::measure_peak;
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

/// Drops the privileges that a server does not need, before it starts a second thread. On Linux it keeps the
/// capabilities to inspect other processes, read their files, count events and listen on low ports. `writable` stays
/// writable. With `no_new_privileges`, started programs cannot regain any. Returns the number of dropped privileges.
pub fn drop_unneeded_privileges(
    writable: &[std::path::PathBuf],
    no_new_privileges: bool,
) -> Result<u32, String> {
    sys::privileges::drop_unneeded(writable, no_new_privileges)
}

/// Identifies the current boot, where the system does: monotonic times are comparable within one boot.
pub fn boot_id() -> Option<String> {
    sys::boot_id()
}

/// A variable in the environment that a process was started with, where the system exposes it and permits reading.
pub fn environment_variable(pid: u32, name: &str) -> Option<String> {
    sys::environment_variable(pid, name)
}

/// Facts about the machine that are readable without privileges.
pub fn machine_facts() -> MachineFacts {
    sys::machine_facts()
}

/// The kind of machine according to its firmware.
pub fn machine_model() -> MachineModel {
    sys::machine_model()
}

/// Online processors; empty if the system does not list them.
pub fn processors() -> Vec<Processor> {
    sys::processors_online()
}

/// Pins the calling thread to the `index`-th (modulo their number) of its allowed processors. Returns the processor's
/// number, or `None` if the system refuses or does not support it.
pub fn pin_to_processor(index: usize) -> Option<u32> {
    sys::pin_to_processor(index)
}

/// Makes the allocator return unused memory to the system. Meant for long-running programs, never for one that runs a
/// model, because it changes the measured memory.
pub fn release_memory_automatically() {
    sys::release_memory_automatically();
}

/// Returns unused memory at once, after work that needed much memory and is not repeated soon.
pub fn release_memory_now() {
    sys::release_memory_now();
}

/// Waits up to `wait` for the terminal on standard input to become readable; true if it was closed. Returns at once
/// except on Linux.
pub fn terminal_closed_within(wait: std::time::Duration) -> bool {
    sys::terminal_closed_within(wait)
}

/// The backends for kernel events on this system, best first.
pub fn trace_ways() -> &'static [kernel::TraceWay] {
    kernel_events::WAYS
}

/// Functions of Event Tracing for Windows; `None` on other systems.
pub fn etw_functions() -> Option<std::sync::Arc<dyn etw::EtwApi>> {
    sys::etw_functions()
}

/// Pauses a program that was just started until all observers are ready; dropping this resumes it.
#[derive(Debug)]
pub struct PausedProcess(Option<u32>);

impl PausedProcess {
    pub fn new(pid: u32) -> Self {
        Self(kernel_events::hold(pid).then_some(pid))
    }
}

impl Drop for PausedProcess {
    fn drop(&mut self) {
        if let Some(pid) = self.0 {
            kernel_events::release(pid);
        }
    }
}

/// All current processes. Processes that exit during the call are left out.
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

/// A cheap clock for the CPU time of the calling thread, in nanoseconds; `None` where unsupported.
pub fn thread_cpu_clock() -> impl FnMut() -> Option<u64> {
    let mut backend = sys::process_backend();
    move || backend.own_cpu_ns()
}
