//! The warm-up detector on series whose warm-up is known.

use crate::support::{Random, log_latencies, nanos};
use ortscope_analyze::{WarmUpVerdict, detect_warm_up};

#[derive(Clone, Copy)]
struct Shape {
    tau: f64,
    amplitude: f64,
    first: f64,
    step: usize,
}

const STEADY: Shape = Shape { tau: 1.0, amplitude: 0.0, first: 0.0, step: 0 };

fn series(random: &mut Random, shape: Shape) -> Vec<u64> {
    let mut logs = log_latencies(random, 1000, 0.6, 1);
    for (run, log) in logs.iter_mut().enumerate() {
        *log += shape.amplitude * (-(run as f64) / shape.tau).exp();
        *log += if run < shape.step { 0.25 } else { 0.0 };
    }
    logs[0] += shape.first;
    nanos(&logs)
}

fn median_log(mut runs: Vec<u64>) -> f64 {
    runs.sort_unstable();
    (runs[runs.len() / 2] as f64).ln()
}

struct Found {
    cuts: Vec<usize>,
    /// Mean shift of p50 after the cut against the same noise without a warm-up.
    bias: f64,
    no_steady_state: usize,
}

fn simulate(shape: Shape) -> Found {
    let replications = 300;
    let (mut random, mut reference) = (Random::new(5), Random::new(5));
    let mut found = Found { cuts: Vec::new(), bias: 0.0, no_steady_state: 0 };
    for _ in 0..replications {
        let runs = series(&mut random, shape);
        let steady = series(&mut reference, STEADY);
        let warm_up = detect_warm_up(&runs);
        found.no_steady_state += usize::from(matches!(warm_up.verdict, WarmUpVerdict::NoSteadyState { .. }));
        found.bias +=
            (median_log(runs[warm_up.discarded..].to_vec()) - median_log(steady)) / f64::from(replications);
        found.cuts.push(warm_up.discarded);
    }
    found.cuts.sort_unstable();
    found
}

fn check(name: &str, shape: Shape, median: std::ops::RangeInclusive<usize>, p95: usize) {
    let found = simulate(shape);
    let at = |share: f64| found.cuts[(share * found.cuts.len() as f64) as usize];
    println!(
        "{name}: cut {} [{}, {}], bias of p50 {:+.3} %, no steady state {}",
        at(0.5),
        at(0.05),
        at(0.95),
        found.bias * 100.0,
        found.no_steady_state
    );
    assert!(median.contains(&at(0.5)), "{name}: median cut {}", at(0.5));
    assert!(at(0.95) <= p95, "{name}: p95 of the cut {}", at(0.95));
    assert!(found.bias.abs() <= 0.003, "{name}: bias {}", found.bias);
    assert!(found.no_steady_state <= 3, "{name}: {} without steady state", found.no_steady_state);
}

#[test]
fn a_steady_series_is_not_cut() {
    check("none", STEADY, 0..=0, 60);
    check("first run 20x", Shape { first: 3.0, ..STEADY }, 0..=30, 60);
}

#[test]
fn a_decay_is_cut_where_it_ends() {
    check("tau 10", Shape { tau: 10.0, amplitude: 0.7, first: 2.0, step: 0 }, 25..=45, 80);
    check("tau 50", Shape { tau: 50.0, amplitude: 0.4, first: 3.0, step: 0 }, 115..=155, 240);
}

#[test]
fn a_step_is_cut_at_the_step() {
    check("step at 120", Shape { first: 3.0, step: 120, ..STEADY }, 120..=125, 170);
}

#[test]
fn a_drift_has_no_steady_state() {
    let mut random = Random::new(3);
    let mut proved = 0;
    for _ in 0..50 {
        let mut logs = log_latencies(&mut random, 2000, 0.6, 1);
        for (run, log) in logs.iter_mut().enumerate() {
            *log += 0.2 * run as f64 / 2000.0;
        }
        let warm_up = detect_warm_up(&nanos(&logs));
        if let WarmUpVerdict::NoSteadyState { drift } = warm_up.verdict {
            assert!(drift > 0.02);
            proved += 1;
        }
    }
    assert!(proved >= 48, "{proved} of 50");
}

#[test]
fn exact_small_cases() {
    let too_few = detect_warm_up(&[5; 19]);
    assert_eq!((too_few.discarded, too_few.verdict), (0, WarmUpVerdict::TooFewRuns));
    assert_eq!(detect_warm_up(&[]).verdict, WarmUpVerdict::TooFewRuns);
    let constant = detect_warm_up(&[1000; 100]);
    assert_eq!((constant.discarded, constant.at_limit, constant.verdict), (0, false, WarmUpVerdict::None));
    // Ten slow runs, then a constant: exactly two batches go.
    let mut step = vec![1000; 100];
    step[..10].fill(5000);
    let cut = detect_warm_up(&step);
    assert_eq!((cut.discarded, cut.at_limit, cut.verdict), (10, false, WarmUpVerdict::Cut));
    // Falling to the end: the cut stops at half of the series and reports it.
    let falling: Vec<u64> = (0..1000).map(|run| 2_000_000 - run * 1000).collect();
    let limit = detect_warm_up(&falling);
    assert_eq!((limit.discarded, limit.at_limit), (495, true));
    assert!(matches!(limit.verdict, WarmUpVerdict::NoSteadyState { drift } if drift < -0.02));
}
