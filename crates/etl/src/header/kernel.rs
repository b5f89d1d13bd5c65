//! Records of the kernel's own events: system, compact and perfinfo headers.

use super::{Context, blank, known};
use crate::le::Head;
use crate::losses::Reason;
use crate::{EventRecord, HeaderKind, Hook, Identity, PointerSize};

/// Bits of a perfinfo version that announce data between header and payload.
const PEBS_INDEX: u16 = 0x8000;
const COUNTERS: u16 = 0x0700;

const SYSTEM_BYTES: usize = 0x20;
const COMPACT_BYTES: usize = 0x18;
const PERFINFO_BYTES: usize = 0x10;

#[inline]
pub(super) fn system<'a>(
    record: &'a [u8],
    pointer_size: PointerSize,
    context: Context,
) -> Result<EventRecord<'a>, Reason> {
    let head = Head::<SYSTEM_BYTES>::new(record).ok_or(Reason::BadRecordSize)?;
    Ok(EventRecord {
        ticks: head.u64(0x10),
        thread_id: known(head.u32(8)),
        process_id: known(head.u32(0xc)),
        cpu_times: Some((head.u32(0x18), head.u32(0x1c))),
        payload: &record[SYSTEM_BYTES..],
        ..blank(record, HeaderKind::System, pointer_size, identity(head, head.u16(0)), context)
    })
}

#[inline]
pub(super) fn compact<'a>(
    record: &'a [u8],
    pointer_size: PointerSize,
    context: Context,
) -> Result<EventRecord<'a>, Reason> {
    let head = Head::<COMPACT_BYTES>::new(record).ok_or(Reason::BadRecordSize)?;
    Ok(EventRecord {
        ticks: head.u64(0x10),
        thread_id: known(head.u32(8)),
        process_id: known(head.u32(0xc)),
        payload: &record[COMPACT_BYTES..],
        ..blank(record, HeaderKind::Compact, pointer_size, identity(head, head.u16(0)), context)
    })
}

#[inline]
pub(super) fn perfinfo<'a>(
    record: &'a [u8],
    pointer_size: PointerSize,
    context: Context,
) -> Result<EventRecord<'a>, Reason> {
    let head = Head::<PERFINFO_BYTES>::new(record).ok_or(Reason::BadRecordSize)?;
    let version = head.u16(0);
    let mut rest = &record[PERFINFO_BYTES..];
    let mut pebs_index = None;
    let mut counter_bytes: &[u8] = &[];
    if version & (PEBS_INDEX | COUNTERS) != 0 {
        if version & PEBS_INDEX != 0 {
            let (index, behind) = rest.split_first_chunk().ok_or(Reason::BadCounters)?;
            pebs_index = Some(u64::from_le_bytes(*index));
            rest = behind;
        }
        let counters = usize::from((version & COUNTERS) >> 8);
        (counter_bytes, rest) = rest.split_at_checked(counters * 8).ok_or(Reason::BadCounters)?;
    }
    let identity = identity(head, version & !(PEBS_INDEX | COUNTERS));
    Ok(EventRecord {
        ticks: head.u64(8),
        pebs_index,
        counter_bytes,
        payload: rest,
        ..blank(record, HeaderKind::PerfInfo, pointer_size, identity, context)
    })
}

#[inline(always)]
fn identity<const N: usize>(head: Head<'_, N>, version: u16) -> Identity {
    Identity::Kernel { hook: Hook(head.u16(6)), version }
}
