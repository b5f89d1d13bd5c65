//! A session that delivers a generated trace with known contents: file I/O, counters and samples with stacks, as
//! requested by `--kernel` and `--flame`.

use std::collections::HashSet;
use std::io::Cursor;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ortscope_core::kernel::{FileOperation, FrameKind, StackProfile};
use ortscope_etl::writer::kernel::{
    ContextSwitch, Image, KernelPayload, Moment, Process, SampledProfile, StackWalk, Thread,
};
use ortscope_etl::writer::{CounterBytes, FileSettings, Place, Writer};
use ortscope_etl::{Etl, FileTime, Hook};
use ortscope_sources::etw::{Consumer, EtwSamples, EtwTrace};
use ortscope_sources::kernel::{Class, SampleOptions, TraceOptions};

use super::table::{Table, deliver_record};

const FREQUENCY: u64 = 10_000_000;
const KERNEL: u64 = 0xffff_8000_0000_0000;
const PROGRAM: u64 = 0x7ff6_0000_0000;

type Trace = Writer<Cursor<Vec<u8>>>;

fn put(trace: &mut Trace, place: &Place, payload: &KernelPayload) {
    trace.kernel(place, payload.hook, payload.version, &payload.bytes).unwrap();
}

fn begin(trace: &mut Trace, ticks: u64, pid: u32, parent_id: u32, name: &str, moment: Moment) {
    let here = Place::at(0, ticks).in_thread(4, 8);
    let process = Process {
        key: u64::from(pid),
        process_id: pid,
        parent_id,
        session_id: 1,
        exit_status: 259,
        image_name: name,
        command_line: "",
    };
    put(trace, &here, &process.payload(moment));
    let thread = Thread { process_id: pid, thread_id: pid + 1, start_address: 0, base_priority: 8, name: "" };
    put(trace, &here, &thread.payload(moment));
    let path = format!("\\Device\\HarddiskVolume3\\{name}");
    let image = Image {
        base: PROGRAM,
        size: 0x10_0000,
        process_id: pid,
        checksum: 0,
        time_date_stamp: 0,
        path: &path,
    };
    put(trace, &here, &image.payload(moment));
}

fn fields(fields: &[(u64, usize)]) -> Vec<u8> {
    fields.iter().flat_map(|(value, width)| value.to_le_bytes().into_iter().take(*width)).collect()
}

fn sample(trace: &mut Trace, ticks: u64, tid: u32, pid: u32, addresses: &[u64]) {
    let place = Place::at(0, ticks);
    let sample = SampledProfile { instruction_pointer: addresses[0], thread_id: tid, count: 1 };
    put(trace, &place, &sample.payload());
    let stack = StackWalk { event_ticks: ticks, process_id: pid, thread_id: tid, addresses };
    put(trace, &Place::at(0, ticks + 10), &stack.payload());
}

/// Process 100 reads, writes and computes, with its child 200; process 300 is unrelated. Ten seconds.
fn written() -> Vec<u8> {
    let start = FileTime::from_unix_ns(1_700_000_000_000_000_000);
    let mut trace = Writer::new(Cursor::default(), FileSettings::new(2, FREQUENCY, 1_000, start)).unwrap();
    let kernel = "ntoskrnl.exe";
    let image =
        Image { base: KERNEL, size: 0x10_0000, process_id: 0, checksum: 0, time_date_stamp: 0, path: kernel };
    put(&mut trace, &Place::at(0, 1_001).in_thread(4, 8), &image.payload(Moment::RundownStart));
    begin(&mut trace, 1_002, 100, 4, "serve.exe", Moment::RundownStart);
    begin(&mut trace, 1_003, 300, 4, "other.exe", Moment::RundownStart);
    begin(&mut trace, 1_500, 200, 100, "child.exe", Moment::Start);
    let here = |ticks| Place::at(0, ticks).in_thread(100, 101);
    // A successful read, a failed one, and a write whose end is not recorded.
    let operation = |irp: u64, bytes: u64| {
        fields(&[(512, 8), (irp, 8), (0xf11e, 8), (0, 8), (101, 4), (bytes, 4), (0, 4)])
    };
    let end = |irp: u64, bytes: u64, status: u64| fields(&[(irp, 8), (bytes, 8), (status, 4)]);
    for (ticks, hook, payload) in [
        (4_000, 0x0443, operation(0x1a, 8_192)),
        (4_300, 0x044c, end(0x1a, 8_000, 0)),
        (4_400, 0x0443, operation(0x1b, 8_192)),
        (4_450, 0x044c, end(0x1b, 0, 0xc000_0011)),
        (4_500, 0x0444, operation(0x1c, 100)),
    ] {
        trace.kernel(&here(ticks), Hook(hook), 3, &payload).unwrap();
    }
    // Two counters, on a separate processor.
    let switch =
        |old_thread, new_thread| ContextSwitch { old_thread, new_thread, ..ContextSwitch::default() };
    for (ticks, event, counters) in [
        (10_000, switch(0, 101), [1_000, 50]),
        (20_000, switch(101, 301), [4_000, 57]),
        (30_000, switch(301, 101), [4_100, 60]),
        (40_000, switch(101, 0), [5_000, 60]),
    ] {
        let payload = event.payload();
        let counters = CounterBytes { pebs_index: None, counters: &counters };
        let place = Place::at(1, ticks);
        trace.kernel_with_counters(&place, payload.hook, payload.version, &counters, &payload.bytes).unwrap();
    }
    // Samples every second: of the watched process, its child and the unrelated one.
    for second in 0..10 {
        let ticks = 100_000 + second * FREQUENCY;
        sample(&mut trace, ticks, 101, 100, &[KERNEL + 0x20, PROGRAM + 0x1001, PROGRAM + 0x2001]);
        sample(&mut trace, ticks + 100, 201, 200, &[PROGRAM + 0x30, 0x1234]);
        sample(&mut trace, ticks + 200, 301, 300, &[PROGRAM + 0x40]);
    }
    trace.finish().unwrap().0.into_inner()
}

