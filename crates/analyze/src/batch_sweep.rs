//! The benefit of larger batches: a fixed cost per inference plus a cost per sample, the best batch, and the knee.
//!
//! The line latency = overhead + batch · per-sample is fitted by Theil-Sen, because one disturbed batch size must not
//! bend it. The knee is the smallest batch that reaches 90 % of the best throughput: beyond it, latency and memory
//! grow for almost no gain.

use serde::{Deserialize, Serialize};

use crate::order::ms;
use crate::theil_sen::theil_sen;

/// Share of the best throughput that the knee must reach.
const KNEE_SHARE: f64 = 0.9;
const MEGABYTE: f64 = 1e6;

/// Measurements at one batch size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchPoint {
    pub batch: u64,
    pub p50_ns: u64,
    /// Peak memory; `None` when it could not be measured.
    pub memory_bytes: Option<u64>,
    /// Runs behind `p50_ns`.
    pub runs: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BatchSweep {
    /// In ascending order of the batch size.
    pub rows: Vec<BatchRow>,
    /// `None` with fewer than two batch sizes.
    pub fit: Option<BatchFit>,
    /// `None` with fewer than two batch sizes of known memory.
    pub memory: Option<MemoryFit>,
    /// The batch size of the highest throughput.
    pub best_batch: Option<u64>,
    /// The smallest batch size with at least 90 % of it.
    pub knee_batch: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BatchRow {
    pub batch: u64,
    pub runs: u64,
    pub latency_ms: f64,
    pub per_sample_ms: f64,
    pub samples_per_second: f64,
    /// Throughput over the best throughput, 0 to 1.
    pub share_of_best: f64,
    /// Samples of one batch over its peak memory; `None` when that is unknown.
    pub samples_per_mb: Option<f64>,
}

/// latency = fixed overhead + batch · per-sample cost.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BatchFit {
    /// `None` if the line meets batch 0 below zero: larger batches cost more than their share, for example because
    /// they outgrow a cache, and the overhead cannot be determined.
    pub fixed_overhead_ms: Option<f64>,
    pub per_sample_ms: f64,
    /// Largest deviation of a measurement from the line, relative to the measurement.
    pub worst_residual: f64,
}

/// peak memory = model + batch · memory per sample, by the same fit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MemoryFit {
    pub fixed_bytes: f64,
    pub per_sample_bytes: f64,
    /// Largest deviation of a peak from the line, relative to the peak.
    pub worst_residual: f64,
}

/// Analyzes a sweep. Points with batch 0 or latency 0 are ignored.
pub fn batch_sweep(points: &[BatchPoint]) -> BatchSweep {
    let mut points: Vec<BatchPoint> =
        points.iter().copied().filter(|point| point.batch > 0 && point.p50_ns > 0).collect();
    points.sort_by_key(|point| point.batch);
    let rate = |point: &BatchPoint| point.batch as f64 * 1e9 / point.p50_ns as f64;
    let best =
        points.iter().copied().reduce(|best, point| if rate(&point) > rate(&best) { point } else { best });
    let best_rate = best.map_or(0.0, |best| rate(&best));
    let knee = points.iter().find(|point| rate(point) >= KNEE_SHARE * best_rate);
    BatchSweep {
        fit: fit(&points),
        memory: memory_fit(&points),
        best_batch: best.map(|best| best.batch),
        knee_batch: knee.map(|knee| knee.batch),
        rows: points
            .iter()
            .map(|point| BatchRow {
                batch: point.batch,
                runs: point.runs,
                latency_ms: ms(point.p50_ns as f64),
                per_sample_ms: ms(point.p50_ns as f64) / point.batch as f64,
                samples_per_second: rate(point),
                share_of_best: rate(point) / best_rate,
                samples_per_mb: point
                    .memory_bytes
                    .filter(|bytes| *bytes > 0)
                    .map(|bytes| point.batch as f64 * MEGABYTE / bytes as f64),
            })
            .collect(),
    }
}

