//! Records of WPP software tracing, whose header has only the fields named by its flags.

use super::{Context, blank, known};
use crate::le::{chunk_at, u16_at, u32_at, u64_at};
use crate::losses::Reason;
use crate::{EventRecord, Guid, HeaderKind, Identity, Message, PointerSize};

const SEQUENCE: u16 = 0x01;
const GUID: u16 = 0x02;
const COMPONENT: u16 = 0x04;
const TIME_STAMP: u16 = 0x08;
const SYSTEM_INFO: u16 = 0x20;
const POINTER_32: u16 = 0x40;
const POINTER_64: u16 = 0x80;

pub(super) fn message<'a>(record: &'a [u8], context: Context) -> Result<EventRecord<'a>, Reason> {
    parse(record, context).ok_or(Reason::BadRecordSize)
}

fn parse<'a>(record: &'a [u8], context: Context) -> Option<EventRecord<'a>> {
    let flags = u16_at(record, 6)?;
    let has = |flag: u16| flags & flag != 0;
    let mut message =
        Message { number: u16_at(record, 4)?, flags, sequence: None, guid: None, component: None };
    let mut at = 8;
    if has(SEQUENCE) {
        message.sequence = Some(u32_at(record, at)?);
        at += 4;
    }
    if has(GUID) {
        message.guid = Some(Guid::from_bytes(chunk_at(record, at)?));
        at += 16;
    } else if has(COMPONENT) {
        message.component = Some(u32_at(record, at)?);
        at += 4;
    }
    let mut ticks = 0;
    if has(TIME_STAMP) {
        ticks = u64_at(record, at)?;
        at += 8;
    }
    let (mut thread_id, mut process_id) = (None, None);
    if has(SYSTEM_INFO) {
        thread_id = known(u32_at(record, at)?);
        process_id = known(u32_at(record, at + 4)?);
        at += 8;
    }
    let pointer_size = match (has(POINTER_64), has(POINTER_32)) {
        (true, _) => PointerSize::Eight,
        (_, true) => PointerSize::Four,
        _ => context.pointer_size,
    };
    Some(EventRecord {
        ticks,
        thread_id,
        process_id,
        payload: record.get(at..)?,
        ..blank(record, HeaderKind::Message, pointer_size, Identity::Message(message), context)
    })
}
