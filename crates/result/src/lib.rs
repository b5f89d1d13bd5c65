//! One model of a recording, and its text, HTML, Markdown, JSON, JUnit and CSV.
//!
//! [`ReportModel::build`] reads the tables once or twice, in batches, and keeps what fits into bounded memory. Every
//! rendering is made from the model alone, so that all of them say the same: [`blocks`] puts the model into sections
//! of tables, facts and charts, and text, Markdown and HTML only differ in how they show a section. [`metrics`] lists
//! the same numbers flat, for CSV and for the limits of a JUnit file.
//!
//! Texts of a recording (names of nodes, models, programs) are untrusted. The model holds them on one line, without
//! control characters and cut to a length; each rendering escapes them again in its own way.

mod build;
mod checks;
pub mod comparison;
mod latency;
mod metrics;
mod model;
mod run;
mod serving;
mod sweep;

use ortscope_core::recording::RecordingInfo;
use ortscope_core::tables::ReadError;

pub use ortscope_analyze::Percentile;
pub use ortscope_analyze::clock_cost::digits_for;
pub use ortscope_analyze::correlation::Around;
pub use ortscope_analyze::facts::Scenario;
pub use ortscope_analyze::flame;
pub use ortscope_analyze::leak::{self, LeakVerdict};
pub use ortscope_analyze::open_loop::OpenLoopVerdict;
pub use ortscope_analyze::operators::section::{DeviceWork, ProviderTime, TypeRow};
pub use ortscope_analyze::operators::{Bound, PathMethod, RunMemory};
pub use ortscope_analyze::stability::Verdict as StabilityVerdict;
pub use ortscope_analyze::{WarmUp, WarmUpVerdict};

pub use build::runs;
pub use checks::{Check, Limit, Outcome, checks};
pub use latency::LatencyReport;
pub use metrics::{Metric, metrics};
pub use model::*;
pub use run::{Latency, Memory, Placement, RunResult, RuntimeReport, SlowestInference, StopCode};
pub use serving::{GenerationReport, ServerReport};
pub use sweep::{BatchSweepReport, ClockReport, FailedBatch, SweepReport};

/// What a report is made of beside the tables.
#[derive(Debug, Clone)]
pub struct ReportInput {
    pub recording: RecordingInfo,
    /// The `ortscope.run/1` document that `ortscope run` stored with the recording.
    pub run_document: Option<serde_json::Value>,
    /// What is damaged or lost, in sentences.
    pub condition: Vec<String>,
}

/// Limits of a report. The defaults keep a build below about 250 MB, whatever the recording's size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReportOptions {
    /// Latencies of one session that are kept exactly; a longer session keeps every second, fourth … one.
    pub max_latencies: usize,
    /// The same over all sessions together: the longest session is thinned out first.
    pub max_latencies_together: usize,
    /// Slow inferences of a session that are explained.
    pub max_slow_inferences: usize,
    /// Sessions that are shown in full, those with most inferences first; the others are counted.
    pub max_sessions: usize,
}

impl Default for ReportOptions {
    fn default() -> Self {
        Self {
            max_latencies: 5_000_000,
            max_latencies_together: 10_000_000,
            max_slow_inferences: 20,
            max_sessions: 32,
        }
    }
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    #[error("the recording cannot be read: {0}")]
    Read(#[from] ReadError),
}
