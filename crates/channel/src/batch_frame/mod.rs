//! A batch as the payload of a frame, column by column.
//!
//! ```text
//! 0 checksum of the schema   4 table   6 zero   8 rows   12 texts
//! lengths of the texts, 4 bytes each, then their bytes
//! per column of the schema:
//!   if it may have no value: one byte, 0 all have one, 1 none has, 2 a bit per row follows (1 = has a value)
//!   unless none has: texts as an index of 1, 2 or 4 bytes, truth values a bit each,
//!     numbers as one byte "width", 8 bytes "least", and per row, in 0, 1, 2, 4 or 8 bytes, what it has more than that
//! ```
//! The first column, the time, is 8 bytes per row: so no payload has more rows than bytes. Numbers of a batch are
//! close together, which makes a batch a third as large as with 8 bytes for each; new pages are the main cost of a
//! journal. All numbers are little endian. Tables and columns are numbered as in the [`schema`] that precedes the
//! batches, so that a later program can read them by name: unknown columns are skipped, and columns missing from the
//! data become null if nullable.

mod bytes;
mod decode;
mod encode;
pub mod schema;

pub use decode::{DecodeError, Decoded, Decoder};
pub use encode::BatchEncoder;

/// Bytes before the texts.
const HEAD_BYTES: usize = 16;

/// Which rows of a column have a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Presence {
    All = 0,
    None = 1,
    Some = 2,
}

/// Bytes of an index into this many texts.
fn index_bytes(texts: usize) -> usize {
    match texts {
        0..=0x100 => 1,
        0x101..=0x1_0000 => 2,
        _ => 4,
    }
}
