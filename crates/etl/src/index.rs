//! The first pass over a file: the header of every buffer, without its events.
//!
//! The pass determines the order of the buffers of each processor (by sequence number, so that circular files are
//! correct), and after damage finds the next plausible buffer.

use std::io;

use crate::buffer::{BUFFER_HEADER_BYTES, BufferHeader, buffer_flags};
use crate::le::u32_at;
use crate::losses::{Losses, Reason, Skipped};
use crate::{LogFileHeader, Storage};

/// Limit for buffers, 16 bytes each: at most 32 MB. With buffers of 64 KiB this is a file of 128 GiB.
const MAX_BUFFERS: usize = 2 << 20;
/// Processor numbers have eleven bits.
const MAX_PROCESSORS: usize = 0x800;
/// Block size of the search for the next buffer after damage.
const SEARCH_BYTES: usize = 1 << 16;

/// The buffers of one processor in the order in which they were filled.
#[derive(Debug, Clone)]
pub(crate) struct Lane {
    pub(crate) processor: u16,
    buffers: Vec<(i64, u64)>,
}

impl Lane {
    /// Sequence number and file offset.
    pub(crate) fn buffer(&self, index: usize) -> Option<(i64, u64)> {
        self.buffers.get(index).copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.buffers.len()
    }
}

/// Result of the first pass.
#[derive(Debug, Clone, Default)]
pub(crate) struct Index {
    /// By processor; the header's buffer is in none of them.
    pub(crate) lanes: Vec<Lane>,
    pub(crate) buffers: u64,
    pub(crate) compressed_buffers: u64,
    /// Size of the largest decompressed buffer.
    pub(crate) largest_buffer: usize,
}

impl Index {
    pub(crate) fn build<S: Storage>(
        storage: &S,
        first: &BufferHeader,
        header: &LogFileHeader,
        losses: &mut Losses,
    ) -> io::Result<Self> {
        let length = storage.byte_length();
        let mut index = Self { buffers: 1, ..Self::default() };
        let mut by_processor: Vec<Vec<(i64, u64)>> = Vec::new();
        let mut kept = 0;
        let in_memory = header.buffer_size as usize;
        index.note(first, in_memory, losses);
        let mut offset = u64::from(first.size);
        while offset < length {
            let Some(buffer) = header_at(storage, offset)? else {
                losses.damage.add(Reason::FileEndsInBuffer, length - offset, offset);
                break;
            };
            if !buffer.has_plausible_size() {
                let next = next_buffer(storage, offset, first.logger, header.buffer_size)?;
                let skipped = Skipped { count: 1, bytes: next - offset, first_offset: offset };
                let reason = if next == length && is_empty(storage, offset)? {
                    Reason::EmptyTail
                } else {
                    Reason::BadBufferHeader
                };
                losses.damage.merge_one(reason, skipped);
                offset = next;
                continue;
            }
            if buffer.size as u64 > length - offset {
                losses.damage.add(Reason::FileEndsInBuffer, offset + u64::from(buffer.size) - length, offset);
            }
            index.buffers += 1;
            if kept == MAX_BUFFERS {
                losses.damage.add(Reason::TooManyBuffers, u64::from(buffer.size), offset);
            } else {
                let processor = usize::from(buffer.processor) % MAX_PROCESSORS;
                if by_processor.len() <= processor {
                    by_processor.resize_with(processor + 1, Vec::new);
                }
                by_processor[processor].push((buffer.sequence, offset));
                kept += 1;
            }
            index.note(&buffer, in_memory, losses);
            offset += u64::from(buffer.size);
        }
        index.compare_with(header, length, losses);
        for (processor, mut buffers) in by_processor.into_iter().enumerate() {
            if buffers.is_empty() {
                continue;
            }
            // Stable: buffers of damaged files with the same number keep their file order.
            if !buffers.is_sorted_by_key(|&(sequence, _)| sequence) {
                buffers.sort_by_key(|&(sequence, _)| sequence);
            }
            index.lanes.push(Lane { processor: processor as u16, buffers });
        }
        Ok(index)
    }

