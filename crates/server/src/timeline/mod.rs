//! The rectangles of the timeline, built from rows and cached for whole recordings.

mod lanes;
mod overview;
mod tiles;

pub use lanes::{LaneKey, LaneKind};
pub use overview::Overviews;
pub use tiles::{Lane, Rect, Tiles, Transition, Wanted};
