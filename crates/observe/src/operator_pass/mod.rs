//! The operator pass: profiled runs after a measurement, in worker processes of their own.
//!
//! ```text
//! pass: windows of profiled runs, each in its own worker ──► rows ──► recording
//!                                                              └────► analysis
//! ```
//! The measurement itself never runs with the profiler, which makes runs up to three times longer.

mod call_lanes;
mod counted;
pub mod device_time;
pub mod graph;
pub mod levels;
mod openvino_lanes;
pub mod pass;
mod qnn_lanes;
pub mod section;
pub mod windows;

pub use counted::Counted;
pub use qnn_lanes::{QnnLanes, QnnTime};

use ortscope_core::schema::{OperatorRow, Text};

/// A row from a device's own profile for a part that its provider compiled, on the lane of that part's call.
fn row_inside(part: &OperatorRow, provider: &str, timestamp_ns: u64, duration_ns: u64) -> OperatorRow {
    OperatorRow {
        timestamp_ns,
        duration_ns,
        session_id: Text::clone(&part.session_id),
        run: part.run,
        kind: "other".into(),
        node_index: part.node_index,
        execution_provider: provider.into(),
        device: part.device.clone(),
        depth: part.depth,
        ..OperatorRow::default()
    }
}
