//! For any numbers nothing panics, percentiles are ordered, intervals contain their estimate, and results survive
//! JSON.

use ortscope_analyze::batch_sweep::{BatchPoint, batch_sweep};
use ortscope_analyze::clock_cost::{clock_cost, digits_for};
use ortscope_analyze::generation::{Sequence, summarize_generation};
use ortscope_analyze::hodges_lehmann::signed_rank_bounds;
use ortscope_analyze::open_loop::{Request, open_loop};
use ortscope_analyze::outputs::{Tensor, Tolerance, Values, compare_outputs};
use ortscope_analyze::summary::WarmUpChoice;
use ortscope_analyze::throughput::{Completion, throughput};
use ortscope_analyze::{LatencySummary, StopRule, SummaryOptions, detect_warm_up, percentiles, summarize};
use proptest::collection::vec;
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Small and ordinary values, and the ends of the range.
fn latency() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(1), Just(u64::MAX), 0..10_u64, 900_000..1_100_000_u64, any::<u64>()]
}

fn series() -> impl Strategy<Value = Vec<u64>> {
    prop_oneof![
        vec(latency(), 0..60),
        vec(900_000..1_100_000_u64, 0..800),
        (latency(), 0..200_usize).prop_map(|(value, n)| vec![value; n])
    ]
}

/// A NaN or an infinity becomes null and does not come back as a number.
fn survives_json<T: Serialize + DeserializeOwned>(value: &T) {
    let text = serde_json::to_string(value).unwrap();
    serde_json::from_str::<T>(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
}

proptest! {
    // A failing case is printed; it becomes a test by name, not a file of seeds.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn percentiles_are_ordered_and_inside_their_interval(series in series(), ps in vec(0.0..=1.0_f64, 1..6)) {
        let mut ps = ps;
        ps.sort_by(f64::total_cmp);
        let found = percentiles(&series, &ps);
        let values: Vec<u64> = found.iter().filter_map(|percentile| percentile.value_ns).collect();
        prop_assert!(values.is_sorted());
        for percentile in &found {
            prop_assert!(percentile.noise_factor >= 1.0);
            prop_assert_eq!(percentile.value_ns.is_none(), (series.len() as u64) < percentile.needs_runs);
            if let Some(value) = percentile.value_ns {
                prop_assert!(percentile.low_ns.unwrap() <= value);
                prop_assert!(percentile.high_ns.unwrap() >= value);
            }
        }
        survives_json(&found);
    }

    #[test]
    fn summaries_never_panic(series in series(), discard in 0..300_usize) {
        let warm_up = detect_warm_up(&series);
        prop_assert!(warm_up.discarded <= series.len() / 2);
        for warm_up in [WarmUpChoice::Detect, WarmUpChoice::Discard(discard), WarmUpChoice::Keep] {
            if let Some(summary) = summarize(&series, SummaryOptions { warm_up }) {
                prop_assert!(summary.min_ms <= summary.median_ms && summary.median_ms <= summary.max_ms);
                prop_assert!(summary.outliers.in_bursts <= summary.outliers.count);
                survives_json::<LatencySummary>(&summary);
            }
        }
    }

    #[test]
    fn the_stop_rule_never_panics(series in series(), elapsed in any::<u64>()) {
        for rule in [StopRule::default(), StopRule::for_runs(10), StopRule::for_duration(f64::NAN)] {
            survives_json(&rule.check(&series, elapsed));
        }
    }

    #[test]
    fn bounds_hold_the_estimate(differences in vec(any::<f64>(), 0..90)) {
        if let Some(shift) = signed_rank_bounds(&differences, 0.025) {
            prop_assert!(shift.low.is_none_or(|low| low <= shift.estimate));
            prop_assert!(shift.high.is_none_or(|high| high >= shift.estimate));
            survives_json(&shift);
        }
    }

    #[test]
    fn scenarios_never_panic(times in vec((latency(), latency(), latency()), 0..150), rate in any::<f64>()) {
        let requests: Vec<Request> = times
            .iter()
            .map(|(planned_ns, start_ns, end_ns)| Request {
                planned_ns: *planned_ns,
                start_ns: *start_ns,
                end_ns: *end_ns,
            })
            .collect();
        survives_json(&open_loop(&requests, rate));
        let completions: Vec<Completion> = times
            .iter()
            .map(|(start_ns, end_ns, _)| Completion { start_ns: *start_ns, end_ns: *end_ns })
            .collect();
        survives_json(&throughput(&completions, u64::MAX));
        let points: Vec<BatchPoint> = times
            .iter()
            .take(20)
            .map(|(batch, p50_ns, bytes)| BatchPoint {
                batch: *batch,
                p50_ns: *p50_ns,
                memory_bytes: Some(*bytes),
                runs: 1,
            })
            .collect();
        survives_json(&batch_sweep(&points));
        let sequences: Vec<Sequence> = times
            .chunks(10)
            .map(|chunk| Sequence {
                start_ns: chunk[0].0,
                token_ns: chunk.iter().map(|(_, token, _)| *token).collect(),
            })
            .collect();
        survives_json(&summarize_generation(&sequences));
    }

    #[test]
    fn clocks_and_outputs_never_panic(
        deltas in vec(latency(), 0..50),
        a in vec(any::<f64>(), 0..30),
        b in vec(any::<f64>(), 0..30),
    ) {
        survives_json(&clock_cost(&deltas));
        for (value, noise) in a.iter().zip(&b) {
            prop_assert!(digits_for(*value, *noise) <= 17);
        }
        let tensor = |values| Tensor { shape: &[1], values: Values::Float64(values) };
        survives_json(&compare_outputs(&tensor(&a), &tensor(&b), Tolerance { relative: 1e-3, absolute: 1e-4 }));
        let shortest = a.len().min(b.len());
        let (a, b) = (&a[..shortest], &b[..shortest]);
        survives_json(&compare_outputs(&tensor(a), &tensor(b), Tolerance::EXACT));
        let same = compare_outputs(&tensor(a), &tensor(a), Tolerance::EXACT);
        prop_assert_eq!(same.mismatches, 0);
    }
}
