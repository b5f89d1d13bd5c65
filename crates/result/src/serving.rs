//! Open loops and token generation under the names and units of the wire.

use std::collections::BTreeMap;

use ortscope_analyze::Percentile;
use ortscope_analyze::generation::Generation;
use ortscope_analyze::open_loop::{OpenLoop, OpenLoopVerdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::latency::by_name;

/// Requests that came at planned moments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerReport {
    pub requests: u64,
    pub target_per_second: f64,
    /// Whether the target is what the command asked for; otherwise it is the rate of the planned starts.
    pub target_is_asked_for: bool,
    pub achieved_per_second: Option<f64>,
    /// From the planned start: what a client waits, queueing included.
    pub from_planned_start_ms: BTreeMap<String, Option<f64>>,
    /// From the real start: what a measurement that waits for its own answers would have seen.
    pub from_real_start_ms: BTreeMap<String, Option<f64>>,
    /// Requests waiting behind a request when it started; `None` when that was not recorded.
    pub queue_depth_mean: Option<f64>,
    pub queue_depth_max: Option<u64>,
    /// Requests that were due but never started; they are in no latency. `None` when nothing says.
    pub unserved: Option<u64>,
    pub verdict: OpenLoopVerdict,
    pub reason: String,
}

/// What is known of an open loop beside its analysis.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ServerFacts {
    pub requests: u64,
    pub target_is_asked_for: bool,
    pub achieved_per_second: Option<f64>,
    pub queue_depth_mean: Option<f64>,
    pub queue_depth_max: Option<u64>,
    pub unserved: Option<u64>,
}

impl ServerReport {
    pub(super) fn new(analysis: &OpenLoop, facts: ServerFacts) -> Self {
        Self {
            requests: facts.requests,
            target_per_second: analysis.target_per_second,
            target_is_asked_for: facts.target_is_asked_for,
            achieved_per_second: facts.achieved_per_second,
            from_planned_start_ms: by_name(&analysis.corrected),
            from_real_start_ms: by_name(&analysis.uncorrected),
            queue_depth_mean: facts.queue_depth_mean,
            queue_depth_max: facts.queue_depth_max,
            unserved: facts.unserved,
            verdict: analysis.verdict,
            reason: analysis.reason.clone(),
        }
    }
}

/// Sequences of tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GenerationReport {
    pub sequences: u64,
    pub tokens: u64,
    pub first_token_median_ms: Option<f64>,
    pub first_token_ms: BTreeMap<String, Option<f64>>,
    pub between_tokens_ms: BTreeMap<String, Option<f64>>,
    /// The percentiles behind `between_tokens_ms`, with their intervals.
    #[serde(default)]
    pub between_tokens: Vec<Percentile>,
    pub decode_tokens_per_second: Option<f64>,
    pub tokens_per_second: Option<f64>,
    /// How much a token gets slower per 100 tokens of context.
    pub growth_ms_per_100_tokens: Option<f64>,
}

impl GenerationReport {
    pub(super) fn new(analysis: &Generation) -> Self {
        Self {
            sequences: analysis.sequences as u64,
            tokens: analysis.tokens,
            first_token_median_ms: analysis.first_token_median_ms,
            first_token_ms: by_name(&analysis.first_token),
            between_tokens_ms: by_name(&analysis.between_tokens),
            between_tokens: analysis.between_tokens.clone(),
            decode_tokens_per_second: analysis.decode_tokens_per_second,
            tokens_per_second: analysis.tokens_per_second,
            growth_ms_per_100_tokens: analysis.growth_ms_per_100_tokens,
        }
    }
}
