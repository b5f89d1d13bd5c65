//! The facts that a measurement learns about itself, beside its rows of inferences and samples.
//!
//! Whoever learns a fact writes it down at once as a row of the table `annotations` with the kind [`FACT_KIND`]: the worker
//! process, its supervisor, the operator pass. Results are built from these rows, so a live run, its recording and a
//! recording that was cut off give the same answer.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

use ortscope_core::failure::Failure;
use ortscope_core::schema::AnnotationRow;
use ortscope_core::session::{Fallback, GuessedDim, LogLine, SessionOptions, UsedDevice};
use ortscope_core::tensor::ValueInfo;
use serde::{Deserialize, Serialize};

use crate::carbon::CarbonIntensity;
use crate::leak::ArenaPoint;
use crate::operators::section::WindowReport;
use crate::operators::{OperatorFinding, OperatorSection};
use crate::outputs::CheckedOutput;
use crate::summary::WarmUpChoice;
use crate::{StopReason, StopRule};

/// The kind of the annotation rows that carry facts.
pub const FACT_KIND: &str = "message";

/// A fact and the measurement it belongs to.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FactRecord {
    /// The first session of the measurement; absent in recordings made before version 0.2.
    #[serde(default)]
    pub session_id: String,
    #[serde(flatten)]
    pub fact: Fact,
}

impl FactRecord {
    /// The row that stores the fact.
    pub fn row(&self, timestamp_ns: u64) -> serde_json::Result<AnnotationRow> {
        let text = serde_json::to_string(self)?;
        Ok(AnnotationRow { timestamp_ns, kind: FACT_KIND.into(), text: text.into() })
    }

    /// The fact in a row; `None` if the row is of another kind.
    pub fn read(row: &AnnotationRow) -> Option<serde_json::Result<Self>> {
        (&*row.kind == FACT_KIND).then(|| serde_json::from_str(&row.text))
    }
}

/// A fact, in the order in which they are learned.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "message")]
pub enum Fact {
    /// The supervisor starts a measurement.
    Plan(Box<MeasurementPlan>),
    /// Memory that the channel takes in the worker; it is left out of every figure below.
    OwnMemory {
        bytes: u64,
    },
    /// ONNX Runtime is loaded.
    Runtime {
        version: String,
        build_info: String,
        available_providers: Vec<String>,
    },
    /// The model file was read once, to know the cost of the disk.
    FileRead {
        nanos: u64,
        bytes: u64,
    },
    SessionCreated(SessionCreated),
    /// The time to create a second session, or why there is none.
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
    /// The optimization levels, from none to all.
    Levels {
        levels: Vec<LevelMeasured>,
    },
    OutputsChecked(OutputsChecked),
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
    /// The worker is done.
    Done,
    /// The supervisor has seen the worker end.
    Outcome(Outcome),
    /// Windows of profiled runs during the measurement.
    Windows {
        windows: Vec<WindowReport>,
    },
    /// The operator pass is over.
    Operators(Box<OperatorSection>),
    /// The findings of the operator pass.
    OperatorFindings {
        findings: Vec<OperatorFinding>,
    },
    /// A figure without a value, and why.
    Unavailable {
        metric: String,
        reason: String,
    },
}

/// A measurement as it was planned.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MeasurementPlan {
    /// The position among the measurements of the command; several may run at the same time.
    pub position: usize,
    pub model: ModelFacts,
    /// The model file, for commands to try.
    pub model_path: PathBuf,
    /// The setting that distinguishes this measurement in a sweep, e.g. `threads=2 opt=all`.
    pub label: Option<String>,
    pub configuration: SessionOptions,
    pub session_ids: Vec<String>,
    /// The worker process.
    pub pid: Option<u64>,
    pub scenario: Scenario,
    pub warm_up: WarmUpChoice,
    pub rule: StopRule,
    /// Whether to judge memory leaks.
    pub soak: bool,
    pub energy: EnergyRequest,
    pub notes: Vec<String>,
}

