//! The operators section of a result: what the profiling pass found out. Times are those of profiled runs unless a name
//! says otherwise. The pass stores the section in the recording; every report reads it from there.

use std::collections::BTreeMap;

use ortscope_core::schema::Text;
use ortscope_core::session::{DeviceClass, MachinePeak, QnnEvent};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fusion::MissedFusion;
use super::{
    Bound, Copies, Floor, Inconsistencies, LaneStatistics, MemoryUse, Parallelism, PathMethod, ProviderPair,
    ThreadStatistics, TimeSplit,
};
use crate::providers::{Attribution, DividedBy, MeasuredBy};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OperatorSection {
    pub profiled: ProfiledRuns,
    pub observer: Observer,
    /// Mean per run, by what it was spent on; the parts add up to `run_ns`.
    pub time_per_run: TimeSplit,
    /// The costliest first.
    pub by_type: Vec<TypeRow>,
    /// The costliest first; the recording's table of operators has the others.
    pub by_node: Vec<NodeRow>,
    pub nodes_not_listed: u64,
    pub floor: Floor,
    pub lanes: Vec<LaneStatistics>,
    pub threads: Vec<ThreadStatistics>,
    pub parallelism: Parallelism,
    pub critical_path: PathReport,
    pub placement: OperatorPlacement,
    pub transitions: TransitionReport,
    pub flops: FlopReport,
    /// The measured peak of this machine.
    pub peak: Option<MachinePeak>,
    pub roofline: Option<RooflineReport>,
    pub fusion: Option<FusionSection>,
    /// Measured with `--profile full`.
    pub levels: Vec<LevelReport>,
    pub memory: Option<MemoryUse>,
    /// Device time by operators, for every provider that ran some, with the unattributed rest.
    pub device_time: Vec<ProviderTime>,
    /// Device work as the provider reports it.
    pub device_work: Vec<DeviceWork>,
    /// QNN's own profile of the NPU, or of its simulator: preparation, calls, waiting.
    pub qnn: Option<QnnReport>,
    pub inconsistencies: Inconsistencies,
    pub notes: Vec<String>,
}

impl OperatorSection {
    /// Nodes that ran on a provider, and all nodes that ran.
    pub fn executed_on(&self, provider: &str) -> (u64, u64) {
        let all = self.placement.executed.iter().map(|of| of.nodes).sum();
        let on = self.placement.executed.iter().filter(|of| &*of.provider == provider);
        (on.map(|of| of.nodes).sum(), all)
    }

