//! Measures how often verdicts are right on simulated latencies with known truth. For `cargo xtask bench verdicts`.
//!
//! Five fixed seeds, each on its own thread, so that the figures are the same on every machine. The peers are used as is
//! common: one process per side, all of A and then all of B, 1,000 runs each. To show that the order does not explain the
//! whole difference, Mann-Whitney is also applied to all raw runs of our interleaved blocks.

mod peers;
#[path = "../../../analyze/tests/it/simulated_latencies.rs"]
mod simulated_latencies;

use anyhow::{Result, anyhow};
use ortscope_analyze::percentiles;
use ortscope_analyze::random::Random;
use ortscope_analyze::verdict::{Metric, MetricPlan, PairedComparison, Step, Verdict};
use serde_json::{Value, json};

use peers::{mann_whitney_p_greater, mean_change};
use simulated_latencies::{Behavior, MachineDrift};

const SEEDS: [u64; 5] = [11, 23, 47, 89, 131];
/// Number of runs in a block, and in the single process of a peer.
const BLOCK_RUNS: usize = 100;
const PEER_RUNS: usize = 1000;
/// Duration of a peer's process in blocks, for the drift of the machine.
const PEER_BLOCKS: usize = PEER_RUNS / BLOCK_RUNS;
/// Runs per block when three metrics are judged together, because p99 needs more runs.
const FAMILY_RUNS: usize = 500;
const COVERAGE_RUNS: usize = 20_000;
/// Runs from which the true percentiles are computed.
const TRUTH_RUNS: usize = 4_000_000;

const LONG_BURSTS: Behavior = Behavior { burst: 20, ..Behavior::BURSTS };

