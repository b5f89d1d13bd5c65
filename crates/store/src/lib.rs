//! Recordings on disk: written so that a crash loses nothing that was kept, read without ever being changed.
//!
//! ```text
//! <store>/catalogue.sqlite              what there is, made again from the recordings when it is lost
//! <store>/<id>/manifest.json            what the recording says about itself
//!              segments/segment-N.cols  compressed columns, written once
//!              journal/                 what has not become a segment yet
//!              channel/                 rings of the observed process
//!              documents/               e.g. run.json
//!              lock                     held by the writer
//!              damaged/                 what a repair could not understand
//! ```
//! A [`RecordingWriter`] puts every batch through a filter that leaves out what did not change, into the journal; each
//! full journal file becomes a segment in the background. A [`Recording`] reads all of it through
//! [`ortscope_core::tables::Tables`].
//!
//! A recording can be encrypted, all of it: the frames of its journal, the blocks of its segments, its documents and its
//! manifest, each by itself.

mod catalogue;
mod changes;
mod columns;
mod encryption;
mod error;
mod files;
mod id;
mod key;
mod lock;
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
