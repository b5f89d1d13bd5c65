//! Two sweeps over batch sizes (`ortscope run --batch 1,4,16`) side by side.
//!
//! A sweep has one process run per batch size, so nothing here is judged.

use std::collections::BTreeMap;

use crate::RunResult;
use ortscope_analyze::batch_sweep::{BatchPoint, BatchSweep, batch_sweep};
use ortscope_core::failure::{Failure, FailureKind};
use ortscope_core::recording::RecordingInfo;
use serde::Serialize;

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
    /// The sweep over batch sizes in a recording; `None` if it is not one.
    pub fn read(info: &RecordingInfo, results: &[RunResult]) -> Option<Self> {
        // A sweep labels its rows with the batch size.
        let is_labeled =
            |result: &RunResult| result.label.as_ref().is_some_and(|label| label.starts_with("batch="));
        let is_sweep = results.len() > 1 && results.iter().all(is_labeled);
        is_sweep.then(|| Self {
            fingerprint: info.fingerprint.clone(),
            points: results.iter().filter_map(point).collect(),
        })
    }
}

fn point(result: &RunResult) -> Option<BatchPoint> {
    let latency = &result.latency.as_ref()?.inference;
    Some(BatchPoint {
        batch: result.inputs.as_ref()?.batch_size?,
        p50_ns: latency.percentile("p50")?.value_ns?,
        memory_bytes: result.memory.peak_bytes,
        runs: latency.runs,
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
