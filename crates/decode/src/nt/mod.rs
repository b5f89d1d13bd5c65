//! Results of Windows' native system calls: processes with threads, processors, page files, command lines.
//!
//! Layouts are those of 64-bit little-endian Windows, which are the same on x64 and ARM64, on every system. The kernel
//! writes these buffers, but nothing here trusts them: every offset is checked, counts are bounded by the available
//! bytes, and no allocation depends on a number in the input.

mod bytes;
mod command_line;
mod logical;
mod machine;
mod process_list;
mod thread;

pub use command_line::{MAX_ARGUMENTS, split_command_line, unicode_string_after_header};

pub use logical::{LogicalProcessor, parse_logical_processors};
pub use machine::{
    Count32, ProcessorTimes, each_processor_switches, each_processor_times, page_files_in_use_pages,
};
pub use process_list::{
    Damaged, DiskCounters, Extension, IoCounters, Process, ProcessClass, ProcessList, Processes,
};
pub use thread::{RunState, Thread, Threads};

#[cfg(test)]
mod tests;
