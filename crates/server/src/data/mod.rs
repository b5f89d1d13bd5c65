//! Data sources: the live machine and recordings, both read through [`ortscope_core::tables::Tables`].

mod cache;
mod newest;
mod ranged;
mod recent;
mod sources;

pub use cache::{Cache, CacheKey};
pub use newest::Newest;
pub use ranged::Ranged;
pub use recent::{Recent, RecentRows, Snapshot};
pub use sources::{Inner, Live, LiveControl, LiveState, RecordingState, Reports, Source, Sources};
