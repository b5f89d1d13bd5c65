//! What a build can pass or fail: findings, damage, losses, and limits on numbers.

use super::{Metric, ReportModel, Severity, metrics};
use ortscope_core::units::{count, digits};

/// A number must not exceed this.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit {
    /// Name of a metric as CSV has it, or its end: `latency.inference.p99` is that of every session.
    pub metric: String,
    /// In the metric's unit.
    pub at_most: f64,
}

/// One thing that was checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Check {
    /// What kind of check it is: condition, losses, findings, limits.
    pub class: &'static str,
    pub name: String,
    pub outcome: Outcome,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// With the value, if there is one.
    Passed(String),
    Failed(String),
    /// It could not be checked.
    Unknown(String),
}

impl Outcome {
    pub fn is_passed(&self) -> bool {
        matches!(self, Self::Passed(_))
    }
}

/// All checks of a report. Limits never pass unseen: an unknown metric is an error.
pub fn checks(model: &ReportModel, limits: &[Limit]) -> Vec<Check> {
    let mut checks = Vec::new();
    let mut add =
        |class: &'static str, name: String, outcome: Outcome| checks.push(Check { class, name, outcome });
    if model.header.condition.is_empty() {
        add("condition", "the recording is complete".into(), Outcome::Passed(model.header.ended.clone()));
    }
    for (index, sentence) in model.header.condition.iter().enumerate() {
        add("condition", format!("condition {}", index + 1), Outcome::Failed(sentence.clone()));
    }
    if model.losses.is_empty() {
        add("losses", "no records were lost".into(), Outcome::Passed(String::new()));
    }
    for loss in &model.losses {
        let lost = format!("{} {} lost at {}", count(loss.count), loss.kind, loss.place);
        add("losses", format!("{} at {}", loss.kind, loss.place), Outcome::Failed(lost));
    }
    let errors: Vec<_> =
        model.findings.iter().filter(|finding| finding.severity == Severity::Error).collect();
    if errors.is_empty() {
        let others = format!("{} of lesser severity", count(model.findings.len() as u64));
        add("findings", "no findings of severity error".into(), Outcome::Passed(others));
    }
    for finding in errors {
        let text = format!("{}; {}", finding.evidence, finding.advice);
        add("findings", finding.id.clone(), Outcome::Failed(text));
    }
    if !limits.is_empty() {
        let known = metrics(model);
        for limit in limits {
            checks.extend(limit_checks(limit, &known));
        }
    }
    checks
}

fn limit_checks(limit: &Limit, known: &[Metric]) -> Vec<Check> {
    let ending = format!(".{}", limit.metric);
    let about = |metric: &&Metric| metric.name == limit.metric || metric.name.ends_with(&ending);
    let found: Vec<&Metric> = known.iter().filter(about).collect();
    if found.is_empty() {
        let text =
            format!("the recording has no metric '{}'; the CSV report lists all there are", limit.metric);
        let name = limit.metric.clone();
        return vec![Check { class: "limits", name, outcome: Outcome::Unknown(text) }];
    }
    let check = |metric: &&Metric| {
        let at_most = format!("at most {} {}", digits(limit.at_most), metric.unit);
        let outcome = match metric.value {
            None => Outcome::Unknown(format!("{} is not known ({})", metric.name, metric.source)),
            Some(value) if value <= limit.at_most => {
                Outcome::Passed(format!("{} {}", digits(value), metric.unit))
            }
            Some(value) => Outcome::Failed(format!(
                "{} is {} {}, but {at_most} are allowed (n = {})",
                metric.name,
                digits(value),
                metric.unit,
                count(metric.n)
            )),
        };
        Check { class: "limits", name: format!("{} {at_most}", metric.name), outcome }
    };
    found.iter().map(check).collect()
}
