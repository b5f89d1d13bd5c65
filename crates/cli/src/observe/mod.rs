//! Watching processes that ortscope does not run a model in: `attach` and `record`.
//!
//! ```text
//! plan ──► pipeline: process sampler, kernel events ──► recording
//!           inferences, from inside of processes ─┼───► collector ──► summary per process, spikes, inferences
//!           samples with stacks ──► flame graph ──┘
//! ```

mod collect;
mod device_events;
mod etw_settings;
mod flame;
mod inferences;
mod inside;
mod instrument;
mod kernel;
mod ort_events;
mod plan;
mod stacks;
mod summary;
mod watch;

pub use inside::{Inside, sweep_in_background};
pub use instrument::instrument;
pub use plan::{ObservePlan, StackPlan, plan};
pub use stacks::finish as finish_stacks;
pub use summary::{document, show};
pub use watch::{Started, watch};
