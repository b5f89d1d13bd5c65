//! File-backed rings between processes.
//!
//! A channel is a private directory. Whoever runs inferences writes records into rings there, one ring per thread, so
//! that writing needs no lock and costs tens of nanoseconds; the observer reads all rings and steers through a small
//! control page. The memory is the file's: what a process had written is still there after it was killed, and the
//! checksummed frames are the ones a recording's journal is made of.

pub mod control_page;
pub mod frame;
pub mod record;
mod ring;
mod shared_memory;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub use control_page::ControlPage;
pub use frame::FrameKind;
pub use record::{InferenceRecord, Phase};
pub use ring::{ReadOutcome, RingReader, RingWriter};

/// Why a channel could not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChannelError {
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("'{path}' is not a channel ring: {problem}")]
    NotARing { path: String, problem: String },
    #[error("'{path}' was written by format {found}; this program reads format {known}")]
    OtherFormat { path: String, found: u32, known: u32 },
    #[error("a ring of {0} bytes is not possible: the capacity must be a power of two from 4 KiB to 1 GiB")]
    BadCapacity(u64),
}

/// Ending of ring files.
const RING_EXTENSION: &str = "ring";

/// The observer's side: finds and reads every ring of a directory, also those that appear later.
#[derive(Debug)]
pub struct ChannelReader {
    directory: PathBuf,
    rings: BTreeMap<PathBuf, RingReader>,
}

/// What one pass over the rings found besides the frames.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Drained {
    pub frames: u64,
    /// Records the writers could not place because a ring was full, since the last pass: (kind, count).
    pub lost: BTreeMap<FrameKind, u64>,
    /// Frames whose checksum does not hold; reading of that ring stopped there.
    pub damaged: u64,
}

impl ChannelReader {
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into(), rings: BTreeMap::new() }
    }

    /// Hands every new frame to `take`, in the order it was written within a ring.
    pub fn drain(&mut self, mut take: impl FnMut(FrameKind, &[u8])) -> Result<Drained, ChannelError> {
        self.find_new_rings()?;
        let mut drained = Drained::default();
        for ring in self.rings.values_mut() {
            let outcome = ring.read(&mut take);
            drained.frames += outcome.frames;
            drained.damaged += u64::from(outcome.damaged);
            for (kind, count) in ring.take_new_losses() {
                *drained.lost.entry(kind).or_default() += count;
            }
        }
        Ok(drained)
    }

    /// True when there is at least one ring and every writer has closed its own.
    pub fn all_closed(&self) -> bool {
        !self.rings.is_empty() && self.rings.values().all(RingReader::is_closed)
    }

    fn find_new_rings(&mut self) -> Result<(), ChannelError> {
        for entry in fs_err::read_dir(&self.directory)? {
            let path = entry?.path();
            let is_ring = path.extension().is_some_and(|extension| extension == RING_EXTENSION);
            if is_ring && !self.rings.contains_key(&path) {
                // A ring gets its name only when it is complete, so one that does not open is foreign: an error.
                let ring = RingReader::open(&path)?;
                self.rings.insert(path, ring);
            }
        }
        Ok(())
    }
}

/// Where the ring `name` of a channel lives.
fn ring_path(directory: &Path, name: &str) -> PathBuf {
    directory.join(name).with_extension(RING_EXTENSION)
}
