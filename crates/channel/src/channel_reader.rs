//! The observer's side of a channel: finds and reads every ring of a directory, including those that appear later.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ortscope_core::identity::ProcessIdentity;
use ortscope_core::schema::Text;

use crate::disk::remove_temporary_file;
use crate::ring::RingReader;
use crate::{ChannelError, FrameKind, ring_files};

/// Reads all rings of a directory.
///
/// Reading and freeing are two steps: [`ChannelReader::read`] leaves the frames in the rings; [`ChannelReader::mark`]
/// remembers how far was read, and [`ChannelReader::release`] frees that much once it is kept elsewhere.
#[derive(Debug)]
pub struct ChannelReader {
    directory: PathBuf,
    rings: BTreeMap<PathBuf, Ring>,
    /// Somebody else reads these rings too.
    is_observer: bool,
    /// Who wrote the first ring that was found.
    owner: Option<ProcessIdentity>,
    /// Rings that were read to their end and are gone.
    finished: u64,
}

#[derive(Debug)]
struct Ring {
    name: Text,
    reader: RingReader,
}

/// How far a ring was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RingPosition {
    /// File name of the ring.
    pub ring: Text,
    /// Bytes since the start of the ring.
    pub position: u64,
}

/// Result of one pass over the rings, besides the frames.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Drained {
    pub frames: u64,
    /// Records the writers could not place because a ring was full, since the last pass: (kind, count).
    pub lost: BTreeMap<FrameKind, u64>,
    /// Frames whose checksum does not hold; reading of that ring stopped there.
    pub damaged: u64,
    /// Rings in which something was new.
    pub positions: Vec<RingPosition>,
}

impl ChannelReader {
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        let directory = directory.into();
        Self { directory, rings: BTreeMap::new(), is_observer: false, owner: None, finished: 0 }
    }

    /// Observes rings that another reader drains, from now on, without changing anything.
    pub fn observe(directory: impl Into<PathBuf>) -> Result<Self, ChannelError> {
        let mut reader = Self { is_observer: true, ..Self::new(directory) };
        reader.find_new_rings()?;
        for ring in reader.rings.values_mut() {
            ring.reader.skip_to_present();
        }
        Ok(reader)
    }

    /// Who writes here, once there is a ring.
    pub fn owner(&self) -> Option<ProcessIdentity> {
        self.owner
    }

    /// Whether everything that was written so far was read and freed.
    pub fn is_exhausted(&self) -> bool {
        self.rings.values().all(|ring| ring.reader.head() == ring.reader.tail())
    }

    /// Passes every new frame to `take`, in the order written within a ring. Frees no space.
    pub fn read(&mut self, mut take: impl FnMut(FrameKind, &[u8])) -> Result<Drained, ChannelError> {
        self.find_new_rings()?;
        let mut drained = Drained::default();
        for Ring { name, reader } in self.rings.values_mut() {
            let before = reader.position();
            let outcome = reader.read(&mut take);
            drained.frames += outcome.frames;
            drained.damaged += u64::from(outcome.damaged);
            let losses = reader.take_new_losses();
            if reader.position() != before || !losses.is_empty() {
                let position = reader.position();
                drained.positions.push(RingPosition { ring: Text::clone(name), position });
            }
            for (kind, count) in losses {
                *drained.lost.entry(kind).or_default() += count;
            }
        }
        Ok(drained)
    }

    /// Remembers the current read position.
    pub fn mark(&mut self) {
        for ring in self.rings.values_mut() {
            ring.reader.mark();
        }
    }

    /// Frees the space of the frames read before the mark. Finished rings are removed, because each takes memory.
    pub fn release(&mut self) {
        for ring in self.rings.values_mut() {
            ring.reader.release();
        }
        let before = self.rings.len();
        self.rings.retain(|path, ring| !(ring.reader.is_finished() && remove_temporary_file(path).is_ok()));
        self.finished += (before - self.rings.len()) as u64;
    }

    /// Reads and frees at once: for observers that keep nothing.
    pub fn drain(&mut self, take: impl FnMut(FrameKind, &[u8])) -> Result<Drained, ChannelError> {
        let drained = self.read(take)?;
        self.mark();
        self.release();
        Ok(drained)
    }

    /// How full the fullest ring is, 0 to 1.
    pub fn fullness(&self) -> f64 {
        self.rings.values().map(|ring| ring.reader.fullness()).fold(0.0, f64::max)
    }

    /// True when there is at least one ring and every writer has closed its own.
    pub fn all_closed(&self) -> bool {
        self.rings.len() as u64 + self.finished > 0 && self.rings.values().all(|ring| ring.reader.is_closed())
    }

    fn find_new_rings(&mut self) -> Result<(), ChannelError> {
        for path in ring_files(&self.directory)? {
            if !self.rings.contains_key(&path) {
                // A ring gets its name only when it is complete, so one that does not open is foreign: an error.
                let open = if self.is_observer { RingReader::open_to_observe } else { RingReader::open };
                let reader = match open(&path) {
                    // Another reader was done with it in this very moment.
                    Err(ChannelError::Io(error)) if error.kind() == std::io::ErrorKind::NotFound => continue,
                    reader => reader?,
                };
                self.owner.get_or_insert_with(|| reader.owner());
                self.rings.insert(path.clone(), Ring { name: ring_name(&path), reader });
            }
        }
        Ok(())
    }
}

/// The name under which positions in a ring are kept.
pub(crate) fn ring_name(path: &Path) -> Text {
    path.file_name().unwrap_or_default().to_string_lossy().into()
}
