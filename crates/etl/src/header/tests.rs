//! Header kinds that no available real file has, and inconsistent records.

use super::*;
use crate::{Guid, Hook};

const CONTEXT: Context = Context { processor: 5, logger: 7, pointer_size: PointerSize::Four };

fn record(bytes: &[u8]) -> EventRecord<'_> {
    match read(bytes, CONTEXT) {
        Step::Record(record) => record,
        other => panic!("{other:?}"),
    }
}

/// A header of `size` bytes whose byte `n` is `n`, with the given first eight.
fn counting(first: [u8; 8], size: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..size).map(|n| n as u8).collect();
    bytes[..8].copy_from_slice(&first);
    bytes
}

#[test]
fn a_context_switch_with_two_counters() {
    // Captured on Windows 10: version 4, two counters of 3896 and 9400, then the 24 bytes of the payload.
    let mut bytes = vec![0x04, 0x02, 0x11, 0xc0, 0x38, 0x00, 0x24, 0x05];
    bytes.extend(1_000_u64.to_le_bytes());
    bytes.extend(3_896_u64.to_le_bytes());
    bytes.extend(9_400_u64.to_le_bytes());
    bytes.extend(0..24_u8);
    let switch = record(&bytes);
    assert_eq!(switch.identity, Identity::Kernel { hook: Hook(0x0524), version: 4 });
    assert_eq!(switch.counters().collect::<Vec<_>>(), [3_896, 9_400]);
    assert_eq!(switch.pebs_index, None);
    assert_eq!(switch.payload.len(), 24);
    assert_eq!((switch.ticks, switch.processor, switch.pointer_size), (1_000, 5, PointerSize::Eight));
    assert_eq!((switch.process_id, switch.thread_id), (None, None));

    bytes[1] |= 0x80;
    let with_index = record(&bytes);
    assert_eq!(with_index.pebs_index, Some(3_896));
    assert_eq!(with_index.counters().count(), 2);
    assert_eq!(with_index.payload.len(), 16);

    bytes[1] = 0x07;
    assert!(matches!(read(&bytes, CONTEXT), Step::Skip { reason: Reason::BadCounters, size: 0x38 }));
}

#[test]
fn compact_headers_have_no_cpu_times() {
    let bytes = counting([2, 0, 0x04, 0xc0, 0x20, 0, 0x34, 0x12], 0x20);
    let compact = record(&bytes);
    assert_eq!((compact.kind, compact.pointer_size), (HeaderKind::Compact, PointerSize::Eight));
    assert_eq!(compact.identity, Identity::Kernel { hook: Hook(0x1234), version: 2 });
    assert_eq!(compact.thread_id, Some(0x0b0a_0908));
    assert_eq!(compact.process_id, Some(0x0f0e_0d0c));
    assert_eq!(compact.ticks, 0x1716_1514_1312_1110);
    assert_eq!(compact.cpu_times, None);
    assert_eq!(compact.payload.len(), 8);
    let narrow = counting([2, 0, 0x03, 0xc0, 0x18, 0, 0, 0], 0x18);
    assert_eq!(record(&narrow).pointer_size, PointerSize::Four);
}

#[test]
fn instance_headers_are_longer_than_full_ones() {
    let bytes = counting([0x50, 0, 0x15, 0xc0, 9, 4, 2, 0], 0x50);
    let instance = record(&bytes);
    assert_eq!(instance.kind, HeaderKind::Instance);
    let Identity::Classic(classic) = instance.identity else { panic!("{:?}", instance.identity) };
    assert_eq!((classic.kind, classic.level, classic.version), (9, 4, 2));
    assert_eq!(classic.class.to_bytes()[0], 0x18);
    assert_eq!(instance.payload, &bytes[0x48..]);
}

