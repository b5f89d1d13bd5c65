//! A segment: rows of many tables in one compressed file that is written once and never changed.
//!
//! Rows of a table come in chunks of up to 65,536; each column of a chunk is a separate block with a checksum, so
//! that a reader touches only the needed blocks and damage costs one chunk.

mod bits;
mod block;
mod build;
mod bytes;
mod footer;
mod numbers;
mod read;
mod texts;
mod write;

pub(crate) use build::SegmentBuilder;
pub(crate) use read::{Segment, View, sealed_header};
pub(crate) use write::SegmentWriter;

#[cfg(test)]
mod tests;
