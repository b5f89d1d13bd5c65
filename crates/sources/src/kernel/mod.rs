//! Kernel events and thread snapshots, with the same interface on every system: options, results and errors. The
//! system's own half is selected in `lib.rs`.

mod error;
mod options;
mod samples;

pub use error::TraceError;
pub use options::{
    BackendChoice, Class, ClassUnavailable, CounterSum, DrainStats, ProgramCost, TraceBackend, TraceOptions,
    TraceWay,
};
pub use samples::{SampleCounts, SampleOptions};