/// Facts about a model that every report shows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelFacts {
    pub name: String,
    /// Only for the process that measures.
    #[serde(skip)]
    pub path: PathBuf,
    /// Size of the file and its external data.
    pub bytes: u64,
    pub ir_version: i64,
    /// Version of the standard operator set.
    pub opset: Option<i64>,
    pub producer: String,
    /// Nodes of the main graph.
    pub nodes: u64,
    /// Nodes including subgraphs.
    pub total_nodes: u64,
    pub parameters: u64,
    pub parameter_bytes: u64,
    pub external_files: Vec<String>,
    pub quantized: bool,
}

/// How requests arrive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scenario {
    /// One request after the other.
    #[default]
    Single,
    /// N streams at once, each one request after the other.
    Multi { streams: u16 },
    /// Requests arrive at random moments at this rate, whether or not earlier ones are done.
    Server { per_second: f64, streams: u16 },
    /// All requests are there at once: the maximum throughput of the machine.
    Offline { streams: u16 },
}

impl Scenario {
    pub fn streams(self) -> u16 {
        match self {
            Self::Single => 1,
            Self::Multi { streams } | Self::Server { streams, .. } | Self::Offline { streams } => streams,
        }
    }

    pub fn describe(self) -> String {
        match self {
            Self::Single => "one request after another".into(),
            Self::Multi { streams } => format!("{streams} streams at once"),
            Self::Server { per_second, streams } => {
                format!("open loop, {per_second} requests/s planned, {streams} serving threads")
            }
            Self::Offline { streams } => format!("offline, {streams} streams"),
        }
    }
}

/// The maximum number of streams; more would only exhaust the machine.
const MAX_STREAMS: u16 = 1024;

impl FromStr for Scenario {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.split(':');
        let kind = parts.next().unwrap_or_default();
        let (first, second) = (parts.next(), parts.next());
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let all_cores = u16::try_from(cores).unwrap_or(MAX_STREAMS).min(MAX_STREAMS);
        let streams = |text: Option<&str>| match text {
            None => Ok(all_cores),
            Some(text) => match text.parse() {
                Ok(streams @ 1..=MAX_STREAMS) => Ok(streams),
                _ => Err(format!("'{text}' is not a number of streams from 1 to {MAX_STREAMS}")),
            },
        };
        if parts.next().is_some() {
            return Err(format!("'{text}' has too many parts"));
        }
        match (kind, first, second) {
            ("single", None, None) => Ok(Self::Single),
            ("multi", Some(_), None) => Ok(Self::Multi { streams: streams(first)? }),
            ("multi", None, None) => Err("multi needs the number of streams, e.g. multi:4".into()),
            ("offline", _, None) => Ok(Self::Offline { streams: streams(first)? }),
            ("server", Some(rate), _) => match rate.parse::<f64>() {
                Ok(per_second) if per_second.is_finite() && per_second > 0.0 && per_second <= 1e6 => {
                    Ok(Self::Server { per_second, streams: streams(second)? })
                }
                _ => {
                    Err(format!("'{rate}' is not a rate in requests per second above 0 and at most 1000000"))
                }
            },
            ("server", None, None) => {
                Err("server needs a rate in requests per second, e.g. server:50".into())
            }
            _ => Err(format!(
                "'{text}' is not a scenario: single, multi:N, server:QPS[:THREADS] or offline[:STREAMS]"
            )),
        }
    }
}

