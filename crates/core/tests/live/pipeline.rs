//! The live memory as a sink of a pipeline, with concurrent readers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ortscope_core::clock::VirtualClock;
use ortscope_core::live::{Limits, LiveMemory, Tier, TrackId};
use ortscope_core::metric::Availability;
use ortscope_core::pipeline::{
    Control, CostClass, Emitter, Overflow, Pipeline, Sink, Source, SourceError, SourceInfo, WhenFull,
};
use ortscope_core::schema::{SessionRow, Text};

use crate::support::{MS, Memory, SECOND, inference, system};

struct Simulated(SourceInfo);

impl Source for Simulated {
    fn info(&self) -> &SourceInfo {
        &self.0
    }

    fn probe(&mut self) -> Availability {
        Availability::Ready
    }

    fn run(&mut self, out: &mut Emitter, control: &Control) -> Result<(), SourceError> {
        let session: Text = "a".into();
        let start = control.clock().now_ns();
        out.emit(&SessionRow {
            timestamp_ns: start,
            session_id: session.clone(),
            model_name: "resnet".into(),
            ..SessionRow::default()
        });
        for tick in 0..20_000 {
            if !control.sleep_until(start + tick * MS) {
                break;
            }
            let now = control.clock().now_ns();
            out.emit(&inference(&session, now, 500_000));
            if tick % 10 == 0 {
                out.emit(&system(now, 25.0));
                out.flush();
            }
        }
        Ok(())
    }
}

#[test]
fn pipeline_rows_become_tracks() {
    let memory = LiveMemory::new(Limits::default());
    assert_eq!(memory.overflow(), Overflow::DropOldest);
    let view = memory.view();
    let info = SourceInfo {
        name: "simulated",
        tracks: vec!["inferences".into()],
        cost: CostClass::Free,
        when_full: WhenFull::Wait,
    };
    let pipeline = Pipeline::default()
        .with_clock(Arc::new(VirtualClock::default()))
        .source(Simulated(info))
        .sink(memory)
        .start()
        .expect("threads");
    let report = pipeline.join();
    assert_eq!(report.sink_errors, []);
    let track = TrackId::session("a", "latency_ns");
    let history = view.history(&track, 0, u64::MAX, 100).expect("known");
    assert_eq!(history.tier, Tier::Seconds);
    assert_eq!(history.points.iter().map(|point| point.count).sum::<u64>(), 20_000);
    let info = view.tracks().into_iter().find(|info| info.id == track).expect("listed");
    assert_eq!(info.label.as_deref(), Some("resnet"));
}

#[test]
fn readers_always_see_whole_rows() {
    let mut memory = Memory::new(Limits { inference_samples: 2_000, ..Limits::default() });
    let session: Text = "a".into();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..3)
            .map(|_| {
                let view = memory.view.clone();
                let done = &done;
                scope.spawn(move || {
                    let (mut answers, mut newest) = (0_u64, 0);
                    while !done.load(Ordering::SeqCst) || answers == 0 {
                        // The latency of an inference is its number, as is its time: no answer may mix them up.
                        if let Ok(rows) = view.rows(&TrackId::session("a", "latency_ns"), 0, u64::MAX) {
                            let whole = |(time, value): (&u64, &f64)| *time == *value as u64 * MS;
                            assert!(rows.times_ns.iter().zip(&rows.values).all(whole));
                            assert!(rows.times_ns.is_sorted());
                            newest = newest.max(rows.times_ns.last().copied().unwrap_or(0));
                            answers += 1;
                        }
                        let history = view.history(&TrackId::session("a", "latency_ns"), 0, u64::MAX, 50);
                        if let Ok(history) = history {
                            let counted: u64 = history.points.iter().map(|point| point.count).sum();
                            assert!(counted * MS >= newest);
                        }
                        assert!(view.bytes() <= view.limits().total_bytes);
                    }
                    answers
                })
            })
            .collect();
        for start in (0..200_000).step_by(1000) {
            memory.take((start..start + 1000).map(|number| inference(&session, number * MS, number)));
        }
        done.store(true, Ordering::SeqCst);
        assert!(readers.into_iter().all(|reader| reader.join().expect("reader") > 0));
    });
    let history =
        memory.view.history(&TrackId::session("a", "latency_ns"), 0, 200 * SECOND, 200).expect("known");
    assert_eq!(history.points.iter().map(|point| point.count).sum::<u64>(), 200_000);
}
