//! What a kernel tells about threads: context switches, wake-ups, starts, exits, faults and block I/O, in one form for
//! every system (BPF programs and perf rings on Linux, ETW on Windows), and the accounts that are made of it.
//!
//! Times are nanoseconds of the monotonic clock ([`crate::clock`]). Thread and process ids are those of the whole
//! machine, not of a container. What a source cannot tell is `None`, never 0.

mod event;
mod name;
mod state;
mod tally;
pub mod threads;

pub use event::{
    BlockIo, BlockPhase, Exec, Exit, FaultKind, KernelEvent, MemoryCall, MemoryCallKind, Migration,
    PageFault, Start, Switch, SwitchReason, Task, Wakeup,
};
pub use name::ThreadName;
pub use state::{RunState, ThreadIo, ThreadState};
pub use tally::EventTally;
