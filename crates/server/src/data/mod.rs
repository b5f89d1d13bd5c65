//! Data sources: the live machine and recordings, both read through [`ortscope_core::tables::Tables`].

mod newest;
mod ranged;
mod recent;
mod reports;
mod sources;

pub use newest::Newest;
pub use ranged::Ranged;
pub use recent::{Recent, RecentRows, Snapshot};
pub use reports::Reports;
pub use sources::{Inner, Live, LiveControl, LiveState, RecordingState, Source, Sources};