fn fit(points: &[BatchPoint]) -> Option<BatchFit> {
    let coordinates: Vec<(f64, f64)> =
        points.iter().map(|point| (point.batch as f64, ms(point.p50_ns as f64))).collect();
    let line = theil_sen(&coordinates)?;
    let residual =
        |(batch, latency): &(f64, f64)| ((line.intercept + line.slope * batch - latency) / latency).abs();
    Some(BatchFit {
        fixed_overhead_ms: (line.intercept >= 0.0).then_some(line.intercept),
        per_sample_ms: line.slope,
        worst_residual: coordinates.iter().map(residual).fold(0.0, f64::max),
    })
}

fn memory_fit(points: &[BatchPoint]) -> Option<MemoryFit> {
    let coordinates: Vec<(f64, f64)> = points
        .iter()
        .filter_map(|point| Some((point.batch as f64, point.memory_bytes.filter(|bytes| *bytes > 0)? as f64)))
        .collect();
    let line = theil_sen(&coordinates)?;
    let residual =
        |(batch, bytes): &(f64, f64)| ((line.intercept + line.slope * batch - bytes) / bytes).abs();
    Some(MemoryFit {
        fixed_bytes: line.intercept,
        per_sample_bytes: line.slope,
        worst_residual: coordinates.iter().map(residual).fold(0.0, f64::max),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(batch: u64, p50_ns: u64) -> BatchPoint {
        BatchPoint { batch, p50_ns, memory_bytes: Some(100_000_000 + batch * 1_000_000), runs: 100 }
    }

    #[test]
    fn overhead_and_cost_per_sample_are_found() {
        // 2 ms + 0.5 ms per sample, given out of order.
        let points: Vec<BatchPoint> =
            [16, 1, 2, 64, 4, 8, 32].map(|batch| point(batch, 2_000_000 + batch * 500_000)).to_vec();
        let sweep = batch_sweep(&points);
        let fit = sweep.fit.unwrap();
        assert!((fit.fixed_overhead_ms.unwrap() - 2.0).abs() < 1e-9);
        assert!((fit.per_sample_ms - 0.5).abs() < 1e-9);
        assert!(fit.worst_residual < 1e-9);
        let memory = sweep.memory.unwrap();
        assert!((memory.fixed_bytes - 1e8).abs() < 1.0 && (memory.per_sample_bytes - 1e6).abs() < 1e-3);
        // Batch 64 gives 64 / 34 ms = 1882/s; 90 % of it is 1694/s: batch 32 gives 32 / 18 ms = 1778/s, 16 gives 1600/s.
        assert_eq!((sweep.best_batch, sweep.knee_batch), (Some(64), Some(32)));
        assert_eq!(sweep.rows[0].batch, 1);
        assert_eq!(sweep.rows[0].latency_ms, 2.5);
        assert!((sweep.rows[0].samples_per_mb.unwrap() - 1.0 / 101.0).abs() < 1e-12);
        assert_eq!(sweep.rows[6].share_of_best, 1.0);
    }

    #[test]
    fn growth_beyond_the_share_has_no_overhead() {
        let points: Vec<BatchPoint> =
            [1, 2, 4, 8].map(|batch| point(batch, batch * batch * 1_000_000)).to_vec();
        let sweep = batch_sweep(&points);
        assert_eq!(sweep.fit.unwrap().fixed_overhead_ms, None);
        assert_eq!((sweep.best_batch, sweep.knee_batch), (Some(1), Some(1)));
    }

    #[test]
    fn one_or_no_point_has_no_line() {
        assert_eq!(batch_sweep(&[]).best_batch, None);
        assert_eq!(batch_sweep(&[point(4, 100)]).fit, None);
        assert_eq!(batch_sweep(&[point(4, 100)]).memory, None);
        let unknown = [1, 2].map(|batch| BatchPoint { memory_bytes: None, ..point(batch, 100) });
        assert_eq!(batch_sweep(&unknown).memory, None);
        assert!(batch_sweep(&[point(0, 100), point(4, 0)]).rows.is_empty());
    }
}
