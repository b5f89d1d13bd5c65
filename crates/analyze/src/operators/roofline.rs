//! How far each operator is from what the machine can do.
//!
//! An operator cannot be faster than its FLOPs at the machine's peak, nor than its bytes at the machine's bandwidth. The
//! longer of the two is its roof; the time it took over that is how well the machine was used. Bytes that stay in a cache
//! can beat the bandwidth of memory, so a fraction above 1 is possible.

use ortscope_core::schema::OperatorKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::report::OperatorReport;

/// Below this share of the roof a short operator is limited by neither: starting it costs more than its work.
const OVERHEAD_FRACTION: f64 = 0.1;
/// Longer operators that are far below the roof have an inefficient kernel, not an overhead.
const OVERHEAD_NS: f64 = 50_000.0;

/// Measured peak performance of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Peaks {
    pub flops_per_second: f64,
    pub bytes_per_second: f64,
}

impl Peaks {
    /// FLOPs per byte at which computing takes as long as moving.
    pub fn ridge(&self) -> f64 {
        self.flops_per_second / self.bytes_per_second
    }

    fn is_usable(&self) -> bool {
        // Far beyond any machine on both sides, and such that no quotient below becomes infinite.
        let is_plausible = |value: f64| (1.0..1e30).contains(&value);
        is_plausible(self.flops_per_second) && is_plausible(self.bytes_per_second)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Bound {
    Compute,
    Memory,
    /// Too little work compared to the cost of the call.
    Overhead,
}

impl Bound {
    pub fn name(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Memory => "memory",
            Self::Overhead => "overhead",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RooflinePoint {
    /// Index into the report's nodes.
    pub node: usize,
    /// FLOPs per byte.
    pub intensity: f64,
    pub flops_per_second: f64,
    pub bytes_per_second: f64,
    /// The limit at this intensity.
    pub roof_flops_per_second: f64,
    /// Best possible time over the time it took.
    pub roof_fraction: f64,
    pub bound: Bound,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Roofline {
    pub peaks: Peaks,
    pub points: Vec<RooflinePoint>,
    /// Operators whose FLOPs or bytes are not known, or that took no measurable time.
    pub without_numbers: u64,
    /// Their share of the time of the runs.
    pub share_without_numbers: f64,
}

/// Places every operator; `None` if the peaks are not those of a machine. Times are medians per call as the profiler saw
/// them, which overstates short ones.
pub fn roofline(report: &OperatorReport, peaks: &Peaks) -> Option<Roofline> {
    if !peaks.is_usable() {
        return None;
    }
    let mut line =
        Roofline { peaks: *peaks, points: Vec::new(), without_numbers: 0, share_without_numbers: 0.0 };
    for (index, node) in
        report.nodes.iter().enumerate().filter(|(_, node)| node.kind == OperatorKind::Operator)
    {
        let measured_ns = node.exclusive.median_ns as f64;
        let (Some(flops), Some(bytes)) = (node.flops, node.bytes_moved) else {
            line.without_numbers += 1;
            line.share_without_numbers += node.share;
            continue;
        };
        if measured_ns == 0.0 || (flops == 0 && bytes == 0) {
            line.without_numbers += 1;
            line.share_without_numbers += node.share;
            continue;
        }
        let (flops, bytes) = (flops as f64, bytes as f64);
        let compute_ns = flops / peaks.flops_per_second * 1e9;
        let memory_ns = bytes / peaks.bytes_per_second * 1e9;
        let best_ns = compute_ns.max(memory_ns);
        let roof_fraction = best_ns / measured_ns;
        let is_overhead =
            !node.is_rankable || (roof_fraction < OVERHEAD_FRACTION && measured_ns < OVERHEAD_NS);
        line.points.push(RooflinePoint {
            node: index,
            // A node without bytes has no memory traffic to be bound by; its intensity is shown as its FLOPs.
            intensity: if bytes > 0.0 { flops / bytes } else { flops },
            flops_per_second: flops / measured_ns * 1e9,
            bytes_per_second: bytes / measured_ns * 1e9,
            roof_flops_per_second: flops / best_ns * 1e9,
            roof_fraction,
            bound: match (is_overhead, compute_ns >= memory_ns) {
                (true, _) => Bound::Overhead,
                (false, true) => Bound::Compute,
                (false, false) => Bound::Memory,
            },
        });
    }
    Some(line)
}
