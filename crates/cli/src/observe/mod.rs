//! Watching processes that ortscope does not run a model in: `attach` and `record`.
//!
//! ```text
//! plan ──► pipeline: process sampler, kernel events ──► recording
//!                                                 ├───► collector ──► summary per process, spikes
//!           samples with stacks ──► flame graph ──┘
//! ```

mod collect;
mod flame;
mod kernel;
mod plan;
mod stacks;
mod summary;
mod watch;

pub use plan::{ObservePlan, plan};
pub use stacks::finish as finish_stacks;
pub use summary::{document, show};
pub use watch::{Started, watch};
