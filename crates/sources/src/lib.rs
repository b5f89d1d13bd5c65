//! Live capture, behind one seam.
//!
//! Each operating system has a folder that offers the same functions; the one for this system is re-exported as `sys`.
//! Everything else in this crate, and in the crates above it, is the same everywhere.

mod channel_source;
mod machine;
mod peak;
mod process;
mod process_sampler;

std::cfg_select! {
    target_os = "linux" => {
        #[path = "linux/mod.rs"]
        mod sys;
    }
    windows => {
        #[path = "windows/mod.rs"]
        mod sys;
    }
    _ => {
        #[path = "stub/mod.rs"]
        mod sys;
    }
}

pub use channel_source::{ChannelSource, MESSAGE_KIND};
pub use machine::MachineFacts;
pub use peak::{MachinePeak, measure_peak};
pub use process::{ProcessUsage, UsageError};
pub use process_sampler::ProcessSampler;

/// CPU time and memory of a process.
pub fn process_usage(pid: u32) -> Result<ProcessUsage, UsageError> {
    sys::process_usage(pid)
}

/// CPU time and memory of this process, with the most exact clock the system has for its own processes.
pub fn own_usage() -> Result<ProcessUsage, UsageError> {
    sys::own_usage()
}

/// Names the present boot of the machine, where the system does: monotonic times of one boot can be compared.
pub fn boot_id() -> Option<String> {
    sys::boot_id()
}

/// The machine, as far as it can be read without rights.
pub fn machine_facts() -> MachineFacts {
    sys::machine_facts()
}
