//! Records of real traces, handed out by a session: they mean the same as in their file, and none is lost unseen.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ortscope_core::kernel::KernelEvent;
use ortscope_core::kernel::threads::Limits;
use ortscope_decode::etw::{EtwDecoder, EtwSink, Inference, Sample};
use ortscope_etl::Etl;
use ortscope_sources::etw::{Consumer, LiveSession, Settings};

use super::table::{Table, corpus, hand_out};

/// What is compared.
#[derive(Default, PartialEq, Debug)]
struct Kept {
    kernel: Vec<KernelEvent>,
    samples: Vec<Sample>,
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

/// The file as it is decoded without a session.
fn offline(path: &Path) -> (Kept, u64, u64) {
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

fn deliver(path: &Path, consumer: &Consumer) {
    let bytes = std::fs::read(path).unwrap();
    let etl = Etl::new(bytes.as_slice()).unwrap();
    etl.ordered(|record| {
        hand_out(record, consumer);
        ControlFlow::Continue(())
    })
    .unwrap();
}

#[test]
fn a_session_means_the_same_as_the_file_and_loses_nothing() {
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
        let settings = Settings { waiting_bytes: 256 << 20, ..Settings::default() };
        let mut session = LiveSession::open(Arc::new(table), settings, Limits::default()).unwrap();
        let mut kept = Kept::default();
        let (begin, mut drained) = (Instant::now(), 0);
        // Drained while it is handed out, as the program does.
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
        assert!(kept == expected, "{name}: what a session means differs from its file");
    }
    assert!(kernel_events > 3_000, "{kernel_events}");
}

/// A million events in as short a time as the machine can: what does not fit is counted to the last one.
#[test]
fn a_storm_is_taken_or_counted() {
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
                        hand_out(record, consumer);
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
