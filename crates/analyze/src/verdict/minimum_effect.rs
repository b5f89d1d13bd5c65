//! The smallest change this machine can detect, from rounds of one side against itself.
//!
//! The differences of an A/A comparison are pure noise. The whole procedure, looks and margin included, is replayed
//! on noise drawn from them with an artificial slowdown; the smallest slowdown that is found in 95 of 100 replays is
//! the minimum detectable effect. Signs are drawn too, because A and B are the same, which makes the noise symmetric.
//! Seeded: equal rounds give equal results.

use serde::{Deserialize, Serialize};

use super::metric::{MetricPlan, Verdict};
use super::paired::{Look, PairedComparison, Step};
use crate::random::Random;

/// Replays per slowdown.
const REPLAYS: usize = 400;
/// Share of replays that must find it.
const POWER: f64 = 0.95;
/// Larger slowdowns are not searched: such a machine detects nothing.
const MOST: f64 = 1.0;
/// With fewer rounds the noise is unknown.
const FEWEST_ROUNDS: usize = 6;

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MinimumEffect {
    /// The smallest slowdown that is found in 95 % of comparisons; a ratio. `None`: not even 100 %.
    pub effect: Option<f64>,
    /// Half the spread of the middle 68 % of the rounds' log ratios: the noise of one round.
    pub round_noise: f64,
    /// Rounds it rests on.
    pub rounds: usize,
}

/// From the log cost ratios of A/A rounds ([`PairedComparison::differences`]); `None` with fewer than six.
pub fn minimum_effect(
    differences: &[f64],
    plan: MetricPlan,
    looks: &[Look],
    seed: u64,
) -> Option<MinimumEffect> {
    if differences.len() < FEWEST_ROUNDS || differences.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let mut sizes: Vec<f64> = differences.iter().map(|value| value.abs()).collect();
    sizes.sort_unstable_by(f64::total_cmp);
    let round_noise = sizes[((sizes.len() - 1) as f64 * 0.683).round() as usize];
    let found = |effect: f64| power(differences, plan, looks, effect, seed) >= POWER;
    let effect = found(MOST).then(|| {
        let (mut low, mut high) = (plan.margin, MOST);
        // To a thousandth of itself: more digits would be of the replays, not of the machine.
        while high - low > 1e-3 * high {
            let middle = f64::midpoint(low, high);
            if found(middle) {
                high = middle;
            } else {
                low = middle;
            }
        }
        high
    });
    Some(MinimumEffect { effect, round_noise, rounds: differences.len() })
}

/// Share of replays that call a slowdown of `effect` a regression.
fn power(noise: &[f64], plan: MetricPlan, looks: &[Look], effect: f64, seed: u64) -> f64 {
    let mut random = Random::new(seed);
    let cost = plan.metric.log_margin(effect.min(0.999));
    let cost = if plan.metric.higher_is_better() { cost } else { effect.ln_1p() };
    let found = (0..REPLAYS)
        .filter(|_| {
            let mut comparison = PairedComparison::with_looks(&[plan], looks);
            loop {
                let sign = if random.uniform() < 0.5 { 1.0 } else { -1.0 };
                let worse = (cost + sign * noise[random.below(noise.len())]).exp();
                let pair = if plan.metric.higher_is_better() { (worse, 1.0) } else { (1.0, worse) };
                if comparison.add_round(&[Some(pair)]) == Step::Done {
                    break;
                }
            }
            comparison.verdicts().first().is_some_and(|found| found.verdict == Verdict::Regression)
        })
        .count();
    found as f64 / REPLAYS as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::metric::Metric;
    use crate::verdict::paired::LOOKS;

    fn effect(noise: f64, metric: Metric) -> Option<f64> {
        let mut random = Random::new(3);
        let differences: Vec<f64> = (0..20).map(|_| noise * random.normal()).collect();
        minimum_effect(&differences, MetricPlan::usual(metric), &LOOKS, 1).unwrap().effect
    }

    #[test]
    fn a_quiet_machine_detects_changes_just_above_the_margin() {
        let found = effect(0.0, Metric::P50).unwrap();
        assert!(found > 0.02 && found < 0.0201, "{found}");
        let found = effect(0.0, Metric::Throughput).unwrap();
        assert!(found > 0.05 && found < 0.0502, "{found}");
    }

    #[test]
    fn noise_costs() {
        let (quiet, loud) = (effect(0.01, Metric::P50).unwrap(), effect(0.05, Metric::P50).unwrap());
        assert!(0.02 < quiet && quiet < 0.05 && quiet < loud && loud < 0.2, "{quiet} {loud}");
        assert_eq!(effect(5.0, Metric::P50), None);
    }

    #[test]
    fn too_few_rounds_give_no_result() {
        let plan = MetricPlan::usual(Metric::P50);
        assert_eq!(minimum_effect(&[0.0; 5], plan, &LOOKS, 1), None);
        assert_eq!(minimum_effect(&[f64::NAN; 9], plan, &LOOKS, 1), None);
    }
}
