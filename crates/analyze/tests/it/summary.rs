//! The summary of a series, as users see it.

use crate::support::{Random, log_latencies, nanos};
use ortscope_analyze::stability::Verdict;
use ortscope_analyze::summary::WarmUpChoice;
use ortscope_analyze::{SummaryOptions, WarmUpVerdict, summarize};

const KEEP: SummaryOptions = SummaryOptions { warm_up: WarmUpChoice::Keep };

#[test]
fn known_figures() {
    let series: Vec<u64> = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10].map(|ms| ms * 1_000_000).to_vec();
    let summary = summarize(&series, KEEP).unwrap();
    assert_eq!((summary.n, summary.warm_up.discarded), (10, 0));
    assert_eq!((summary.mean_ms, summary.median_ms, summary.min_ms, summary.max_ms), (5.5, 5.5, 1.0, 10.0));
    assert!((summary.std_ms.unwrap() - (82.5_f64 / 9.0).sqrt()).abs() < 1e-12);
    assert_eq!(summary.jitter.iqr_ms, 4.5);
    assert_eq!(summary.jitter.successive_difference_ms, Some(1.0));
    assert_eq!(summary.jitter.p99_minus_p50_ms, None);
    assert_eq!(summary.stability.verdict, Verdict::TooFewRuns);
    assert_eq!(summary.stability.reason, "too few runs to judge");
    assert_eq!(summary.percentiles.len(), 5);
    assert_eq!(summary.percentile(0.99).unwrap().value_ns, None);
}

#[test]
fn an_empty_series_has_no_summary() {
    assert_eq!(summarize(&[], KEEP), None);
    assert_eq!(summarize(&[1, 2], SummaryOptions { warm_up: WarmUpChoice::Discard(9) }), None);
    assert_eq!(summarize(&[1], KEEP).unwrap().std_ms, None);
}

#[test]
fn a_quiet_machine_is_rated_good_and_its_warm_up_is_cut() {
    let mut logs = log_latencies(&mut Random::new(1), 5000, 0.4, 1);
    for (run, log) in logs.iter_mut().take(60).enumerate() {
        *log += 0.5 * (-(run as f64) / 15.0).exp();
    }
    let summary = summarize(&nanos(&logs), SummaryOptions::default()).unwrap();
    assert_eq!(summary.warm_up.verdict, WarmUpVerdict::Cut);
    assert!((25..=120).contains(&summary.warm_up.discarded), "{}", summary.warm_up.discarded);
    assert_eq!((summary.stability.verdict, summary.stability.reason.as_str()), (Verdict::Good, "steady"));
    let lag1 = summary.stability.lag1_autocorrelation.unwrap();
    assert!((lag1 - 0.4).abs() < 0.05, "{lag1}");
    let p99 = summary.percentile(0.99).unwrap().value_ns.unwrap() as f64 / 1e6;
    assert!((summary.jitter.p99_minus_p50_ms.unwrap() - (p99 - summary.median_ms)).abs() < 1e-5);
    assert!(summary.jitter.p99_9_over_p50.unwrap() > 1.1);
}

#[test]
fn a_heating_machine_has_no_steady_state() {
    let mut logs = log_latencies(&mut Random::new(2), 3000, 0.6, 1);
    for (run, log) in logs.iter_mut().enumerate() {
        *log += 0.15 * run as f64 / 3000.0;
    }
    for options in [SummaryOptions::default(), KEEP] {
        let summary = summarize(&nanos(&logs), options).unwrap();
        assert_eq!(summary.stability.verdict, Verdict::NoSteadyState);
        assert!(
            summary.stability.reason.starts_with("runs still get slower"),
            "{}",
            summary.stability.reason
        );
    }
}

#[test]
fn expensive_outliers_make_it_poor_but_stay_in_the_figures() {
    let mut series = nanos(&log_latencies(&mut Random::new(4), 2000, 0.0, 1));
    for index in (0..2000).step_by(50) {
        series[index] = 20_000_000;
    }
    let summary = summarize(&series, KEEP).unwrap();
    assert_eq!(summary.stability.verdict, Verdict::Poor);
    assert!(summary.stability.reason.starts_with("outliers take"), "{}", summary.stability.reason);
    assert!(summary.outliers.change_result);
    assert_eq!((summary.n, summary.max_ms), (2000, 20.0));
}
