//! Records of a live session, as delivered to its consumer and as queued until they are decoded.
//!
//! Windows passes one `EVENT_RECORD` at a time, with pointers that are valid only during the callback. The callback
//! copies it into plain bytes ([`pack`]), and draining converts these ([`unpack`]) to the same [`EventRecord`] as in a
//! file: kernel events, which arrive with their class GUIDs, get their hooks back.

use ortscope_core::kernel::threads::Limits;
use ortscope_etl::payload::kernel::hook_of_class;
use ortscope_etl::{
    Classic, Clock, ClockKind, EventDescriptor, EventRecord, ExtendedItem, FileTime, Guid, HeaderKind,
    Identity, PointerSize,
};

pub use ortscope_etl::{ExtendedItem as Extended, Guid as ProviderId};

use super::EtwDecoder;

/// Size of an `EVENT_HEADER` on every Windows.
pub const HEADER_BYTES: usize = 80;
/// Header, processor, logger and the lengths of the two parts that follow.
const HEAD_BYTES: usize = HEADER_BYTES + 8;
const ITEM_BYTES: usize = 8;
const ALIGNMENT: usize = 8;
/// Limit for extended items per record: Windows has about twenty kinds.
const MAX_ITEMS: usize = 32;

const CLASSIC_HEADER: u16 = 0x0100;
const FROM_32_BITS: u16 = 0x0020;
const NO_ID: u32 = u32::MAX;

/// The parts of an `EVENT_RECORD` besides its header.
#[derive(Debug, Clone, Copy)]
pub struct Parts<'a> {
    pub header: &'a [u8; HEADER_BYTES],
    pub processor: u16,
    pub logger: u16,
    pub payload: &'a [u8],
}

impl Parts<'_> {
    /// Time on the session's clock.
    pub fn ticks(&self) -> u64 {
        self.header[16..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }
}

/// Size of a packed record with extended data of these lengths.
pub fn packed_bytes(payload: usize, items: impl Iterator<Item = usize>) -> usize {
    let items: usize = items.take(MAX_ITEMS).map(|bytes| ITEM_BYTES + padded(bytes)).sum();
    HEAD_BYTES + items + padded(payload)
}

/// Appends a record to `out`; returns false without writing if it is too long.
pub fn pack<'a>(
    parts: &Parts<'_>,
    items: impl Iterator<Item = ExtendedItem<'a>> + Clone,
    out: &mut Vec<u8>,
) -> bool {
    let extended: usize =
        items.clone().take(MAX_ITEMS).map(|item| ITEM_BYTES + padded(item.data.len())).sum();
    let (Ok(extended), Ok(payload)) = (u16::try_from(extended), u16::try_from(parts.payload.len())) else {
        return false;
    };
    out.extend_from_slice(parts.header);
    for number in [parts.processor, parts.logger, extended, payload] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    let mut left = items.clone().take(MAX_ITEMS).count();
    for item in items.take(MAX_ITEMS) {
        left -= 1;
        // Each fits because their sum does.
        let (total, bytes) = ((ITEM_BYTES + padded(item.data.len())) as u16, item.data.len() as u16);
        for number in [total, item.kind, u16::from(left > 0), bytes] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        extend_padded(out, item.data);
    }
    extend_padded(out, parts.payload);
    true
}

/// The first packed record, and the remaining bytes.
pub fn unpack(bytes: &[u8]) -> Option<(EventRecord<'_>, &[u8])> {
    let head: &[u8; HEAD_BYTES] = bytes.first_chunk()?;
    let [processor, logger, extended, payload] = [80, 82, 84, 86].map(|at| u16_at(head, at));
    let (extended, payload_bytes) = (usize::from(extended), usize::from(payload));
    let whole = HEAD_BYTES + extended + padded(payload_bytes);
    let (record, rest) = bytes.split_at_checked(whole)?;
    let extended_bytes = &record[HEAD_BYTES..HEAD_BYTES + extended];
    let payload = &record[HEAD_BYTES + extended..][..payload_bytes];
    let flags = u16_at(head, 4);
    let provider = Guid::from_bytes(*head[24..].first_chunk()?);
    let descriptor = EventDescriptor {
        id: u16_at(head, 40),
        version: head[42],
        channel: head[43],
        level: head[44],
        opcode: head[45],
        task: u16_at(head, 46),
        keyword: u64_at(head, 48),
    };
    let identity = match flags & CLASSIC_HEADER {
        0 => Identity::Event { provider, descriptor },
        _ => classic(provider, &descriptor),
    };
    let activity = Guid::from_bytes(*head[64..].first_chunk()?);
    let mut record = EventRecord {
        kind: match identity {
            Identity::Kernel { .. } => HeaderKind::Compact,
            Identity::Event { .. } => HeaderKind::Event,
            _ => HeaderKind::Full,
        },
        pointer_size: if flags & FROM_32_BITS == 0 { PointerSize::Eight } else { PointerSize::Four },
        identity,
        ticks: u64_at(head, 16),
        processor,
        logger,
        process_id: Some(u32_at(head, 12)).filter(|id| *id != NO_ID),
        thread_id: Some(u32_at(head, 8)).filter(|id| *id != NO_ID),
        cpu_times: None,
        activity: Some(activity).filter(|activity| !activity.is_zero()),
        extended_bytes,
        pebs_index: None,
        counter_bytes: &[],
        payload,
        bytes: record,
    };
    record.counter_bytes = record.extended_item(ExtendedItem::COUNTERS).unwrap_or(&[]);
    Some((record, rest))
}

