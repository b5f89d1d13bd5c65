//! A single-producer, single-consumer ring of frames in a file.
//!
//! ```text
//! header page                                        data, a power of two
//! 0 magic  8 format  16 capacity  24 pid  32 start
//! 128 head (writer)  192 tail (reader)  256 closed   frames, padded to 8 bytes, never split at the end
//! 320 losses: 16 words, one per kind (the last: all others)
//! ```
//! `head` and `tail` count bytes since the start and only grow. When the ring is full the writer drops the new record
//! and counts it: an inference is never held up by its observer.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ortscope_core::identity::ProcessIdentity;

use crate::frame::{FrameKind, HEADER_BYTES, Header, MAX_PAYLOAD_BYTES, frame_bytes};
use crate::record::InferenceRecord;
use crate::shared_memory::SharedMemory;
use crate::{ChannelError, ring_path};

const MAGIC: u64 = u64::from_le_bytes(*b"ORTSRING");
const FORMAT: u32 = 1;
/// The smallest page of any system; larger ones are only touched more than once.
const PAGE_BYTES: usize = 4096;
const DATA: usize = PAGE_BYTES;
const AT_FORMAT: usize = 8;
const AT_CAPACITY: usize = 16;
const AT_PID: usize = 24;
const AT_START: usize = 32;
const AT_HEAD: usize = 128;
const AT_TAIL: usize = 192;
const AT_CLOSED: usize = 256;
const AT_LOSSES: usize = 320;
const LOSS_SLOTS: usize = 16;

/// The writer's end.
#[derive(Debug)]
pub struct RingWriter {
    memory: SharedMemory,
    capacity: u64,
    head: u64,
    /// The reader's position as last seen; read again only when the ring looks full.
    seen_tail: u64,
    sequence: u32,
}

impl RingWriter {
    /// Makes a ring. The file appears under its name only when it is complete; its blocks are allocated, so that a
    /// full disk is an error now and not a crash while writing.
    pub fn create(
        directory: &Path,
        name: &str,
        capacity: u64,
        owner: ProcessIdentity,
    ) -> Result<Self, ChannelError> {
        if !capacity.is_power_of_two() || !(4096..=1 << 30).contains(&capacity) {
            return Err(ChannelError::BadCapacity(capacity));
        }
        let path = ring_path(directory, name);
        let making = path.with_extension("new");
        let bytes = usize::try_from(capacity).map_err(|_| ChannelError::BadCapacity(capacity))?;
        fs_err::write(&making, vec![0; DATA + bytes])?;
        let file = fs_err::OpenOptions::new().read(true).write(true).open(&making)?;
        let memory = SharedMemory::map(file.file())?;
        memory.word(AT_FORMAT).store(u64::from(FORMAT), Ordering::Relaxed);
        memory.word(AT_CAPACITY).store(capacity, Ordering::Relaxed);
        memory.word(AT_PID).store(u64::from(owner.pid), Ordering::Relaxed);
        memory.word(AT_START).store(owner.start, Ordering::Relaxed);
        // Every page is written once now, so that no inference pays for a page fault later.
        for page in (DATA..memory.len()).step_by(PAGE_BYTES) {
            memory.write(page, &[0]);
        }
        memory.word(0).store(MAGIC, Ordering::Release);
        fs_err::rename(&making, &path)?;
        Ok(Self { memory, capacity, head: 0, seen_tail: 0, sequence: 0 })
    }

    /// Writes a record, or drops and counts it when the ring is full.
    #[inline]
    pub fn write_inference(&mut self, record: &InferenceRecord) -> bool {
        self.try_write(FrameKind::INFERENCE, &record.to_bytes())
    }

    /// Writes a frame, or drops and counts it when the ring is full.
    #[inline]
    pub fn try_write(&mut self, kind: FrameKind, payload: &[u8]) -> bool {
        let written = self.place(kind, payload);
        if !written {
            self.count_loss(kind);
        }
        written
    }

