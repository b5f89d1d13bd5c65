//! Two sides measured in turn, and when to stop.
//!
//! A round is one block of each side, and the order alternates: A B, B A, A B, … A drift during the session (heat,
//! clocks) adds to one round what it takes from the next. Each round gives one difference, the logarithm of the ratio
//! of the two block statistics. The shift of these differences is estimated by Hodges-Lehmann with exact signed-rank
//! bounds: it needs neither normality nor a variance, and is robust against one odd round.
//!
//! The differences are tested after 6, 10 and 20 rounds ([`LOOKS`]). At each look each bound may be wrong with the
//! probability spent there, 0.046 over all looks together:
//! - *regression*: the lower bound lies above the margin (tested over all gated metrics by Holm),
//! - *improvement*: the upper bound lies below minus the margin,
//! - *pass*: the upper bound lies below the margin,
//! - otherwise more rounds, and after the last look *inconclusive*.
//!
//! A decision at a look is final. "All pass" needs no correction, because it requires that every single test passes.

use serde::{Deserialize, Serialize};

use super::holm;
use super::metric::{MetricPlan, MetricVerdict, Verdict};
use crate::hodges_lehmann::{signed_rank_bounds, signed_rank_p_greater};
use crate::order::median_in_place;

/// After how many rounds to look, and what error may be spent there on each side.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Look {
    pub rounds: usize,
    pub alpha: f64,
}

/// Six rounds are the fewest whose exact bounds reach this level: 1 / 2⁶ = 0.0156.
pub const LOOKS: [Look; 3] =
    [Look { rounds: 6, alpha: 0.016 }, Look { rounds: 10, alpha: 0.01 }, Look { rounds: 20, alpha: 0.02 }];

/// The usual looks up to `most` rounds. The last look gets what the left-out ones would have spent.
pub fn looks_up_to(most: usize) -> Vec<Look> {
    let mut looks: Vec<Look> = LOOKS.iter().copied().filter(|look| look.rounds < most).collect();
    let left: f64 = LOOKS.iter().filter(|look| look.rounds >= most).map(|look| look.alpha).sum();
    looks.push(Look { rounds: most, alpha: left });
    looks
}

/// The next step after a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Measure another round.
    More,
    /// Everything is decided, or the last look is over.
    Done,
}

/// A comparison that grows round by round.
#[derive(Debug, Clone)]
pub struct PairedComparison {
    looks: Vec<Look>,
    /// Go on when an improvement is possible but not proved.
    resolve_improvements: bool,
    metrics: Vec<State>,
    rounds: usize,
}

#[derive(Debug, Clone)]
struct State {
    plan: MetricPlan,
    a: Vec<f64>,
    b: Vec<f64>,
    /// Log cost ratios of the rounds that have both values.
    differences: Vec<f64>,
    missing: usize,
    decided: Option<MetricVerdict>,
}

impl PairedComparison {
    pub fn new(plans: &[MetricPlan]) -> Self {
        Self::with_looks(plans, &LOOKS)
    }

    /// Custom looks; they must increase.
    pub fn with_looks(plans: &[MetricPlan], looks: &[Look]) -> Self {
        let state = |plan: &MetricPlan| State {
            plan: *plan,
            a: Vec::new(),
            b: Vec::new(),
            differences: Vec::new(),
            missing: 0,
            decided: None,
        };
        Self {
            looks: looks.to_vec(),
            resolve_improvements: false,
            metrics: plans.iter().map(state).collect(),
            rounds: 0,
        }
    }

    /// Whether to go on when a metric has passed and may turn out to be an improvement. A gate need not know.
    #[must_use]
    pub fn resolving_improvements(mut self, resolve: bool) -> Self {
        self.resolve_improvements = resolve;
        self
    }

    /// Whether side B goes first in round `round`, counted from 0.
    pub fn b_first(round: usize) -> bool {
        round % 2 == 1
    }

    pub fn rounds(&self) -> usize {
        self.rounds
    }

    /// Rounds until the next look; 0 after the last.
    pub fn until_next_look(&self) -> usize {
        self.looks.iter().find(|look| look.rounds > self.rounds).map_or(0, |look| look.rounds - self.rounds)
    }

