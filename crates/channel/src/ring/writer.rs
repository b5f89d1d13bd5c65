//! The writer's end of a ring.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use ortscope_core::identity::ProcessIdentity;

use super::{
    AT_CAPACITY, AT_CLOSED, AT_FORMAT, AT_HEAD, AT_LOSSES, AT_PID, AT_START, AT_TAIL, DATA, FORMAT,
    LOSS_SLOTS, MAGIC, PAGE_BYTES, is_possible_capacity,
};
use crate::fork_guard::Incarnation;
use crate::frame::{FrameKind, HEADER_BYTES, Header, MAX_PAYLOAD_BYTES, frame_bytes};
use crate::private_files;
use crate::record::{InferenceRecord, PlainInference};
use crate::shared_memory::{SharedMemory, View, fetch, has_checksum_instruction};
use crate::{ChannelError, ring_path};

/// The memory of a ring in the process that made it.
#[derive(Debug)]
pub(crate) struct RingMemory {
    memory: Weak<SharedMemory>,
    maker: Incarnation,
}

impl RingMemory {
    /// Closes the ring. A child of `fork` does not close its parent's.
    pub fn close(&self) {
        if self.maker.is_current()
            && let Some(memory) = self.memory.upgrade()
        {
            memory.word(AT_CLOSED).store(1, Ordering::Release);
        }
    }

    /// Whether the ring is still there.
    pub fn is_mapped(&self) -> bool {
        self.memory.strong_count() > 0
    }
}

/// The writer's end. It belongs to the process that created it: in a child of `fork` every write is refused, because
/// the memory is still its parent's.
///
/// All fields that a write needs fit into one cache line: between two writes a model may have evicted everything, so
/// the number of fetched lines determines the cost.
#[derive(Debug)]
#[repr(align(64))]
pub struct RingWriter {
    memory: View,
    maker: Incarnation,
    head: u64,
    /// The reader's position as last seen; read again only when the ring looks full.
    seen_tail: u64,
    sequence: u32,
    has_checksum_instruction: bool,
}

// A model of it is larger.
const _: () = assert!(cfg!(loom) || size_of::<RingWriter>() == 64, "more than one line of the cache");

impl RingWriter {
    /// Makes a ring. The file appears under its name only when it is complete; its blocks are allocated, so that a
    /// full disk is an error now and not a crash while writing.
    pub fn create(
        directory: &Path,
        name: &str,
        capacity: u64,
        owner: ProcessIdentity,
    ) -> Result<Self, ChannelError> {
        if !is_possible_capacity(capacity) {
            return Err(ChannelError::BadCapacity(capacity));
        }
        let path = ring_path(directory, name);
        let making = path.with_extension("new");
        if making.exists() {
            // Left by a maker that was killed.
            fs_err::remove_file(&making)?;
        }
        let file = private_files::create_allocated(&making, DATA as u64 + capacity)?;
        let ring = Self::in_memory(Arc::new(SharedMemory::map(file.file())?), capacity, owner);
        fs_err::rename(&making, &path)?;
        Ok(ring)
    }

    /// Sets up a ring in memory that is all zeros.
    pub(super) fn in_memory(memory: Arc<SharedMemory>, capacity: u64, owner: ProcessIdentity) -> Self {
        memory.word(AT_FORMAT).store(u64::from(FORMAT), Ordering::Relaxed);
        memory.word(AT_CAPACITY).store(capacity, Ordering::Relaxed);
        memory.word(AT_PID).store(u64::from(owner.pid), Ordering::Relaxed);
        memory.word(AT_START).store(owner.start, Ordering::Relaxed);
        // Every page is written once now, so that no inference pays for a page fault later.
        for page in (DATA..memory.len()).step_by(PAGE_BYTES) {
            memory.write(page, &[0]);
        }
        memory.word(0).store(MAGIC, Ordering::Release);
        Self {
            memory: View::new(memory),
            maker: Incarnation::current(),
            head: 0,
            seen_tail: 0,
            sequence: 0,
            has_checksum_instruction: has_checksum_instruction(),
        }
    }

    #[inline]
    fn capacity(&self) -> u64 {
        (self.memory.len() - DATA) as u64
    }

    /// Writes the short form of a record, or drops and counts it when the ring is full. The caller guarantees that this
    /// process created the ring.
    #[inline]
    pub fn write_plain_inference(&mut self, plain: PlainInference) -> bool {
        const NEEDED: u64 = (HEADER_BYTES + PlainInference::BYTES) as u64;
        let words = plain.to_words();
        let at = self.head & (self.capacity() - 1);
        let has_room =
            at + NEEDED <= self.capacity() && self.head + NEEDED - self.seen_tail <= self.capacity();
        if !has_room || !self.has_checksum_instruction {
            return self.write_plain_otherwise(&words);
        }
        let header = Header::of_words(FrameKind::INFERENCE, self.sequence, &words);
        let offset = DATA + at as usize;
        self.memory.write(offset, &header.to_bytes());
        self.memory.write(offset + HEADER_BYTES, words.map(u64::to_ne_bytes).as_flattened());
        self.publish(NEEDED);
        true
    }

