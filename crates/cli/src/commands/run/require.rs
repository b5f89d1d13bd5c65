//! `--require-provider`: a measurement of another provider than the one meant must not pass for one.

use ortscope_ort::ep;

use crate::exit::{Failure, FailureKind};
use crate::report::RunResult;
use ortscope_core::units;

/// A provider that must run nodes.
#[derive(Debug, Clone, PartialEq)]
pub struct Requirement {
    /// ONNX Runtime's name.
    provider: String,
    /// Of all nodes; `None`: any number above 0.
    percent: Option<f64>,
}

pub fn parse(texts: &[String]) -> Result<Vec<Requirement>, Failure> {
    texts.iter().map(|text| one(text)).collect()
}

fn one(text: &str) -> Result<Requirement, Failure> {
    let (name, percent) = match text.split_once(':') {
        Some((name, percent)) => (name, Some(percent)),
        None => (text, None),
    };
    let name = name.trim();
    if name.is_empty() {
        return Err(Failure::usage("--require-provider has an empty name"));
    }
    let percent = match percent.map(|text| (text, text.trim().trim_end_matches('%').parse::<f64>())) {
        None => None,
        Some((_, Ok(percent))) if (0.0..=100.0).contains(&percent) => Some(percent),
        Some((text, _)) => {
            return Err(Failure::usage(format!("'{text}' is not a percentage from 0 to 100")));
        }
    };
    let provider = ep::find(name).map_or_else(|| name.to_owned(), |known| known.ort_name.to_owned());
    Ok(Requirement { provider, percent })
}

/// The first requirement that a result does not meet.
pub fn check(results: &[RunResult], required: &[Requirement]) -> Result<(), Failure> {
    for result in results {
        for requirement in required {
            let Some((on, all)) = nodes_on(result, &requirement.provider) else {
                let message = format!(
                    "it is not known which nodes of '{}' run on {}",
                    result.model.name, requirement.provider
                );
                return Err(Failure::new(FailureKind::Provider, message).with_hint(
                    "ONNX Runtime tells it from 1.24 on, older versions only through --profile operators",
                ));
            };
            let share = if all == 0 { 0.0 } else { on as f64 / all as f64 * 100.0 };
            let is_met = match requirement.percent {
                Some(percent) => share >= percent,
                None => on > 0,
            };
            if !is_met {
                let needed =
                    requirement.percent.map_or("at least one".to_owned(), |percent| format!("{percent} %"));
                let why = why_not(result, &requirement.provider);
                let failure = Failure::new(
                    FailureKind::Provider,
                    format!(
                        "{} runs {on} of {all} nodes of '{}' ({share:.1} %), {needed} required{}",
                        requirement.provider,
                        result.model.name,
                        why.as_ref().map(|why| format!(": {why}")).unwrap_or_default()
                    ),
                );
                return Err(failure.with_hint(match why {
                    Some(_) => "'ortscope doctor' lists the providers that can be used here",
                    None => "the report names the operators that run elsewhere, the costliest first",
                }));
            }
        }
    }
    Ok(())
}

/// What ONNX Runtime said when the provider was not taken.
fn why_not(result: &RunResult, provider: &str) -> Option<String> {
    let fallen = result.placement.as_ref()?.fallbacks.iter().find(|fallen| fallen.provider == provider)?;
    Some(units::clean(&ortscope_ort::essence(&fallen.reason), 300))
}

/// As the session tells it; otherwise as it was seen in the profile.
fn nodes_on(result: &RunResult, provider: &str) -> Option<(u64, u64)> {
    let placed =
        result.placement.as_ref().map(|placement| &placement.nodes).filter(|nodes| !nodes.is_empty());
    if let Some(nodes) = placed {
        let on = nodes.iter().filter(|of| of.provider == provider).map(|of| of.nodes).sum();
        return Some((on, nodes.iter().map(|of| of.nodes).sum()));
    }
    result.operators.as_ref().map(|operators| operators.executed_on(provider))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_percentages_are_read() {
        let wanted = |provider: &str, percent| Requirement { provider: provider.into(), percent };
        assert_eq!(one("qnn"), Ok(wanted("QNNExecutionProvider", None)));
        assert_eq!(one("qnn:90%"), Ok(wanted("QNNExecutionProvider", Some(90.0))));
        assert_eq!(one("MyExecutionProvider:12.5"), Ok(wanted("MyExecutionProvider", Some(12.5))));
        for bad in ["", ":50", "cpu:", "cpu:x", "cpu:101", "cpu:-1", "cpu:nan"] {
            assert_eq!(one(bad).unwrap_err().kind, FailureKind::Usage, "{bad}");
        }
    }
}
