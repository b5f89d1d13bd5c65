//! A verdict as text: the deciding metrics, with their bounds, in one line.

use super::metric::{Metric, MetricVerdict, Verdict};

/// Explains a verdict. `longer_blocks` describes how the caller makes blocks longer, for an inconclusive verdict.
pub fn summary(verdict: Verdict, verdicts: &[MetricVerdict], longer_blocks: &str) -> String {
    let deciding: Vec<&MetricVerdict> = verdicts.iter().filter(|found| found.verdict == verdict).collect();
    let list = |text: fn(&MetricVerdict) -> String| {
        deciding.iter().map(|of| text(of)).collect::<Vec<_>>().join(", ")
    };
    match verdict {
        Verdict::Regression | Verdict::Improvement => list(changed),
        Verdict::Inconclusive if deciding.is_empty() => "nothing was measured".into(),
        Verdict::Inconclusive => same_reason(&deciding).unwrap_or_else(|| {
            format!(
                "{}; a quieter machine, {longer_blocks} or wider margins would decide",
                list(|found| match &found.reason {
                    Some(reason) => format!("{}: {reason}", found.metric),
                    None => format!(
                        "{} {} holds the margin of {:.1} %",
                        found.metric,
                        interval(found),
                        found.margin * 100.0
                    ),
                })
            )
        }),
        Verdict::Pass => {
            let main =
                verdicts.iter().find(|found| found.metric == Metric::P50 || found.metric == Metric::Time);
            main.map_or_else(
                || "nothing is worse by its margin".to_owned(),
                |found| format!("nothing is worse by its margin; {}", changed(found)),
            )
        }
    }
}

/// p50 +6.1 % [+5.2 %, +7.0 %].
fn changed(found: &MetricVerdict) -> String {
    format!("{} {} {}", found.metric, found.change.map_or_else(String::new, signed), interval(found))
}

/// Both bounds, or that they are not known.
pub fn interval(found: &MetricVerdict) -> String {
    match (found.low, found.high) {
        (Some(low), Some(high)) => format!("[{}, {}]", signed(low), signed(high)),
        _ => "unknown".into(),
    }
}

/// +1.7 %.
pub fn signed(ratio: f64) -> String {
    format!("{:+.1} %", ratio * 100.0)
}

/// The common reason why all of them are open, if there is one.
fn same_reason(open: &[&MetricVerdict]) -> Option<String> {
    let reason = open.first()?.reason.clone()?;
    open.iter().all(|found| found.reason.as_ref() == Some(&reason)).then_some(reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::{MetricPlan, two_sample};

    fn judged(level: f64) -> MetricVerdict {
        let side = |level: f64| (0..6).map(|i| level * (1.0 + 0.001 * f64::from(i))).collect::<Vec<_>>();
        two_sample::compare(MetricPlan::usual(Metric::P50), &side(1.0), &side(level), 1.0)
    }

    #[test]
    fn deciding_metrics_are_named_with_their_bounds() {
        let worse = judged(1.1);
        let said = summary(worse.verdict, &[worse.clone(), judged(1.0)], "longer blocks");
        assert_eq!(said, format!("p50 +10.0 % {}", interval(&worse)));
        let same = judged(1.0);
        assert!(
            summary(Verdict::Pass, &[same], "longer blocks")
                .starts_with("nothing is worse by its margin; p50 +0.0 % [")
        );
    }

    #[test]
    fn open_verdicts_suggest_how_to_decide() {
        let plan = MetricPlan::usual(Metric::P50);
        let few = two_sample::compare(plan, &[1.0], &[1.0], 1.0);
        assert!(summary(few.verdict, &[few], "longer blocks").contains("at least 5 recordings"));
        let wide = [0.9, 0.95, 1.0, 1.05, 1.1, 1.2];
        let noisy = two_sample::compare(plan, &wide, &wide, 1.0);
        let said = summary(noisy.verdict, &[noisy], "longer blocks (--duration)");
        assert!(said.contains("holds the margin of 2.0 %") && said.contains("(--duration)"), "{said}");
        assert_eq!(summary(Verdict::Inconclusive, &[], ""), "nothing was measured");
    }
}
