//! Results of an analysis.

use ortscope_core::schema::{OperatorKind, Text};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::memory::MemoryUse;
use super::pool::IntraOp;
use super::quantiles::Distribution;

/// Time by category; the parts add up to `run_ns`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TimeSplit {
    pub run_ns: u64,
    /// At least one operator was running.
    pub operators_ns: u64,
    /// No operator was running, but data was copied between devices.
    pub copies_ns: u64,
    /// Nothing but waiting for a device.
    pub waits_ns: u64,
    /// Inside the executor, between operators. Most of it is the profiler's own work.
    pub between_operators_ns: u64,
    /// In the call, but outside the executor.
    pub outside_executor_ns: u64,
    /// Of all these: from the end of the last operator or copy to the end of the call. Behind a device it is waiting
    /// for it.
    pub after_last_ns: u64,
}

impl TimeSplit {
    /// Time without an operator, copy or wait.
    pub fn remainder_ns(&self) -> u64 {
        self.between_operators_ns.saturating_add(self.outside_executor_ns)
    }

    pub(super) fn add(&mut self, other: &Self) {
        let sum = |a: &mut u64, b: u64| *a = a.saturating_add(b);
        sum(&mut self.run_ns, other.run_ns);
        sum(&mut self.operators_ns, other.operators_ns);
        sum(&mut self.copies_ns, other.copies_ns);
        sum(&mut self.waits_ns, other.waits_ns);
        sum(&mut self.between_operators_ns, other.between_operators_ns);
        sum(&mut self.outside_executor_ns, other.outside_executor_ns);
        sum(&mut self.after_last_ns, other.after_last_ns);
    }
}

/// Everything known about one session's profiled runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OperatorReport {
    /// Runs in the statistics.
    pub runs: u64,
    /// Runs before them that only count as warm-up.
    pub warm_up_runs: u64,
    pub run: Distribution,
    pub first_run_ns: Option<u64>,
    /// Sums over the runs in the statistics.
    pub time: TimeSplit,
    /// In the order of their first execution.
    pub nodes: Vec<NodeStatistics>,
    /// The costliest first.
    pub op_types: Vec<OpTypeStatistics>,
    /// The busiest first.
    pub lanes: Vec<LaneStatistics>,
    pub threads: Vec<ThreadStatistics>,
    pub parallelism: Parallelism,
    pub floor: Floor,
    /// Latency with profiling over latency without, as given.
    pub observer_factor: Option<f64>,
    /// Allocator use; `None` before ONNX Runtime 1.28 and without an arena.
    pub memory: Option<MemoryUse>,
    pub inconsistencies: Inconsistencies,
}

/// One node over all runs. Times are its own: without the nodes of its sub-graphs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeStatistics {
    pub name: Text,
    pub op_type: Text,
    pub provider: Text,
    pub device: Text,
    pub node_index: Option<u64>,
    pub kind: OperatorKind,
    pub depth: u64,
    /// Own time per call.
    pub exclusive: Distribution,
    /// With its sub-graphs, summed over all calls.
    pub inclusive_total_ns: u64,
    /// Executions per run.
    pub calls_per_run: f64,
    /// Own time over the time of the runs, 0 to 1. Parallel nodes can add up to more than 1.
    pub share: f64,
    /// The same after taking the profiler's floor off every call: a better guess for short nodes.
    pub share_above_floor: f64,
    /// Own time per run, scaled to the latency without profiling; `None` without an observer factor.
    pub scaled_ns_per_run: Option<f64>,
    /// False if the node cannot be distinguished from the profiler's own cost.
    pub is_rankable: bool,
    /// Shapes of the inputs of its first call.
    pub input_shapes: Option<Text>,
    /// Different shapes that were seen; counting stops at 16.
    pub shape_variants: u64,
    pub output_bytes: Option<u64>,
    /// Bytes moved per call.
    pub bytes_moved: Option<u64>,
    /// FLOPs per call.
    pub flops: Option<u64>,
}

/// All nodes of one type on one provider.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpTypeStatistics {
    pub op_type: Text,
    pub provider: Text,
    pub nodes: u64,
    pub calls: u64,
    /// Own time of all its nodes, per run.
    pub per_run: Distribution,
    pub share: f64,
    pub scaled_ns_per_run: Option<f64>,
    /// FLOPs per run; `None` if not known for one of the nodes.
    pub flops_per_run: Option<u64>,
}

/// The work of one thread for one provider.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LaneStatistics {
    pub thread: u64,
    pub provider: Text,
    pub kind: OperatorKind,
    pub calls: u64,
    pub busy_ns: u64,
    /// Busy time over the time of the runs.
    pub utilization: f64,
}

/// One thread: the parts add up to the time of the runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadStatistics {
    pub thread: u64,
    pub operators_ns: u64,
    pub copies_ns: u64,
    pub waits_ns: u64,
    pub remainder_ns: u64,
    pub utilization: f64,
}

/// Whether operators run side by side.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Parallelism {
    /// Threads that ran operators.
    pub threads: u64,
    /// Time with two or more operators at once.
    pub parallel_ns: u64,
    /// The same over the time of the runs.
    pub parallel_share: f64,
    /// Operators running at once, averaged over the time in which there is one.
    pub mean_concurrency: f64,
    /// Threads inside operators; `None` for a session with one thread.
    pub intra_op: Option<IntraOp>,
}

/// The shortest time the profiler reports for doing nothing.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Floor {
    pub floor_ns: u64,
    pub source: FloorSource,
    /// Nodes that cannot be distinguished from it.
    pub nodes_near_it: u64,
    /// Their share of the time of the runs.
    pub share_near_it: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FloorSource {
    /// Measured by the caller on a model that does nothing.
    Calibrated,
    /// The shortest nodes of this model.
    SmallestNodes,
    /// No node is short enough: one tick of the profiler's clock.
    ClockTick,
}

/// Contradictions in the data, counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Inconsistencies {
    /// Events that outlast what contains them; rounding to microseconds makes some.
    pub contradictions: u64,
    pub contradicted_ns: u64,
    /// Runs whose own event is missing.
    pub runs_without_event: u64,
    /// Events that are no part of the host's time: loading, empty waits, and work of devices, which `device_time` divides.
    pub ignored_events: u64,
    /// Events whose node or lane did not fit into the limits.
    pub dropped_events: u64,
}
