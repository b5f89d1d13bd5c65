//! Open loops and token generation under the names and units of the wire: milliseconds, `p50` … `p99_9`.

use std::collections::BTreeMap;

use ortscope_analyze::Percentile;
use ortscope_analyze::generation::Generation;
use ortscope_analyze::open_loop::{OpenLoop, OpenLoopVerdict};
use serde::Serialize;

use super::latency::by_name;

/// Requests that came at planned moments.
#[derive(Debug, Clone, Serialize)]
pub struct ServerReport {
    pub requests: usize,
    pub target_per_second: f64,
    pub achieved_per_second: Option<f64>,
    /// From the planned start: what a client waits, queueing included.
    pub from_planned_start_ms: BTreeMap<&'static str, Option<f64>>,
    /// From the real start: what a measurement that waits for its own answers would have seen.
    pub from_real_start_ms: BTreeMap<&'static str, Option<f64>>,
    /// Requests waiting behind a request when it started.
    pub queue_depth_mean: f64,
    pub queue_depth_max: u64,
    /// Requests that were due but never started; they are in no latency above.
    pub unserved: u64,
    pub verdict: OpenLoopVerdict,
    pub reason: String,
}

impl ServerReport {
    /// `waiting` are the queue depths that were recorded with the requests.
    pub fn new(analysis: &OpenLoop, waiting: impl Iterator<Item = u64>, unserved: Option<u64>) -> Self {
        let (mut sum, mut most, mut count) = (0.0, 0, 0u64);
        for depth in waiting {
            sum += depth as f64;
            most = most.max(depth);
            count += 1;
        }
        Self {
            requests: analysis.requests,
            target_per_second: analysis.target_per_second,
            achieved_per_second: analysis.achieved_per_second,
            from_planned_start_ms: by_name(&analysis.corrected),
            from_real_start_ms: by_name(&analysis.uncorrected),
            queue_depth_mean: if count > 0 { sum / count as f64 } else { 0.0 },
            queue_depth_max: most,
            unserved: unserved.unwrap_or(0),
            verdict: analysis.verdict,
            reason: analysis.reason.clone(),
        }
    }
}

/// Sequences of tokens.
#[derive(Debug, Clone, Serialize)]
pub struct GenerationReport {
    pub sequences: usize,
    pub tokens: u64,
    pub first_token_median_ms: Option<f64>,
    pub first_token_ms: BTreeMap<&'static str, Option<f64>>,
    pub between_tokens_ms: BTreeMap<&'static str, Option<f64>>,
    pub decode_tokens_per_second: Option<f64>,
    pub tokens_per_second: Option<f64>,
    /// How much a token gets slower per 100 tokens of context.
    pub growth_ms_per_100_tokens: Option<f64>,
    /// For the text report.
    #[serde(skip)]
    pub between_tokens: Vec<Percentile>,
}

impl GenerationReport {
    pub fn new(analysis: &Generation) -> Self {
        Self {
            sequences: analysis.sequences,
            tokens: analysis.tokens,
            first_token_median_ms: analysis.first_token_median_ms,
            first_token_ms: by_name(&analysis.first_token),
            between_tokens_ms: by_name(&analysis.between_tokens),
            decode_tokens_per_second: analysis.decode_tokens_per_second,
            tokens_per_second: analysis.tokens_per_second,
            growth_ms_per_100_tokens: analysis.growth_ms_per_100_tokens,
            between_tokens: analysis.between_tokens.clone(),
        }
    }
}
