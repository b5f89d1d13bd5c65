//! The complete job of a worker, which has no defaults and no configuration of its own.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ortscope_analyze::facts::Scenario;
use ortscope_channel::turn_taking::Side;
use ortscope_decode::onnx::InputHints;
use ortscope_ort::SessionOptions;
use serde::{Deserialize, Serialize};

/// The job of one worker process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WorkerPlan {
    pub library: PathBuf,
    pub model: PathBuf,
    pub channel: PathBuf,
    pub options: SessionOptions,
    /// Sessions to create; streams are assigned to them in turn.
    pub sessions: u16,
    /// Identifiers of the sessions, chosen by the supervisor.
    #[serde(default)]
    pub session_ids: Vec<String>,
    pub inputs: InputPlan,
    pub scenario: Scenario,
    pub limits: RunLimits,
    pub generate: Option<GeneratePlan>,
    /// Compare the outputs with the CPU's.
    pub check_outputs: bool,
    /// Write the outputs of the last run there, so that those of two workers can be compared.
    pub answers_file: Option<PathBuf>,
    /// Create a second session, to find the one-time cost of the first.
    pub time_second_session: bool,
    /// Instead of measuring: profile the operators.
    pub profile: Option<ProfilePlan>,
    /// While measuring: profile a few runs at intervals.
    pub windows: Option<WindowsPlan>,
    /// Instead of measuring: compare the optimization levels.
    pub levels: Option<LevelsPlan>,
    /// While measuring: interval for reading the session's arena statistics.
    pub arena_every_ns: Option<u64>,
    /// While measuring: another worker and this one take turns.
    pub turns: Option<TurnsPlan>,
}

/// One of two workers that are compared.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TurnsPlan {
    /// Directory of the page that coordinates the turns.
    pub directory: PathBuf,
    pub side: Side,
    pub length_ns: u64,
    /// Both sides run on this processor (an index into the allowed ones), because processors differ.
    pub processor: Option<usize>,
}

/// The operator pass. It ends after the runs or the time, whichever comes first.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ProfilePlan {
    /// Where ONNX Runtime writes its files.
    pub directory: PathBuf,
    pub runs: u64,
    pub duration_ns: Option<u64>,
    /// Also write the optimized graph.
    pub optimized_model: bool,
}

/// Windows of profiled runs during a long measurement.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WindowsPlan {
    /// Where ONNX Runtime writes a file per run or window.
    pub directory: PathBuf,
    pub every_ns: u64,
    /// Runs per window.
    pub runs: u64,
    /// Maximum number of windows, which limits the number of files of a long measurement.
    pub most: u64,
}

/// A comparison of optimization levels.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LevelsPlan {
    /// Where ONNX Runtime writes the graphs.
    pub directory: PathBuf,
    /// Total for all levels.
    pub duration_ns: u64,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct InputPlan {
    pub files: Vec<PathBuf>,
    /// `NAME=SIZES`, as typed.
    pub shapes: BTreeMap<String, String>,
    pub batch: Option<u64>,
    pub seed: u64,
    pub hints: InputHints,
}

/// Hard limits that the worker enforces; the supervisor may stop it earlier.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct RunLimits {
    pub runs: Option<u64>,
    pub duration_ns: Option<u64>,
}

/// Token generation with a KV cache.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct GeneratePlan {
    pub prompt_tokens: u32,
    pub new_tokens: u32,
}
