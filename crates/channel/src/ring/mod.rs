//! A single-producer, single-consumer ring of frames in a file.
//!
//! ```text
//! header page                                        data, a power of two
//! 0 magic  8 format  16 capacity  24 pid  32 start
//! 128 head (writer)  192 tail (reader)  256 closed   frames, padded to 8 bytes, never split at the end
//! 320 losses: 16 words, one per kind (the last: all others)
//! 448 losses told: 16 words (reader)
//! ```
//! `head` and `tail` count bytes since the start and only grow. When the ring is full the writer drops the new record
//! and counts it: an inference is never held up by its observer.
//!
//! The reader reads ahead of its tail. It moves the tail, and so frees room, only when what it read is kept elsewhere:
//! if it is killed in between, the frames are still in the ring.

mod reader;
mod writer;

pub use reader::{ReadOutcome, RingReader};
pub(crate) use writer::RingMemory;
pub use writer::RingWriter;

const MAGIC: u64 = u64::from_le_bytes(*b"ORTSRING");
/// Since 2 there are records of inferences in a short form.
const FORMAT: u32 = 2;
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
const AT_LOSSES_TOLD: usize = AT_LOSSES + LOSS_SLOTS * 8;
/// In a model every access to a word is a place where threads may change: as few as show what is to be shown.
const LOSS_SLOTS: usize = if cfg!(loom) { 2 } else { 16 };
const LEAST_CAPACITY: u64 = if cfg!(loom) { 64 } else { 4096 };

pub(crate) fn is_possible_capacity(bytes: u64) -> bool {
    bytes.is_power_of_two() && (LEAST_CAPACITY..=1 << 30).contains(&bytes)
}

/// Both ends of a ring whose memory is loom's.
#[cfg(loom)]
pub fn ring_in_a_model(capacity: u64) -> (RingWriter, RingReader) {
    let words = [0, AT_FORMAT, AT_CAPACITY, AT_PID, AT_START, AT_HEAD, AT_TAIL, AT_CLOSED];
    let losses = (0..LOSS_SLOTS).flat_map(|slot| [AT_LOSSES + slot * 8, AT_LOSSES_TOLD + slot * 8]);
    let memory = crate::shared_memory::SharedMemory::model(
        words.into_iter().chain(losses),
        DATA..DATA + capacity as usize,
    );
    let owner = ortscope_core::identity::ProcessIdentity { pid: 1, start: 1 };
    let writer = RingWriter::in_memory(memory.clone(), capacity, owner);
    let reader = RingReader::from_memory(std::path::Path::new("a model"), memory).expect("a ring");
    (writer, reader)
}
