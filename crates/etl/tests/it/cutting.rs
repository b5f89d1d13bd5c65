//! Parts of real files, written as new ones.

use std::collections::BTreeSet;
use std::io::Cursor;
use std::ops::ControlFlow;

use ortscope_etl::payload::kernel::class_of_hook;
use ortscope_etl::{EtlBytes, EtlFile, EventRecord, Filter, Hook, Identity};

use crate::corpus::{trace, traces};

fn collect(bytes: &[u8]) -> Vec<(u64, u16, Vec<u8>)> {
    let mut all = Vec::new();
    EtlBytes::new(bytes)
        .unwrap()
        .ordered(|record| {
            all.push((record.ticks, record.processor, record.bytes.to_vec()));
            ControlFlow::Continue(())
        })
        .unwrap();
    all
}

#[test]
fn a_whole_file_keeps_every_record() {
    for trace in traces() {
        let file = EtlFile::open(&trace.path).unwrap();
        let (out, cut) = file.cut(&Filter::default(), Cursor::new(Vec::new())).unwrap();
        assert_eq!((cut.read, cut.kept, cut.dropped), (trace.records, trace.records, 0), "{}", trace.name);
        let copy = out.into_inner();
        let again = EtlBytes::new(&copy).unwrap();
        assert_eq!(again.losses().events_lost, trace.events_lost, "{}", trace.name);
        assert_eq!(again.compressed_buffers(), 0, "{}", trace.name);
        let header = again.header();
        assert_eq!(header.start_time, file.header().start_time, "{}", trace.name);
        assert_eq!(header.os_build, trace.os_build, "{}", trace.name);
        let walk = again.ordered(|_| ControlFlow::Continue(())).unwrap();
        assert!(walk.losses.damage.is_empty(), "{}: {:?}", trace.name, walk.losses.damage);
        // The first record is the header, which differs; all others are the same bytes in the same order.
        let (before, after) = (collect(&trace.bytes()), collect(&copy));
        assert_eq!(before.len(), after.len(), "{}", trace.name);
        assert!(before[1..] == after[1..], "{}", trace.name);
    }
}

fn kept(name: &str, filter: &Filter, mut each: impl FnMut(&EventRecord<'_>)) -> Option<u64> {
    let trace = trace(name)?;
    let file = EtlFile::open(&trace.path).unwrap();
    let (out, cut) = file.cut(filter, Cursor::new(Vec::new())).unwrap();
    assert_eq!(cut.kept + cut.context + cut.dropped, trace.records);
    let copy = out.into_inner();
    let walk = EtlBytes::new(&copy)
        .unwrap()
        .ordered(|record| {
            each(record);
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(walk.records, cut.kept + cut.context);
    Some(cut.kept)
}

#[test]
fn a_time_range_is_kept() {
    let name = "perfview_net.4.5.2.x64.etl";
    let Some(trace) = trace(name) else { return };
    let clock = EtlFile::open(&trace.path).unwrap().header().clock;
    let (from, until) = (clock.ticks_after_start(1_000_000_000), clock.ticks_after_start(2_000_000_000));
    let expected =
        collect(&trace.bytes()).iter().filter(|(ticks, ..)| (from..until).contains(ticks)).count() as u64;
    assert!(expected > 1_000 && expected < trace.records / 2, "{expected}");
    let bare = Filter { from_ticks: from, until_ticks: until, keep_context: false, ..Filter::default() };
    let mut outside = 0;
    let count =
        kept(name, &bare, |record| outside += u64::from(!(from..until).contains(&record.ticks))).unwrap();
    // Stacks follow their event, so a few at the boundaries change sides.
    assert!(count.abs_diff(expected) < 100, "{count} of {expected}");
    assert!(outside < 100, "{outside}");
    let with_context = Filter { keep_context: true, ..bare };
    let mut processes = 0;
    kept(name, &with_context, |record| {
        processes += u64::from(matches!(record.identity, Identity::Kernel { hook: Hook(0x0303), .. }));
    });
    assert!(processes > 10, "process names are kept: {processes}");
}

#[test]
fn one_process_is_kept() {
    let name = "perfview_net.4.5.2.x64.etl";
    let Some(trace) = trace(name) else { return };
    // The process with the most CLR events.
    let mut by_process = std::collections::BTreeMap::<u32, u64>::new();
    EtlFile::open(&trace.path)
        .unwrap()
        .ordered(|record| {
            if let (Identity::Event { .. }, Some(process)) = (record.identity, record.process_id) {
                *by_process.entry(process).or_default() += 1;
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    let (&process, &events) = by_process.iter().max_by_key(|(_, events)| **events).unwrap();
    let filter =
        Filter { processes: Some(BTreeSet::from([process])), keep_context: false, ..Filter::default() };
    let (mut of_process, mut samples, mut strangers) = (0, 0, 0);
    kept(name, &filter, |record| match record.identity {
        Identity::Event { .. } if record.process_id == Some(process) => of_process += 1,
        Identity::Event { .. } => strangers += 1,
        Identity::Kernel { hook: Hook(0x0f2e), .. } => samples += 1,
        _ => {}
    });
    assert_eq!((of_process, strangers), (events, 0));
    assert!(samples > 100, "samples are found by their thread: {samples}");
}

#[test]
fn some_providers_are_kept() {
    let name = "etlparser_ShutdownPerfDiagLogger.etl";
    let thread_class = class_of_hook(Hook(0x0501)).unwrap();
    let filter =
        Filter { providers: Some(BTreeSet::from([thread_class])), keep_context: false, ..Filter::default() };
    let (mut threads, mut others) = (0, 0);
    let Some(_) = kept(name, &filter, |record| match record.identity {
        Identity::Kernel { hook, .. } if hook.group() == 5 => threads += 1,
        _ => others += 1,
    }) else {
        return;
    };
    assert!(threads > 1_000, "{threads}");
    assert!(others <= 3, "only the header's own: {others}");
}
