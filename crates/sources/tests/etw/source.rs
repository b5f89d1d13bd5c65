//! A session as a pipeline source: rows for its events, or a reason for their absence.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ortscope_core::batch::Batch;
use ortscope_core::pipeline::{Emitter, FlushError, Pipeline, Sink, SinkError};
use ortscope_core::schema::{AnnotationRow, TableId, UnavailabilityRow};
use ortscope_decode::etw::{EtwSink, Sample};
use ortscope_sources::etw::{EtwRows, EtwSource, KernelFlags, ProcessFilter, Settings, codes, providers};

use super::replay::{deliver, offline};
use super::table::{Table, corpus};

/// One row per sample.
struct Samples;

struct ToRows<'a>(&'a mut Emitter);

impl EtwRows for Samples {
    fn sink<'a>(&'a mut self, out: &'a mut Emitter) -> Box<dyn EtwSink + 'a> {
        Box::new(ToRows(out))
    }

    fn finish(&mut self, out: &mut Emitter) {
        out.emit(&AnnotationRow { timestamp_ns: 0, kind: "last".into(), text: "".into() });
    }
}

impl EtwSink for ToRows<'_> {
    fn sample(&mut self, sample: &Sample) {
        self.0.emit(&AnnotationRow {
            timestamp_ns: sample.cpu.at_ns,
            kind: "sample".into(),
            text: "".into(),
        });
    }
}

#[derive(Default, Clone)]
struct Kept(Arc<Mutex<(Vec<AnnotationRow>, Vec<UnavailabilityRow>)>>);

impl Sink for Kept {
    fn name(&self) -> &str {
        "kept"
    }

    fn consume(&mut self, batch: &Batch) -> Result<(), SinkError> {
        let mut kept = self.0.lock().unwrap();
        match batch.table() {
            TableId::Annotations => kept.0.extend(batch.rows::<AnnotationRow>()),
            TableId::Unavailability => kept.1.extend(batch.rows::<UnavailabilityRow>()),
            _ => {}
        }
        Ok(())
    }

    fn flush(&mut self, _: Instant) -> Result<(), FlushError> {
        Ok(())
    }
}

fn source(table: &Arc<Table>) -> EtwSource {
    let settings = Settings {
        name: "ortscope-test".to_owned(),
        kernel: KernelFlags::default(),
        providers: vec![providers::ONNX_RUNTIME],
        filter: ProcessFilter::everything(),
        waiting_bytes: 256 << 20,
        ..Settings::default()
    };
    EtwSource::new("test", "inferences", Arc::clone(table) as Arc<_>, settings, Box::new(Samples))
}

/// Runs the source until it has emitted enough and returns the result; it never ends with an error.
fn run(
    table: &Arc<Table>,
    is_enough: impl Fn(&Kept) -> bool,
) -> (Vec<AnnotationRow>, Vec<UnavailabilityRow>) {
    let kept = Kept::default();
    let running = Pipeline::default().source(source(table)).sink(kept.clone()).start().unwrap();
    let begin = Instant::now();
    while !is_enough(&kept) && !running.is_finished() && begin.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(5));
    }
    running.control().stop();
    let report = running.join();
    assert_eq!((report.source_errors, report.losses), (Vec::new(), Vec::new()));
    std::mem::take(&mut *kept.0.lock().unwrap())
}

#[test]
fn every_event_gives_a_row_and_existing_state_is_requested() {
    let Some(folder) = corpus() else { return };
    let path = folder.join("perfview_net.4.5.2.x64.etl");
    let (expected, records, frequency) = offline(&path);
    let is_handed_out = Arc::new(AtomicBool::new(false));
    let handed_out = Arc::clone(&is_handed_out);
    let table = Arc::new(Table {
        frequency,
        deliver: Box::new(move |consumer, _| {
            deliver(&path, consumer);
            handed_out.store(true, Ordering::SeqCst);
        }),
        ..Table::default()
    });
    let (rows, missing) = run(&table, |_| is_handed_out.load(Ordering::SeqCst));
    assert_eq!(missing, []);
    assert_eq!(rows.len(), expected.samples.len() + 1, "{records} records");
    assert_eq!(&*rows.last().unwrap().kind, "last");
    let calls = table.calls();
    let requested = |what: &str| calls.iter().any(|call| call.starts_with(what) && call.contains("3a26b1ff"));
    assert!(requested("Enable") && requested("CaptureState"), "{calls:?}");
    assert!(table.state.lock().unwrap().sessions.is_empty(), "a session was left behind");
}

#[test]
fn missing_privileges_or_an_early_end_give_a_reason() {
    let table = Arc::new(Table::refusing("start", codes::ACCESS_DENIED));
    let (rows, missing) = run(&table, |_| false);
    assert_eq!(rows, []);
    assert_eq!((missing.len(), &*missing[0].track), (1, "inferences"));
    assert!(missing[0].reason.contains("Performance Log Users") && missing[0].hint.is_some(), "{missing:?}");

    let table = Arc::new(Table::default());
    let stopper = Arc::clone(&table);
    let stop = std::thread::Builder::new()
        .name("stopper".to_owned())
        .spawn(move || {
            while !stopper.calls().iter().any(|call| call == "process") {
                std::thread::sleep(Duration::from_millis(2));
            }
            stopper.stop_from_outside("ortscope-test");
        })
        .unwrap();
    let (_, missing) = run(&table, |kept| !kept.0.lock().unwrap().1.is_empty());
    stop.join().unwrap();
    assert!(table.stopped.load(Ordering::SeqCst));
    assert!(missing[0].reason.contains("it was stopped by another program"), "{missing:?}");
}