    /// Adds a round: for each metric, in the order of the plans, the statistic of A's and of B's block. `None` is a
    /// statistic that a block did not have.
    pub fn add_round(&mut self, values: &[Option<(f64, f64)>]) -> Step {
        self.rounds += 1;
        for (index, state) in self.metrics.iter_mut().enumerate() {
            let pair = values.get(index).copied().flatten();
            let difference = pair.and_then(|(a, b)| Some((a, b, state.plan.metric.log_cost_ratio(a, b)?)));
            match difference {
                Some((a, b, difference)) => {
                    state.a.push(a);
                    state.b.push(b);
                    state.differences.push(difference);
                }
                None => state.missing += 1,
            }
        }
        let look = self.looks.iter().position(|look| look.rounds == self.rounds);
        if let Some(index) = look {
            self.look(self.looks[index].alpha, index + 1 == self.looks.len());
        }
        let last = self.looks.last().is_none_or(|look| self.rounds >= look.rounds);
        // A metric that some round lacks will not be decided; waiting for it would be in vain.
        let all = self.metrics.iter().all(|state| state.decided.is_some() || state.missing > 0);
        if last || (look.is_some() && all) { Step::Done } else { Step::More }
    }

    fn look(&mut self, alpha: f64, is_last: bool) {
        // Rejected before counts as rejected now; so Holm's steps go on from there.
        let p_values: Vec<Option<f64>> = self
            .metrics
            .iter()
            .map(|state| match &state.decided {
                Some(decided) if decided.verdict == Verdict::Regression => Some(0.0),
                Some(_) => Some(1.0),
                None => state.p_regression(),
            })
            .collect();
        let rejected = holm(&p_values, alpha);
        let resolve = self.resolve_improvements && !is_last;
        for (state, regression) in self.metrics.iter_mut().zip(rejected) {
            if state.decided.is_some() || state.missing > 0 {
                continue;
            }
            let verdict = if regression { Verdict::Regression } else { state.other_verdict(alpha, resolve) };
            if verdict != Verdict::Inconclusive {
                state.decided = Some(state.describe(verdict, alpha));
            }
        }
    }

    /// Results so far: decided verdicts as decided, the others as inconclusive with the estimate of all rounds.
    pub fn verdicts(&self) -> Vec<MetricVerdict> {
        let alpha = self
            .looks
            .iter()
            .find(|look| look.rounds >= self.rounds)
            .or(self.looks.last())
            .map_or(0.025, |look| look.alpha);
        self.metrics
            .iter()
            .map(|state| {
                state.decided.clone().unwrap_or_else(|| {
                    let mut open = state.describe(Verdict::Inconclusive, alpha);
                    if state.missing > 0 {
                        open.reason = Some(format!(
                            "{} was not known in {} of {} rounds",
                            state.plan.metric, state.missing, self.rounds
                        ));
                    } else if self.looks.last().is_some_and(|look| self.rounds < look.rounds) {
                        open.reason = Some(format!("stopped after {} rounds", self.rounds));
                    }
                    open
                })
            })
            .collect()
    }

    /// The log cost ratios of a metric's rounds, for [`super::minimum_effect`].
    pub fn differences(&self, index: usize) -> &[f64] {
        self.metrics.get(index).map_or(&[], |state| &state.differences)
    }
}

impl State {
    fn log_margin(&self) -> f64 {
        self.plan.metric.log_margin(self.plan.margin)
    }

    fn p_regression(&self) -> Option<f64> {
        (self.missing == 0).then(|| signed_rank_p_greater(&self.differences, self.log_margin()))?
    }

    fn other_verdict(&self, alpha: f64, resolve_improvements: bool) -> Verdict {
        let Some(bounds) = signed_rank_bounds(&self.differences, alpha) else {
            return Verdict::Inconclusive;
        };
        let (Some(low), Some(high)) = (bounds.low, bounds.high) else {
            return Verdict::Inconclusive;
        };
        let margin = self.log_margin();
        if high < -margin {
            Verdict::Improvement
        } else if high >= margin || (resolve_improvements && low < -margin) {
            Verdict::Inconclusive
        } else {
            Verdict::Pass
        }
    }

