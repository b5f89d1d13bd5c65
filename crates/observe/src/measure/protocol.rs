//! What a worker tells its supervisor, beside the records of inferences.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ortscope_analyze::leak::ArenaPoint;
use ortscope_analyze::outputs::OutputComparison;
use ortscope_core::tensor::ValueInfo;
use ortscope_ort::ep::UsedDevice;
use ortscope_ort::inputs::GuessedDim;
use ortscope_ort::{Fallback, LogLine};
use serde::{Deserialize, Serialize};

use ortscope_core::failure::Failure;

/// A message of a worker, in the order in which things happen.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "message")]
pub enum WorkerMessage {
    /// What the channel takes of the worker's memory; it is left out of every figure below.
    OwnMemory {
        bytes: u64,
    },
    /// ONNX Runtime is loaded.
    Runtime {
        version: String,
        build_info: String,
        available_providers: Vec<String>,
    },
    /// The model's file was read once, to know what the disk costs.
    FileRead {
        nanos: u64,
        bytes: u64,
    },
    SessionCreated(SessionCreated),
    /// Or why not.
    SecondSession {
        nanos: Option<u64>,
        reason: Option<String>,
    },
    Inputs(InputsMade),
    Memory {
        stage: MemoryStage,
        working_set_bytes: u64,
        peak_working_set_bytes: Option<u64>,
    },
    /// The measured loop begins or ends.
    Steady {
        begin: bool,
        timestamp_ns: u64,
        cpu_time_ns: u64,
    },
    /// The profiling pass is over.
    Profiled(Profiled),
    /// The levels of optimisation, from none to all.
    Levels {
        levels: Vec<LevelMeasured>,
    },
    OutputsChecked {
        reference: String,
        outputs: Vec<CheckedOutput>,
    },
    Allocator {
        statistics: BTreeMap<String, String>,
    },
    /// The arena of the first session while it runs.
    Arena(ArenaSample),
    Logs {
        lines: Vec<LogLine>,
        dropped: u64,
    },
    /// An open loop is over: requests that were due and never started.
    Unserved {
        requests: u64,
    },
    /// Something the user should know, in one sentence.
    Note {
        text: String,
    },
    /// The worker ends early. What it has measured stays valid.
    Failed {
        failure: Failure,
        after_runs: Option<u64>,
    },
    Done,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct ArenaSample {
    pub timestamp_ns: u64,
    pub arena: ArenaPoint,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SessionCreated {
    pub nanos: u64,
    pub providers: Vec<String>,
    pub fallbacks: Vec<Fallback>,
    /// Nodes per provider after partitioning; empty before ONNX Runtime 1.24, which cannot tell.
    pub placement: Vec<(String, u64)>,
    /// Of the providers in use that tell a version of their own.
    #[serde(default)]
    pub provider_versions: BTreeMap<String, String>,
    /// Of the providers beside the CPU's.
    #[serde(default)]
    pub devices: Vec<UsedDevice>,
    pub inputs: Vec<ValueInfo>,
    pub outputs: Vec<ValueInfo>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Profiled {
    pub file: PathBuf,
    /// The graph that was run; none where ONNX Runtime cannot write it.
    pub optimized_model: Option<PathBuf>,
    /// Zero of the profile's times, on the monotonic clock; none if that was before the machine started.
    pub started_ns: Option<u64>,
    /// What QNN says about its device: a file of its own.
    pub qnn_file: Option<PathBuf>,
    /// What OpenVINO says about each run: one directory of files for each.
    pub openvino_runs: Option<PathBuf>,
    /// Every profiled run, seen from outside.
    pub run_ns: Vec<u64>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LevelMeasured {
    pub level: String,
    /// The optimised graph; none where ONNX Runtime cannot write it.
    pub model: Option<PathBuf>,
    pub session_ns: Option<u64>,
    pub run_ns: Vec<u64>,
    pub failure: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct InputsMade {
    pub seed: u64,
    /// Shape of every input, `name float32[1,3,224,224]`.
    pub described: Vec<String>,
    /// Every size that the model leaves open and nobody set.
    pub guessed: Vec<GuessedDim>,
    /// What else the user should know, one sentence each.
    pub notes: Vec<String>,
    pub batch_size: Option<u64>,
    pub padding_ratio: Option<f64>,
    pub input_bytes: u64,
    pub output_bytes: u64,
    /// Outputs whose memory ONNX Runtime allocates in every run.
    pub unbound_outputs: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryStage {
    BeforeSession,
    AfterSession,
    AfterFirstRun,
    End,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CheckedOutput {
    pub name: String,
    pub comparison: OutputComparison,
}
