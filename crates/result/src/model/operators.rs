//! Where the time of a run goes: operators by type and by node, and one run drawn in full.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Rectangles of all timelines of a report together.
pub const MAX_RECTANGLES: usize = 5000;

/// The profiled runs of one session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OperatorReport {
    pub session_id: String,
    pub title: String,
    /// Profiled runs.
    pub runs: u64,
    /// Rows of operators, copies and waits.
    pub events: u64,
    /// Time of all profiled runs.
    pub run_total_ms: Option<f64>,
    pub run_median_ms: Option<f64>,
    /// Time of the median profiled run over the median inference without operator profiling: what observing costs.
    pub observer_factor: Option<f64>,
    /// Time in runs during which no operator, copy or wait was active.
    pub unattributed: Option<Unattributed>,
    /// Why there is no such time, when there is none.
    pub unattributed_unknown: Option<String>,
    /// Sum of operator times over the time in which any was active: above 1 they ran in parallel.
    pub parallelism: Option<f64>,
    /// The longest first.
    pub by_type: Vec<OperatorTypeRow>,
    pub by_node: Vec<OperatorNodeRow>,
    /// Nodes that `by_node` leaves out.
    pub other_nodes: OtherNodes,
    pub placement: Vec<PlacementRow>,
    /// Loading and initialising.
    pub session_events: Vec<SessionEvent>,
    pub timeline: Option<Timeline>,
    /// Why there is none.
    pub timeline_unknown: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Unattributed {
    pub total_ms: f64,
    pub mean_ms: f64,
    /// Of the time of all profiled runs.
    pub share: f64,
}

/// How long the calls of one type or node took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CallTimes {
    pub calls: u64,
    /// Without the nodes of its sub-graphs.
    pub self_ms: f64,
    /// `self_ms` of the time of all profiled runs; `None` when that is not known.
    pub share: Option<f64>,
    /// Of a whole call.
    pub mean_ms: f64,
    pub max_ms: f64,
    /// `None` where too few calls were seen.
    pub p50_ms: Option<f64>,
    pub p99_ms: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OperatorTypeRow {
    /// operator, copy or wait.
    pub kind: Cow<'static, str>,
    pub op_type: String,
    pub execution_provider: String,
    pub device: String,
    /// Different nodes of this type.
    pub nodes: u64,
    pub times: CallTimes,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OperatorNodeRow {
    pub kind: Cow<'static, str>,
    pub name: String,
    pub op_type: String,
    pub execution_provider: String,
    pub device: String,
    /// 0 for nodes of the main graph.
    pub depth: u64,
    pub input_shapes: Option<String>,
    pub output_bytes: Option<u64>,
    /// Of one call.
    pub flops: Option<u64>,
    pub times: CallTimes,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OtherNodes {
    pub nodes: u64,
    pub calls: u64,
    pub self_ms: f64,
}

/// Nodes and time by provider.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlacementRow {
    pub execution_provider: String,
    pub device: String,
    pub nodes: u64,
    pub self_ms: f64,
    /// Of the time of all operators, copies and waits.
    pub share: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionEvent {
    pub name: String,
    pub count: u64,
    pub total_ms: f64,
}

/// One profiled run, for drawing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Timeline {
    /// Number of the run: the one with the median duration.
    pub run: u64,
    pub duration_ms: f64,
    /// Start, from the start of the recording.
    pub start_seconds: f64,
    pub lanes: Vec<Lane>,
    /// In the order of their start within a lane.
    pub rectangles: Vec<Rectangle>,
    /// Operators that are drawn together with others, and how many rectangles stand for them.
    pub merged_operators: u64,
    pub merged_rectangles: u64,
    /// Lanes beyond the limit, whose operators are not drawn.
    pub hidden_operators: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lane {
    pub label: String,
    /// operator, copy, wait or run.
    pub kind: Cow<'static, str>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rectangle {
    /// Index into `lanes`.
    pub lane: usize,
    /// From the start of the run.
    pub start_ms: f64,
    pub duration_ms: f64,
    /// Time of the operators in it: less than `duration_ms` for several with gaps between them.
    pub busy_ms: f64,
    /// Of several operators drawn as one: empty.
    pub name: String,
    /// Of several: the one with most time.
    pub op_type: String,
    pub execution_provider: String,
    /// Operators it stands for.
    pub operators: u64,
}
