//! Measures blocks. A block is a fresh worker process, without its warm-up, as statistics. The two blocks of a round run in
//! short turns where possible, otherwise one after the other.

use ortscope_analyze::summary::WarmUpChoice;
use ortscope_analyze::verdict::{Metric, TimedRun, block_needs, block_quantile};
use ortscope_analyze::{StopRule, detect_warm_up};
use ortscope_channel::turn_taking::{Side, TurnTaking};
use ortscope_result::comparison::Block;

use super::BothSides;
use crate::commands::run::jobs::Job;
use crate::commands::run::work;
use crate::exit::Failure;
use crate::progress::ProgressLine;
use crate::report::RunResult;
use ortscope_analyze::measurement::Inference;
use ortscope_observe::interrupt::Interrupt;
use ortscope_observe::measure::channel_directory;
use ortscope_observe::measure::plan::{RunLimits, TurnsPlan};

/// Default block lengths: long enough for p99 of a fast model, short enough to wait for.
const MIN_SECONDS: f64 = 0.8;
const USUAL_MAX_SECONDS: f64 = 3.0;
const MAX_SECONDS: f64 = 10.0;
/// Length of the trial that decides the block length.
pub const TRIAL_SECONDS: f64 = 0.3;

/// A block with the result behind it.
#[derive(Debug)]
pub struct Measured {
    pub block: Block,
    /// The runs behind the latencies, in chronological order.
    pub runs: Vec<TimedRun>,
    pub result: RunResult,
}

/// Returns the length of a turn for the slower side, whose median is `p50_ms`: many runs, but shorter than the time in
/// which the speed of a machine changes.
pub fn turn_ns(p50_ms: f64) -> u64 {
    (20.0 * p50_ms * 1e6).clamp(1e7, 1e9) as u64
}

/// Measures two workers that run at the same time, in turns of `length_ns`.
pub fn measure_in_turns(
    jobs: &[Job; 2],
    first: Side,
    length_ns: u64,
    round: usize,
    interrupt: &Interrupt,
    progress: &mut ProgressLine,
) -> BothSides<Measured> {
    let setup = |failure: Failure| (0, failure);
    let directory = channel_directory(false).map_err(|error| setup(error.into()))?;
    let page =
        TurnTaking::create(directory.path(), first).map_err(|error| setup(Failure::internal(error)))?;
    // Rotates over the processors, because one of them may have a noisy neighbor.
    let processor = jobs.iter().all(|job| job.plan.options.intra_op_threads == Some(1)).then_some(round / 2);
    let measure_side = |index: usize, side: Side, progress: &mut ProgressLine| {
        let mut job = jobs[index].clone();
        let directory = directory.path().to_owned();
        job.plan.turns = Some(TurnsPlan { directory, side, length_ns, processor });
        if let Some(nanos) = job.plan.limits.duration_ns {
            // The worker counts its own turns; this limit ends a worker that hangs.
            job.rule = StopRule::for_duration(4.0 * nanos as f64 / 1e9 + 60.0);
        }
        let measured = measure(&job, interrupt, progress);
        // Even if it failed: the other side must not wait for it.
        page.finish(side);
        measured
    };
    let (a, b) = std::thread::scope(|scope| {
        let b = std::thread::Builder::new()
            .name("side-b".to_owned())
            .spawn_scoped(scope, || measure_side(1, Side::B, &mut ProgressLine::silent()));
        let a = measure_side(0, Side::A, progress);
        let b = match b {
            Ok(thread) => {
                thread.join().unwrap_or_else(|_| Err(Failure::internal("the thread of B panicked")))
            }
            Err(error) => {
                page.finish(Side::B);
                Err(error.into())
            }
        };
        (a, b)
    });
    Ok([a.map_err(|failure| (0, failure))?, b.map_err(|failure| (1, failure))?])
}

