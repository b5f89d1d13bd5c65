//! The view as data: a [`Snapshot`] of the live memory, the [`order()`] of its processes and the [`Detail`] of one of
//! them. Nothing here depends on the terminal.

mod detail;
mod filter;
mod machine;
mod metric;
mod missing;
mod order;
mod past;
mod sessions;
mod snapshot;
mod tree;

pub use detail::{Detail, Slope};
pub use filter::Filter;
pub use machine::Device;
pub use metric::{Column, Metric};
pub use order::{Line, Sort, order};
pub use past::{Shown, last_minute};
pub use sessions::{LATENCY_SECONDS, Session};
pub use snapshot::{Process, Snapshot, fingerprint};
