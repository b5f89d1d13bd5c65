//! Slow inferences and what was recorded inside them.

use std::borrow::Cow;

use ortscope_analyze::correlation::Around;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The slowest inferences of a session and their explanation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SlowReport {
    /// Inferences after the warm-up that took longer than `limit_ms`, end to end.
    pub count: u64,
    /// Of so many.
    pub of: u64,
    pub limit_ms: f64,
    pub median_ms: f64,
    /// Inferences near the median that "usual" figures were taken from.
    pub usual_inferences: u64,
    /// The slowest first.
    pub shown: Vec<SlowInference>,
    /// Causes over all shown inferences, the most frequent first.
    pub causes: Vec<CauseCount>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CauseCount {
    pub cause: CauseKind,
    /// Shown inferences it was seen in.
    pub inferences: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SlowInference {
    /// Number in its session.
    pub sequence: u64,
    pub stream: u64,
    /// Start, from the start of the recording.
    pub start_seconds: f64,
    pub latency_ms: f64,
    /// Over the median.
    pub times_median: f64,
    pub copy_in_ms: f64,
    pub run_ms: f64,
    pub copy_out_ms: f64,
    /// The largest share of the extra time first, then what has no duration.
    pub causes: Vec<Cause>,
    pub verdict: Explained,
    /// The verdict in one sentence.
    pub sentence: String,
    /// What devices and the machine told within 100 ms of it, and means of a time that it lies in.
    pub around: Vec<Around>,
}

/// How far the recorded sources explain a slow inference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Explained {
    /// One cause has a duration of at least half of the extra time.
    Yes,
    /// Something unusual coincides, but its duration is shorter or was not recorded.
    Partly,
    /// The sources were recorded and show nothing unusual.
    No,
    /// The sources that could tell were not recorded.
    Unknown,
}

/// Something unusual inside a slow inference, with its numbers and what is usual.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cause {
    pub cause: CauseKind,
    /// In words, with the numbers.
    pub sentence: String,
    /// The same in a few words.
    pub brief: String,
    pub count: Option<u64>,
    /// The same in an inference near the median, on average.
    pub usual_count: Option<f64>,
    pub duration_ms: Option<f64>,
    pub usual_ms: Option<f64>,
    /// Duration beyond the usual over the latency beyond the median, at most 1.
    pub share_of_excess: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CauseKind {
    ContextSwitch,
    HardFault,
    PageFault,
    Migration,
    Throttle,
    CopyIn,
    CopyOut,
    ProviderCopy,
    ProviderWait,
    Allocation,
    OtherProcesses,
    BusyMachine,
    LowFrequency,
    LostRecords,
}

impl CauseKind {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Self::ContextSwitch => "off the processor",
            Self::HardFault => "hard faults",
            Self::PageFault => "page faults",
            Self::Migration => "migrations",
            Self::Throttle => "throttling",
            Self::CopyIn => "copying in",
            Self::CopyOut => "waiting and copying out",
            Self::ProviderCopy => "provider copies",
            Self::ProviderWait => "provider waits",
            Self::Allocation => "allocation",
            Self::OtherProcesses => "other processes",
            Self::BusyMachine => "busy machine",
            Self::LowFrequency => "low clock",
            Self::LostRecords => "lost records",
        }
    }
}

/// A source that could explain slow inferences.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SourceCheck {
    pub source: Cow<'static, str>,
    pub rows: u64,
    /// For people: how much there is, or why there is nothing.
    pub sentence: String,
}