/// Kernel events arrive with the class that documents them.
fn classic(class: Guid, descriptor: &EventDescriptor) -> Identity {
    let (kind, version) = (descriptor.opcode, u16::from(descriptor.version));
    match hook_of_class(class, kind) {
        Some(hook) => Identity::Kernel { hook, version },
        None => Identity::Classic(Classic { class, kind, level: descriptor.level, version }),
    }
}

impl EtwDecoder {
    /// For a session of this machine whose records use the performance counter: times are the machine's monotonic
    /// ones.
    pub fn live(ticks_per_second: u64, limits: Limits) -> Self {
        let clock = Clock::new(ClockKind::PerformanceCounter, ticks_per_second, 0, FileTime(0));
        let pointer_size = if size_of::<usize>() == 4 { PointerSize::Four } else { PointerSize::Eight };
        Self::with_clock(clock, ticks_per_second, pointer_size, limits)
    }
}

fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGNMENT)
}

fn extend_padded(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(bytes);
    out.resize(out.len() + padded(bytes.len()) - bytes.len(), 0);
}

fn u16_at(bytes: &[u8; HEAD_BYTES], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8; HEAD_BYTES], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8; HEAD_BYTES], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header(flags: u16, class: Guid, opcode: u8) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        header[4..6].copy_from_slice(&flags.to_le_bytes());
        header[8..12].copy_from_slice(&7u32.to_le_bytes());
        header[12..16].copy_from_slice(&NO_ID.to_le_bytes());
        header[16..24].copy_from_slice(&123_456_789_012u64.to_le_bytes());
        header[24..40].copy_from_slice(&class.to_bytes());
        header[42] = 2;
        header[45] = opcode;
        header
    }

    #[test]
    fn kernel_events_get_their_hook_and_all_parts_survive() {
        let threads = Guid::new(0x3d6fa8d1_fe05_11d0_9dda_00c04fd7ba7c);
        let header = header(CLASSIC_HEADER, threads, 36);
        let counters = 5u64.to_le_bytes();
        let items = [
            ExtendedItem { kind: ExtendedItem::SID, data: &[1, 2, 3] },
            ExtendedItem { kind: ExtendedItem::COUNTERS, data: &counters },
        ];
        let parts = Parts { header: &header, processor: 300, logger: 9, payload: b"hello" };
        let mut bytes = Vec::new();
        for _ in 0..2 {
            assert!(pack(&parts, items.into_iter(), &mut bytes));
        }
        assert_eq!(bytes.len(), 2 * packed_bytes(5, [3, 8].into_iter()));
        let (record, rest) = unpack(&bytes).unwrap();
        assert!(matches!(record.identity, Identity::Kernel { hook, version: 2 } if hook.0 == 0x0524));
        assert_eq!((record.ticks, record.thread_id, record.process_id), (123_456_789_012, Some(7), None));
        assert_eq!((record.processor, record.logger, record.payload), (300, 9, b"hello".as_slice()));
        assert_eq!(record.extended_item(ExtendedItem::SID), Some([1, 2, 3].as_slice()));
        assert_eq!(record.counters().collect::<Vec<_>>(), [5]);
        let (_, rest) = unpack(rest).unwrap();
        assert!(rest.is_empty() && unpack(rest).is_none());
    }

    #[test]
    fn a_record_that_is_too_long_is_rejected() {
        let header = header(0, Guid::default(), 0);
        let (long, mut bytes) = (vec![0; 70_000], Vec::new());
        let parts = Parts { header: &header, processor: 0, logger: 0, payload: &long };
        assert!(!pack(&parts, std::iter::empty(), &mut bytes));
        assert!(bytes.is_empty());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut rest = bytes.as_slice();
            let mut decoder = EtwDecoder::live(10_000_000, Limits::default());
            while let Some((record, after)) = unpack(rest) {
                prop_assert!(after.len() < rest.len());
                decoder.push(&record, &mut ());
                rest = after;
            }
        }
    }
}
