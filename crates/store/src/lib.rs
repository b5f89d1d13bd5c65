//! Recordings on disk.

mod manifest;

pub use manifest::{FORMAT, Manifest, RecordingEnd};
