//! What a reader should know beside the numbers: findings, losses, gaps, marks, and where numbers come from.

use serde::Serialize;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FindingReport {
    pub id: String,
    pub severity: Severity,
    /// What was seen, with numbers.
    pub evidence: String,
    pub advice: String,
    /// A command to try.
    pub command: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Error,
    Warning,
    Advice,
}

impl Severity {
    /// Words that are not known count as warnings: neither hidden nor alarming.
    pub fn parse(word: &str) -> Self {
        match word {
            "error" => Self::Error,
            "advice" => Self::Advice,
            _ => Self::Warning,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Advice => "advice",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LossReport {
    pub place: String,
    pub kind: String,
    pub count: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct UnavailableReport {
    pub metric: String,
    pub reason: String,
    pub hint: Option<String>,
    /// How long, over all intervals; `None`: all the time, or not known.
    pub seconds: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AnnotationReport {
    pub offset_seconds: f64,
    pub kind: String,
    pub text: String,
}

/// Where a family of numbers comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Provenance {
    pub numbers: &'static str,
    /// The table or document.
    pub source: String,
    /// measured, attributed or estimated, and how.
    pub method: String,
    pub n: u64,
}