/// Runs one worker. After an interruption the block is incomplete.
pub fn measure(job: &Job, interrupt: &Interrupt, progress: &mut ProgressLine) -> Result<Measured, Failure> {
    let mut outcome = work(job, None, None, interrupt, progress)?;
    if let Some(failure) = outcome.failure.take() {
        return Err(failure);
    }
    outcome.collected.steady.sort_by_key(|inference| inference.start_ns);
    let runs: Vec<u64> = outcome.collected.steady.iter().map(|inference| inference.run_ns).collect();
    let cut = match job.warm_up {
        WarmUpChoice::Detect => detect_warm_up(&runs).discarded,
        WarmUpChoice::Discard(runs) => runs,
        WarmUpChoice::Keep => 0,
    };
    let kept = runs.get(cut..).unwrap_or_default();
    let timed = outcome.collected.steady.iter().skip(cut);
    let timed = timed.map(|inference| TimedRun { start_ns: inference.start_ns, nanos: inference.run_ns });
    let timed = timed.collect();
    let mut block = Block { runs: kept.len(), warm_up_runs: runs.len() - kept.len(), ..Block::default() };
    for metric in [Metric::P50, Metric::P90, Metric::P99] {
        let nanos = metric.quantile().and_then(|p| block_quantile(kept, p));
        block.figures.extend(nanos.map(|nanos| (metric.name(), nanos / 1e6)));
    }
    let in_turns = job.plan.turns.is_some();
    let busy_ns: u64 = outcome.collected.steady.iter().skip(cut).map(Inference::end_to_end_ns).sum();
    let result = RunResult::new(outcome.collected).unwrap_or_default();
    let throughput = if in_turns {
        // Wall time includes the turns of the other side.
        Some(kept.len() as f64 * 1e9 / busy_ns.max(1) as f64).filter(|_| !kept.is_empty())
    } else {
        result.throughput.as_ref().map(|throughput| throughput.requests_per_second)
    };
    block.figures.extend(throughput.map(|rate| (Metric::Throughput.name(), rate)));
    // Energy counters cannot distinguish the sides.
    let joules = result.energy.as_ref().filter(|_| !in_turns);
    let joules = joules.and_then(|energy| energy.joules_per_inference);
    block.figures.extend(joules.map(|joules| (Metric::Energy.name(), joules)));
    block.figures.extend(result.memory.peak_bytes.map(|bytes| (Metric::Memory.name(), bytes as f64)));
    if block.runs == 0 && !interrupt.requested() {
        return Err(Failure::model("no run was measured in the block")
            .with_hint("make blocks longer with --duration"));
    }
    Ok(Measured { block, runs: timed, result })
}

/// Returns the job with the length of a block; without `seconds` the length is that of the user.
pub fn of_length(job: &Job, seconds: Option<f64>) -> Job {
    let mut job = job.clone();
    job.plan.time_second_session = false;
    job.plan.check_outputs = false;
    job.profile = None;
    if let Some(seconds) = seconds {
        job.rule = StopRule::for_duration(seconds);
        job.plan.limits = RunLimits { runs: None, duration_ns: Some((seconds * 1e9) as u64) };
    }
    job
}

/// Returns the block length for the slower side, whose median is `p50_ms`.
pub fn length_seconds(p50_ms: f64) -> f64 {
    let for_runs = |p: f64| block_needs(p) as f64 * 1.25 * p50_ms / 1e3;
    let usual = for_runs(0.99).clamp(MIN_SECONDS, USUAL_MAX_SECONDS);
    usual.max(for_runs(0.9).min(MAX_SECONDS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_length_follows_the_median_within_its_limits() {
        assert_eq!(length_seconds(0.01), 0.8);
        assert!((length_seconds(4.0) - 1.84).abs() < 1e-9);
        assert_eq!(length_seconds(20.0), 3.0);
        assert!((length_seconds(100.0) - 4.5).abs() < 1e-9);
        assert_eq!(length_seconds(5000.0), 10.0);
    }
}
