//! The complete job of a worker, which has no defaults and no configuration of its own.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

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

/// How requests arrive.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scenario {
    /// One request after the other.
    Single,
    /// N streams at once, each with one request after the other.
    Multi { streams: u16 },
    /// Requests arrive at random times at this rate, even if earlier ones are not done.
    Server { per_second: f64, streams: u16 },
    /// All requests are there at the start: maximum throughput.
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

/// Maximum number of streams; more would only exhaust the machine.
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

#[cfg(test)]
mod tests {
    use super::*;

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
