//! Two sweeps over batch sizes (`ortscope run --batch 1,4,16`) side by side.
//!
//! A sweep has one process run per batch size, so nothing here is judged.

use std::collections::BTreeMap;

use ortscope_analyze::batch_sweep::{BatchPoint, BatchSweep, batch_sweep};
use ortscope_core::failure::{Failure, FailureKind};
use ortscope_core::recording::RecordingInfo;
use serde::Serialize;
use serde_json::Value;

use super::{differences, refuse_differences};

#[derive(Debug, Serialize)]
pub struct BatchSweeps {
    pub a: BatchSweep,
    pub b: BatchSweep,
    /// Batch sizes of both sweeps.
    pub batches: Vec<BatchPair>,
}

#[derive(Debug, Serialize)]
pub struct BatchPair {
    pub batch: u64,
    pub a: BatchPoint,
    pub b: BatchPoint,
}

/// A recording that is a sweep over batch sizes.
#[derive(Debug)]
pub struct StoredSweep {
    fingerprint: BTreeMap<String, String>,
    points: Vec<BatchPoint>,
}

impl StoredSweep {
    /// Reads the `ortscope.run/1` document of a recording; `None` if it is not a sweep over batch sizes.
    pub fn read(info: &RecordingInfo, document: &Value) -> Option<Self> {
        if document["batch_sweep"].is_null() {
            return None;
        }
        let results = document["results"].as_array().into_iter().flatten();
        Some(Self { fingerprint: info.fingerprint.clone(), points: results.filter_map(point).collect() })
    }
}

fn point(result: &Value) -> Option<BatchPoint> {
    let latency = &result["latency"]["inference"];
    Some(BatchPoint {
        batch: result["inputs"]["batch_size"].as_u64()?,
        p50_ns: (latency["percentiles"]["p50"].as_f64()? * 1e6) as u64,
        memory_bytes: result["memory"]["peak_bytes"].as_u64(),
        runs: latency["runs"].as_u64()?,
    })
}

impl BatchSweeps {
    /// Sweeps that differ in machine or software are refused unless `force` is set.
    pub fn new(a: &StoredSweep, b: &StoredSweep, force: bool) -> Result<Self, Failure> {
        if !force {
            refuse_differences(&differences(&a.fingerprint, &b.fingerprint))?;
        }
        let (a, b) = (a.points.as_slice(), b.points.as_slice());
        let pair = |one: &BatchPoint| {
            let other = b.iter().find(|other| other.batch == one.batch)?;
            Some(BatchPair { batch: one.batch, a: *one, b: *other })
        };
        let batches: Vec<BatchPair> = a.iter().filter_map(pair).collect();
        if batches.is_empty() {
            return Err(Failure::new(
                FailureKind::NotComparable,
                "the two sweeps have no batch size in common",
            ));
        }
        Ok(Self { a: batch_sweep(a), b: batch_sweep(b), batches })
    }
}