    #[cold]
    fn write_plain_otherwise(&mut self, words: &[u64; PlainInference::WORDS]) -> bool {
        self.try_write(FrameKind::INFERENCE, words.map(u64::to_ne_bytes).as_flattened())
    }

    /// Prefetches the memory of the next write.
    #[inline]
    pub fn fetch_next(&self) {
        let at = DATA + (self.head & (self.capacity() - 1)) as usize;
        // Behind a message a record does not begin where a line of the cache does.
        fetch(self.memory.address(at));
        fetch(self.memory.address(at + HEADER_BYTES + PlainInference::BYTES - 1));
        fetch(self.memory.address(AT_HEAD));
    }

    /// Writes a record, or drops and counts it when the ring is full. One piece, compiled with this crate's optimization.
    #[inline(never)]
    pub fn write_inference(&mut self, record: &InferenceRecord) -> bool {
        self.try_write(FrameKind::INFERENCE, &record.to_bytes())
    }

    /// Writes a frame, or drops and counts it when the ring is full.
    #[inline]
    pub fn try_write(&mut self, kind: FrameKind, payload: &[u8]) -> bool {
        let written = self.place(kind, payload);
        if !written {
            self.add_losses(kind, 1);
        }
        written
    }

    /// Writes a frame that must not be lost, waiting for the reader to free space. Counts it as lost after the
    /// timeout.
    pub fn write_or_wait(&mut self, kind: FrameKind, payload: &[u8], patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        loop {
            if self.place(kind, payload) {
                return true;
            }
            if Instant::now() >= deadline || payload.len() > MAX_PAYLOAD_BYTES || !self.is_own() {
                self.add_losses(kind, 1);
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Whether this process made the ring; a child of `fork` did not.
    #[inline]
    pub fn is_own(&self) -> bool {
        self.maker.is_current()
    }

    /// Whether the ring was closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.memory.word(AT_CLOSED).load(Ordering::Relaxed) != 0
    }

    /// For closing it from another thread.
    pub(crate) fn memory(&self) -> RingMemory {
        RingMemory { memory: Arc::downgrade(self.memory.memory()), maker: self.maker }
    }

    /// Memory that the ring takes in the writer's process, all of it resident from the start.
    pub fn resident_bytes(&self) -> u64 {
        self.memory.len() as u64
    }

    pub fn sync_soon(&self) -> std::io::Result<()> {
        self.memory.memory().sync_soon()
    }

    /// Counts records that never reached the ring. A child of `fork` must not touch its parent's counters.
    #[cold]
    pub(crate) fn add_losses(&self, kind: FrameKind, count: u64) {
        if self.is_own() {
            let slot = usize::from(kind.0).min(LOSS_SLOTS - 1);
            self.memory.word(AT_LOSSES + slot * 8).fetch_add(count, Ordering::Relaxed);
        }
    }

    #[inline]
    fn place(&mut self, kind: FrameKind, payload: &[u8]) -> bool {
        if payload.len() > MAX_PAYLOAD_BYTES || !self.is_own() {
            return false;
        }
        let needed = frame_bytes(payload.len()) as u64;
        let mut at = self.head & (self.capacity() - 1);
        let to_end = self.capacity() - at;
        // A frame is never split: the rest of the ring becomes padding.
        let padding = if needed > to_end { to_end } else { 0 };
        if self.head + padding + needed - self.seen_tail > self.capacity() {
            self.seen_tail = self.memory.word(AT_TAIL).load(Ordering::Acquire);
            if self.head + padding + needed - self.seen_tail > self.capacity() {
                return false;
            }
        }
        if padding > 0 {
            self.pad(at, padding);
            at = 0;
        }
        let header = Header::new(kind, self.sequence, payload);
        let offset = DATA + at as usize;
        self.memory.write(offset, &header.to_bytes());
        self.memory.write(offset + HEADER_BYTES, payload);
        self.publish(padding + needed);
        true
    }

    /// A frame was written, up to this many bytes behind the head.
    #[inline]
    fn publish(&mut self, bytes: u64) {
        self.sequence = self.sequence.wrapping_add(1);
        self.head += bytes;
        self.memory.word(AT_HEAD).store(self.head, Ordering::Release);
    }

    /// Frames are multiples of 8 bytes, so at least 8 are left; a padding header is written only where it fits, and
    /// readers skip a shorter rest by its size alone.
    #[cold]
    fn pad(&self, at: u64, padding: u64) {
        if padding >= HEADER_BYTES as u64 {
            let header = Header { length: 0, kind: FrameKind::PADDING, sequence: 0, checksum: 0 };
            self.memory.write(DATA + at as usize, &header.to_bytes());
        }
    }
}

impl Drop for RingWriter {
    fn drop(&mut self) {
        self.memory().close();
    }
}
