//! Messages from a worker to its supervisor, in addition to inference records.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ortscope_analyze::leak::ArenaPoint;
use ortscope_analyze::outputs::CheckedOutput;
use ortscope_core::tensor::ValueInfo;
use ortscope_ort::ep::UsedDevice;
use ortscope_ort::inputs::GuessedDim;
use ortscope_ort::{Fallback, LogLine};
use serde::{Deserialize, Serialize};

use ortscope_core::failure::Failure;

/// A message of a worker, in chronological order.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "message")]
pub enum WorkerMessage {
    /// Memory of the channel in the worker; excluded from all other memory figures.
    OwnMemory {
        bytes: u64,
    },
    /// ONNX Runtime is loaded.
    Runtime {
        version: String,
        build_info: String,
        available_providers: Vec<String>,
    },
    /// The model file was read once, to time the disk.
    FileRead {
        nanos: u64,
        bytes: u64,
    },
    SessionCreated(SessionCreated),
    /// Creation time of a second session, or the reason why there is none.
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
    /// The operator pass is over.
    Profiled(Profiled),
    /// The optimization levels, from none to all.
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
    /// Arena statistics of the first session during the measurement.
    Arena(ArenaSample),
    Logs {
        lines: Vec<LogLine>,
        dropped: u64,
    },
    /// After an open loop: requests that were due and never started.
    Unserved {
        requests: u64,
    },
    /// A note for the user, in one sentence.
    Note {
        text: String,
    },
    /// The worker ends early. Its measurements so far stay valid.
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
    /// Nodes per provider after partitioning; empty before ONNX Runtime 1.24, which does not report it.
    pub placement: Vec<(String, u64)>,
    /// Versions of the used providers that report one.
    #[serde(default)]
    pub provider_versions: BTreeMap<String, String>,
    /// Devices of the providers other than the CPU's.
    #[serde(default)]
    pub devices: Vec<UsedDevice>,
    pub inputs: Vec<ValueInfo>,
    pub outputs: Vec<ValueInfo>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Profiled {
    pub file: PathBuf,
    /// The graph that was run, if ONNX Runtime could write it.
    pub optimized_model: Option<PathBuf>,
    /// Time zero of the profile on the monotonic clock; none if that was before the machine started.
    pub started_ns: Option<u64>,
    /// QNN's own profile file.
    pub qnn_file: Option<PathBuf>,
    /// OpenVINO's counters: a directory of files for each run.
    pub openvino_runs: Option<PathBuf>,
    /// Duration of every profiled run, measured outside ONNX Runtime.
    pub run_ns: Vec<u64>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LevelMeasured {
    pub level: String,
    /// The optimized graph, if ONNX Runtime could write it.
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
    /// Every size that neither the model nor the user set.
    pub guessed: Vec<GuessedDim>,
    /// Further notes for the user, one sentence each.
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