    fn note(&mut self, buffer: &BufferHeader, in_memory: usize, losses: &mut Losses) {
        let has = |flag: u16| u64::from(buffer.flags & flag != 0);
        losses.buffers_marked_events_lost += has(buffer_flags::EVENTS_LOST);
        losses.buffers_marked_buffer_lost += has(buffer_flags::BUFFER_LOST);
        losses.buffers_marked_corrupt += has(buffer_flags::REAL_TIME_BACKUP_CORRUPT);
        self.compressed_buffers += has(buffer_flags::COMPRESSED);
        self.largest_buffer = self.largest_buffer.max(buffer.data_end(in_memory).bytes());
    }

    fn compare_with(&self, header: &LogFileHeader, length: u64, losses: &mut Losses) {
        if !header.is_closed() {
            losses.damage.add(Reason::NotClosed, 0, 0);
        }
        let missing = u64::from(header.buffers_written).saturating_sub(self.buffers);
        if missing > 0 {
            losses.damage.merge_one(
                Reason::BuffersMissing,
                Skipped { count: missing, bytes: 0, first_offset: length },
            );
        }
    }
}

/// `None` if the file ends inside the header.
pub(crate) fn header_at<S: Storage>(storage: &S, offset: u64) -> io::Result<Option<BufferHeader>> {
    if storage.byte_length().saturating_sub(offset) < BUFFER_HEADER_BYTES as u64 {
        return Ok(None);
    }
    if let Some(bytes) = storage.borrowed(offset, BUFFER_HEADER_BYTES).and_then(<[u8]>::first_chunk) {
        return Ok(Some(BufferHeader::parse(bytes)));
    }
    let mut bytes = [0; BUFFER_HEADER_BYTES];
    storage.read_into(offset, &mut bytes)?;
    Ok(Some(BufferHeader::parse(&bytes)))
}

/// The next buffer after a damaged one: first where buffers of the usual size would begin, then by searching every byte.
/// The end of the file if there is none.
fn next_buffer<S: Storage>(storage: &S, damaged: u64, logger: u16, usual_size: u32) -> io::Result<u64> {
    let length = storage.byte_length();
    if let Some(next) = damaged.checked_add(u64::from(usual_size)).filter(|_| usual_size > 0)
        && let Some(buffer) = header_at(storage, next)?
        && buffer.looks_like_data_buffer(logger)
    {
        return Ok(next);
    }
    let mut scratch = Vec::new();
    let mut offset = damaged + 1;
    while offset + (BUFFER_HEADER_BYTES as u64) <= length {
        let piece = piece_at(storage, offset, &mut scratch)?;
        let take = piece.len();
        for (at, window) in piece.windows(BUFFER_HEADER_BYTES).enumerate() {
            // Both ends of the events agree: few bytes pass this check, so the rest is rarely read.
            let end = u32_at(window, 0x30);
            if end == u32_at(window, 4)
                && end.is_some_and(|end| end as usize >= BUFFER_HEADER_BYTES)
                && let Some(bytes) = window.first_chunk()
                && BufferHeader::parse(bytes).looks_like_data_buffer(logger)
            {
                return Ok(offset + at as u64);
            }
        }
        offset += (take - BUFFER_HEADER_BYTES + 1) as u64;
    }
    Ok(length)
}

/// Whether everything from here to the end consists of zeros or ones.
fn is_empty<S: Storage>(storage: &S, mut offset: u64) -> io::Result<bool> {
    let mut scratch = Vec::new();
    while offset < storage.byte_length() {
        let piece = piece_at(storage, offset, &mut scratch)?;
        if !piece.iter().all(|&byte| byte == 0 || byte == 0xff) {
            return Ok(false);
        }
        offset += piece.len() as u64;
    }
    Ok(true)
}

/// The next bytes of the file, up to [`SEARCH_BYTES`].
fn piece_at<'a, S: Storage>(storage: &'a S, offset: u64, scratch: &'a mut Vec<u8>) -> io::Result<&'a [u8]> {
    let left = storage.byte_length().saturating_sub(offset);
    let take = usize::try_from(left).unwrap_or(usize::MAX).min(SEARCH_BYTES);
    if let Some(bytes) = storage.borrowed(offset, take) {
        return Ok(bytes);
    }
    scratch.resize(take, 0);
    storage.read_into(offset, scratch)?;
    Ok(scratch)
}