fn table() -> Table {
    let deliver = |consumer: &Consumer, _: &std::sync::atomic::AtomicBool| {
        let bytes = written();
        let etl = Etl::new(bytes.as_slice()).unwrap();
        etl.ordered(|record| {
            deliver_record(record, consumer);
            ControlFlow::Continue(())
        })
        .unwrap();
    };
    Table { frequency: FREQUENCY, deliver: Box::new(deliver), ..Table::default() }
}

#[test]
fn file_io_is_summed_and_switches_carry_counters() {
    let options = TraceOptions {
        classes: vec![Class::FileIo, Class::Images],
        counters: vec!["instructionretired".to_owned(), "CacheMisses".to_owned()],
        ..TraceOptions::default()
    };
    let table = Arc::new(table());
    let mut trace = EtwTrace::with_functions(Arc::clone(&table) as Arc<_>, &options).unwrap();
    let (begin, mut events) = (Instant::now(), 0);
    // The last records are samples of the unrelated process, which are counted too.
    while events < 60 && begin.elapsed() < Duration::from_secs(20) {
        events += trace.drain(&mut |_| ()).events;
        std::thread::sleep(Duration::from_millis(5));
    }
    trace.finish(&mut |_| ());
    let (sums, lost) = trace.take_file_io();
    let figures: Vec<_> =
        sums.iter().map(|io| (io.thread.pid, io.operation, io.calls, io.failed, io.bytes)).collect();
    assert_eq!(lost, 0);
    // The write ends with the session: its end was not recorded, so the requested bytes count.
    assert_eq!(figures, [(100, FileOperation::Read, 2, 1, 8_000), (100, FileOperation::Write, 1, 0, 100)]);
    assert_eq!((sums[0].total_ns, sums[0].longest_ns), (35_000, 30_000));
    let (counters, lost) = trace.take_counters();
    let figures: Vec<_> = counters.iter().map(|sum| (sum.pid, sum.name.as_str(), sum.value)).collect();
    assert_eq!(lost, 0);
    assert_eq!(
        figures,
        [
            (100, "InstructionRetired", 3_900),
            (100, "CacheMisses", 7),
            (300, "InstructionRetired", 100),
            (300, "CacheMisses", 3)
        ]
    );
    let mut paths = Vec::new();
    trace.drain_images(&mut |load| paths.push(String::from_utf8(load.path).unwrap()));
    assert!(paths.iter().any(|path| path.ends_with("child.exe")), "{paths:?}");
    assert!(trace.take_notes().is_empty() && table.state.lock().unwrap().sessions.is_empty());
}

#[test]
fn samples_of_watched_processes_and_children_have_stacks() {
    let options = SampleOptions { pids: vec![100], ..SampleOptions::default() };
    let table = Arc::new(table());
    let mut trace = EtwSamples::with_functions(Arc::clone(&table) as Arc<_>, &options).unwrap();
    let (mut profile, mut pids, begin) = (StackProfile::default(), Vec::new(), Instant::now());
    // Samples of the last two seconds wait for their stacks; the others arrive while the session is running.
    while pids.len() < 14 && begin.elapsed() < Duration::from_secs(20) {
        trace.drain(&mut profile, &mut |sample, _| pids.push(sample.thread.pid));
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!((14..20).contains(&pids.len()), "{pids:?}");
    trace.finish(&mut profile, &mut |sample, leaf| {
        assert!(leaf.is_some());
        pids.push(sample.thread.pid);
    });
    assert_eq!((pids.len(), profile.samples(), trace.counts().samples), (20, 20, 20));
    assert_eq!(pids.iter().copied().collect::<HashSet<_>>(), HashSet::from([100, 200]));
    assert_eq!((trace.counts().by_tables, trace.counts().lost), (20, 0));
    let text: Vec<String> = profile
        .stacks()
        .into_iter()
        .map(|(frames, count)| {
            let names: Vec<&str> = frames.iter().map(|frame| &*frame.name).collect();
            format!("{} {count}", names.join(" > "))
        })
        .collect();
    insta::assert_snapshot!(text.join("\n"), @r"
    child.exe > 0x1233 > child.exe+0x30 10
    serve.exe > serve.exe+0x2000 > serve.exe+0x1000 > ntoskrnl.exe+0x20 10
    ");
    let hottest = profile.hottest(1);
    assert_eq!((hottest[0].frame.kind, &*hottest[0].frame.module), (FrameKind::Native, "child.exe"));
    insta::assert_snapshot!(trace.missing().join("\n"), @"function names: symbol files are not read; frames are offsets in programs and libraries");
    drop(trace);
    // The previous interval of 1 ms is restored.
    let calls = table.calls();
    let intervals: Vec<&String> =
        calls.iter().filter(|call| call.starts_with("set SampleInterval")).collect();
    insta::assert_snapshot!(intervals.iter().map(|call| call.as_str()).collect::<Vec<_>>().join("\n"), @r"
    set SampleInterval of None to [00, 00, 00, 00, 92, 8a, 01, 00]
    set SampleInterval of None to [00, 00, 00, 00, 10, 27, 00, 00]
    ");
}
