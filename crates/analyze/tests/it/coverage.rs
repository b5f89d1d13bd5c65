//! Monte Carlo of the intervals: independent, autocorrelated and bursty series, with seeds, so that a change of the method that
//! costs coverage fails here.

use crate::support::{Random, log_latencies, nanos};
use ortscope_analyze::percentiles;

struct Coverage {
    /// Share of all series, where an unknown percentile excludes nothing and so counts as covered.
    covered: f64,
    /// Coverage among the series that state an interval; `None` if none does.
    covered_when_stated: Option<f64>,
    /// Share of the series whose stated interval lies wholly below the truth.
    too_low: f64,
    /// Share of the series whose percentile is unknown or unbounded.
    unknown: f64,
    median_noise_factor: f64,
}

fn truth(phi: f64, burst: usize, ps: &[f64]) -> Vec<u64> {
    let mut all = nanos(&log_latencies(&mut Random::new(99), 1_000_000, phi, burst));
    all.sort_unstable();
    ps.iter().map(|p| all[(p * all.len() as f64) as usize]).collect()
}

fn coverage(phi: f64, burst: usize, n: usize, ps: &[f64], replications: u64) -> Vec<Coverage> {
    let truth = truth(phi, burst, ps);
    let mut random = Random::new(11);
    let mut covered = vec![0.0; ps.len()];
    let mut unknown = vec![0.0; ps.len()];
    let mut too_low = vec![0.0; ps.len()];
    let mut noise = vec![Vec::new(); ps.len()];
    for _ in 0..replications {
        let series = nanos(&log_latencies(&mut random, n, phi, burst));
        for (index, percentile) in percentiles(&series, ps).into_iter().enumerate() {
            let low = percentile.low_ns.is_none_or(|low| low <= truth[index]);
            let high = percentile.high_ns.is_none_or(|high| truth[index] <= high);
            covered[index] += f64::from(u8::from(low && high)) / replications as f64;
            unknown[index] += f64::from(u8::from(percentile.high_ns.is_none())) / replications as f64;
            too_low[index] += f64::from(u8::from(!high)) / replications as f64;
            noise[index].push(percentile.noise_factor);
        }
    }
    noise
        .into_iter()
        .enumerate()
        .map(|(index, mut noise)| {
            noise.sort_by(f64::total_cmp);
            let median_noise_factor = noise[noise.len() / 2];
            Coverage {
                covered: covered[index],
                covered_when_stated: (unknown[index] < 0.999)
                    .then(|| (covered[index] - unknown[index]) / (1.0 - unknown[index])),
                too_low: too_low[index],
                unknown: unknown[index],
                median_noise_factor,
            }
        })
        .collect()
}

fn check(phi: f64, burst: usize, n: usize, ps: &[f64], replications: u64, least: f64) -> Vec<Coverage> {
    let result = coverage(phi, burst, n, ps, replications);
    for (p, row) in ps.iter().zip(&result) {
        println!(
            "phi {phi} burst {burst:2} n {n:6} p{}: coverage {:.3} ({:.3?} of those stated), too low {:.3}, unknown {:.2}, noise {:.1}",
            p * 100.0,
            row.covered,
            row.covered_when_stated,
            row.too_low,
            row.unknown,
            row.median_noise_factor
        );
        // Counting the unknown as covered would let a method pass that never answers.
        let stated = row.covered_when_stated;
        assert!(
            stated.is_none_or(|stated| stated >= least),
            "phi {phi} burst {burst} n {n} p {p}: {stated:?}"
        );
    }
    result
}

#[test]
fn independent_runs() {
    let rows = check(0.0, 1, 2000, &[0.5, 0.9, 0.95, 0.99], 400, 0.92);
    assert!(rows.iter().all(|row| row.unknown == 0.0));
    assert!(rows.iter().all(|row| row.median_noise_factor < 1.3));
}

#[test]
fn correlated_runs() {
    check(0.6, 1, 2000, &[0.5, 0.95, 0.99], 400, 0.88);
}

#[test]
fn strongly_correlated_runs_with_bursts() {
    check(0.9, 5, 2000, &[0.5, 0.95, 0.99], 400, 0.88);
    check(0.9, 5, 20_000, &[0.5, 0.99, 0.999], 150, 0.88);
}

#[test]
fn long_bursts_mostly_say_unknown() {
    // One burst in 2,000 runs on average: a third of the series contain none, and nothing in them reveals it. This
    // known limit is kept here as documentation: stated intervals seldom cover.
    let rows = check(0.9, 20, 2000, &[0.99], 400, 0.05);
    assert!(rows[0].unknown > 0.5 && rows[0].covered > 0.65, "{} {}", rows[0].unknown, rows[0].covered);
    check(0.9, 20, 20_000, &[0.99, 0.999], 150, 0.86);
}

#[test]
fn few_runs() {
    for n in [6, 8, 12, 20, 40, 100] {
        check(0.0, 1, n, &[0.5, 0.9], 1000, 0.88);
    }
    check(0.0, 1, 400, &[0.99], 1000, 0.88);
    check(0.6, 1, 500, &[0.5, 0.99], 500, 0.88);
}
