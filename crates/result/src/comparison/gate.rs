//! `ortscope gate`: each model of a project against its baseline.

use ortscope_analyze::verdict::minimum_effect::{MinimumEffect, minimum_effect};
use ortscope_analyze::verdict::{Metric, MetricPlan, MetricVerdict, Verdict};
use ortscope_core::failure::Failure;
use ortscope_core::units;
use serde::Serialize;

use super::{Comparison, Judge};

/// Seed of the replays behind a minimum detectable effect.
const SEED: u64 = 20;

#[derive(Debug, Serialize)]
pub struct Gate {
    /// Every model against itself (`--aa`).
    pub aa: bool,
    pub verdict: Verdict,
    pub wall_seconds: f64,
    pub models: Vec<GateResult>,
}

/// One model.
#[derive(Debug, Serialize)]
pub struct GateResult {
    pub path: String,
    pub baseline: Option<String>,
    pub verdict: Verdict,
    pub summary: Option<String>,
    pub verdicts: Vec<MetricVerdict>,
    pub outputs_differ: bool,
    /// With `--aa`: the smallest changes that this machine can show.
    pub minimum_effects: Vec<NamedEffect>,
    pub notes: Vec<String>,
    /// The whole comparison; absent against stored recordings.
    pub comparison: Option<Comparison>,
    pub failure: Option<Failure>,
}

#[derive(Debug, Clone, Serialize)]
pub struct NamedEffect {
    pub metric: Metric,
    #[serde(flatten)]
    pub found: MinimumEffect,
}

impl Gate {
    pub fn new(aa: bool, models: Vec<GateResult>, wall_seconds: f64) -> Self {
        let verdict = Verdict::of_all(models.iter().map(|result| result.verdict));
        Self { aa, verdict: verdict.unwrap_or(Verdict::Inconclusive), wall_seconds, models }
    }
}

impl GateResult {
    /// A model that has not been measured yet.
    pub fn new(path: String) -> Self {
        Self {
            path,
            baseline: None,
            verdict: Verdict::Inconclusive,
            summary: None,
            verdicts: Vec::new(),
            outputs_differ: false,
            minimum_effects: Vec::new(),
            notes: Vec::new(),
            comparison: None,
            failure: None,
        }
    }

    /// Takes over the verdict of a comparison. The failure of a side becomes that of the model.
    pub fn set_comparison(&mut self, comparison: Comparison) -> Result<(), Failure> {
        self.verdict = comparison.verdict;
        self.summary = Some(comparison.summary.clone());
        self.verdicts.clone_from(&comparison.verdicts);
        self.outputs_differ = comparison.different_outputs().next().is_some();
        self.notes.clone_from(&comparison.notes);
        let failed = comparison.side_failure.clone();
        self.comparison = Some(comparison);
        match failed {
            Some(failed) => {
                self.verdicts.clear();
                Err(Failure { message: failed.sentence(), ..failed.failure })
            }
            None => Ok(()),
        }
    }
}

impl NamedEffect {
    /// Replays the rounds of a comparison of a model with itself.
    pub fn all(comparison: &Comparison, judge: &Judge) -> Vec<Self> {
        let effect = |plan: &MetricPlan| {
            let metric = plan.metric;
            let differences: Vec<f64> = comparison
                .rounds
                .iter()
                .filter_map(|round| metric.log_cost_ratio(round.a.figure(metric)?, round.b.figure(metric)?))
                .collect();
            Some(Self { metric, found: minimum_effect(&differences, *plan, &judge.looks, SEED)? })
        };
        judge.plans.iter().filter_map(effect).collect()
    }

    pub fn sentence(&self) -> String {
        let noise = units::percent(self.found.round_noise);
        let effect = self.found.effect.map_or_else(
            || "no slowdown up to 100 % would be found reliably".into(),
            |effect| format!("a change of {} is found 95 times of 100", units::percent(effect)),
        );
        format!("{}: {effect} (noise of a round {noise}, {} rounds)", self.metric, self.found.rounds)
    }
}
