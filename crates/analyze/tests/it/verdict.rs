//! Verdicts on simulated latencies, with seeds: the promises of `cargo xtask bench verdicts` in small, and properties that
//! hold for any input.

use ortscope_analyze::hodges_lehmann::{signed_rank_bounds, signed_rank_p_greater};
use ortscope_analyze::random::Random;
use ortscope_analyze::verdict::{Metric, MetricPlan, PairedComparison, Step, Verdict, two_sample};
use proptest::prelude::*;

use crate::simulated_latencies::{Behavior, MachineDrift};

const RUNS: usize = 100;

fn median(mut runs: Vec<u64>) -> f64 {
    runs.sort_unstable();
    runs[runs.len() / 2] as f64
}

fn trial(random: &mut Random, behavior: Behavior, drift: MachineDrift, effect: f64) -> (Verdict, usize) {
    let mut comparison = PairedComparison::new(&[MetricPlan::usual(Metric::P50)]);
    for round in 0.. {
        let b_first = PairedComparison::b_first(round);
        let block = |is_second: bool| drift.log_level(2.0 * round as f64 + f64::from(u8::from(is_second)));
        let a = median(behavior.process(random, RUNS, block(b_first)));
        let b = median(behavior.process(random, RUNS, block(!b_first) + effect.ln_1p()));
        if comparison.add_round(&[Some((a, b))]) == Step::Done {
            break;
        }
    }
    (comparison.verdicts()[0].verdict, comparison.rounds())
}

fn share(behavior: Behavior, drift: MachineDrift, effect: f64, wanted: Verdict) -> f64 {
    let mut random = Random::new(17);
    let trials = 200;
    let found = (0..trials).filter(|_| trial(&mut random, behavior, drift, effect).0 == wanted).count();
    found as f64 / f64::from(trials)
}

#[test]
fn no_change_passes_and_five_percent_is_a_regression() {
    for behavior in [Behavior::INDEPENDENT, Behavior::CORRELATED, Behavior::BURSTS] {
        let alarms = share(behavior, MachineDrift::None, 0.0, Verdict::Regression);
        let found = share(behavior, MachineDrift::None, 0.05, Verdict::Regression);
        assert!(alarms <= 0.01 && found >= 0.95, "{behavior:?}: {alarms} false alarms, {found} found");
        let better = share(behavior, MachineDrift::None, -0.10, Verdict::Improvement);
        assert!(better >= 0.9, "{behavior:?}: {better} improvements");
    }
}

#[test]
fn at_the_margin_the_error_rate_is_as_designed() {
    // 0.046 by design; 200 trials scatter by 0.015.
    let alarms = share(Behavior::CORRELATED, MachineDrift::None, 0.02, Verdict::Regression);
    assert!(alarms <= 0.09, "{alarms}");
}

#[test]
fn heat_is_not_mistaken_for_a_change() {
    for drift in [
        MachineDrift::Linear { total: 0.05, over_blocks: 12.0 },
        MachineDrift::Saturating { total: 0.05, time_blocks: 8.0 },
    ] {
        assert_eq!(share(Behavior::CORRELATED, drift, 0.0, Verdict::Regression), 0.0, "{drift:?}");
    }
}

proptest! {
    #[test]
    fn the_test_and_the_bound_agree(d in prop::collection::vec(-0.2_f64..0.2, 1..25), theta in -0.1_f64..0.1) {
        for alpha in [0.01, 0.016, 0.02, 0.1] {
            let low = signed_rank_bounds(&d, alpha).unwrap().low;
            let p = signed_rank_p_greater(&d, theta).unwrap();
            prop_assert_eq!(low.is_some_and(|low| low > theta), p <= alpha, "p {} alpha {} low {:?}", p, alpha, low);
        }
    }

    #[test]
    fn exchanging_the_sides_exchanges_the_verdict(ratios in prop::collection::vec(0.5_f64..2.0, 20)) {
        let run = |swap: bool| {
            let mut comparison = PairedComparison::new(&[MetricPlan { metric: Metric::P50, margin: 0.02 }])
                .resolving_improvements(true);
            for ratio in &ratios {
                let pair = if swap { (*ratio, 1.0) } else { (1.0, *ratio) };
                if comparison.add_round(&[Some(pair)]) == Step::Done {
                    break;
                }
            }
            comparison.verdicts().remove(0)
        };
        let (there, back) = (run(false), run(true));
        prop_assert_eq!(there.verdict == Verdict::Regression, back.verdict == Verdict::Improvement);
        prop_assert_eq!(there.verdict == Verdict::Improvement, back.verdict == Verdict::Regression);
    }

    #[test]
    fn any_numbers_give_a_verdict_and_finite_figures(
        a in prop::collection::vec(prop::num::f64::ANY, 0..30), b in prop::collection::vec(prop::num::f64::ANY, 0..30),
    ) {
        let mut comparison = PairedComparison::new(&[MetricPlan::usual(Metric::Throughput)]);
        for (a, b) in a.iter().zip(&b) {
            comparison.add_round(&[Some((*a, *b))]);
        }
        let mut found = comparison.verdicts();
        found.push(two_sample::compare(MetricPlan::usual(Metric::P99), &a, &b, 1.0));
        for verdict in found {
            for figure in [verdict.change, verdict.low, verdict.high, verdict.a, verdict.b, verdict.p_regression] {
                prop_assert!(figure.is_none_or(f64::is_finite), "{:?}", verdict);
            }
        }
    }
}
