//! `[run]` and `[ort]`: defaults of `ortscope run` and of ONNX Runtime itself. A flag always wins.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// `[run]`. Every key is optional; absent keys keep the program's default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RunSettings {
    /// Execution providers in order of preference, e.g. `["qnn", "cpu"]`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub providers: Vec<String>,
    /// Intra-op threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// Graph optimization: none, basic, extended, layout or all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optimization: Option<String>,
    /// single, multi:N, server:QPS or offline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scenario: Option<String>,
    /// Half width of the median's interval to reach, as a ratio (0.01 = 1 %).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precision: Option<f64>,
    /// Seconds to measure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_seconds: Option<f64>,
    /// Seed of generated inputs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Fixed sizes, e.g. `seq = "64"` or `image = "1x3x640x640"`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub shapes: BTreeMap<String, String>,
}

/// `[ort]`
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OrtSettings {
    /// The shared library to load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub library: Option<PathBuf>,
    /// Session configuration entries, passed to ONNX Runtime as they are.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub config_entries: BTreeMap<String, String>,
}

impl RunSettings {
    pub(super) fn check(&self) -> Result<(), String> {
        if let Some(precision) = self.precision
            && !(precision > 0.0 && precision <= 0.5)
        {
            return Err(format!("run.precision is {precision}: it must be above 0 and at most 0.5"));
        }
        if let Some(seconds) = self.duration_seconds
            && !(seconds > 0.0 && seconds <= 86_400.0)
        {
            return Err(format!("run.duration_seconds is {seconds}: it must be above 0 and at most 86400"));
        }
        if let Some(threads) = self.threads
            && !(1..=4096).contains(&threads)
        {
            return Err(format!("run.threads is {threads}: it must lie between 1 and 4096"));
        }
        Ok(())
    }
}