    fn describe(&self, verdict: Verdict, alpha: f64) -> MetricVerdict {
        let metric = self.plan.metric;
        let bounds = signed_rank_bounds(&self.differences, alpha);
        let change =
            |log: Option<f64>| log.map(|log| metric.change_of(log)).filter(|ratio| ratio.is_finite());
        let (low, high) =
            (change(bounds.and_then(|bounds| bounds.low)), change(bounds.and_then(|bounds| bounds.high)));
        // For a throughput the lower cost is the higher figure.
        let (low, high) = if metric.higher_is_better() { (high, low) } else { (low, high) };
        MetricVerdict {
            metric,
            margin: self.plan.margin,
            verdict,
            rounds: self.differences.len(),
            a: median_in_place(&mut self.a.clone()),
            b: median_in_place(&mut self.b.clone()),
            change: change(bounds.map(|bounds| bounds.estimate)),
            low,
            high,
            alpha,
            p_regression: self.p_regression(),
            reason: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::metric::Metric;

    fn compare(ratios: &[f64], metric: Metric) -> (MetricVerdict, usize) {
        let mut comparison = PairedComparison::new(&[MetricPlan::usual(metric)]);
        for ratio in ratios {
            if comparison.add_round(&[Some((1.0, *ratio))]) == Step::Done {
                break;
            }
        }
        (comparison.verdicts().remove(0), comparison.rounds())
    }

    #[test]
    fn clear_cases_are_decided_at_the_first_look() {
        for (ratio, metric, verdict) in [
            (1.10, Metric::P50, Verdict::Regression),
            (1.00, Metric::P50, Verdict::Pass),
            (0.90, Metric::P50, Verdict::Improvement),
            (1.10, Metric::Throughput, Verdict::Improvement),
            (0.90, Metric::Throughput, Verdict::Regression),
        ] {
            let (found, rounds) = compare(&[ratio; 20], metric);
            assert_eq!((found.verdict, rounds), (verdict, 6), "{ratio} of {metric}");
            assert!((found.change.unwrap() - (ratio - 1.0)).abs() < 1e-9);
        }
    }

    #[test]
    fn one_wild_round_does_not_decide() {
        let mut ratios = [1.0; 20];
        ratios[2] = 3.0;
        let (found, rounds) = compare(&ratios, Metric::P50);
        assert_eq!((found.verdict, rounds), (Verdict::Pass, 20));
    }

    #[test]
    fn a_shift_near_the_margin_stays_open_until_the_end() {
        let ratios: Vec<f64> = (0..20).map(|round| if round % 2 == 0 { 1.06 } else { 0.98 }).collect();
        let (found, rounds) = compare(&ratios, Metric::P50);
        assert_eq!((found.verdict, rounds), (Verdict::Inconclusive, 20));
        assert!(found.low.unwrap() < 0.02 && found.high.unwrap() > 0.02 && found.reason.is_none());
    }

    #[test]
    fn an_interrupted_comparison_says_so() {
        let (found, rounds) = compare(&[1.5; 4], Metric::P50);
        assert_eq!((found.verdict, rounds), (Verdict::Inconclusive, 4));
        assert!(found.reason.unwrap().contains("after 4 rounds"));
    }

    #[test]
    fn a_missing_metric_does_not_delay_the_decision() {
        let plans = [MetricPlan::usual(Metric::P50), MetricPlan::usual(Metric::P99)];
        let mut comparison = PairedComparison::new(&plans);
        let mut rounds = 0;
        while comparison.add_round(&[Some((1.0, 1.0)), None]) == Step::More {
            rounds += 1;
        }
        assert_eq!(rounds, 5);
        let verdicts = comparison.verdicts();
        assert_eq!(verdicts[0].verdict, Verdict::Pass);
        assert_eq!(verdicts[1].verdict, Verdict::Inconclusive);
        assert!(verdicts[1].reason.as_ref().unwrap().contains("6 of 6"));
    }

    #[test]
    fn an_improvement_is_confirmed_only_on_request() {
        // Better by 1 to 6 %: passes at once, proved better than 2 % only with more rounds.
        let ratios: Vec<f64> = (0..20).map(|round| 0.99 - 0.012 * f64::from(round % 5)).collect();
        let plan = [MetricPlan::usual(Metric::P50)];
        for (resolve, verdict, rounds) in [(false, Verdict::Pass, 6), (true, Verdict::Improvement, 20)] {
            let mut comparison = PairedComparison::new(&plan).resolving_improvements(resolve);
            for ratio in &ratios {
                if comparison.add_round(&[Some((1.0, *ratio))]) == Step::Done {
                    break;
                }
            }
            assert_eq!((comparison.verdicts()[0].verdict, comparison.rounds()), (verdict, rounds));
        }
    }

    #[test]
    fn more_metrics_need_more_evidence() {
        // Six rounds reach 1/64: enough for one metric, not for the smallest of two.
        let plans = [MetricPlan::usual(Metric::P50), MetricPlan::usual(Metric::P90)];
        let mut comparison = PairedComparison::new(&plans);
        while comparison.add_round(&[Some((1.0, 1.5)), Some((1.0, 1.5))]) == Step::More {}
        assert_eq!(comparison.rounds(), 10);
        assert!(comparison.verdicts().iter().all(|found| found.verdict == Verdict::Regression));
    }

    #[test]
    fn fewer_rounds_spend_the_same_error() {
        for most in [6, 8, 10, 15, 20] {
            let looks = looks_up_to(most);
            assert_eq!(looks.last().unwrap().rounds, most);
            assert!((looks.iter().map(|look| look.alpha).sum::<f64>() - 0.046).abs() < 1e-12);
        }
    }

    #[test]
    fn blocks_go_abba() {
        let order: String =
            (0..4).map(|round| if PairedComparison::b_first(round) { "BA" } else { "AB" }).collect();
        assert_eq!(order, "ABBAABBA");
    }
}
