//! One session of ONNX Runtime: how often it ran and how long that took.

use std::collections::BTreeMap;

use ortscope_analyze::WarmUp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::SlowReport;
use crate::{GenerationReport, LatencyReport, Memory, ServerReport};

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct SessionReport {
    pub session_id: String,
    /// For headings: the model's name and the label.
    pub title: String,
    pub model_name: String,
    /// In a sweep: what is different here.
    pub label: Option<String>,
    pub pid: Option<u64>,
    pub execution_providers: Vec<String>,
    pub ort_version: Option<String>,
    /// How requests came, in words.
    pub scenario: Option<String>,
    pub counts: Counts,
    /// Start of its first inference, from the start of the recording.
    pub first_seconds: Option<f64>,
    /// End of its last inference.
    pub last_seconds: Option<f64>,
    /// End to end, the first inferences of the phase `first`.
    pub first_runs_ms: Vec<f64>,
    pub sampling: Sampling,
    pub warm_up: Option<WarmUp>,
    /// The call into ONNX Runtime, after the warm-up.
    pub inference: Option<LatencyReport>,
    /// With copying in, waiting for the device and copying out.
    pub end_to_end: Option<LatencyReport>,
    /// What an inference consists of, on average.
    pub parts: Option<Parts>,
    pub throughput: Option<ThroughputReport>,
    pub histogram: Option<Histogram>,
    pub over_time: Option<OverTime>,
    pub slow: Option<SlowReport>,
    pub server: Option<ServerReport>,
    pub generation: Option<GenerationReport>,
    pub cold: Option<Cold>,
    pub memory: Option<Memory>,
    /// CPU time over wall time of the measured loop.
    pub cpu_cores_used: Option<f64>,
    /// Nodes per provider after partitioning, as ONNX Runtime tells it.
    pub placement: Vec<ProviderNodes>,
    /// What else to know, in words.
    pub notes: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    pub total: u64,
    /// Calls that returned an error; they are in no latency.
    pub failed: u64,
    /// Successful and failed ones.
    pub by_phase: BTreeMap<String, u64>,
}

/// Whether the statistics rest on all inferences.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Sampling {
    /// 1: on all. 4: on every 4th.
    pub every: u64,
    /// For people, when it is not 1.
    pub sentence: Option<String>,
}

impl Default for Sampling {
    fn default() -> Self {
        Self { every: 1, sentence: None }
    }
}

/// Mean durations after the warm-up; they add up to the mean end to end.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Parts {
    pub n: u64,
    pub copy_in_ms: f64,
    pub run_ms: f64,
    pub copy_out_ms: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ThroughputReport {
    /// Inferences after the warm-up.
    pub requests: u64,
    /// From the first start to the last end.
    pub seconds: f64,
    pub requests_per_second: f64,
    /// `None` when the recording does not say how many samples a batch has.
    pub samples_per_second: Option<f64>,
    /// Inferences in flight on average.
    pub concurrency: f64,
}

/// How the latencies are distributed, in bins of equal width on a logarithmic scale.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Histogram {
    /// One more than there are bins; a bin has its lower edge and not its upper one, the last has both.
    pub edges_ms: Vec<f64>,
    pub counts: Vec<u64>,
    /// The last bin is wider than the others: it holds all outliers above, up to the largest.
    pub tail: bool,
}

impl Histogram {
    pub fn n(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// The latency of the call over the time of the recording, warm-up included.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OverTime {
    /// Width of a point's interval; 0: each point is one inference.
    pub bucket_seconds: f64,
    /// Where the warm-up ends.
    pub warm_up_ends_seconds: Option<f64>,
    pub points: Vec<OverTimePoint>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OverTimePoint {
    pub offset_seconds: f64,
    /// Inferences behind `median_ms` and `p99_ms`.
    pub n: u64,
    pub min_ms: f64,
    pub median_ms: f64,
    /// The value that 99 % of these inferences do not exceed; with fewer than 100 of them the largest.
    pub p99_ms: f64,
    pub max_ms: f64,
}

/// One-time costs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Cold {
    pub file_read_ms: Option<f64>,
    pub session_first_ms: Option<f64>,
    pub session_again_ms: Option<f64>,
    pub first_run_ms: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProviderNodes {
    pub provider: String,
    pub nodes: u64,
}

/// Sessions beyond the limit of the report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OtherSessions {
    pub sessions: u64,
    pub inferences: u64,
}
