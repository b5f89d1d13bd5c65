//! Plain facts about a session of ONNX Runtime: the options it was created with, the providers and devices it uses and
//! what it logged. `ort` fills them in; recordings and results carry them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The options of a session. The default is ONNX Runtime's own default on the CPU.
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
    /// Go on with the remaining providers, and report which ones were dropped.
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

/// A requested provider that is not used, or that ONNX Runtime complained about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fallback {
    /// ONNX Runtime's name of the provider.
    pub provider: String,
    pub reason: String,
}

/// The kind of hardware that a provider runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum DeviceClass {
    Cpu,
    Gpu,
    Npu,
}

impl std::fmt::Display for DeviceClass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Cpu => "CPU",
            Self::Gpu => "GPU",
            Self::Npu => "NPU",
        })
    }
}

/// The device of one provider of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsedDevice {
    pub provider: String,
    pub class: DeviceClass,
    /// The name that the provider or the system reports; ONNX Runtime has it from 1.22 on, for plug-ins.
    pub name: Option<String>,
    /// The provider simulates an NPU or a GPU on the CPU, so its times say nothing about a real device.
    pub is_simulated: bool,
    /// Identifiers of the device, by ONNX Runtime's names for them.
    pub facts: BTreeMap<String, String>,
}

/// The severity of a log line of ONNX Runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    Verbose,
    Info,
    Warning,
    Error,
    Fatal,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    pub level: LogLevel,
    pub category: String,
    pub message: String,
}

/// A size that the model leaves open and that was chosen for the measurement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuessedDim {
    /// One sentence for people.
    pub sentence: String,
    /// The name of the symbolic dimension, if it has one.
    pub name: Option<String>,
    /// The first input that has it.
    pub input: String,
    pub axis: usize,
    pub value: u64,
}

/// One counter of QNN's own profile of the NPU.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QnnEvent {
    pub name: String,
    /// US, CYCLES or COUNT.
    pub unit: String,
    pub count: u64,
    pub total: u64,
}

impl QnnEvent {
    pub fn mean(&self) -> f64 {
        self.total as f64 / self.count.max(1) as f64
    }
}

/// The measured peak of this machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MachinePeak {
    /// Threads that ran at once.
    pub threads: usize,
    /// Single-precision operations per second; a multiply-add counts as two.
    pub flops_per_second: f64,
    /// Bytes read from memory per second, from arrays far larger than the caches.
    pub bytes_per_second: f64,
    /// The instruction set used: avx512, avx2-fma or portable.
    pub instructions: String,
    /// Estimated processor clock while one thread worked, from a chain of dependent additions.
    pub clock_hertz: f64,
    pub seconds: f64,
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