/// Questions about energy beyond what is measured anyway.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct EnergyRequest {
    /// Estimate from this thermal design power where nothing measures.
    pub tdp_w: Option<f64>,
    pub carbon: Option<CarbonIntensity>,
    /// Measure the idle machine for this many seconds before and after.
    pub idle_seconds: Option<f64>,
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
    /// Versions of the providers in use that report their own.
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
    /// The graph that was run; absent where ONNX Runtime cannot write it.
    pub optimized_model: Option<PathBuf>,
    /// Zero of the profile's times, on the monotonic clock; absent if that was before the machine started.
    pub started_ns: Option<u64>,
    /// The file in which QNN reports about its device.
    pub qnn_file: Option<PathBuf>,
    /// The directory with one directory of OpenVINO's files for each run.
    pub openvino_runs: Option<PathBuf>,
    /// Duration of every profiled run, measured from outside.
    pub run_ns: Vec<u64>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LevelMeasured {
    pub level: String,
    /// The optimized graph; absent where ONNX Runtime cannot write it.
    pub model: Option<PathBuf>,
    pub session_ns: Option<u64>,
    pub run_ns: Vec<u64>,
    pub failure: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InputsMade {
    pub seed: u64,
    /// The shape of every input, `name float32[1,3,224,224]`.
    pub described: Vec<String>,
    /// Every size that the model leaves open and the user did not set.
    pub guessed: Vec<GuessedDim>,
    /// Further remarks for the user, one sentence each.
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

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OutputsChecked {
    pub reference: String,
    pub outputs: Vec<CheckedOutput>,
}

/// Why the measurement ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    Rule(StopReason),
    /// The worker was done by itself.
    WorkerDone,
    Interrupted,
    /// The maximum number of inferences was recorded.
    RecordLimit,
}

/// How a measurement ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Outcome {
    pub ended: Ended,
    /// Why it could not go on; also present when the worker process died.
    pub failure: Option<Failure>,
    pub losses: Vec<CountedLoss>,
    /// Sources and sinks that failed, with their errors.
    pub source_errors: Vec<(String, String)>,
    pub wall_seconds: f64,
    /// Mean power of the idle machine by device, before and after; absent if not requested or not measured.
    pub idle_before_w: Option<BTreeMap<String, f64>>,
    pub idle_after_w: Option<BTreeMap<String, f64>>,
}

/// Lost records, by the place that lost them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountedLoss {
    pub place: String,
    pub kind: String,
    pub count: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recordings made before 0.2 have messages without a session.
    #[test]
    fn facts_of_older_recordings_are_read() {
        let row =
            |text: &str| AnnotationRow { kind: FACT_KIND.into(), text: text.into(), ..Default::default() };
        let read = |text: &str| FactRecord::read(&row(text)).expect("a fact").expect("a known fact");
        assert_eq!(read(r#"{"message":"done"}"#).session_id, "");
        let record = read(r#"{"session_id":"s","message":"unserved","requests":3}"#);
        assert!(matches!(record.fact, Fact::Unserved { requests: 3 }) && record.session_id == "s");
        assert!(FactRecord::read(&AnnotationRow::default()).is_none());
    }

    #[test]
    fn a_fact_survives_its_row() {
        let fact = Fact::FileRead { nanos: 5, bytes: 7 };
        let row = FactRecord { session_id: "s".into(), fact }.row(9).expect("JSON");
        let back = FactRecord::read(&row).expect("a fact").expect("the same fact");
        assert_eq!((row.timestamp_ns, back.session_id.as_str()), (9, "s"));
        assert!(matches!(back.fact, Fact::FileRead { nanos: 5, bytes: 7 }));
    }

    #[test]
    fn scenarios_are_read() {
        assert_eq!("single".parse(), Ok(Scenario::Single));
        assert_eq!("multi:4".parse(), Ok(Scenario::Multi { streams: 4 }));
        assert_eq!("server:12.5:3".parse(), Ok(Scenario::Server { per_second: 12.5, streams: 3 }));
        assert_eq!("offline:2".parse(), Ok(Scenario::Offline { streams: 2 }));
    }

    #[test]
    fn nonsense_is_explained() {
        for text in [
            "",
            "multi",
            "multi:0",
            "multi:x",
            "server",
            "server:0",
            "server:nan",
            "offline:0",
            "batch",
            "single:1",
        ] {
            let error = text.parse::<Scenario>().unwrap_err();
            assert!(!error.is_empty(), "{text}");
        }
    }
}
