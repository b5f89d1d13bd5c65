//! What a kernel tells about threads: context switches, wake-ups, starts, exits, faults and block I/O, in one form for
//! every system (BPF programs and perf rings on Linux, ETW on Windows), and the accounts that are made of it. Samples of
//! what processors execute, with their stacks, are beside it.
//!
//! Times are nanoseconds of the monotonic clock ([`crate::clock`]). Thread and process ids are those of the whole
//! machine, not of a container. What a source cannot tell is `None`, never 0.

mod by_id;
mod event;
mod file_io;
mod name;
mod sample;
mod stacks;
mod state;
mod tally;
pub mod threads;
mod usage;

pub use event::{
    BlockIo, BlockPhase, Exec, Exit, FaultKind, KernelEvent, MemoryCall, MemoryCallKind, Migration,
    PageFault, Start, Switch, SwitchReason, Task, Wakeup,
};
pub use file_io::{FileIo, FileKind, FileOperation, ImageLoad};
pub use name::ThreadName;
pub use sample::{CpuSample, MAX_FRAMES, StackWalk};
pub use stacks::{Frame, FrameId, FrameKind, HotFunction, StackProfile};
pub use state::{RunState, ThreadIo, ThreadState};
pub use tally::EventTally;
pub use usage::{Usage, UsageCounts, Window};
