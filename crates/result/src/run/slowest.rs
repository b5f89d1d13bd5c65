//! The slowest inferences, with what devices and the machine did around them.

use ortscope_analyze::correlation::Around;
use serde::{Deserialize, Serialize};

use ortscope_analyze::measurement::{Inference, SensorReadings};

/// The number of inferences that are listed.
const MAX_SLOWEST: usize = 5;

/// One of the slowest inferences of the measured loop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SlowestInference {
    /// On the monotonic clock, as in the recording.
    pub start_ns: u64,
    pub end_to_end_ms: f64,
    /// Readings within 100 ms of it, and means of a time that it lies in.
    pub around: Vec<Around>,
}

/// The slowest first.
pub fn slowest(inferences: &[Inference], sensors: &SensorReadings) -> Vec<SlowestInference> {
    let mut order: Vec<&Inference> = inferences.iter().collect();
    order.sort_by_key(|inference| (std::cmp::Reverse(inference.end_to_end_ns()), inference.start_ns));
    let of = |inference: &Inference| SlowestInference {
        start_ns: inference.start_ns,
        end_to_end_ms: inference.end_to_end_ns() as f64 / 1e6,
        around: sensors.around(inference.start_ns, inference.end_ns()),
    };
    order.into_iter().take(MAX_SLOWEST).map(of).collect()
}
