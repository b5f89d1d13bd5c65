//! Values over time, thinned out to what a chart can show.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most points of a series.
pub const MAX_POINTS: usize = 1000;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Series {
    /// Whose, for devices and processes; empty for the machine.
    pub of: String,
    /// E.g. cpu_percent.
    pub metric: String,
    pub unit: SeriesUnit,
    /// Where the numbers come from.
    pub source: String,
    /// measured, attributed or estimated.
    pub method: String,
    /// Readings behind the figures.
    pub n: u64,
    pub min: f64,
    /// Weighted by time.
    pub mean: f64,
    pub max: f64,
    pub last: f64,
    /// At most [`MAX_POINTS`].
    pub points: Vec<SeriesPoint>,
}

/// All readings of a short interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SeriesPoint {
    pub offset_seconds: f64,
    pub min: f64,
    pub mean: f64,
    pub max: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SeriesUnit {
    /// 100 = one core for a process, all cores for the machine.
    Percent,
    Bytes,
    Hertz,
    PerSecond,
    Count,
    Ratio,
    Watts,
    Joules,
    Celsius,
    Other,
}

/// A process during the recording.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessReport {
    pub pid: u64,
    pub name: String,
    /// Whether a recorded session lives in it.
    pub observed: bool,
    pub samples: u64,
    /// CPU time between its first and last sample.
    pub cpu_seconds: f64,
    /// Over the time between them: 1.8 is nearly two cores.
    pub cpu_cores: Option<f64>,
    pub peak_working_set_bytes: u64,
    pub series: Vec<Series>,
}
