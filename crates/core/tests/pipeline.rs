//! The promises of the pipeline: order, bounds, counted losses, virtual time, and survival of a bad part.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ortscope_core::batch::Batch;
use ortscope_core::clock::VirtualClock;
use ortscope_core::metric::Availability;
use ortscope_core::pipeline::{
    Control, CostClass, Emitter, FlushError, Limits, Overflow, Pipeline, Sink, SinkError, Source,
    SourceError, SourceInfo, WhenFull,
};
use ortscope_core::schema::{AnnotationRow, LossRow, UnavailabilityRow};

struct Counting {
    info: SourceInfo,
    rows: u64,
    period_ns: u64,
    panic_at: Option<u64>,
}

impl Counting {
    fn new(rows: u64, when_full: WhenFull) -> Self {
        let info = SourceInfo {
            name: "counting",
            tracks: vec!["annotations".into()],
            cost: CostClass::Free,
            when_full,
        };
        Self { info, rows, period_ns: 1_000_000, panic_at: None }
    }
}

impl Source for Counting {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn probe(&mut self) -> Availability {
        Availability::Ready
    }

    fn run(&mut self, out: &mut Emitter, control: &Control) -> Result<(), SourceError> {
        let start = control.clock().now_ns();
        for row in 0..self.rows {
            if !control.sleep_until(start + row * self.period_ns) {
                break;
            }
            assert!(self.panic_at != Some(row), "the source broke");
            out.emit(&AnnotationRow {
                timestamp_ns: control.clock().now_ns(),
                kind: "tick".into(),
                text: row.to_string().into(),
            });
        }
        Ok(())
    }
}

#[derive(Default, Clone)]
struct Seen {
    rows: Arc<Mutex<Vec<AnnotationRow>>>,
    losses: Arc<Mutex<Vec<LossRow>>>,
    slow: Option<Duration>,
    fail: bool,
}

impl Sink for Seen {
    fn name(&self) -> &str {
        "seen"
    }

    fn overflow(&self) -> Overflow {
        Overflow::DropOldest
    }

    fn consume(&mut self, batch: &Batch) -> Result<(), SinkError> {
        if let Some(slow) = self.slow {
            std::thread::sleep(slow);
        }
        if self.fail {
            return Err(SinkError::Failed("disk full".into()));
        }
        self.rows.lock().expect("not poisoned").extend(batch.rows::<AnnotationRow>());
        self.losses.lock().expect("not poisoned").extend(batch.rows::<LossRow>());
        Ok(())
    }

    fn flush(&mut self, _deadline: Instant) -> Result<(), FlushError> {
        Ok(())
    }
}

#[test]
fn a_virtual_day_arrives_complete_and_in_order() {
    let seen = Seen::default();
    let mut source = Counting::new(86_400, WhenFull::Wait);
    source.period_ns = 1_000_000_000;
    let pipeline =
        Pipeline::default().with_clock(Arc::new(VirtualClock::default())).source(source).sink(seen.clone());
    let report = pipeline.start().unwrap().join();
    assert!(report.losses.is_empty(), "{:?}", report.losses);
    let rows = seen.rows.lock().unwrap();
    assert_eq!(rows.len(), 86_400);
    assert!(rows.windows(2).all(|pair| pair[0].timestamp_ns < pair[1].timestamp_ns));
    assert_eq!(rows.last().unwrap().timestamp_ns, 86_399_000_000_000);
}

#[test]
fn every_row_lost_by_a_slow_sink_is_counted() {
    let slow = Seen { slow: Some(Duration::from_millis(2)), ..Seen::default() };
    let limits = Limits { sink_bytes: 100_000, intake_bytes: 64 << 20, ..Limits::default() };
    let pipeline = Pipeline::default()
        .with_limits(limits)
        .with_clock(Arc::new(VirtualClock::default()))
        .source(Counting::new(200_000, WhenFull::Wait))
        .sink(slow.clone());
    let report = pipeline.start().unwrap().join();
    let kept = slow.rows.lock().unwrap().len() as u64;
    let lost: u64 = report.losses.iter().filter(|loss| loss.1 == "annotations").map(|loss| loss.2).sum();
    assert!(lost > 0, "the queue of 100 kB cannot hold 200,000 rows");
    assert_eq!(kept + lost, 200_000, "every row is kept or counted");
}

