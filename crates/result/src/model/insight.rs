//! What the profiling pass of `ortscope run` found out beyond the rows of operators: work, limits, graph, memory. Read
//! from the document that it left in the recording; parts that an older or newer version wrote differently are empty.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct OperatorInsight {
    pub flops: WorkDone,
    pub peak: Option<Peak>,
    pub roofline: Option<Limits>,
    pub by_node: Vec<NodeLimits>,
    pub critical_path: Option<Path>,
    pub parallelism: Option<Parallel>,
    pub placement: Placed,
    pub transitions: Changes,
    pub fusion: Option<Fused>,
    pub levels: Vec<Level>,
    pub memory: Option<MemoryUse>,
    pub device_time: Vec<DeviceTimes>,
    pub device_work: Vec<DeviceWork>,
    pub notes: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WorkDone {
    pub flops_per_run: u64,
    pub macs_per_run: u64,
    pub bytes_moved_per_run: u64,
    pub counted: u64,
    pub not_counted: Vec<NotCounted>,
    pub flops_per_second: Option<f64>,
    pub share_of_peak: Option<f64>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct NotCounted {
    pub op_type: String,
    pub why: String,
    pub operators: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Peak {
    pub threads: u64,
    pub flops_per_second: f64,
    pub bytes_per_second: f64,
    pub instructions: String,
}

/// Shares of the time of the runs by what bounds the operators.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Limits {
    pub ridge: f64,
    pub compute_bound: f64,
    pub memory_bound: f64,
    pub overhead_bound: f64,
    pub without_numbers: f64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct NodeLimits {
    pub name: String,
    pub op_type: String,
    pub share: f64,
    pub median_us: f64,
    pub flops: Option<u64>,
    pub bytes_moved: Option<u64>,
    pub intensity: Option<f64>,
    pub flops_per_second: Option<f64>,
    pub roof_fraction: Option<f64>,
    /// compute, memory or overhead.
    pub bound: Option<String>,
    pub estimated_cycles: Option<u64>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Path {
    pub nodes: u64,
    pub length_ms: f64,
    pub work_ms: f64,
    pub possible_parallelism: f64,
    pub method: PathMethod,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PathMethod {
    pub kind: String,
    pub why: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Parallel {
    pub threads: u64,
    pub mean_concurrency: f64,
    pub intra_op: Option<IntraOp>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct IntraOp {
    pub calls: u64,
    pub shared_calls: u64,
    pub operators_ns: u64,
    pub wait_ns: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Placed {
    pub model_nodes: u64,
    pub optimized_nodes: Option<u64>,
    pub fallback_types: Vec<FallbackType>,
    pub reasons: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FallbackType {
    pub op_type: String,
    pub nodes: u64,
    pub share: f64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Changes {
    pub by_dependencies: bool,
    pub per_run: u64,
    pub pairs: Vec<ProviderChange>,
    pub copies: Copies,
    pub after_last_ms_per_run: f64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ProviderChange {
    pub from: String,
    pub to: String,
    pub count: u64,
    pub bytes: u64,
    pub unknown_bytes: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Copies {
    pub nodes: u64,
    pub share: f64,
    pub bytes_per_run: f64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Fused {
    pub before: u64,
    pub after: u64,
    pub kept: u64,
    pub replaced: u64,
    pub fused: u64,
    pub folded: u64,
    pub removed: u64,
    pub added: u64,
    /// What became what, and how often.
    pub patterns: std::collections::BTreeMap<String, u64>,
    pub missed: Vec<Missed>,
    pub missed_not_listed: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Missed {
    pub pattern: String,
    pub nodes: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Level {
    pub level: String,
    pub nodes: Option<u64>,
    pub session_ms: Option<f64>,
    pub runs: u64,
    pub median_ms: Option<f64>,
    pub ratio_to_none: Option<f64>,
    pub new_patterns: Vec<String>,
    pub failure: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MemoryUse {
    pub first_run: Option<RunMemory>,
    pub last_run: Option<RunMemory>,
    pub growth_bytes_per_run: Option<f64>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RunMemory {
    pub allocating_nodes: u64,
    pub allocated_bytes: u64,
    pub freed_bytes: u64,
    pub peak_in_use_bytes: u64,
    pub end_in_use_bytes: u64,
    pub arena_bytes: Option<u64>,
    pub unused_share: Option<f64>,
    pub largest: Vec<(String, u64)>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DeviceWork {
    pub name: String,
    pub op_type: String,
    pub provider: String,
    pub count: u64,
    pub total_ms: f64,
    pub cycles: Option<u64>,
}

/// Device time of one provider, divided among operators.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DeviceTimes {
    pub provider: String,
    pub device: Option<String>,
    pub device_name: Option<String>,
    pub runs: u64,
    pub device_ns: Option<u64>,
    pub unattributed_ns: Option<u64>,
    pub operators: Vec<OperatorDeviceTime>,
    pub operators_not_listed: u64,
    pub not_listed_ns: u64,
    pub divided_by: Option<String>,
    pub unknown: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct OperatorDeviceTime {
    pub name: String,
    pub op_type: String,
    /// measured, attributed, estimated or unknown.
    pub method: String,
    pub ns: Option<u64>,
    pub cycles: Option<u64>,
    pub attributed_joules: Option<f64>,
}