    /// Writes a frame that must not be lost, waiting for the reader to make room. Counts it when the time is over.
    pub fn write_or_wait(&mut self, kind: FrameKind, payload: &[u8], patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        loop {
            if self.place(kind, payload) {
                return true;
            }
            if Instant::now() >= deadline || payload.len() > MAX_PAYLOAD_BYTES {
                self.count_loss(kind);
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Memory that the ring takes in the writer's process, all of it resident from the start.
    pub fn resident_bytes(&self) -> u64 {
        self.memory.len() as u64
    }

    pub fn sync_soon(&self) -> std::io::Result<()> {
        self.memory.sync_soon()
    }

    #[inline]
    fn place(&mut self, kind: FrameKind, payload: &[u8]) -> bool {
        if payload.len() > MAX_PAYLOAD_BYTES {
            return false;
        }
        let needed = frame_bytes(payload.len()) as u64;
        let mut at = self.head & (self.capacity - 1);
        let to_end = self.capacity - at;
        // A frame is never split: what is left at the end becomes padding.
        let padding = if needed > to_end { to_end } else { 0 };
        if self.head + padding + needed - self.seen_tail > self.capacity {
            self.seen_tail = self.memory.word(AT_TAIL).load(Ordering::Acquire);
            if self.head + padding + needed - self.seen_tail > self.capacity {
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
        self.sequence = self.sequence.wrapping_add(1);
        self.head += padding + needed;
        self.memory.word(AT_HEAD).store(self.head, Ordering::Release);
        true
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

    #[cold]
    fn count_loss(&self, kind: FrameKind) {
        let slot = usize::from(kind.0).min(LOSS_SLOTS - 1);
        self.memory.word(AT_LOSSES + slot * 8).fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for RingWriter {
    fn drop(&mut self) {
        self.memory.word(AT_CLOSED).store(1, Ordering::Release);
    }
}

/// What a pass over one ring found.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct ReadOutcome {
    pub frames: u64,
    /// A frame's checksum did not hold: the rest up to the head was skipped.
    pub damaged: bool,
}

/// The reader's end.
#[derive(Debug)]
pub struct RingReader {
    memory: SharedMemory,
    capacity: u64,
    tail: u64,
    losses_told: [u64; LOSS_SLOTS],
    buffer: Vec<u8>,
}

impl RingReader {
    pub fn open(path: &Path) -> Result<Self, ChannelError> {
        let file = fs_err::OpenOptions::new().read(true).write(true).open(path)?;
        let not_a_ring = |problem: &str| ChannelError::NotARing {
            path: path.display().to_string(),
            problem: problem.into(),
        };
        if file.metadata()?.len() < DATA as u64 {
            return Err(not_a_ring("it is too short"));
        }
        let memory = SharedMemory::map(file.file())?;
        if memory.word(0).load(Ordering::Acquire) != MAGIC {
            return Err(not_a_ring("its first bytes are others"));
        }
        let found = memory.word(AT_FORMAT).load(Ordering::Relaxed) as u32;
        if found != FORMAT {
            return Err(ChannelError::OtherFormat { path: path.display().to_string(), found, known: FORMAT });
        }
        let capacity = memory.word(AT_CAPACITY).load(Ordering::Relaxed);
        if !capacity.is_power_of_two() || memory.len() as u64 != DATA as u64 + capacity {
            return Err(not_a_ring("its size and its header disagree"));
        }
        let tail = memory.word(AT_TAIL).load(Ordering::Acquire);
        Ok(Self { memory, capacity, tail, losses_told: [0; LOSS_SLOTS], buffer: Vec::new() })
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

    /// Hands every frame up to the present head to `take` and frees their room.
    pub fn read(&mut self, mut take: impl FnMut(FrameKind, &[u8])) -> ReadOutcome {
        let head = self.memory.word(AT_HEAD).load(Ordering::Acquire);
        let mut outcome = ReadOutcome::default();
        // A head that lies behind us or further ahead than the ring is long was not written by a sane writer.
        if head.wrapping_sub(self.tail) > self.capacity {
            self.tail = head;
            self.memory.word(AT_TAIL).store(self.tail, Ordering::Release);
            return ReadOutcome { frames: 0, damaged: true };
        }
        while self.tail < head {
            match self.frame_at(self.tail, head) {
                Some((FrameKind::PADDING, bytes)) => self.tail += bytes,
                Some((kind, bytes)) => {
                    take(kind, &self.buffer);
                    outcome.frames += 1;
                    self.tail += bytes;
                }
                None => {
                    outcome.damaged = true;
                    self.tail = head;
                }
            }
        }
        self.memory.word(AT_TAIL).store(self.tail, Ordering::Release);
        outcome
    }

    /// Losses counted by the writer since the last call.
    pub fn take_new_losses(&mut self) -> BTreeMap<FrameKind, u64> {
        let mut new = BTreeMap::new();
        for (slot, told) in self.losses_told.iter_mut().enumerate() {
            let total = self.memory.word(AT_LOSSES + slot * 8).load(Ordering::Relaxed);
            if total > *told {
                new.insert(FrameKind(slot as u16), total - *told);
                *told = total;
            }
        }
        new
    }

    /// Copies the frame at `position` into the buffer; its kind and the bytes it takes. `None` if it is damaged.
    fn frame_at(&mut self, position: u64, head: u64) -> Option<(FrameKind, u64)> {
        let at = position & (self.capacity - 1);
        let to_end = self.capacity - at;
        if to_end < HEADER_BYTES as u64 {
            return Some((FrameKind::PADDING, to_end));
        }
        let mut header = [0; HEADER_BYTES];
        self.memory.read(DATA + at as usize, &mut header);
        let header = Header::from_bytes(header);
        if header.kind == FrameKind::PADDING {
            return Some((FrameKind::PADDING, to_end));
        }
        let length = header.length as usize;
        let bytes = frame_bytes(length) as u64;
        if length > MAX_PAYLOAD_BYTES || bytes > to_end || position + bytes > head {
            return None;
        }
        self.buffer.resize(length, 0);
        self.memory.read(DATA + at as usize + HEADER_BYTES, &mut self.buffer);
        header.holds(&self.buffer).then_some((header.kind, bytes))
    }
}
