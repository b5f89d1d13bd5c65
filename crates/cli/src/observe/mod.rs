//! `attach` and `record`: processes that ortscope does not run a model in.
//!
//! ```text
//! arguments ──► ObservePlan ──► observe::Watch ──► recording
//!                                             ├──► push, trace
//!                                             └──► collector ──► summary per process, spikes, inferences
//! ```

mod collect;
mod etw_settings;
mod flame;
mod inferences;
mod kernel;
mod plan;
mod stacks;
mod summary;

pub use collect::Collector;
pub use plan::{FlameRequest, ObservePlan, plan};
pub use stacks::finish as finish_stacks;
pub use summary::{Observed, document, show};
