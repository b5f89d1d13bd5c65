//! What a reader should know beside the numbers: findings, losses, gaps, marks, and where numbers come from.

pub use ortscope_core::schema::Severity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FindingReport {
    pub id: String,
    pub severity: Severity,
    /// What was seen, with numbers.
    pub evidence: String,
    pub advice: String,
    /// A command to try.
    pub command: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LossReport {
    pub place: String,
    pub kind: String,
    pub count: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UnavailableReport {
    pub metric: String,
    pub reason: String,
    pub hint: Option<String>,
    /// How long, over all intervals; `None`: all the time, or not known.
    pub seconds: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AnnotationReport {
    pub offset_seconds: f64,
    pub kind: String,
    pub text: String,
}

/// Where a family of numbers comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Provenance {
    pub numbers: String,
    /// The table or document.
    pub source: String,
    /// measured, attributed or estimated, and how.
    pub method: String,
    pub n: u64,
}
