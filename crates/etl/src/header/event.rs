//! Records of providers: classic (full and instance headers) and modern (event headers with extended items).

use super::{Context, blank, known};
use crate::le::{Head, u16_at};
use crate::losses::Reason;
use crate::{Classic, EventDescriptor, EventRecord, Guid, HeaderKind, Identity, PointerSize};

const FULL_BYTES: usize = 0x30;
const INSTANCE_BYTES: usize = 0x48;
const EVENT_BYTES: usize = 0x50;

/// Header flag: extended items are between header and payload.
const EXTENDED_INFO: u16 = 1;

#[inline]
pub(super) fn full<'a>(
    record: &'a [u8],
    pointer_size: PointerSize,
    context: Context,
) -> Result<EventRecord<'a>, Reason> {
    classic(record, HeaderKind::Full, FULL_BYTES, pointer_size, context)
}

#[inline]
pub(super) fn instance<'a>(
    record: &'a [u8],
    pointer_size: PointerSize,
    context: Context,
) -> Result<EventRecord<'a>, Reason> {
    classic(record, HeaderKind::Instance, INSTANCE_BYTES, pointer_size, context)
}

#[inline(always)]
fn classic<'a>(
    record: &'a [u8],
    kind: HeaderKind,
    header_bytes: usize,
    pointer_size: PointerSize,
    context: Context,
) -> Result<EventRecord<'a>, Reason> {
    let head = Head::<FULL_BYTES>::new(record).ok_or(Reason::BadRecordSize)?;
    let payload = record.get(header_bytes..).ok_or(Reason::BadRecordSize)?;
    let identity = Identity::Classic(Classic {
        class: Guid::from_bytes(head.bytes16(0x18)),
        kind: head.u8(4),
        level: head.u8(5),
        version: head.u16(6),
    });
    Ok(EventRecord {
        ticks: head.u64(0x10),
        thread_id: known(head.u32(8)),
        process_id: known(head.u32(0xc)),
        cpu_times: Some((head.u32(0x28), head.u32(0x2c))),
        payload,
        ..blank(record, kind, pointer_size, identity, context)
    })
}

#[inline]
pub(super) fn event<'a>(
    record: &'a [u8],
    pointer_size: PointerSize,
    context: Context,
) -> Result<EventRecord<'a>, Reason> {
    let head = Head::<EVENT_BYTES>::new(record).ok_or(Reason::BadRecordSize)?;
    let behind = &record[EVENT_BYTES..];
    let (extended_bytes, payload) = if head.u16(4) & EXTENDED_INFO != 0 {
        let length = extended_length(behind).ok_or(Reason::BadExtendedItems)?;
        behind.split_at(length)
    } else {
        behind.split_at(0)
    };
    let activity = Guid::from_bytes(head.bytes16(0x40));
    let identity = Identity::Event {
        provider: Guid::from_bytes(head.bytes16(0x18)),
        descriptor: EventDescriptor {
            id: head.u16(0x28),
            version: head.u8(0x2a),
            channel: head.u8(0x2b),
            level: head.u8(0x2c),
            opcode: head.u8(0x2d),
            task: head.u16(0x2e),
            keyword: head.u64(0x30),
        },
    };
    Ok(EventRecord {
        ticks: head.u64(0x10),
        thread_id: known(head.u32(8)),
        process_id: known(head.u32(0xc)),
        cpu_times: Some((head.u32(0x38), head.u32(0x3c))),
        activity: (!activity.is_zero()).then_some(activity),
        extended_bytes,
        payload,
        ..blank(record, HeaderKind::Event, pointer_size, identity, context)
    })
}

/// The bytes of all extended items, if each is within the record.
fn extended_length(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let total = usize::from(u16_at(bytes, at)?);
        let another = u16_at(bytes, at + 4)? & 1 != 0;
        let data = usize::from(u16_at(bytes, at + 6)?);
        if total < 8 + data {
            return None;
        }
        at += total;
        if at > bytes.len() {
            return None;
        }
        if !another {
            return Some(at);
        }
    }
}
