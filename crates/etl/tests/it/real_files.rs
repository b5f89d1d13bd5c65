//! Every trace of the corpus matches its manifest, in memory and from disk, ordered and on several threads.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use ortscope_etl::{EtlBytes, EtlFile, EventRecord, HeaderKind, PointerSize, Reason};

use crate::corpus::traces;

/// The manifest's name of a record's header.
fn kind_name(record: &EventRecord<'_>) -> String {
    let bits = if record.pointer_size == PointerSize::Four { 32 } else { 64 };
    match record.kind {
        HeaderKind::System => format!("SYSTEM{bits}"),
        HeaderKind::Compact => format!("COMPACT{bits}"),
        HeaderKind::PerfInfo => format!("PERFINFO{bits}"),
        HeaderKind::Full => format!("FULL{bits}"),
        HeaderKind::Instance => format!("INSTANCE{bits}"),
        HeaderKind::Event => format!("EVENT{bits}"),
        HeaderKind::Message => "MSG mf=90".to_owned(),
        HeaderKind::Error => "ERROR".to_owned(),
    }
}

type Kinds = BTreeMap<String, u64>;

fn count(kinds: &mut Kinds, record: &EventRecord<'_>) {
    *kinds.entry(kind_name(record)).or_default() += 1;
}

#[test]
fn counts_and_header_match_the_manifest() {
    for trace in traces() {
        let bytes = trace.bytes();
        let file = EtlBytes::new(&bytes).unwrap();
        let header = file.header();
        let [major, minor, sub, sub_minor] = header.version;
        assert_eq!(format!("{major}.{minor}.{sub}.{sub_minor}"), trace.version, "{}", trace.name);
        assert_eq!(header.os_build, trace.os_build, "{}", trace.name);
        assert_eq!(header.pointer_size.bytes(), trace.pointer_bytes, "{}", trace.name);
        assert_eq!(header.clock.kind().raw(), trace.clock, "{}", trace.name);
        assert_eq!(file.buffers(), trace.buffers, "{}", trace.name);
        if header.is_closed() {
            assert_eq!(u64::from(header.buffers_written), trace.buffers, "{}", trace.name);
        }
        assert_eq!(file.compressed_buffers(), trace.compressed_buffers, "{}", trace.name);
        assert_eq!(file.losses().events_lost, trace.events_lost, "{}", trace.name);
        let mut kinds = Kinds::new();
        let walk = file
            .ordered(|record| {
                count(&mut kinds, record);
                ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!(walk.records, trace.records, "{}", trace.name);
        assert_eq!(kinds, trace.header_kinds, "{}", trace.name);
        // One trace was copied while its session was running.
        let odd: Vec<_> = walk.losses.damage.iter().map(|(reason, _)| reason).collect();
        let expected = if trace.name == "s4_CldFlt2.etl" { vec![Reason::NotClosed] } else { vec![] };
        assert_eq!(odd, expected, "{}", trace.name);
    }
}

#[test]
fn records_are_in_chronological_order() {
    for trace in traces() {
        let bytes = trace.bytes();
        let file = EtlBytes::new(&bytes).unwrap();
        let (mut latest, mut at) = (0, 0);
        file.ordered(|record| {
            if record.ticks != 0 {
                assert!(record.ticks >= latest, "{}: record {at} is older than the one before", trace.name);
                latest = record.ticks;
            }
            at += 1;
            ControlFlow::Continue(())
        })
        .unwrap();
    }
}

/// A hash of every byte of a record and its processor, independent of the order of records.
fn mix(record: &EventRecord<'_>) -> u64 {
    record.bytes.iter().fold(u64::from(record.processor), |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3).rotate_left(23)
    })
}

#[test]
fn memory_disk_and_threads_give_the_same_records() {
    for trace in traces() {
        let bytes = trace.bytes();
        let in_memory = EtlBytes::new(&bytes).unwrap();
        let on_disk = EtlFile::open(&trace.path).unwrap();
        let mut expected = Vec::new();
        let first = in_memory
            .ordered(|record| {
                expected.push((record.ticks, mix(record)));
                ControlFlow::Continue(())
            })
            .unwrap();
        let mut at = 0;
        let second = on_disk
            .ordered(|record| {
                assert_eq!((record.ticks, mix(record)), expected[at], "{}: record {at}", trace.name);
                at += 1;
                ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!(first, second, "{}", trace.name);
        let sum = expected.iter().fold(0_u64, |sum, (_, hash)| sum.wrapping_add(*hash));
        for threads in [1, 3] {
            let (sums, third) = on_disk
                .unordered(threads, || 0_u64, |sum, record| *sum = sum.wrapping_add(mix(record)))
                .unwrap();
            assert_eq!(sums.into_iter().fold(0, u64::wrapping_add), sum, "{}", trace.name);
            assert_eq!(first, third, "{}", trace.name);
        }
    }
}

#[test]
fn a_walk_stops_on_request() {
    for trace in traces() {
        let file = EtlFile::open(&trace.path).unwrap();
        let mut left = 2;
        let walk = file
            .ordered(|_| {
                left -= 1;
                if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })
            .unwrap();
        assert!(walk.stopped, "{}", trace.name);
        assert_eq!(walk.records, 2, "{}", trace.name);
    }
}