#[test]
fn messages_have_the_fields_that_their_flags_name() {
    let mut bytes = vec![0, 0, 0, 0x90, 0x11, 0, 0x01 | 0x02 | 0x08 | 0x20 | 0x80, 0];
    bytes.extend(77_u32.to_le_bytes());
    bytes.extend([0xaa; 16]);
    bytes.extend(123_u64.to_le_bytes());
    bytes.extend(4_u32.to_le_bytes());
    bytes.extend(8_u32.to_le_bytes());
    bytes.extend(*b"payload");
    bytes[0] = bytes.len() as u8;
    let message = record(&bytes);
    let Identity::Message(identity) = message.identity else { panic!("{:?}", message.identity) };
    assert_eq!((identity.number, identity.sequence, identity.component), (0x11, Some(77), None));
    assert_eq!(identity.guid, Some(Guid::from_bytes([0xaa; 16])));
    assert_eq!((message.ticks, message.thread_id, message.process_id), (123, Some(4), Some(8)));
    assert_eq!((message.pointer_size, message.payload), (PointerSize::Eight, &b"payload"[..]));

    let bare = [8, 0, 0, 0x90, 1, 0, 0x04, 0];
    assert!(matches!(read(&bare, CONTEXT), Step::Broken(Reason::BadRecordSize)), "its component is missing");
    let bare = [8, 0, 0, 0x90, 1, 0, 0, 0];
    assert_eq!((record(&bare).ticks, record(&bare).pointer_size), (0, PointerSize::Four));
}

#[test]
fn minus_one_is_no_thread() {
    let mut bytes = counting([2, 0, 0x02, 0xc0, 0x20, 0, 0, 0], 0x20);
    bytes[8..16].fill(0xff);
    assert_eq!((record(&bytes).thread_id, record(&bytes).process_id), (None, None));
}

#[test]
fn extended_items_must_fit() {
    let mut bytes = counting([0x68, 0, 0x13, 0xc0, 1, 0, 0, 0], 0x68);
    bytes[0x50..0x58].copy_from_slice(&[0x10, 0, 11, 0, 0, 0, 5, 0]);
    let event = record(&bytes);
    assert_eq!(event.extended_item(11), Some(&bytes[0x58..0x5d]));
    assert_eq!(event.payload, &bytes[0x60..]);
    for (at, value) in [(0x50, 0x20), (0x50, 0x08), (0x54, 1), (0x57, 1)] {
        let mut damaged = bytes.clone();
        damaged[at] = value;
        let step = read(&damaged, CONTEXT);
        assert!(
            matches!(step, Step::Skip { reason: Reason::BadExtendedItems, size: 0x68 }),
            "{at:#x}: {step:?}"
        );
    }
}

#[test]
fn what_is_no_record_ends_the_buffer_with_a_reason() {
    assert!(matches!(read(&[0xff; 64], CONTEXT), Step::End));
    assert!(matches!(read(&[0; 64], CONTEXT), Step::End));
    assert!(matches!(read(&[], CONTEXT), Step::End));
    assert!(matches!(read(&[1, 2, 3], CONTEXT), Step::Broken(Reason::NotARecord)));
    assert!(matches!(read(&[1; 64], CONTEXT), Step::Broken(Reason::NotARecord)));
    for (size, kind) in [(0x1f, 0x02), (0x0f, 0x11), (0x17, 0x04), (7, 0x02), (0x41, 0x02)] {
        let bytes = counting([2, 0, kind, 0xc0, size, 0, 0, 0], 0x40);
        assert!(matches!(read(&bytes, CONTEXT), Step::Broken(Reason::BadRecordSize)), "{size} {kind}");
    }
    let unknown = counting([0x20, 0, 0x0c, 0xc0, 0, 0, 0, 0], 0x40);
    assert!(matches!(read(&unknown, CONTEXT), Step::Skip { reason: Reason::UnknownHeader, size: 0x20 }));
    let error = counting([0x20, 0, 0x0d, 0xc0, 0, 0, 0, 0], 0x40);
    assert_eq!(record(&error).kind, HeaderKind::Error);
}
