//! File-backed rings between processes, and the journal of a recording.
//!
//! A channel is a private directory. A program that runs inferences writes records into rings there, one ring per
//! thread, so that writing needs no lock and takes tens of nanoseconds; the observer reads all rings and controls the
//! program through a small control page. The rings are files: records survive the death of the process that wrote
//! them.
//!
//! A [`journal`] consists of the same checksummed frames. The observer copies every batch of rows into it first, and
//! frees the space in a ring only when its rows are in the journal. So every record is in a ring or in the journal at
//! any time, whichever process is killed.

pub mod batch_frame;
mod channel_reader;
mod channel_writer;
pub mod control_page;
mod directory;
#[doc(hidden)]
pub mod disk;
mod fork_guard;
pub mod frame;
pub mod journal;
mod journaled_channel;
mod last_ring;
pub mod message;
mod overwrite;
mod private_files;
pub mod record;
mod recovery;
mod ring;
pub mod rows;
pub mod seal;
// The one place where the memory of rings, and so its atomics, is exchanged for a model of it.
#[cfg_attr(loom, path = "shared_memory_model.rs")]
mod shared_memory;
pub mod turn_taking;

use std::path::{Path, PathBuf};

pub use channel_reader::{ChannelReader, Drained, RingPosition};
pub use channel_writer::ChannelWriter;
pub use control_page::ControlPage;
pub use directory::{
    CHANNEL_VARIABLE, ChannelDirectory, OrphanedChannel, directories_of, has_reader, orphaned_channels,
    pid_of, process_directory, recording_of, session_of_process,
};
pub use frame::FrameKind;
pub use journaled_channel::JournaledChannel;
pub use last_ring::LastRing;
pub use record::{InferenceRecord, Phase, PlainInference};
pub use recovery::{Recovered, recover_rings};
#[cfg(loom)]
pub use ring::ring_in_a_model;
pub use ring::{ReadOutcome, RingReader, RingWriter};

/// Why a channel or a journal could not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChannelError {
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("'{path}' is not a channel ring: {problem}")]
    NotARing { path: String, problem: String },
    #[error("'{path}' is not a journal file: {problem}")]
    NotAJournal { path: String, problem: String },
    #[error("'{path}' was written by format {found}; this program reads format {known}")]
    OtherFormat { path: String, found: u32, known: u32 },
    #[error("'{0}' is encrypted")]
    Sealed(String),
    #[error("a ring of {0} bytes is not possible: the capacity must be a power of two from 4 KiB to 1 GiB")]
    BadCapacity(u64),
    #[error("a journal file of {0} bytes is not possible: it must have from 256 KiB to 64 MiB")]
    BadJournalSize(u64),
    #[error("{rows} rows of {table} are too large for the journal; the others are kept")]
    RowsTooLarge { table: &'static str, rows: u64 },
    #[error("the journal has no room for more: {0}")]
    NoNextFile(String),
    #[error("the journal is not safe on the disk: {0}")]
    NotSynced(String),
}

/// Ending of ring files.
const RING_EXTENSION: &str = "ring";

/// Where the ring `name` of a channel lives.
fn ring_path(directory: &Path, name: &str) -> PathBuf {
    directory.join(name).with_extension(RING_EXTENSION)
}

/// The rings of a directory, in the order of their names.
fn ring_files(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs_err::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == RING_EXTENSION) {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}
