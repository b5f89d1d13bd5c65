//! The reader's end of a ring.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ortscope_core::identity::ProcessIdentity;

use super::{
    AT_CAPACITY, AT_CLOSED, AT_FORMAT, AT_HEAD, AT_LOSSES, AT_LOSSES_REPORTED, AT_PID, AT_START, AT_TAIL,
    DATA, FORMAT, LOSS_SLOTS, MAGIC, is_possible_capacity,
};
use crate::ChannelError;
use crate::frame::{FrameKind, HEADER_BYTES, Header, frame_bytes};
use crate::shared_memory::SharedMemory;

/// Result of a pass over one ring.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct ReadOutcome {
    pub frames: u64,
    /// A frame's checksum or number did not hold: the rest up to the head was skipped.
    pub damaged: bool,
}

/// The reader's end. It has two positions: how far it has read, and the tail, up to which the writer may reuse the
/// space. [`RingReader::release`] moves the tail to the position remembered by [`RingReader::mark`].
#[derive(Debug)]
pub struct RingReader {
    memory: Arc<SharedMemory>,
    capacity: u64,
    position: u64,
    marked: u64,
    /// The number the next frame must have; unknown where reading does not begin at the start.
    sequence: Option<u32>,
    losses_reported: [u64; LOSS_SLOTS],
    losses_marked: [u64; LOSS_SLOTS],
    buffer: Vec<u8>,
    /// Somebody else reads this ring; nothing in it is changed.
    is_observer: bool,
}

impl RingReader {
    /// Opens a ring whose writer may be alive.
    pub fn open(path: &Path) -> Result<Self, ChannelError> {
        let file = fs_err::OpenOptions::new().read(true).write(true).open(path)?;
        Self::from_file(path, &file, SharedMemory::map)
    }

    /// Opens an orphaned ring. The file may be read-only and is never changed.
    pub fn open_for_recovery(path: &Path) -> Result<Self, ChannelError> {
        let file = fs_err::File::open(path)?;
        Self::from_file(path, &file, SharedMemory::map_private)
    }

    /// Opens a ring that another reader drains, to observe it from now on. Frames may be overwritten before they are
    /// observed; this is detected and counts as damage.
    pub fn open_to_observe(path: &Path) -> Result<Self, ChannelError> {
        let file = fs_err::File::open(path)?;
        let mut ring = Self::from_file(path, &file, SharedMemory::map_to_listen)?;
        ring.is_observer = true;
        Ok(ring)
    }

    /// Skips everything written or lost so far.
    pub fn skip_to_present(&mut self) {
        self.seek(self.head());
        self.take_new_losses();
    }

    fn from_file(
        path: &Path,
        file: &fs_err::File,
        map: fn(&std::fs::File) -> std::io::Result<SharedMemory>,
    ) -> Result<Self, ChannelError> {
        let not_a_ring = |problem: &str| ChannelError::NotARing {
            path: path.display().to_string(),
            problem: problem.into(),
        };
        if file.metadata()?.len() < DATA as u64 {
            return Err(not_a_ring("it is too short"));
        }
        Self::from_memory(path, Arc::new(map(file.file())?))
    }

    /// A ring in memory that has at least its header.
    pub(super) fn from_memory(path: &Path, memory: Arc<SharedMemory>) -> Result<Self, ChannelError> {
        let not_a_ring = |problem: &str| ChannelError::NotARing {
            path: path.display().to_string(),
            problem: problem.into(),
        };
        if memory.word(0).load(Ordering::Acquire) != MAGIC {
            return Err(not_a_ring("its first bytes are others"));
        }
        let found = memory.word(AT_FORMAT).load(Ordering::Relaxed) as u32;
        if !(1..=FORMAT).contains(&found) {
            return Err(ChannelError::OtherFormat { path: path.display().to_string(), found, known: FORMAT });
        }
        let capacity = memory.word(AT_CAPACITY).load(Ordering::Relaxed);
        if !is_possible_capacity(capacity) || memory.len() as u64 != DATA as u64 + capacity {
            return Err(not_a_ring("its size and its header disagree"));
        }
        let tail = memory.word(AT_TAIL).load(Ordering::Acquire);
        let losses_reported: [u64; LOSS_SLOTS] =
            std::array::from_fn(|slot| memory.word(AT_LOSSES_REPORTED + slot * 8).load(Ordering::Relaxed));
        let mut ring = Self {
            memory,
            capacity,
            position: 0,
            marked: tail,
            sequence: None,
            losses_reported,
            losses_marked: losses_reported,
            buffer: Vec::new(),
            is_observer: false,
        };
        ring.seek(tail);
        Ok(ring)
    }

