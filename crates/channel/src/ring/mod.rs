//! A single-producer, single-consumer ring of frames in a file.
//!
//! ```text
//! header page                                        data, a power of two
//! 0 magic  8 format  16 capacity  24 pid  32 start
//! 128 head (writer)  192 tail (reader)  256 closed   frames, padded to 8 bytes, never split at the end
//! 320 losses: 16 words, one per kind (the last: all others)
//! 448 losses reported: 16 words (reader)
//! ```
//! `head` and `tail` count bytes since the start and only grow. When the ring is full the writer drops the new record
//! and counts it: an inference is never delayed by its observer.
//!
//! The reader reads ahead of its tail. It moves the tail, and so frees space, only once the frames are stored
//! elsewhere: if it is killed in between, the frames are still in the ring.

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
const AT_LOSSES_REPORTED: usize = AT_LOSSES + LOSS_SLOTS * 8;
/// In a loom model every access to a word is a scheduling point, so the model uses the minimum.
const LOSS_SLOTS: usize = if cfg!(loom) { 2 } else { 16 };
const MIN_CAPACITY: u64 = if cfg!(loom) { 64 } else { 4096 };

pub(crate) fn is_possible_capacity(bytes: u64) -> bool {
    bytes.is_power_of_two() && (MIN_CAPACITY..=1 << 30).contains(&bytes)
}

/// Both ends of a ring whose memory is loom's.
#[cfg(loom)]
pub fn ring_in_a_model(capacity: u64) -> (RingWriter, RingReader) {
    let words = [0, AT_FORMAT, AT_CAPACITY, AT_PID, AT_START, AT_HEAD, AT_TAIL, AT_CLOSED];
    let losses = (0..LOSS_SLOTS).flat_map(|slot| [AT_LOSSES + slot * 8, AT_LOSSES_REPORTED + slot * 8]);
    let memory = std::sync::Arc::new(crate::shared_memory::SharedMemory::model(
        words.into_iter().chain(losses),
        DATA..DATA + capacity as usize,
    ));
    let owner = ortscope_core::identity::ProcessIdentity { pid: 1, start: 1 };
    let writer = RingWriter::in_memory(memory.clone(), capacity, owner);
    let reader = RingReader::from_memory(std::path::Path::new("a model"), memory).expect("a ring");
    (writer, reader)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::FrameKind;
    use crate::shared_memory::SharedMemory;

    const FRAMES: u64 = 20_000;

    /// Both ends over one mapping. Elsewhere each has its own, at other addresses, and ThreadSanitizer, which looks at addresses,
    /// could not see them meet.
    #[test]
    fn two_threads_meet_in_one_mapping_and_every_frame_arrives_or_is_counted() {
        let capacity = MIN_CAPACITY;
        let file = tempfile::tempfile().expect("a file");
        file.set_len(DATA as u64 + capacity).expect("room");
        let memory = Arc::new(SharedMemory::map(&file).expect("mapped"));
        let owner = ortscope_core::identity::ProcessIdentity { pid: 1, start: 1 };
        let mut writer = RingWriter::in_memory(Arc::clone(&memory), capacity, owner);
        let mut reader =
            RingReader::from_memory(std::path::Path::new("one mapping"), memory).expect("a ring");
        let writing = std::thread::Builder::new().name("writer".into()).spawn(move || {
            let written = (0..FRAMES).filter(|number| {
                let length = 8 + (number % 40) as usize;
                let mut payload = vec![*number as u8; length];
                payload[..8].copy_from_slice(&number.to_le_bytes());
                writer.try_write(FrameKind::INFERENCE, &payload)
            });
            written.count() as u64
        });
        let (mut seen, mut last, mut is_over) = (0, None, false);
        while !is_over {
            is_over = reader.is_finished();
            let outcome = reader.read(|_, payload| {
                let (number, rest) = payload.split_first_chunk::<8>().expect("a number");
                let number = u64::from_le_bytes(*number);
                assert!(rest.iter().all(|byte| *byte == number as u8), "a torn frame");
                assert!(last.replace(number).is_none_or(|last| last < number), "in order");
                seen += 1;
            });
            assert!(!outcome.damaged);
            reader.mark();
            reader.release();
        }
        let written = writing.expect("a thread").join().expect("no panic");
        let lost: u64 = reader.take_new_losses().values().sum();
        assert_eq!((seen, seen + lost), (written, FRAMES));
    }
}
