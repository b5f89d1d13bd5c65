//! Records of real traces, delivered by a session: they decode to the same events as in their file, and no loss goes
//! unnoticed.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ortscope_core::kernel::KernelEvent;
use ortscope_core::kernel::threads::Limits;
use ortscope_decode::etw::{EtwDecoder, EtwSink, Inference, Sample};
use ortscope_etl::Etl;
use ortscope_sources::etw::{Consumer, LiveSession, ProcessFilter, Settings};

use super::table::{Table, corpus, deliver_record};

/// The compared results.
#[derive(Default, PartialEq, Debug)]
pub struct Kept {
    kernel: Vec<KernelEvent>,
    pub samples: Vec<Sample>,
    inferences: Vec<Inference>,
    stacks: u64,
    devices: u64,
    files: u64,
    images: u64,
}

impl EtwSink for Kept {
    fn kernel(&mut self, event: &KernelEvent) {
        self.kernel.push(*event);
    }
    fn sample(&mut self, sample: &Sample) {
        self.samples.push(sample.clone());
    }
    fn inference(&mut self, inference: &Inference) {
        self.inferences.push(*inference);
    }
    fn stack(&mut self, _: &ortscope_decode::etw::EventStack) {
        self.stacks += 1;
    }
    fn device(&mut self, _: &ortscope_decode::etw::DeviceRow) {
        self.devices += 1;
    }
    fn file(&mut self, _: &ortscope_decode::etw::FileOperation) {
        self.files += 1;
    }
    fn image(&mut self, _: &ortscope_decode::etw::Image) {
        self.images += 1;
    }
}

/// Decodes the file without a session.
pub fn offline(path: &Path) -> (Kept, u64, u64) {
    let bytes = std::fs::read(path).unwrap();
    let etl = Etl::new(bytes.as_slice()).unwrap();
    let (mut kept, mut records) = (Kept::default(), 0);
    let mut decoder = EtwDecoder::new(etl.header());
    etl.ordered(|record| {
        records += 1;
        decoder.push(record, &mut kept);
        ControlFlow::Continue(())
    })
    .unwrap();
    decoder.finish(&mut kept);
    (kept, records, etl.header().clock.ticks_per_second())
}

pub fn deliver(path: &Path, consumer: &Consumer) {
    let bytes = std::fs::read(path).unwrap();
    let etl = Etl::new(bytes.as_slice()).unwrap();
    etl.ordered(|record| {
        deliver_record(record, consumer);
        ControlFlow::Continue(())
    })
    .unwrap();
}

#[test]
fn a_session_decodes_to_the_same_events_as_the_file() {
    let Some(folder) = corpus() else { return };
    let mut kernel_events = 0;
    for name in [
        "perfview_net.4.5.2.x64.etl",
        "perfview_diaghub.kernel.1.etl",
        "etlparser_ShutdownPerfDiagLogger.etl",
        "dotnetperf_DynamicEvents.etl",
    ] {
        let path = folder.join(name);
        let (expected, records, frequency) = offline(&path);
        let table = Table {
            frequency,
            deliver: Box::new(move |consumer, _| deliver(&path, consumer)),
            ..Table::default()
        };
        let settings =
            Settings { waiting_bytes: 256 << 20, filter: ProcessFilter::everything(), ..Settings::default() };
        let mut session = LiveSession::open(Arc::new(table), settings, Limits::default()).unwrap();
        let mut kept = Kept::default();
        let (begin, mut drained) = (Instant::now(), 0);
        // Drained during delivery, like in the program.
        while drained < records && begin.elapsed() < Duration::from_secs(60) {
            drained += session.drain(&mut kept).events;
            std::thread::sleep(Duration::from_millis(5));
        }
        drained += session.finish(&mut kept).events;
        println!(
            "{name}: {records} records, {} kernel events, {} samples",
            kept.kernel.len(),
            kept.samples.len()
        );
        assert_eq!((drained, session.losses().total()), (records, 0), "{name}");
        kernel_events += kept.kernel.len();
        assert!(kept == expected, "{name}: the session's events differ from its file");
    }
    assert!(kernel_events > 3_000, "{kernel_events}");
}

/// Exactly the events of other processes are filtered out; starts, ends and switches are always delivered.
#[test]
fn a_filter_removes_and_counts_events_of_other_processes() {
    let Some(folder) = corpus() else { return };
    let path = folder.join("perfview_net.4.5.2.x64.etl");
    let (expected, records, frequency) = offline(&path);
    let mut by_pid: HashMap<u32, usize> = HashMap::new();
    expected.samples.iter().for_each(|sample| *by_pid.entry(sample.cpu.thread.pid).or_default() += 1);
    let (&busiest, _) = by_pid.iter().filter(|(pid, _)| **pid > 4).max_by_key(|(_, count)| **count).unwrap();
    let only = ProcessFilter { include_pids: vec![busiest], ..ProcessFilter::everything() };
    for filter in [only.clone(), ProcessFilter::default()] {
        let (file, is_only) = (path.clone(), filter == only);
        let deliver = Box::new(move |consumer: &Consumer, _: &AtomicBool| deliver(&file, consumer));
        let table = Table { frequency, deliver, ..Table::default() };
        let settings = Settings { waiting_bytes: 256 << 20, filter, ..Settings::default() };
        let mut session = LiveSession::open(Arc::new(table), settings, Limits::default()).unwrap();
        let (mut kept, begin) = (Kept::default(), Instant::now());
        while session.counts().records < records && begin.elapsed() < Duration::from_secs(60) {
            session.drain(&mut kept);
            std::thread::sleep(Duration::from_millis(5));
        }
        session.finish(&mut kept);
        let wanted = |pid: u32| if is_only { pid == busiest } else { pid != 0 && pid != 4 };
        assert!(kept.samples.iter().all(|sample| wanted(sample.cpu.thread.pid)));
        let of_wanted = expected.samples.iter().filter(|sample| wanted(sample.cpu.thread.pid)).count();
        assert_eq!(kept.samples.len(), of_wanted);
        assert!(session.filtered_out() >= (expected.samples.len() - kept.samples.len()) as u64);
        let is_life = |event: &&KernelEvent| matches!(event, KernelEvent::Start(_) | KernelEvent::Exit(_));
        assert_eq!(
            kept.kernel.iter().filter(is_life).count(),
            expected.kernel.iter().filter(is_life).count()
        );
        println!(
            "{} of {} samples, {} events filtered out",
            kept.samples.len(),
            expected.samples.len(),
            session.filtered_out()
        );
    }
}

