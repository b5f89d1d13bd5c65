//! What is judged: metrics, margins and looks.

use ortscope_analyze::verdict::{Look, Metric, MetricPlan, MetricVerdict, Verdict};

/// Metrics of a model that are judged by default. Energy is judged only on request.
pub const USUAL_METRICS: [Metric; 5] =
    [Metric::P50, Metric::P90, Metric::P99, Metric::Throughput, Metric::Memory];

/// A checked request for verdicts.
#[derive(Debug, Clone)]
pub struct Judge {
    pub plans: Vec<MetricPlan>,
    pub looks: Vec<Look>,
    /// The user named the metrics: a metric without figures then prevents a pass.
    pub asked: bool,
}

impl Judge {
    /// Returns the verdict over all metrics that count.
    pub fn overall(&self, verdicts: &[MetricVerdict]) -> Verdict {
        let counted = verdicts.iter().filter(|found| self.asked || found.rounds > 0 || !is_missing(found));
        Verdict::of_all(counted.map(|found| found.verdict)).unwrap_or(Verdict::Inconclusive)
    }

    pub fn judges(&self, metric: Metric) -> bool {
        self.plans.iter().any(|plan| plan.metric == metric)
    }
}

/// Whether a metric has no figure at all, as energy on most machines.
pub fn is_missing(found: &MetricVerdict) -> bool {
    found.change.is_none()
}
