//! Recordings on disk: crash-safe while written, never changed by reading.
//!
//! ```text
//! <store>/catalogue.sqlite              list of recordings, rebuilt if lost
//! <store>/<id>/manifest.json            metadata of the recording
//!              segments/segment-N.cols  compressed columns, written once
//!              journal/                 rows that are not in a segment yet
//!              channel/                 rings of the observed process
//!              documents/               e.g. run.json
//!              lock                     held by the writer
//!              damaged/                 files that a repair could not read
//! ```
//! A [`RecordingWriter`] removes unchanged samples from every batch and appends the rest to the journal; each full
//! journal file becomes a segment in the background. A [`Recording`] reads all of it through
//! [`ortscope_core::tables::Tables`].
//!
//! A recording can be encrypted completely: the frames of its journal, the blocks of its segments, its documents and
//! its manifest, each separately.

mod catalogue;
mod changes;
mod columns;
mod encryption;
mod error;
mod files;
mod key;
mod manifest;
mod pack;
mod recording;
mod repair;
mod segment;
#[cfg(test)]
#[path = "../tests/simulation/mod.rs"]
mod simulation;
mod store;
mod sweep;
mod writer;

pub use catalogue::Entry;
pub use encryption::{KEY_VARIABLE, Key, KeyId, KeySources, Seal, set_key_sources};
pub use error::{StoreError, StoreErrorKind};
pub use manifest::{ChannelPlace, FORMAT, Manifest, RecordingEnd};
pub use ortscope_channel::journal::JournalOptions;
pub use pack::{PackOptions, PackReport, pack};
pub use recording::{Condition, Damage, Recording, TableSummary};
pub use repair::{RepairReport, repair};
pub use store::{Pruned, Retention, Store};
pub use sweep::sweep;
pub use writer::{Finished, NewRecording, RecordingJournal, RecordingWriter, after_segments};
