//! The server scenario: requests arrive at planned times whether or not the model keeps up.
//!
//! Latency counts from the planned start. Counting from the actual start omits the time a request waited for its turn
//! ("coordinated omission"; Tene, wrk2, HdrHistogram) and flatters overloaded servers. Both are reported, so that the
//! difference is visible.
//!
//! A model that cannot keep up has no stationary latency: each request starts later than the previous one. The test
//! is a rising trend of the lateness (Mann-Kendall over blocks) that also matters: at least 0.5 % of the time is lost
//! and the lateness has grown by two inference times. A busy but sufficient server fluctuates and does not meet all
//! three conditions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::order::{median_in_place, ms};
use crate::percentile::{Percentile, percentiles};
use crate::theil_sen::{mann_kendall_z, theil_sen};

/// Blocks of the trend test.
const BLOCKS: usize = 20;
/// Fewest requests for a verdict: five per block.
const FEWEST_REQUESTS: usize = 100;
/// Normal score above which a trend is certain to 99 %.
const TREND_SCORE: f64 = 2.326;
/// Growth of the lateness, in seconds per second, below which a server keeps up.
const MIN_SLOPE: f64 = 0.005;
/// Growth of the lateness over the recording, in inference times, below which a server keeps up.
const MIN_GROWTH: f64 = 2.0;

/// One request: when it should have started, when it did, and when it was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    pub planned_ns: u64,
    pub start_ns: u64,
    pub end_ns: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpenLoop {
    pub requests: usize,
    pub target_per_second: f64,
    /// Completions from the first planned start to the last end.
    pub achieved_per_second: Option<f64>,
    /// From the planned start: latency as seen by the caller. p50, p90, p95, p99, p99.9.
    pub corrected: Vec<Percentile>,
    /// From the actual start, as a closed loop would report it.
    pub uncorrected: Vec<Percentile>,
    /// Requests past their planned start that wait, on average over time.
    pub queue_depth_mean: f64,
    pub queue_depth_max: u64,
    pub verdict: OpenLoopVerdict,
    /// One line for people.
    pub reason: String,
}

impl OpenLoop {
    /// p99 from the planned start; `None` when it is unknown.
    pub fn corrected_p99_ns(&self) -> Option<u64> {
        p99(&self.corrected)
    }

    /// p99 from the actual start; `None` when it is unknown.
    pub fn uncorrected_p99_ns(&self) -> Option<u64> {
        p99(&self.uncorrected)
    }
}

fn p99(percentiles: &[Percentile]) -> Option<u64> {
    percentiles.iter().find(|percentile| percentile.p == 0.99)?.value_ns
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OpenLoopVerdict {
    KeepsUp,
    /// Requests start later and later, by this many seconds per second.
    CannotKeepUp {
        lateness_per_second: f64,
    },
    /// Fewer than 100 requests.
    TooFewRequests,
}

/// Analyses the requests of one open-loop run, in any order; `target_per_second` is the planned rate.
pub fn open_loop(requests: &[Request], target_per_second: f64) -> OpenLoop {
    let mut requests = requests.to_vec();
    requests.sort_unstable_by_key(|request| request.planned_ns);
    let from = |begin: fn(&Request) -> u64| -> Vec<Percentile> {
        let latencies: Vec<u64> =
            requests.iter().map(|request| request.end_ns.saturating_sub(begin(request))).collect();
        percentiles(&latencies, &crate::summary::REPORTED_PERCENTILES)
    };
    let queue = queue_depth(&requests);
    let (verdict, reason) = keeps_up(&requests);
    OpenLoop {
        requests: requests.len(),
        target_per_second: if target_per_second.is_finite() { target_per_second } else { 0.0 },
        achieved_per_second: achieved(&requests),
        // A request that starts early is not faster for it.
        corrected: from(|request| request.planned_ns.min(request.start_ns)),
        uncorrected: from(|request| request.start_ns),
        queue_depth_mean: queue.mean,
        queue_depth_max: queue.max,
        verdict,
        reason,
    }
}

fn achieved(requests: &[Request]) -> Option<f64> {
    let begin = requests.first()?.planned_ns;
    let end = requests.iter().map(|request| request.end_ns).max()?;
    let span = end.checked_sub(begin).filter(|span| *span > 0)?;
    Some(requests.len() as f64 * 1e9 / span as f64)
}

struct QueueDepth {
    mean: f64,
    max: u64,
}

/// Sweeps over the times at which requests join (planned) and leave (started) the queue.
fn queue_depth(requests: &[Request]) -> QueueDepth {
    let mut leaving: Vec<u64> =
        requests.iter().map(|request| request.start_ns.max(request.planned_ns)).collect();
    leaving.sort_unstable();
    let (mut left, mut max) = (0, 0);
    for (joined, request) in requests.iter().enumerate() {
        while leaving.get(left).is_some_and(|leaves| *leaves <= request.planned_ns) {
            left += 1;
        }
        // The request itself waits only if it has not left at the instant it joined.
        max = max.max((joined + 1).saturating_sub(left));
    }
    let waited: f64 =
        requests.iter().map(|request| request.start_ns.saturating_sub(request.planned_ns) as f64).sum();
    let begin = requests.first().map_or(0, |request| request.planned_ns);
    let end = requests.iter().map(|request| request.end_ns).max().unwrap_or(0);
    let span = end.saturating_sub(begin) as f64;
    QueueDepth { mean: if span > 0.0 { waited / span } else { 0.0 }, max: max as u64 }
}

fn keeps_up(requests: &[Request]) -> (OpenLoopVerdict, String) {
    if requests.len() < FEWEST_REQUESTS {
        let reason =
            format!("{} requests are too few to judge, {FEWEST_REQUESTS} are needed", requests.len());
        return (OpenLoopVerdict::TooFewRequests, reason);
    }
    let origin = requests[0].planned_ns;
    let blocks: Vec<(f64, f64)> = requests
        .chunks(requests.len().div_ceil(BLOCKS))
        .filter_map(|block| block_point(block, origin))
        .collect();
    let lateness: Vec<f64> = blocks.iter().map(|(_, late)| *late).collect();
    let slope = theil_sen(&blocks).map_or(0.0, |line| line.slope);
    let span = blocks.last().map_or(0.0, |(time, _)| *time) - blocks.first().map_or(0.0, |(time, _)| *time);
    let mut service: Vec<f64> =
        requests.iter().map(|request| request.end_ns.saturating_sub(request.start_ns) as f64).collect();
    let service = median_in_place(&mut service).unwrap_or(0.0);
    let grows =
        mann_kendall_z(&lateness) > TREND_SCORE && slope >= MIN_SLOPE && slope * span >= MIN_GROWTH * service;
    if grows {
        let reason = format!("cannot keep up: requests start {:.1} ms later every second", slope * 1e3);
        return (OpenLoopVerdict::CannotKeepUp { lateness_per_second: slope }, reason);
    }
    let late = lateness.last().copied().unwrap_or(0.0);
    (OpenLoopVerdict::KeepsUp, format!("keeps up: requests wait {:.2} ms at the end", ms(late)))
}

/// Median planned time and median lateness of a block, both in nanoseconds.
fn block_point(block: &[Request], origin: u64) -> Option<(f64, f64)> {
    let time = block.get(block.len() / 2)?.planned_ns - origin;
    let mut late: Vec<f64> =
        block.iter().map(|request| request.start_ns.saturating_sub(request.planned_ns) as f64).collect();
    Some((time as f64, median_in_place(&mut late)?))
}
