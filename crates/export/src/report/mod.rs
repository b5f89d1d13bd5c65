//! One model of a recording, and its text, HTML, Markdown, JSON, JUnit and CSV.
//!
//! [`ReportModel::build`] reads the tables once or twice, in batches, and keeps what fits into bounded memory. Every
//! rendering is made from the model alone, so that all of them say the same: [`blocks`] puts the model into sections
//! of tables, facts and charts, and text, Markdown and HTML only differ in how they show a section. [`metrics`] lists
//! the same numbers flat, for CSV and for the limits of a JUnit file.
//!
//! Texts of a recording (names of nodes, models, programs) are untrusted. The model holds them on one line, without
//! control characters and cut to a length; each rendering escapes them again in its own way.

mod blocks;
mod build;
mod checks;
mod csv;
mod html;
mod junit;
mod latency;
mod markdown;
mod metrics;
mod model;
mod palette;
mod serving;
mod text;
pub mod units;

#[cfg(test)]
mod tests;

use ortscope_core::tables::ReadError;
use ortscope_store::Manifest;

pub use checks::{Check, Limit, Outcome, checks};
pub use csv::csv;
pub use html::{MAX_HTML_BYTES, html};
pub use junit::junit;
pub use latency::LatencyReport;
pub use markdown::markdown;
pub use metrics::{Metric, metrics};
pub use model::*;
pub use serving::{GenerationReport, ServerReport};
pub use text::{TextOptions, text};

/// What a report is made of beside the tables.
#[derive(Debug, Clone)]
pub struct ReportInput {
    pub manifest: Manifest,
    /// The `ortscope.run/1` document that `ortscope run` stored with the recording.
    pub run_document: Option<serde_json::Value>,
    /// What is damaged or lost, in sentences.
    pub condition: Vec<String>,
}

/// Limits of a report. The defaults keep a build below about 250 MB, whatever the recording's size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReportOptions {
    /// Latencies of one session that are kept exactly; a longer session keeps every second, fourth … one.
    pub most_latencies: usize,
    /// The same over all sessions together: the longest session is thinned out first.
    pub most_latencies_together: usize,
    /// Slow inferences of a session that are explained.
    pub most_slow_inferences: usize,
    /// Sessions that are shown in full, those with most inferences first; the others are counted.
    pub most_sessions: usize,
}

impl Default for ReportOptions {
    fn default() -> Self {
        Self {
            most_latencies: 5_000_000,
            most_latencies_together: 10_000_000,
            most_slow_inferences: 20,
            most_sessions: 32,
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
