//! Two sweeps over batch sizes (`ortscope run --batch 1,4,16`) side by side: how time and memory follow the batch.
//!
//! A sweep has one process run per batch size, so nothing here is judged.

use std::collections::BTreeMap;

use ortscope_analyze::batch_sweep::{BatchPoint, BatchSweep, batch_sweep};
use ortscope_store::{Recording, Store};
use serde::Serialize;
use serde_json::Value;

use crate::commands::bench::report::signed;
use crate::exit::{Failure, FailureKind};
use crate::recording::RUN_DOCUMENT;
use crate::report::tables::memory_scaling;
use crate::terminal::{DIM, Terminal};
use ortscope_core::units;

#[derive(Debug, Serialize)]
pub struct Scaling {
    pub a: BatchSweep,
    pub b: BatchSweep,
    /// Batch sizes that both have.
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
    pub fingerprint: BTreeMap<String, String>,
    points: Vec<BatchPoint>,
}

/// `None` if the recording is something else.
pub fn open(store: &Store, run: &str) -> Result<Option<StoredSweep>, Failure> {
    let recording = Recording::open(&store.resolve(run)?)?;
    let document = recording.document(RUN_DOCUMENT)?;
    let document: Value = document.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
    if document["batch_sweep"].is_null() {
        return Ok(None);
    }
    let results = document["results"].as_array().into_iter().flatten();
    let fingerprint = recording.manifest().fingerprint.clone();
    Ok(Some(StoredSweep { fingerprint, points: results.filter_map(point).collect() }))
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

pub fn compare(a: &StoredSweep, b: &StoredSweep) -> Result<Scaling, Failure> {
    let (a, b) = (a.points.as_slice(), b.points.as_slice());
    let pair = |one: &BatchPoint| {
        let other = b.iter().find(|other| other.batch == one.batch)?;
        Some(BatchPair { batch: one.batch, a: *one, b: *other })
    };
    let batches: Vec<BatchPair> = a.iter().filter_map(pair).collect();
    if batches.is_empty() {
        return Err(Failure::new(FailureKind::NotComparable, "the two sweeps have no batch size in common"));
    }
    Ok(Scaling { a: batch_sweep(a), b: batch_sweep(b), batches })
}

pub fn text(scaling: &Scaling, terminal: &Terminal) -> Vec<String> {
    let head = format!(
        "{:<7}{:>11}{:>11}{:>10}{:>13}{:>13}{:>10}",
        "batch", "p50 A", "p50 B", "change", "memory A", "memory B", "change"
    );
    let mut lines = vec![terminal.paint(DIM, &head)];
    for BatchPair { batch, a, b } in &scaling.batches {
        let time = |point: &BatchPoint| units::nanoseconds(point.p50_ns as f64);
        let bytes = |point: &BatchPoint| {
            point.memory_bytes.map_or_else(|| "n/a".to_owned(), |bytes| units::bytes(bytes as f64))
        };
        let change = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (Some(a), Some(b)) if a > 0 => signed(b as f64 / a as f64 - 1.0),
            _ => "n/a".to_owned(),
        };
        lines.push(format!(
            "{batch:<7}{:>11}{:>11}{:>10}{:>13}{:>13}{:>10}",
            time(a),
            time(b),
            change(Some(a.p50_ns), Some(b.p50_ns)),
            bytes(a),
            bytes(b),
            change(a.memory_bytes, b.memory_bytes),
        ));
    }
    lines.push(String::new());
    for (name, sweep) in [("A", &scaling.a), ("B", &scaling.b)] {
        let fit = sweep.memory.as_ref().map_or_else(|| "n/a".to_owned(), memory_scaling);
        lines.push(format!("memory {name}  {fit}"));
    }
    lines
}
