//! How a session is to be made.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Everything that shapes a session. The default is ONNX Runtime's own default on the CPU.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionOptions {
    /// `None` lets ONNX Runtime take one thread per physical core.
    pub intra_op_threads: Option<u32>,
    pub inter_op_threads: Option<u32>,
    pub optimization: Optimization,
    /// Run independent nodes in parallel (`ORT_PARALLEL`).
    pub parallel: bool,
    pub cpu_arena: Option<bool>,
    pub memory_pattern: Option<bool>,
    /// Needs 1.17.
    pub deterministic: bool,
    /// In order of preference; the CPU always comes last by itself.
    pub providers: Vec<ProviderRequest>,
    pub fallback: FallbackPolicy,
    pub config_entries: BTreeMap<String, String>,
    /// Profile the session's operators into files that begin with this path.
    pub profiling_prefix: Option<PathBuf>,
    /// Write the optimized graph there.
    pub optimized_model_path: Option<PathBuf>,
    /// Sizes for symbolic dimensions, by their names.
    pub free_dimension_overrides: BTreeMap<String, i64>,
}

/// A provider to use, and how.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProviderRequest {
    /// A short name (`cuda`) or ONNX Runtime's (`CUDAExecutionProvider`).
    pub name: String,
    pub options: BTreeMap<String, String>,
    /// The provider's plug-in library (since 1.22), for providers that are not compiled into ONNX Runtime.
    pub library: Option<PathBuf>,
}

impl ProviderRequest {
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }
}

/// Reaction to a requested provider that cannot be used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FallbackPolicy {
    /// Fail: a benchmark of another provider than the requested one is worse than none.
    #[default]
    Fail,
    /// Go on with the remaining providers, and report what fell away ([`crate::Session::fallbacks`]).
    ContinueOnCpu,
}

/// Graph optimization level.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Optimization {
    None,
    Basic,
    Extended,
    /// Needs 1.23.
    Layout,
    #[default]
    All,
}

impl Optimization {
    pub const NAMES: [&str; 5] = ["none", "basic", "extended", "layout", "all"];

    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Basic => "basic",
            Self::Extended => "extended",
            Self::Layout => "layout",
            Self::All => "all",
        }
    }
}

impl FromStr for Optimization {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "none" => Ok(Self::None),
            "basic" => Ok(Self::Basic),
            "extended" => Ok(Self::Extended),
            "layout" => Ok(Self::Layout),
            "all" => Ok(Self::All),
            other => Err(format!("unknown optimization level '{other}' (one of {})", Self::NAMES.join(", "))),
        }
    }
}

impl std::fmt::Display for Optimization {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_round_trip() {
        for name in Optimization::NAMES {
            assert_eq!(name.parse::<Optimization>().map(Optimization::name), Ok(name));
        }
        assert!("fast".parse::<Optimization>().is_err());
    }

    #[test]
    fn missing_fields_take_their_defaults() {
        let options: SessionOptions =
            serde_json::from_str(r#"{"providers":[{"name":"cuda"}],"optimization":"basic"}"#)
                .expect("valid JSON");
        assert_eq!(options.providers, [ProviderRequest::named("cuda")]);
        assert_eq!(options.optimization, Optimization::Basic);
        assert_eq!(options.fallback, FallbackPolicy::Fail);
    }
}
