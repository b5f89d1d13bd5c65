//! Metrics, margins and exit codes of verdicts, from arguments or the configuration.

use ortscope_analyze::verdict::{Metric, MetricPlan, Verdict, looks_up_to};
use ortscope_result::comparison::Judge;

use crate::args::{FailOn, JudgeArgs};
use crate::exit::{Exit, Failure};

/// Checks metrics and margins. `usual` metrics are judged if the user names none.
pub fn judge(args: &JudgeArgs, usual: &[Metric]) -> Result<Judge, Failure> {
    let mut metrics: Vec<Metric> = Vec::new();
    for name in &args.metric {
        let metric =
            name.parse().map_err(|problem: String| Failure::usage(format!("--metric: {problem}")))?;
        if !metrics.contains(&metric) {
            metrics.push(metric);
        }
    }
    let asked = !metrics.is_empty();
    if !asked {
        metrics.extend(usual);
    }
    if let Some(foreign) =
        metrics.iter().find(|metric| (**metric == Metric::Time) != (usual == [Metric::Time]))
    {
        return Err(Failure::usage(if *foreign == Metric::Time {
            "the metric 'time' is for --ab: models have p50, p90, p99, throughput, memory, energy".to_owned()
        } else {
            format!("commands are compared by their time, not by {foreign}")
        }));
    }
    let mut plans: Vec<MetricPlan> = metrics.into_iter().map(MetricPlan::usual).collect();
    for text in &args.margin {
        set_margin(&mut plans, text)?;
    }
    Ok(Judge { plans, looks: looks_up_to(usize::from(args.max_rounds)), asked })
}

/// Returns the exit code of a verdict.
pub fn exit_of(verdict: Verdict, fail_on: FailOn) -> Exit {
    match (verdict, fail_on) {
        (_, FailOn::Never) => Exit::Ok,
        (Verdict::Regression, _) => Exit::Regression,
        (Verdict::Inconclusive, FailOn::Inconclusive) => Exit::Inconclusive,
        _ => Exit::Ok,
    }
}

fn set_margin(plans: &mut [MetricPlan], text: &str) -> Result<(), Failure> {
    let (metric, number) = match text.split_once('=') {
        Some((name, number)) => {
            let metric: Metric =
                name.parse().map_err(|problem: String| Failure::usage(format!("--margin: {problem}")))?;
            (Some(metric), number)
        }
        None => (None, text),
    };
    let margin = margin_ratio(number).map_err(Failure::usage)?;
    let mut found = false;
    for plan in plans.iter_mut().filter(|plan| metric.is_none_or(|metric| metric == plan.metric)) {
        plan.margin = margin;
        found = true;
    }
    if !found {
        return Err(Failure::usage(format!("--margin {text} is about a metric that is not judged"))
            .with_hint("name it with --metric"));
    }
    Ok(())
}

/// `2%`, `2 %` or `0.02`.
pub fn margin_ratio(text: &str) -> Result<f64, String> {
    let (number, factor) = match text.trim().strip_suffix('%') {
        Some(number) => (number, 0.01),
        None => (text.trim(), 1.0),
    };
    match number.trim().parse::<f64>() {
        Ok(value) if value * factor > 0.0 && value * factor < 1.0 => Ok(value * factor),
        Ok(_) => {
            Err(format!("a margin of {text} makes no sense: it must be above 0% and below 100%, e.g. 2%"))
        }
        Err(_) => Err(format!("'{text}' is not a margin: use a percentage like 2% or a ratio like 0.02")),
    }
}

#[cfg(test)]
mod tests {
    use ortscope_result::comparison::USUAL_METRICS;

    use super::*;

    fn args(metric: &[&str], margin: &[&str]) -> JudgeArgs {
        let own = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        JudgeArgs { metric: own(metric), margin: own(margin), fail_on: FailOn::Regression, max_rounds: 20 }
    }

    #[test]
    fn margins_apply_to_all_metrics_or_to_one() {
        let found = judge(&args(&["p50", "memory", "p50"], &["3%", "memory=0.5%"]), &USUAL_METRICS).unwrap();
        let margins: Vec<(Metric, f64)> = found.plans.iter().map(|plan| (plan.metric, plan.margin)).collect();
        assert_eq!(margins, [(Metric::P50, 0.03), (Metric::Memory, 0.005)]);
        assert!(found.asked);
        assert_eq!(judge(&args(&[], &[]), &USUAL_METRICS).unwrap().plans.len(), 5);
    }

    #[test]
    fn invalid_metrics_and_margins_are_usage_errors() {
        for (metric, margin) in [
            (vec!["speed"], vec![]),
            (vec!["p99.9"], vec![]),
            (vec!["time"], vec![]),
            (vec![], vec!["0%"]),
            (vec![], vec!["-2%"]),
            (vec![], vec!["100%"]),
            (vec![], vec!["nan"]),
            (vec![], vec!["much"]),
            (vec!["p50"], vec!["p99=5%"]),
            (vec![], vec!["speed=5%"]),
        ] {
            let failure = judge(&args(&metric, &margin), &USUAL_METRICS).unwrap_err();
            assert_eq!(failure.kind, crate::exit::FailureKind::Usage, "{metric:?} {margin:?}");
        }
        assert!(judge(&args(&["p50"], &[]), &[Metric::Time]).is_err());
    }
}
