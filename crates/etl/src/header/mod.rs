//! Record headers: ten layouts, distinguished by the first four bytes of a record.
//!
//! The parser never fails as a whole. A record that is not understood is skipped with a reason; bytes that cannot be a
//! record end the buffer, since the start of the next record is unknown.

mod event;
mod kernel;
mod message;

use crate::losses::Reason;
use crate::{EventRecord, HeaderKind, Identity, PointerSize};

/// Each record begins at a multiple of this.
pub(crate) const RECORD_ALIGNMENT: usize = 8;

/// Properties of the buffer that apply to all of its records.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Context {
    pub(crate) processor: u16,
    pub(crate) logger: u16,
    /// The file's pointer size, for records without their own.
    pub(crate) pointer_size: PointerSize,
}

/// What is at an offset in a buffer.
#[derive(Debug)]
pub(crate) enum Step<'a> {
    Record(EventRecord<'a>),
    /// An unusable record of `size` bytes; the next one follows.
    Skip {
        reason: Reason,
        size: usize,
    },
    /// No record can begin here, and none follows.
    Broken(Reason),
    End,
}

mod types {
    pub(super) const SYSTEM_32: u8 = 0x01;
    pub(super) const SYSTEM_64: u8 = 0x02;
    pub(super) const COMPACT_32: u8 = 0x03;
    pub(super) const COMPACT_64: u8 = 0x04;
    pub(super) const FULL_32: u8 = 0x0a;
    pub(super) const INSTANCE_32: u8 = 0x0b;
    pub(super) const ERROR: u8 = 0x0d;
    pub(super) const PERFINFO_32: u8 = 0x10;
    pub(super) const PERFINFO_64: u8 = 0x11;
    pub(super) const EVENT_32: u8 = 0x12;
    pub(super) const EVENT_64: u8 = 0x13;
    pub(super) const FULL_64: u8 = 0x14;
    pub(super) const INSTANCE_64: u8 = 0x15;
}

/// The high byte of a record's first word.
const EVENT_MARKER: u8 = 0xc0;
const MESSAGE_MARKER: u8 = 0x90;

/// The size of the record that begins with these bytes, according to itself. `None` if no record begins here.
#[inline]
pub(crate) fn record_size(head: &[u8; 8]) -> Option<usize> {
    let word = |at: usize| usize::from(u16::from_le_bytes([head[at], head[at + 1]]));
    match (head[3], head[2]) {
        (MESSAGE_MARKER, _) => Some(word(0)),
        (EVENT_MARKER, 0x01..=0x04 | 0x10 | 0x11) => Some(word(4)),
        (EVENT_MARKER, _) => Some(word(0)),
        _ => None,
    }
}

/// Reads the record at the start of `bytes`, which extend to the end of the buffer's events.
#[inline]
pub(crate) fn read<'a>(bytes: &'a [u8], context: Context) -> Step<'a> {
    let Some(head) = bytes.first_chunk::<8>() else {
        return if bytes.iter().all(|&byte| byte == 0 || byte == 0xff) {
            Step::End
        } else {
            Step::Broken(Reason::NotARecord)
        };
    };
    // The unused end of a buffer is filled with ones; zeros were never written.
    if head[..4] == [0xff; 4] || *head == [0; 8] {
        return Step::End;
    }
    let Some(size) = record_size(head) else { return Step::Broken(Reason::NotARecord) };
    if size < 8 || size > bytes.len() {
        return Step::Broken(Reason::BadRecordSize);
    }
    let record = &bytes[..size];
    if head[3] == MESSAGE_MARKER {
        return finish(message::message(record, context), size);
    }
    use PointerSize::{Eight, Four};
    let read = match head[2] {
        types::PERFINFO_64 => kernel::perfinfo(record, Eight, context),
        types::EVENT_64 => event::event(record, Eight, context),
        types::SYSTEM_64 => kernel::system(record, Eight, context),
        types::FULL_64 => event::full(record, Eight, context),
        types::COMPACT_64 => kernel::compact(record, Eight, context),
        types::INSTANCE_64 => event::instance(record, Eight, context),
        types::PERFINFO_32 => kernel::perfinfo(record, Four, context),
        types::EVENT_32 => event::event(record, Four, context),
        types::SYSTEM_32 => kernel::system(record, Four, context),
        types::FULL_32 => event::full(record, Four, context),
        types::COMPACT_32 => kernel::compact(record, Four, context),
        types::INSTANCE_32 => event::instance(record, Four, context),
        types::ERROR => Ok(error(record, context)),
        _ => Err(Reason::UnknownHeader),
    };
    finish(read, size)
}

#[inline]
fn finish(read: Result<EventRecord<'_>, Reason>, size: usize) -> Step<'_> {
    match read {
        Ok(record) => Step::Record(record),
        // The size does not even cover the header: what follows cannot be trusted.
        Err(Reason::BadRecordSize) => Step::Broken(Reason::BadRecordSize),
        Err(reason) => Step::Skip { reason, size },
    }
}

fn error<'a>(record: &'a [u8], context: Context) -> EventRecord<'a> {
    EventRecord {
        payload: record.get(8..).unwrap_or(&[]),
        ..blank(record, HeaderKind::Error, context.pointer_size, Identity::Error, context)
    }
}

/// A record with only the properties of its buffer and its kind.
#[inline(always)]
fn blank<'a>(
    bytes: &'a [u8],
    kind: HeaderKind,
    pointer_size: PointerSize,
    identity: Identity,
    context: Context,
) -> EventRecord<'a> {
    EventRecord {
        kind,
        pointer_size,
        identity,
        ticks: 0,
        processor: context.processor,
        logger: context.logger,
        process_id: None,
        thread_id: None,
        cpu_times: None,
        activity: None,
        extended_bytes: &[],
        pebs_index: None,
        counter_bytes: &[],
        payload: &[],
        bytes,
    }
}

/// Minus one means an unknown thread or process.
#[inline(always)]
fn known(id: u32) -> Option<u32> {
    (id != u32::MAX).then_some(id)
}

#[cfg(test)]
mod tests;