#[derive(Debug, clap::Args)]
pub struct VerdictsArgs {
    #[arg(long, value_enum)]
    phase: Phase,
    /// Trials per row and seed
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    trials: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Phase {
    Table,
    Family,
    Coverage,
}

pub fn run(args: &VerdictsArgs) -> Result<Value> {
    match args.phase {
        Phase::Table => table(args.trials),
        Phase::Family => family(args.trials),
        Phase::Coverage => coverage(args.trials),
    }
}

/// Runs `work` for every seed, each on its own thread.
fn for_each_seed<T: Send>(work: impl Fn(u64) -> T + Sync) -> Result<Vec<T>> {
    let work = &work;
    std::thread::scope(|scope| {
        let threads: Vec<_> = SEEDS
            .iter()
            .map(|seed| {
                let thread = std::thread::Builder::new().name(format!("seed-{seed}"));
                thread.spawn_scoped(scope, move || work(*seed))
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread?.join().map_err(|_| anyhow!("a simulation panicked")))
            .collect()
    })
}

/// Frequency of each verdict, as a share of the trials of one seed.
#[derive(Debug, Default, Clone, Copy)]
struct Shares {
    regression: f64,
    pass: f64,
    inconclusive: f64,
    improvement: f64,
    rounds: f64,
    mann_whitney: f64,
    mann_whitney_interleaved: f64,
    mean_above_5_percent: f64,
}

fn table(trials: u32) -> Result<Value> {
    let linear = MachineDrift::Linear { total: 0.05, over_blocks: 12.0 };
    let saturating = MachineDrift::Saturating { total: 0.05, time_blocks: 8.0 };
    let steady = [
        ("independent", Behavior::INDEPENDENT),
        ("AR 0.6", Behavior::CORRELATED),
        ("AR 0.9, bursts of 5", Behavior::BURSTS),
    ];
    let mut rows = Vec::new();
    for (name, behavior) in steady {
        for effect in [0.0, 0.02, 0.05, 0.10] {
            rows.push(row(name, behavior, MachineDrift::None, effect, trials)?);
        }
    }
    for (name, drift) in
        [("AR 0.6, 5 % drift per 12 blocks", linear), ("AR 0.6, heats up by 5 %", saturating)]
    {
        for effect in [0.0, 0.05] {
            rows.push(row(name, Behavior::CORRELATED, drift, effect, trials)?);
        }
    }
    Ok(json!({"rows": rows, "trials_per_seed": trials, "seeds": SEEDS}))
}

fn row(name: &str, behavior: Behavior, drift: MachineDrift, effect: f64, trials: u32) -> Result<Value> {
    let seeds = for_each_seed(|seed| shares(seed, behavior, drift, effect, trials))?;
    let all = |pick: fn(&Shares) -> f64| {
        let values: Vec<f64> = seeds.iter().map(pick).collect();
        json!({
            "mean": values.iter().sum::<f64>() / values.len() as f64,
            "min": values.iter().copied().fold(f64::INFINITY, f64::min),
            "max": values.iter().copied().fold(0.0, f64::max),
        })
    };
    Ok(json!({
        "row": name, "effect": effect, "drifts": drift != MachineDrift::None,
        "regression": all(|s| s.regression), "pass": all(|s| s.pass), "improvement": all(|s| s.improvement),
        "inconclusive": all(|s| s.inconclusive), "rounds": all(|s| s.rounds),
        "mann_whitney": all(|s| s.mann_whitney), "mann_whitney_interleaved": all(|s| s.mann_whitney_interleaved),
        "mean_above_5_percent": all(|s| s.mean_above_5_percent),
    }))
}

fn shares(seed: u64, behavior: Behavior, drift: MachineDrift, effect: f64, trials: u32) -> Shares {
    let mut random = Random::new(seed);
    let mut sum = Shares::default();
    let step = 1.0 / f64::from(trials);
    for _ in 0..trials {
        let mut comparison = PairedComparison::new(&[MetricPlan::usual(Metric::P50)]);
        let (mut all_a, mut all_b) = (Vec::new(), Vec::new());
        loop {
            let (a, b) = blocks(&mut random, behavior, drift, effect, comparison.rounds(), BLOCK_RUNS);
            let pair = quantile(&a, 0.5).zip(quantile(&b, 0.5));
            all_a.extend(a);
            all_b.extend(b);
            if comparison.add_round(&[pair]) == Step::Done {
                break;
            }
        }
        match comparison.verdicts().first().map(|found| found.verdict) {
            Some(Verdict::Regression) => sum.regression += step,
            Some(Verdict::Pass) => sum.pass += step,
            Some(Verdict::Improvement) => sum.improvement += step,
            _ => sum.inconclusive += step,
        }
        sum.rounds += comparison.rounds() as f64 * step;
        let below = |p: Option<f64>| if p.is_some_and(|p| p < 0.05) { step } else { 0.0 };
        sum.mann_whitney_interleaved += below(mann_whitney_p_greater(&all_a, &all_b));
        let a = one_process(&mut random, behavior, drift, 0.0, 0);
        let b = one_process(&mut random, behavior, drift, effect, PEER_BLOCKS);
        sum.mann_whitney += below(mann_whitney_p_greater(&a, &b));
        if mean_change(&a, &b).is_some_and(|change| change > 0.05) {
            sum.mean_above_5_percent += step;
        }
    }
    sum
}

/// Returns the blocks of A and B of one round; the order of measuring decides which one drifts further.
fn blocks(
    random: &mut Random,
    behavior: Behavior,
    drift: MachineDrift,
    effect: f64,
    round: usize,
    runs: usize,
) -> (Vec<u64>, Vec<u64>) {
    let b_first = PairedComparison::b_first(round);
    let level = |second: bool| drift.log_level((2 * round + usize::from(second)) as f64);
    let a = behavior.process(random, runs, level(b_first));
    let b = behavior.process(random, runs, level(!b_first) + effect.ln_1p());
    (a, b)
}

/// Returns a process of 1,000 runs that starts after `first_block` blocks.
fn one_process(
    random: &mut Random,
    behavior: Behavior,
    drift: MachineDrift,
    effect: f64,
    first_block: usize,
) -> Vec<u64> {
    let luck = behavior.between_processes * random.normal();
    (0..PEER_BLOCKS)
        .flat_map(|block| {
            let level = drift.log_level((first_block + block) as f64) + luck + effect.ln_1p();
            behavior.runs(random, BLOCK_RUNS, level)
        })
        .collect()
}

fn quantile(runs: &[u64], p: f64) -> Option<f64> {
    let mut sorted = runs.to_vec();
    sorted.sort_unstable();
    let index = (p * sorted.len().saturating_sub(1) as f64).round() as usize;
    sorted.get(index).map(|nanos| *nanos as f64)
}

/// Judges p50, p90 and p99 together with Holm's correction; any false alarm counts.
fn family(trials: u32) -> Result<Value> {
    let metrics = [Metric::P50, Metric::P90, Metric::P99];
    let plans = metrics.map(MetricPlan::usual);
    let share = |behavior: Behavior, effect: f64| -> Result<(f64, f64)> {
        let seeds = for_each_seed(|seed| {
            let mut random = Random::new(seed);
            let found = (0..trials).filter(|_| {
                let mut comparison = PairedComparison::new(&plans);
                loop {
                    let round = comparison.rounds();
                    let (a, b) =
                        blocks(&mut random, behavior, MachineDrift::None, effect, round, FAMILY_RUNS);
                    let pairs: Vec<_> = metrics
                        .iter()
                        .map(|metric| {
                            let p = metric.quantile()?;
                            quantile(&a, p).zip(quantile(&b, p))
                        })
                        .collect();
                    if comparison.add_round(&pairs) == Step::Done {
                        break;
                    }
                }
                comparison.verdicts().iter().any(|found| found.verdict == Verdict::Regression)
            });
            found.count() as f64 / f64::from(trials)
        })?;
        Ok((seeds.iter().copied().fold(0.0, f64::max), seeds.iter().copied().fold(1.0, f64::min)))
    };
    let mut rows = Vec::new();
    for (name, behavior) in [("AR 0.6", Behavior::CORRELATED), ("AR 0.9, bursts of 5", Behavior::BURSTS)] {
        let (false_alarm_max, _) = share(behavior, 0.0)?;
        let (_, detection_5pct_min) = share(behavior, 0.05)?;
        rows.push(json!({
            "row": name, "false_alarm_max": false_alarm_max, "detection_5pct_min": detection_5pct_min,
        }));
    }
    Ok(json!({"rows": rows, "trials_per_seed": trials}))
}

/// Measures how often the 95 % interval of a percentile contains the true value.
fn coverage(trials: u32) -> Result<Value> {
    let ps = [0.5, 0.99];
    let mut rows = Vec::new();
    for (name, behavior) in [
        ("AR 0.6", Behavior::CORRELATED),
        ("AR 0.9, bursts of 5", Behavior::BURSTS),
        ("AR 0.9, bursts of 20", LONG_BURSTS),
    ] {
        let mut truth = behavior.runs(&mut Random::new(1), TRUTH_RUNS, 0.0);
        truth.sort_unstable();
        let truth = ps.map(|p| truth[(p * truth.len() as f64) as usize]);
        let seeds = for_each_seed(|seed| {
            let mut random = Random::new(seed);
            let (mut covered, mut stated) = ([0.0; 2], [0.0; 2]);
            for _ in 0..trials {
                let series = behavior.runs(&mut random, COVERAGE_RUNS, 0.0);
                for (index, found) in percentiles(&series, &ps).into_iter().enumerate() {
                    // A missing interval counts as a miss: otherwise a method could win by stating none.
                    if let Some((low, high)) = found.low_ns.zip(found.high_ns) {
                        stated[index] += 1.0;
                        covered[index] += f64::from(u8::from((low..=high).contains(&truth[index])));
                    }
                }
            }
            [0, 1].map(|index| (covered[index] / f64::from(trials), stated[index] / f64::from(trials)))
        })?;
        let of = |index: usize| {
            let covered: Vec<f64> = seeds.iter().map(|seed| seed[index].0).collect();
            let stated = seeds.iter().map(|seed| seed[index].1).fold(1.0, f64::min);
            json!({
                "mean": covered.iter().sum::<f64>() / covered.len() as f64,
                "min": covered.iter().copied().fold(1.0, f64::min), "stated_min": stated,
            })
        };
        rows.push(json!({"row": name, "p50": of(0), "p99": of(1)}));
    }
    Ok(json!({"rows": rows, "series_per_seed": trials, "runs": COVERAGE_RUNS}))
}
