//! Watching processes that ortscope does not run a model in: `attach` and `record`.
//!
//! ```text
//! plan ──► pipeline: process sampler, kernel events ──► recording
//!                                                 └───► collector ──► summary per process, spikes
//! ```

mod collect;
mod plan;
mod summary;
mod watch;

pub use plan::{ObservePlan, plan};
pub use summary::{document, show};
pub use watch::watch;
