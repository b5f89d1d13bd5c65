//! Event files: records with checksums, each an `Event` with a `Summary`.
//!
//! The first value of a tag carries the name of the plug-in that shows it. Scalars are written as tensors of doubles: the
//! older form has single precision.

use std::collections::BTreeSet;
use std::io::{self, Write};

use crate::protobuf::{bytes, message, number, real, text};
use crate::text::Chunked;

mod event {
    pub const WALL_TIME: u32 = 1;
    pub const STEP: u32 = 2;
    pub const FILE_VERSION: u32 = 3;
    pub const SUMMARY: u32 = 5;
}

mod value {
    /// Of `Summary`.
    pub const VALUE: u32 = 1;
    pub const TAG: u32 = 1;
    pub const TENSOR: u32 = 8;
    pub const METADATA: u32 = 9;
    pub const PLUGIN: u32 = 1;
    pub const PLUGIN_NAME: u32 = 1;
    pub const DESCRIPTION: u32 = 3;
    pub const DATA_CLASS: u32 = 4;
}

mod tensor {
    pub const TYPE: u32 = 1;
    pub const SHAPE: u32 = 2;
    pub const CONTENT: u32 = 4;
    pub const DOUBLE: u32 = 6;
    pub const TEXT: u32 = 8;
    pub const IS_DOUBLE: u64 = 2;
    pub const IS_TEXT: u64 = 7;
}

const VERSION: &str = "brain.Event:2";
const SCALAR: u64 = 1;
const TENSOR: u64 = 2;

/// A bucket of a histogram: its ends, and how many values.
pub(super) type Bucket = (f64, f64, u64);

pub(super) struct EventFile<'w> {
    out: Chunked<'w>,
    described: BTreeSet<String>,
}

/// When something was so: nanoseconds since 1970, and the step that charts count by.
#[derive(Debug, Clone, Copy)]
pub(super) struct At {
    pub(super) unix_ns: u64,
    pub(super) step: u64,
}

/// TensorFlow's checksum: CRC-32C, turned so that a checksum of checksums is none.
fn masked_crc(data: &[u8]) -> u32 {
    crc32c::crc32c(data).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// The dimensions of a tensor.
fn shape(out: &mut Vec<u8>, sizes: &[u64]) {
    message(out, tensor::SHAPE, |shape| {
        for size in sizes {
            message(shape, 2, |dimension| number(dimension, 1, *size));
        }
    });
}

impl<'w> EventFile<'w> {
    pub(super) fn new(out: &'w mut (dyn Write + Send), unix_ns: u64) -> io::Result<Self> {
        let mut file = Self { out: Chunked::new(out), described: BTreeSet::new() };
        let mut first = Vec::new();
        real(&mut first, event::WALL_TIME, unix_ns as f64 / 1e9);
        text(&mut first, event::FILE_VERSION, VERSION);
        file.record(&first)?;
        Ok(file)
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn record(&mut self, data: &[u8]) -> io::Result<()> {
        let length = (data.len() as u64).to_le_bytes();
        let out = &mut self.out.bytes;
        out.extend_from_slice(&length);
        out.extend_from_slice(&masked_crc(&length).to_le_bytes());
        out.extend_from_slice(data);
        out.extend_from_slice(&masked_crc(data).to_le_bytes());
        self.out.boundary()
    }

    fn value(
        &mut self,
        at: At,
        tag: &str,
        plugin: &str,
        class: u64,
        about: &str,
        tensor: &[u8],
    ) -> io::Result<()> {
        let is_first = !self.described.contains(tag);
        if is_first {
            self.described.insert(tag.to_owned());
        }
        let mut data = Vec::with_capacity(tensor.len() + 64);
        real(&mut data, event::WALL_TIME, at.unix_ns as f64 / 1e9);
        number(&mut data, event::STEP, at.step);
        message(&mut data, event::SUMMARY, |summary| {
            message(summary, value::VALUE, |value| {
                text(value, value::TAG, tag);
                bytes(value, value::TENSOR, tensor);
                if is_first {
                    message(value, value::METADATA, |metadata| {
                        message(metadata, value::PLUGIN, |data| text(data, value::PLUGIN_NAME, plugin));
                        text(metadata, value::DESCRIPTION, about);
                        number(metadata, value::DATA_CLASS, class);
                    });
                }
            });
        });
        self.record(&data)
    }

    pub(super) fn scalar(&mut self, at: At, tag: &str, about: &str, value: f64) -> io::Result<()> {
        let mut tensor = Vec::with_capacity(16);
        number(&mut tensor, tensor::TYPE, tensor::IS_DOUBLE);
        shape(&mut tensor, &[]);
        // Packed, as the format's third edition writes numbers.
        bytes(&mut tensor, tensor::DOUBLE, &value.to_le_bytes());
        self.value(at, tag, "scalars", SCALAR, about, &tensor)
    }

    pub(super) fn histogram(&mut self, at: At, tag: &str, about: &str, buckets: &[Bucket]) -> io::Result<()> {
        let mut content = Vec::with_capacity(buckets.len() * 24);
        for (left, right, count) in buckets {
            for number in [*left, *right, *count as f64] {
                content.extend_from_slice(&number.to_le_bytes());
            }
        }
        let mut tensor = Vec::with_capacity(content.len() + 16);
        number(&mut tensor, tensor::TYPE, tensor::IS_DOUBLE);
        shape(&mut tensor, &[buckets.len() as u64, 3]);
        bytes(&mut tensor, tensor::CONTENT, &content);
        self.value(at, tag, "histograms", TENSOR, about, &tensor)
    }

    /// Markdown.
    pub(super) fn text(&mut self, at: At, tag: &str, about: &str, markdown: &str) -> io::Result<()> {
        let mut tensor = Vec::with_capacity(markdown.len() + 16);
        number(&mut tensor, tensor::TYPE, tensor::IS_TEXT);
        shape(&mut tensor, &[1]);
        text(&mut tensor, tensor::TEXT, markdown);
        self.value(at, tag, "text", TENSOR, about, &tensor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_tensorflows() {
        assert_eq!(crc32c::crc32c(b"123456789"), 0xe306_9283);
        // Of the eight bytes of the length 24, as they stand at the beginning of every event file of that length.
        let masked = masked_crc(&24u64.to_le_bytes());
        assert_eq!(masked, crc32c::crc32c(&24u64.to_le_bytes()).rotate_right(15).wrapping_add(0xa282_ead8));
    }
}
