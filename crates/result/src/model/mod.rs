//! The model of a report: everything a rendering may show, as plain values. Its JSON form is `ortscope.report/1`.
//!
//! Units stand in the names. Times are seconds since the start of the recording (`*_seconds`), durations milliseconds
//! (`*_ms`). `None` is "not known"; no number is NaN or infinite. Every list has a bound, and what was left out is
//! counted beside it.

mod operators;
mod outliers;
mod remarks;
mod series;
mod session;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::RunResult;

pub use operators::*;
pub use ortscope_analyze::operators::section::OperatorSection;
pub use outliers::*;
pub use remarks::*;
pub use series::*;
pub use session::*;

/// Name and version of the JSON form. The number grows when a field changes its meaning or goes away.
pub const SCHEMA: &str = "ortscope.report/1";

/// A recording, understood.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ReportModel {
    pub schema: String,
    /// The version that made the report; the recording's own stands in the header.
    pub ortscope_version: String,
    pub header: Header,
    /// In the order of their first inference.
    pub sessions: Vec<SessionReport>,
    /// Sessions that are only counted.
    pub other_sessions: OtherSessions,
    /// The measurements of `ortscope run`, in the order in which they were made.
    #[schemars(with = "Vec<serde_json::Value>")]
    pub runs: Vec<RunResult>,
    pub operators: Vec<OperatorReport>,
    /// Which recorded sources could explain slow inferences, and which could not.
    pub explanation_sources: Vec<SourceCheck>,
    pub processes: Vec<ProcessReport>,
    /// Processes beyond those in `processes`.
    pub other_processes: u64,
    pub system: Vec<Series>,
    pub devices: Vec<Series>,
    /// The gravest first.
    pub findings: Vec<FindingReport>,
    pub losses: Vec<LossReport>,
    pub unavailable: Vec<UnavailableReport>,
    pub annotations: Vec<AnnotationReport>,
    /// Rows and entries that a limit kept out of the lists above, in words.
    pub left_out: Vec<String>,
    /// Where each family of numbers comes from.
    pub provenance: Vec<Provenance>,
}

impl ReportModel {
    /// The JSON form, indented.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self)
    }

    /// All inferences of the recording, failed ones included.
    pub fn inferences(&self) -> u64 {
        self.sessions.iter().map(|session| session.counts.total).sum::<u64>() + self.other_sessions.inferences
    }

    /// The operators section of the measurement that a session belongs to.
    pub fn operator_section(&self, session_id: &str) -> Option<&OperatorSection> {
        let belongs = |run: &&RunResult| run.session_ids.iter().any(|id| id == session_id);
        self.runs.iter().find(belongs)?.operators.as_ref()
    }

    /// Records that were lost.
    pub fn lost(&self) -> u64 {
        self.losses.iter().fold(0, |sum, loss| sum.saturating_add(loss.count))
    }
}

/// What the recording is, where it was made and how it ended.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Header {
    pub id: String,
    pub name: Option<String>,
    pub tags: Vec<String>,
    /// What was recorded: model names or a program.
    pub subject: String,
    /// What made it: run, record, attach, import.
    pub origin: String,
    pub command: Option<String>,
    /// The version that made the recording.
    pub ortscope_version: String,
    pub started_unix_ns: u64,
    /// The same as text.
    pub started_utc: String,
    pub duration_seconds: f64,
    /// Why it ended, in words.
    pub ended: String,
    /// Whether it was closed in order and nothing in it is damaged.
    pub complete: bool,
    /// What is damaged or lost, in sentences.
    pub condition: Vec<String>,
    /// Facts that decide whether two recordings can be compared.
    pub machine: BTreeMap<String, String>,
    pub ort_versions: Vec<String>,
    pub execution_providers: Vec<String>,
    /// Rows by table, empty tables left out.
    pub rows: BTreeMap<String, u64>,
}
