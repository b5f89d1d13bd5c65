//! Kernel events and snapshots of all threads, the same on every system: what to ask for, what comes back, and what is
//! missing if it cannot be had. The system's own half is chosen by the seam in `lib.rs`.

mod error;
mod options;
mod samples;

pub use error::TraceError;
pub use options::{
    BackendChoice, Class, ClassUnavailable, CounterSum, DrainStats, ProgramCost, TraceBackend, TraceOptions,
    TraceWay,
};
pub use samples::{SampleCounts, SampleOptions};