/// A million events as fast as possible: those that do not fit are counted exactly.
#[test]
fn a_storm_is_recorded_or_counted() {
    let Some(folder) = corpus() else { return };
    const EVENTS: u64 = 1_000_000;
    let path = folder.join("perfview_diaghub.kernel.1.etl");
    for (waiting_bytes, may_lose) in [(512 << 20, false), (64 << 10, true)] {
        let path = path.clone();
        let table = Table {
            deliver: Box::new(move |consumer, stopped| {
                let bytes = std::fs::read(&path).unwrap();
                let etl = Etl::new(bytes.as_slice()).unwrap();
                let mut left = EVENTS;
                while left > 0 && !stopped.load(Ordering::Relaxed) {
                    etl.ordered(|record| {
                        deliver_record(record, consumer);
                        left -= 1;
                        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                    })
                    .unwrap();
                }
            }),
            ..Table::default()
        };
        let settings = Settings { waiting_bytes, ..Settings::default() };
        let mut session = LiveSession::open(Arc::new(table), settings, Limits::default()).unwrap();
        let (begin, mut drained) = (Instant::now(), 0);
        while session.counts().records < EVENTS && begin.elapsed() < Duration::from_secs(120) {
            drained += session.drain(&mut ()).events;
            std::thread::sleep(Duration::from_millis(10));
        }
        drained += session.finish(&mut ()).events;
        let lost = session.losses().total();
        println!(
            "{EVENTS} events in {:.2} s: {drained} drained, {lost} counted as lost",
            begin.elapsed().as_secs_f64()
        );
        assert_eq!(drained + lost, EVENTS);
        assert!(may_lose || lost == 0, "{lost}");
    }
}

/// A million events per second for two seconds, evenly distributed. Prints the rate and the processor time; whether all
/// fit depends on the machine, and the others are counted.
#[test]
fn a_million_events_per_second_are_recorded_or_counted() {
    let Some(folder) = corpus() else { return };
    const PER_SECOND: u64 = 1_000_000;
    const EVENTS: u64 = 2 * PER_SECOND;
    let path = folder.join("perfview_diaghub.kernel.1.etl");
    let handed_out = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&handed_out);
    let table = Table {
        deliver: Box::new(move |consumer, stopped| {
            let bytes = std::fs::read(&path).unwrap();
            let etl = Etl::new(bytes.as_slice()).unwrap();
            let (begin, mut done) = (Instant::now(), 0);
            while done < EVENTS && !stopped.load(Ordering::Relaxed) {
                etl.ordered(|record| {
                    deliver_record(record, consumer);
                    done += 1;
                    if done % 1000 == 0 {
                        let due = Duration::from_nanos(done * 1_000_000_000 / PER_SECOND);
                        std::thread::sleep(due.saturating_sub(begin.elapsed()));
                    }
                    if done == EVENTS { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                })
                .unwrap();
            }
            count.store(done, Ordering::SeqCst);
        }),
        ..Table::default()
    };
    // The settings of `attach --kernel`.
    let settings = Settings { waiting_bytes: 16 << 20, ..Settings::default() };
    let mut session = LiveSession::open(Arc::new(table), settings, Limits::default()).unwrap();
    let cpu = || ortscope_sources::own_usage().map_or(0, |usage| usage.cpu_time_ns);
    let (begin, cpu_before, mut drained, mut draining) = (Instant::now(), cpu(), 0, Duration::ZERO);
    while handed_out.load(Ordering::SeqCst) < EVENTS && begin.elapsed() < Duration::from_secs(120) {
        std::thread::sleep(Duration::from_millis(50));
        let drain = Instant::now();
        drained += session.drain(&mut ()).events;
        draining += drain.elapsed();
    }
    let (took, used) = (begin.elapsed().as_secs_f64(), (cpu() - cpu_before) as f64 / 1e9);
    drained += session.finish(&mut ()).events;
    let lost = session.losses().total();
    println!(
        "{:.0} events/s for {took:.2} s: {drained} decoded, {lost} counted as lost; {:.1} % of a core, \
         {:.0} ns of it for an event (reading the trace and handing it out included); decoding {:.1} % of the time",
        EVENTS as f64 / took,
        100.0 * used / took,
        1e9 * used / EVENTS as f64,
        100.0 * draining.as_secs_f64() / took,
    );
    assert_eq!(drained + lost, EVENTS);
}
