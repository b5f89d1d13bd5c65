//! Rows, and expected answers by brute force.

use std::collections::BTreeMap;

use ortscope_core::batch::Batch;
use ortscope_core::identity::ProcessIdentity;
use ortscope_core::live::{Limits, LiveMemory, LiveView, Point};
use ortscope_core::pipeline::Sink;
use ortscope_core::schema::{InferenceRow, ProcessSampleRow, Row, SystemSampleRow, TableId, Text};

pub const SECOND: u64 = 1_000_000_000;
pub const MINUTE: u64 = 60 * SECOND;
pub const HOUR: u64 = 60 * MINUTE;
pub const MS: u64 = 1_000_000;

pub struct Memory {
    pub sink: LiveMemory,
    pub view: LiveView,
}

impl Memory {
    pub fn new(limits: Limits) -> Self {
        let sink = LiveMemory::new(limits);
        let view = sink.view();
        Self { sink, view }
    }

    pub fn take<R: Row>(&mut self, rows: impl IntoIterator<Item = R>) {
        let mut batch = Batch::new(R::TABLE);
        for row in rows {
            batch.push(&row);
        }
        self.give(&batch);
    }

    pub fn give(&mut self, batch: &Batch) {
        self.sink.consume(batch).expect("the live memory takes every batch");
    }
}

pub fn inference(session: &Text, timestamp_ns: u64, run_ns: u64) -> InferenceRow {
    InferenceRow {
        timestamp_ns,
        planned_ns: timestamp_ns,
        session_id: session.clone(),
        run_ns,
        ok: true,
        ..InferenceRow::default()
    }
}

pub fn system(timestamp_ns: u64, cpu_percent: f64) -> SystemSampleRow {
    SystemSampleRow { timestamp_ns, cpu_percent: Some(cpu_percent), ..SystemSampleRow::default() }
}

pub fn process(identity: ProcessIdentity, timestamp_ns: u64, cpu_time_ns: u64) -> ProcessSampleRow {
    ProcessSampleRow {
        timestamp_ns,
        pid: identity.pid.into(),
        process_start: identity.start,
        cpu_time_ns,
        working_set_bytes: 50_000_000,
        ..ProcessSampleRow::default()
    }
}

pub fn pid(pid: u32) -> ProcessIdentity {
    ProcessIdentity { pid, start: u64::from(pid) * 7 }
}

/// A batch of inferences that share the texts of their sessions, as the channel makes them.
pub fn inferences(rows: &[InferenceRow]) -> Batch {
    let mut batch = Batch::new(TableId::Inferences);
    rows.iter().for_each(|row| assert!(batch.push(row)));
    batch
}

/// Expected buckets of this width, by brute force.
pub fn buckets(values: &[(u64, f64)], width_ns: u64) -> Vec<Point> {
    let mut buckets: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for (time, value) in values {
        buckets.entry(time / width_ns).or_default().push(*value);
    }
    let point = |(index, inside): (&u64, &Vec<f64>)| {
        let q = |q: f64| quantile(inside, q);
        Point {
            from_ns: index * width_ns,
            to_ns: (index + 1) * width_ns,
            count: inside.len() as u64,
            min: q(0.0),
            max: q(1.0),
            mean: inside.iter().sum::<f64>() / inside.len() as f64,
            p50: q(0.50),
            p95: q(0.95),
            p99: q(0.99),
        }
    };
    buckets.iter().map(point).collect()
}

pub fn quantile(values: &[f64], q: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let position = q * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[position.floor() as usize], sorted[position.ceil() as usize]);
    below + (above - below) * position.fract()
}

/// Panics unless the points agree: times and counts exactly, the rest within the documented precision.
pub fn assert_near(got: &[Point], wanted: &[Point]) {
    let times = |points: &[Point]| points.iter().map(|p| (p.from_ns, p.to_ns, p.count)).collect::<Vec<_>>();
    assert_eq!(times(got), times(wanted));
    for (got, wanted) in got.iter().zip(wanted) {
        let near = |a: f64, b: f64, error: f64| (a - b).abs() <= error * b.abs();
        for (a, b) in [(got.min, wanted.min), (got.max, wanted.max), (got.mean, wanted.mean)] {
            assert!(near(a, b, 8e-6), "{a} for {b} in {got:?}");
        }
        for (a, b) in [(got.p50, wanted.p50), (got.p95, wanted.p95), (got.p99, wanted.p99)] {
            assert!(near(a, b, 0.01), "{a} for {b} in {got:?}");
        }
    }
}
