//! A frame: length, kind, sequence number, checksum, payload. The unit of rings and of journals.
//!
//! ```text
//!  0       4     6     8        12       16          16+length, padded to 8
//!  length  kind  zero  sequence crc32c   payload ...
//! ```
//! The checksum covers kind, length, sequence and payload, so a torn or stale frame does not pass for a whole one.

use crate::shared_memory::checksum_of_words;

/// Bytes before the payload.
pub const HEADER_BYTES: usize = 16;
/// Longest payload. A longer one is refused when written and taken as damage when read.
pub const MAX_PAYLOAD_BYTES: usize = 1 << 20;

/// The type of a frame. Readers pass unknown kinds through, so old readers work with new writers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FrameKind(pub u16);

impl FrameKind {
    /// Fills the end of a ring where the next frame does not fit.
    pub const PADDING: Self = Self(0xffff);
    /// An [`crate::InferenceRecord`].
    pub const INFERENCE: Self = Self(1);
    /// A message as JSON text.
    pub const MESSAGE: Self = Self(2);
    /// The tables and columns of the batches that follow, as JSON text.
    pub const SCHEMA: Self = Self(3);
    /// Rows of one table ([`crate::batch_frame`]).
    pub const BATCH: Self = Self(4);
    /// Where nothing was written there are zeros: never a frame, although its checksum would hold.
    pub const NOTHING: Self = Self(0);

    pub fn name(self) -> &'static str {
        match self {
            Self::INFERENCE => "inferences",
            Self::MESSAGE => "messages",
            Self::SCHEMA => "schemas",
            Self::BATCH => "batches",
            Self::NOTHING => "nothing",
            Self::PADDING => "padding",
            _ => "unknown frames",
        }
    }
}

/// Bytes a frame with this payload takes.
pub fn frame_bytes(payload: usize) -> usize {
    HEADER_BYTES + payload.next_multiple_of(8)
}

/// The header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    pub length: u32,
    pub kind: FrameKind,
    pub sequence: u32,
    pub checksum: u32,
}

impl Header {
    #[inline]
    pub fn new(kind: FrameKind, sequence: u32, payload: &[u8]) -> Self {
        // The callers bound the payload by MAX_PAYLOAD_BYTES.
        let length = payload.len() as u32;
        Self { length, kind, sequence, checksum: checksum(length, kind, sequence, payload) }
    }

    /// The same with the processor's instruction for checksums, for a payload of whole words.
    #[inline]
    pub fn of_words(kind: FrameKind, sequence: u32, words: &[u64]) -> Self {
        let length = size_of_val(words) as u32;
        let checksum = checksum_of_words(start_of_checksum(length, kind, sequence), words);
        Self { length, kind, sequence, checksum }
    }

    #[inline]
    pub fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..4].copy_from_slice(&self.length.to_le_bytes());
        bytes[4..6].copy_from_slice(&self.kind.0.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.checksum.to_le_bytes());
        bytes
    }

    pub fn from_bytes(bytes: [u8; HEADER_BYTES]) -> Self {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        Self {
            length: word(0),
            kind: FrameKind(u16::from_le_bytes([bytes[4], bytes[5]])),
            sequence: word(8),
            checksum: word(12),
        }
    }

    /// Whether such a frame is possible, before its payload is read.
    #[inline]
    pub fn is_possible(&self) -> bool {
        self.kind != FrameKind::NOTHING
            && self.kind != FrameKind::PADDING
            && self.length as usize <= MAX_PAYLOAD_BYTES
    }

    /// Whether this header and payload belong together.
    #[inline]
    pub fn holds(&self, payload: &[u8]) -> bool {
        payload.len() == self.length as usize
            && self.checksum == checksum(self.length, self.kind, self.sequence, payload)
    }
}

#[inline]
fn checksum(length: u32, kind: FrameKind, sequence: u32, payload: &[u8]) -> u32 {
    crc32c::crc32c_append(start_of_checksum(length, kind, sequence), payload)
}

/// The header fields form the start value, so that one pass over the payload is enough. Multiplying by odd constants
/// separates the fields; a change of any of them changes the result.
#[inline]
fn start_of_checksum(length: u32, kind: FrameKind, sequence: u32) -> u32 {
    length.wrapping_mul(0x9e37_79b1)
        ^ u32::from(kind.0).wrapping_mul(0x85eb_ca6b)
        ^ sequence.wrapping_mul(0xc2b2_ae35)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared_memory::has_checksum_instruction;

    #[test]
    fn both_ways_to_a_checksum_agree() {
        if !has_checksum_instruction() {
            return;
        }
        for count in 0..10_u64 {
            let words: Vec<u64> =
                (0..count).map(|word| (word + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            let sequence = u32::MAX - count as u32;
            let header = Header::of_words(FrameKind::INFERENCE, sequence, &words);
            assert_eq!(header, Header::new(FrameKind::INFERENCE, sequence, &bytes));
        }
    }

    #[test]
    fn headers_round_trip_and_detect_every_flipped_bit() {
        let payload = *b"an inference took place";
        let header = Header::new(FrameKind::INFERENCE, 77, &payload);
        assert_eq!(Header::from_bytes(header.to_bytes()), header);
        assert!(header.holds(&payload));
        for bit in 0..payload.len() * 8 {
            let mut broken = payload;
            broken[bit / 8] ^= 1 << (bit % 8);
            assert!(!header.holds(&broken), "bit {bit} went unnoticed");
        }
        assert!(!Header { sequence: 78, ..header }.holds(&payload));
        assert!(!Header { kind: FrameKind::MESSAGE, ..header }.holds(&payload));
    }
}