#[test]
fn losses_become_rows() {
    struct Lossy(SourceInfo);
    impl Source for Lossy {
        fn info(&self) -> &SourceInfo {
            &self.0
        }
        fn probe(&mut self) -> Availability {
            Availability::Ready
        }
        fn run(&mut self, out: &mut Emitter, _control: &Control) -> Result<(), SourceError> {
            out.lost("inferences", 7);
            Ok(())
        }
    }
    let seen = Seen::default();
    let info = SourceInfo {
        name: "lossy",
        tracks: vec![],
        cost: CostClass::Free,
        when_full: WhenFull::DropAndCount,
    };
    let report = Pipeline::default().source(Lossy(info)).sink(seen.clone()).start().unwrap().join();
    assert_eq!(report.losses, [("lossy".into(), "inferences".into(), 7)]);
    let losses = seen.losses.lock().unwrap();
    assert_eq!(losses.iter().map(|loss| loss.count).sum::<u64>(), 7);
}

#[test]
fn a_panicking_source_is_reported_and_its_rows_are_kept() {
    let seen = Seen::default();
    let mut source = Counting::new(100, WhenFull::Wait);
    source.panic_at = Some(50);
    let pipeline =
        Pipeline::default().with_clock(Arc::new(VirtualClock::default())).source(source).sink(seen.clone());
    let report = pipeline.start().unwrap().join();
    assert_eq!(report.source_errors.len(), 1);
    assert!(report.source_errors[0].1.contains("the source broke"));
    assert_eq!(seen.rows.lock().unwrap().len(), 50);
}

#[test]
fn a_failing_sink_is_reported_and_its_rows_are_counted() {
    let failing = Seen { fail: true, ..Seen::default() };
    let pipeline = Pipeline::default()
        .with_clock(Arc::new(VirtualClock::default()))
        .source(Counting::new(3000, WhenFull::Wait))
        .sink(failing);
    let report = pipeline.start().unwrap().join();
    assert_eq!(report.sink_errors, [("seen".into(), "disk full".into())]);
    let lost: u64 = report.losses.iter().filter(|loss| loss.1 == "annotations").map(|loss| loss.2).sum();
    assert_eq!(lost, 3000);
}

#[test]
fn stop_ends_a_sleeping_source() {
    let mut source = Counting::new(u64::MAX, WhenFull::DropAndCount);
    source.period_ns = 3_600_000_000_000;
    let running = Pipeline::default().source(source).start().unwrap();
    running.control().stop();
    let report = running.join();
    assert!(report.source_errors.is_empty());
}

#[derive(Default, Clone)]
struct Reasons(Arc<Mutex<Vec<UnavailabilityRow>>>);

impl Sink for Reasons {
    fn name(&self) -> &str {
        "reasons"
    }

    fn consume(&mut self, batch: &Batch) -> Result<(), SinkError> {
        self.0.lock().expect("no thread panicked").extend(batch.rows::<UnavailabilityRow>());
        Ok(())
    }

    fn flush(&mut self, _deadline: Instant) -> Result<(), FlushError> {
        Ok(())
    }
}

#[test]
fn an_unavailable_source_is_reported_with_its_reason() {
    struct Absent(SourceInfo);
    impl Source for Absent {
        fn info(&self) -> &SourceInfo {
            &self.0
        }
        fn probe(&mut self) -> Availability {
            Availability::Unavailable { why: "no RAPL".into(), hint: "load intel_rapl_msr".into() }
        }
        fn run(&mut self, _out: &mut Emitter, _control: &Control) -> Result<(), SourceError> {
            unreachable!("an unavailable source is never run")
        }
    }
    let info = SourceInfo {
        name: "energy",
        tracks: vec!["energy".into()],
        cost: CostClass::Low,
        when_full: WhenFull::DropAndCount,
    };
    let reasons = Reasons::default();
    let report = Pipeline::default().source(Absent(info)).sink(reasons.clone()).start().unwrap().join();
    assert_eq!(report.source_errors, [("energy".into(), "no RAPL; load intel_rapl_msr".into())]);
    // Sinks see it too, so that recordings and live views show why the track has no values.
    let rows = reasons.0.lock().unwrap();
    let [row] = rows.as_slice() else { panic!("{rows:?}") };
    assert_eq!((&*row.track, &*row.reason, row.to_ns), ("energy", "no RAPL", None));
    assert_eq!(row.hint.as_deref(), Some("load intel_rapl_msr"));
}