    /// The share of the run's time that no operator, copy or wait accounts for.
    pub fn unattributed_share(&self) -> f64 {
        let run_ns = self.time_per_run.run_ns.max(1) as f64;
        self.time_per_run.remainder_ns() as f64 / run_ns
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProfiledRuns {
    /// Including the first of every window, which is warm-up and in no statistics.
    pub runs: u64,
    /// Processes that profiled one after the other, so that none reaches ONNX Runtime's event limit.
    pub windows: u64,
    pub events: u64,
    pub lost_events: u64,
    pub seconds: f64,
}

/// The cost of observing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Observer {
    pub profiled_median_ms: Option<f64>,
    pub plain_median_ms: Option<f64>,
    /// The first over the second.
    pub factor: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TypeRow {
    pub op_type: Text,
    pub provider: Text,
    pub nodes: u64,
    pub calls_per_run: f64,
    /// Self time over the time of the runs.
    pub share: f64,
    pub median_ms_per_run: f64,
    /// Scaled to the latency without the profiler.
    pub estimated_ms_per_run: Option<f64>,
    pub flops_per_run: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeRow {
    pub name: Text,
    pub op_type: Text,
    pub provider: Text,
    pub device: Text,
    pub depth: u64,
    pub calls_per_run: f64,
    pub share: f64,
    pub median_us: f64,
    pub p90_us: f64,
    pub max_us: f64,
    /// False: too short to be distinguished from the profiler's own cost.
    pub is_rankable: bool,
    pub input_shapes: Option<Text>,
    pub shape_variants: u64,
    pub output_bytes: Option<u64>,
    pub bytes_moved: Option<u64>,
    pub flops: Option<u64>,
    /// FLOPs per byte.
    pub intensity: Option<f64>,
    pub flops_per_second: Option<f64>,
    /// The best possible time over the measured one.
    pub roof_fraction: Option<f64>,
    pub bound: Option<Bound>,
    /// Time × the measured processor clock: an estimate.
    pub estimated_cycles: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PathReport {
    pub method: PathMethod,
    pub nodes: u64,
    /// The first nodes of the path.
    pub names: Vec<Text>,
    pub length_ms: f64,
    pub work_ms: f64,
    /// The number of threads that could be busy at best.
    pub possible_parallelism: f64,
}

/// Which provider runs which nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OperatorPlacement {
    /// Nodes of the main graph in the file, and in the graph that was run.
    pub model_nodes: u64,
    pub optimized_nodes: Option<u64>,
    /// Nodes that were seen to run; a subgraph that a provider compiled is one node.
    pub executed: Vec<ExecutedNodes>,
    /// Operator types on the CPU although another provider was requested, the costliest first.
    pub fallback_types: Vec<FallbackType>,
    /// The reasons that ONNX Runtime and the provider log.
    pub reasons: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExecutedNodes {
    pub provider: Text,
    pub device: Text,
    pub nodes: u64,
    pub share: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FallbackType {
    pub op_type: Text,
    pub nodes: u64,
    pub share: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TransitionReport {
    /// By the edges of the graph; otherwise by the order of execution.
    pub by_dependencies: bool,
    pub per_run: u64,
    pub pairs: Vec<ProviderPair>,
    pub copies: Copies,
    /// From the end of the last operator to the end of the call: with a device, the wait for it.
    pub after_last_ms_per_run: f64,
    /// Time in rows that only wait for a device.
    pub wait_ms_per_run: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlopReport {
    /// One multiplication with its addition is one MAC and two FLOPs.
    pub flops_per_run: u64,
    pub macs_per_run: u64,
    pub bytes_moved_per_run: u64,
    pub weight_bytes_per_run: u64,
    /// Operators of a run that are in the sum; that only move data; that are not counted.
    pub counted: u64,
    pub movement: u64,
    pub not_counted: Vec<NotCounted>,
    /// The share of the runs' time in operators without a count.
    pub share_not_counted: f64,
    /// At the latency without the profiler; `None` if more than a tenth of the time is in operators without a count.
    pub flops_per_second: Option<f64>,
    pub share_of_peak: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NotCounted {
    pub op_type: String,
    pub why: String,
    pub operators: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QnnReport {
    pub executions: u64,
    pub events: Vec<QnnEvent>,
    pub preparation: Vec<QnnEvent>,
}

/// Shares of the time of the runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RooflineReport {
    /// FLOPs per byte above which computing takes longer than moving data.
    pub ridge: f64,
    pub compute_bound: f64,
    pub memory_bound: f64,
    pub overhead_bound: f64,
    pub without_numbers: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FusionSection {
    pub before: u64,
    pub after: u64,
    pub kept: u64,
    pub replaced: u64,
    pub fused: u64,
    pub folded: u64,
    pub removed: u64,
    pub added: u64,
    /// Each fusion pattern, and how often it was applied.
    pub patterns: BTreeMap<String, usize>,
    pub missed: Vec<MissedFusion>,
    pub missed_not_listed: u64,
}

/// One optimization level, measured interleaved with the others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LevelReport {
    /// none, basic, extended, layout or all.
    pub level: String,
    /// Nodes of the main graph; `None` where ONNX Runtime could not write it.
    pub nodes: Option<u64>,
    pub session_ms: Option<f64>,
    pub runs: u64,
    pub median_ms: Option<f64>,
    /// Median over the median without optimization.
    pub ratio_to_none: Option<f64>,
    /// Fusion patterns that this level has and the previous one does not.
    pub new_patterns: Vec<String>,
    /// Why it could not be measured.
    pub failure: Option<String>,
}

/// Device rows as their provider reports them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceWork {
    pub name: String,
    pub op_type: String,
    pub provider: String,
    /// How often, in the runs of the statistics.
    pub count: u64,
    /// As reported; for QNN's nodes, their share of the device's cycles times its time.
    pub total_ms: f64,
    #[serde(skip)]
    pub total_ns: u64,
    /// Device cycles, as the device counted them.
    pub cycles: Option<u64>,
}

/// The device time of one provider in the profiled runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProviderTime {
    pub provider: String,
    /// CPU, GPU or NPU; `None` if it is not known.
    pub device: Option<DeviceClass>,
    /// The name that its provider reports.
    pub device_name: Option<String>,
    /// Prefixes of the names that its devices have in the table of device samples.
    pub sampled_as: Vec<String>,
    /// Where its own profile comes from, and whether there was one.
    pub own_profile: String,
    pub has_own_profile: bool,
    /// The number of runs that the times below are sums over.
    pub runs: u64,
    /// `None` if nothing measured the device: then no operator has a figure, and `unknown` says why.
    pub device_ns: Option<u64>,
    pub measured_by: Option<MeasuredBy>,
    pub unattributed_ns: Option<u64>,
    pub unknown_operators: u64,
    /// How the operator times are known: the least exact method among them.
    pub method: String,
    /// The share that a measured time was divided by.
    pub divided_by: Option<DividedBy>,
    /// The costliest first; with those that are not listed and `unattributed_ns` they add up to `device_ns`.
    pub operators: Vec<OperatorDeviceTime>,
    pub operators_not_listed: u64,
    pub not_listed_ns: u64,
    /// Joules per inference that no operator accounts for; present if energy was measured.
    pub unattributed_joules: Option<f64>,
    /// Why there is no device time, or nothing inside compiled parts, and what to do about it.
    pub unknown: Option<String>,
}

impl ProviderTime {
    /// Divides the energy of an inference among the operators, if one provider ran them all.
    pub fn attribute(&mut self, joules_per_inference: f64) {
        let Some(device_ns) = self.device_ns.filter(|device_ns| *device_ns > 0) else { return };
        let of = |ns: u64| joules_per_inference * ns as f64 / device_ns as f64;
        for operator in &mut self.operators {
            operator.attributed_joules = operator.attribution.ns().map(of);
        }
        self.unattributed_joules = self.unattributed_ns.map(of);
    }

    /// The share of the device's time that no operator accounts for.
    pub fn unattributed_share(&self) -> Option<f64> {
        let device_ns = self.device_ns.filter(|ns| *ns > 0)?;
        Some(self.unattributed_ns? as f64 / device_ns as f64)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OperatorDeviceTime {
    pub name: String,
    pub op_type: String,
    #[serde(flatten)]
    pub attribution: Attribution,
    pub cycles: Option<u64>,
    /// Per inference, by its share of the device's time: attributed, since no meter sees an operator.
    pub attributed_joules: Option<f64>,
}

/// One window of profiled runs during a measurement (`--profile-every`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WindowReport {
    /// On the monotonic clock.
    pub start_ns: u64,
    /// Whether the measured session itself was profiled; otherwise a second one.
    pub same_session: bool,
    pub runs: u64,
    pub median_ms: f64,
    pub unattributed_share: f64,
    /// The costliest first: type, provider and self time per run.
    pub by_type: Vec<(Text, Text, f64)>,
    pub lost_events: u64,
}
