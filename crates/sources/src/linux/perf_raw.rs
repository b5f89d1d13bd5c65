//! The ring of one perf event as bytes. Records may wrap around the end of the ring.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

use ortscope_decode::perf_record;

use super::rights;
use super::shared::SharedMemory;
use crate::kernel::TraceError;

/// The ring's control page and the offsets of its positions.
const PAGE_BYTES: usize = 4096;
const DATA_HEAD: usize = 1024;
const DATA_TAIL: usize = 1032;
const DATA_OFFSET: usize = 1040;
const DATA_BYTES: usize = 1048;
/// Without CAP_IPC_LOCK the kernel allows about 512 KB per processor; a ring below this size is useless.
pub const MIN_RING_BYTES: usize = 64 << 10;

/// State of the next bytes of a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    Nothing,
    /// A record with this length.
    Record(usize),
    /// Not a record: everything up to the newest one was skipped.
    Damaged,
}

/// A ring that the kernel writes.
#[derive(Debug)]
pub struct RawRing {
    memory: SharedMemory,
    data_offset: usize,
    data_bytes: usize,
    tail: u64,
    head: u64,
}

impl RawRing {
    /// Maps the ring of an event, as large as the kernel allows.
    pub fn map(descriptor: &OwnedFd, bytes: usize, what: &str) -> Result<Self, TraceError> {
        // The kernel requires a power of two of pages; if it refuses, half of them are tried.
        let mut bytes = 1usize << bytes.max(MIN_RING_BYTES).ilog2();
        let memory = loop {
            match SharedMemory::map(descriptor, bytes + PAGE_BYTES) {
                Ok(memory) => break memory,
                Err(_) if bytes > MIN_RING_BYTES => bytes /= 2,
                Err(error) => return Err(rights::perf_error(what, error)),
            }
        };
        let place = |at: usize| memory.word(at).load(Ordering::Relaxed) as usize;
        let (data_offset, data_bytes) = (place(DATA_OFFSET), place(DATA_BYTES));
        // Kernels before 4.1 leave them empty; a ring outside the mapping would be a kernel bug.
        let fits =
            data_bytes == bytes && data_offset.checked_add(data_bytes).is_some_and(|end| end <= memory.len());
        let (data_offset, data_bytes) = if fits { (data_offset, data_bytes) } else { (PAGE_BYTES, bytes) };
        Ok(Self { memory, data_offset, data_bytes, tail: 0, head: 0 })
    }

    pub fn bytes(&self) -> usize {
        self.memory.len()
    }

    /// Returns the next record without consuming it.
    pub fn peek(&mut self) -> Next {
        if self.tail == self.head {
            self.head = self.memory.word(DATA_HEAD).load(Ordering::Acquire);
        }
        let available = self.head.wrapping_sub(self.tail);
        if available < perf_record::HEADER_BYTES as u64 {
            return Next::Nothing;
        }
        let mut header = [0; perf_record::HEADER_BYTES];
        self.copy(&mut header);
        match perf_record::record_bytes(&header).filter(|bytes| *bytes as u64 <= available) {
            Some(bytes) => Next::Record(bytes),
            None => {
                // The next record cannot be found: continue at the head.
                self.tail = self.head;
                Next::Damaged
            }
        }
    }

    /// Copies the next bytes out of the ring, across its end if necessary.
    pub fn copy(&self, into: &mut [u8]) {
        let begin = self.tail as usize & (self.data_bytes - 1);
        let first = into.len().min(self.data_bytes - begin);
        let (head, rest) = into.split_at_mut(first);
        self.memory.read(self.data_offset + begin, head);
        self.memory.read(self.data_offset, rest);
    }

    /// Consumes the record that was peeked at.
    pub fn skip(&mut self, bytes: usize) {
        self.tail += bytes as u64;
    }

    /// Returns the consumed space to the kernel.
    pub fn release(&self) {
        self.memory.word(DATA_TAIL).store(self.tail, Ordering::Release);
    }
}
