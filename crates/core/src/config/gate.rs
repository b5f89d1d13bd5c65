//! `[gate]`: what `ortscope gate` measures in CI, and against what.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// `[gate]`. Metric names are checked by the program, which knows them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GateSettings {
    /// Metrics that decide: p50, p90, p99, throughput, memory, energy. Empty means all but energy.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<String>,
    /// The change that matters, in percent, by metric.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub margins: BTreeMap<String, f64>,
    /// regression, inconclusive or never: what makes the exit code other than 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fail_on: Option<String>,
    /// Rounds at most, 6 to 20.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_rounds: Option<u16>,
    /// Length of a block; none: by the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_seconds: Option<f64>,
    /// Compare the answers too.
    pub check_outputs: bool,
    /// Relative tolerance of the answers; none: by element type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tolerance: Option<f64>,
    /// Branch, tag or commit whose files are the baseline of models that name no other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline_ref: Option<String>,
    /// Command that makes the models in a checkout of `baseline_ref`, e.g. `python export.py`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline_build: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<GateModel>,
}

/// `[[gate.models]]`
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GateModel {
    /// The model to judge.
    pub path: PathBuf,
    /// The model file to compare it with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<PathBuf>,
    /// Or stored recordings of it, at least 5, made on this machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub baseline_runs: Vec<String>,
    /// Execution providers in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub providers: Vec<String>,
    /// Providers that must run nodes, with a percentage if wanted: `qnn:90`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub require_provider: Vec<String>,
    /// Fixed sizes, e.g. `seq = "64"`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub shapes: BTreeMap<String, String>,
    /// Files with inputs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<PathBuf>,
    /// Intra-op threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
}

impl GateSettings {
    pub(super) fn check(&self) -> Result<(), String> {
        for (metric, percent) in &self.margins {
            if !(*percent > 0.0 && *percent < 100.0) {
                return Err(format!(
                    "gate.margins.{metric} is {percent}: it must be a percentage above 0 and below 100"
                ));
            }
        }
        if let Some(rounds) = self.max_rounds
            && !(6..=20).contains(&rounds)
        {
            return Err(format!("gate.max_rounds is {rounds}: it must be from 6 to 20"));
        }
        if let Some(seconds) = self.block_seconds
            && !(seconds > 0.0 && seconds <= 600.0)
        {
            return Err(format!("gate.block_seconds is {seconds}: it must be above 0 and at most 600"));
        }
        if let Some(tolerance) = self.tolerance
            && !(0.0..=1.0).contains(&tolerance)
        {
            return Err(format!("gate.tolerance is {tolerance}: it must be a ratio from 0 to 1"));
        }
        if let Some(fail_on) = &self.fail_on
            && !["regression", "inconclusive", "never"].contains(&fail_on.as_str())
        {
            return Err(format!("gate.fail_on is '{fail_on}': use regression, inconclusive or never"));
        }
        for model in &self.models {
            if model.baseline.is_some() && !model.baseline_runs.is_empty() {
                return Err(format!(
                    "gate.models '{}' has a baseline file and baseline_runs: one of them decides",
                    model.path.display()
                ));
            }
        }
        Ok(())
    }
}
