//! From sums to shares, and the profiler's floor.

use ortscope_core::schema::OperatorKind;

use super::analysis::OperatorOptions;
use super::lanes::ratio;
use super::nodes::Node;
use super::report::{FloorSource, NodeStatistics};

/// A node is distinguishable from the floor if it takes at least this many times as long: below, a third of its time
/// or more is the profiler's.
const RANKABLE_FLOORS: u64 = 3;
/// ONNX Runtime profiles in microseconds.
const CLOCK_TICK_NS: u64 = 1_000;
/// An operator that does nothing was measured at 1 to 2 µs; if the shortest node of a model takes longer than this,
/// the model has no such operator and cannot determine the floor.
const MAX_PLAUSIBLE_FLOOR_NS: u64 = 5_000;

/// Converts sums to the reported figures.
#[derive(Debug)]
pub(super) struct Scale {
    pub runs: u64,
    pub run_ns: u64,
    pub factor: Option<f64>,
}

impl Scale {
    /// Time per run without the profiler; `None` if its cost is not known.
    pub(super) fn per_run(&self, total_ns: u64) -> Option<f64> {
        Some(ratio(total_ns, self.runs) / self.factor?).filter(|ns| ns.is_finite())
    }

    pub(super) fn node(&self, node: &Node, floor_ns: u64) -> NodeStatistics {
        let exclusive = node.exclusive.distribution();
        NodeStatistics {
            name: node.name.clone(),
            op_type: node.op_type.clone(),
            provider: node.provider.clone(),
            device: node.device.clone(),
            node_index: node.node_index,
            kind: node.kind,
            depth: node.depth,
            inclusive_total_ns: node.inclusive_total_ns,
            calls_per_run: ratio(exclusive.count, self.runs),
            share: ratio(exclusive.total_ns, self.run_ns),
            share_above_floor: 0.0,
            scaled_ns_per_run: self.per_run(exclusive.total_ns),
            is_rankable: exclusive.median_ns >= floor_ns.saturating_mul(RANKABLE_FLOORS),
            input_shapes: node.first_shapes.clone(),
            shape_variants: node.shape_variants(),
            output_bytes: node.output_bytes,
            bytes_moved: node.bytes_moved.mean(),
            flops: node.flops.mean(),
            exclusive,
        }
    }
}

pub(super) fn above_floor(node: &NodeStatistics, floor_ns: u64) -> u64 {
    node.exclusive.total_ns.saturating_sub(floor_ns.saturating_mul(node.exclusive.count))
}

/// The profiler's floor: as measured, or the median of the shortest operator. Control flow does not count: its own
/// time is the rest without its nodes.
pub(super) fn floor(options: &OperatorOptions, nodes: &[Node]) -> (u64, FloorSource) {
    if let Some(floor_ns) = options.floor_ns {
        return (floor_ns, FloorSource::Calibrated);
    }
    let is_plain = |node: &&Node| {
        let own = node.exclusive.total_ns() == node.inclusive_total_ns;
        node.kind == OperatorKind::Operator && own && node.exclusive.count() > 0
    };
    let shortest = nodes.iter().filter(is_plain).map(|node| node.exclusive.distribution().median_ns).min();
    match shortest {
        Some(shortest) if shortest <= MAX_PLAUSIBLE_FLOOR_NS => {
            (shortest.max(CLOCK_TICK_NS), FloorSource::SmallestNodes)
        }
        _ => (CLOCK_TICK_NS, FloorSource::ClockTick),
    }
}