    /// Who writes this ring.
    pub fn owner(&self) -> ProcessIdentity {
        ProcessIdentity {
            pid: self.memory.word(AT_PID).load(Ordering::Relaxed) as u32,
            start: self.memory.word(AT_START).load(Ordering::Relaxed),
        }
    }

    pub fn is_closed(&self) -> bool {
        self.memory.word(AT_CLOSED).load(Ordering::Acquire) != 0
    }

    /// Bytes written since the start.
    pub fn head(&self) -> u64 {
        self.memory.word(AT_HEAD).load(Ordering::Acquire)
    }

    /// Bytes whose space the writer may reuse.
    pub fn tail(&self) -> u64 {
        self.memory.word(AT_TAIL).load(Ordering::Acquire)
    }

    /// Bytes read since the start.
    pub fn position(&self) -> u64 {
        self.position
    }

    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Goes on reading at this position, which must be where a frame begins.
    pub fn seek(&mut self, position: u64) {
        self.position = position;
        // Only at the start of the ring is the number known.
        self.sequence = (position == 0).then_some(0);
    }

    /// Passes every frame up to the current head to `take`. Their space stays occupied until it is released.
    pub fn read(&mut self, mut take: impl FnMut(FrameKind, &[u8])) -> ReadOutcome {
        let head = self.head();
        let mut outcome = ReadOutcome::default();
        // A head that lies behind us or further ahead than the ring is long was not written by a sane writer.
        if head.wrapping_sub(self.position) > self.capacity {
            self.seek(head);
            return ReadOutcome { frames: 0, damaged: true };
        }
        while self.position < head {
            match self.frame_at(self.position, head) {
                Some((FrameKind::PADDING, bytes)) => self.position += bytes,
                Some((kind, bytes)) => {
                    take(kind, &self.buffer);
                    outcome.frames += 1;
                    self.position += bytes;
                }
                None => {
                    outcome.damaged = true;
                    self.seek(head);
                }
            }
        }
        outcome
    }

    /// Losses counted by the writer that were not reported yet.
    pub fn take_new_losses(&mut self) -> BTreeMap<FrameKind, u64> {
        let mut new = BTreeMap::new();
        for (slot, reported) in self.losses_reported.iter_mut().enumerate() {
            let total = self.memory.word(AT_LOSSES + slot * 8).load(Ordering::Relaxed);
            if total > *reported {
                new.insert(FrameKind(slot as u16), total - *reported);
                *reported = total;
            }
        }
        new
    }

    /// Remembers the current position for the next [`RingReader::release`].
    pub fn mark(&mut self) {
        self.marked = self.position;
        self.losses_marked = self.losses_reported;
    }

    /// Frees the space of frames read before the mark: the writer may overwrite it now.
    pub fn release(&mut self) {
        if self.is_observer {
            return;
        }
        for (slot, reported) in self.losses_marked.iter().enumerate() {
            self.memory.word(AT_LOSSES_REPORTED + slot * 8).store(*reported, Ordering::Relaxed);
        }
        self.memory.word(AT_TAIL).store(self.marked, Ordering::Release);
    }

    /// Whether the writer has closed the ring and everything in it was read and freed.
    pub fn is_finished(&self) -> bool {
        // In this order, so that frames written before closing are seen.
        !self.is_observer && self.is_closed() && self.head() == self.tail() && self.head() == self.position
    }

    /// The share of the ring that the writer cannot use yet, 0 to 1.
    pub fn fullness(&self) -> f64 {
        self.head().wrapping_sub(self.tail()).min(self.capacity) as f64 / self.capacity as f64
    }

    /// Copies the frame at `position` into the buffer; its kind and the bytes it takes. `None` if it is damaged.
    fn frame_at(&mut self, position: u64, head: u64) -> Option<(FrameKind, u64)> {
        let at = position & (self.capacity - 1);
        let to_end = self.capacity - at;
        // A frame must end before the head and before the end of the ring.
        let room = to_end.min(head - position);
        let padding = || (to_end <= room).then_some((FrameKind::PADDING, to_end));
        if to_end < HEADER_BYTES as u64 {
            return padding();
        }
        let mut header = [0; HEADER_BYTES];
        self.memory.read(DATA + at as usize, &mut header);
        let header = Header::from_bytes(header);
        if header.kind == FrameKind::PADDING {
            return padding();
        }
        let is_in_turn = self.sequence.is_none_or(|sequence| sequence == header.sequence);
        if !header.is_possible() || !is_in_turn {
            return None;
        }
        let length = header.length as usize;
        let bytes = frame_bytes(length) as u64;
        if bytes > room {
            return None;
        }
        self.buffer.resize(length, 0);
        self.memory.read(DATA + at as usize + HEADER_BYTES, &mut self.buffer);
        if !header.holds(&self.buffer) {
            return None;
        }
        self.sequence = Some(header.sequence.wrapping_add(1));
        Some((header.kind, bytes))
    }
}
