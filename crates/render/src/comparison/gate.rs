//! A gate as terminal text, Markdown, JUnit, and annotations for GitHub and Azure.

use ortscope_core::units;
use ortscope_result::comparison::{Gate, GateResult, MetricVerdict, Verdict, interval, signed};

use super::{comparison_lines, joined, painted, shown, table, verdict_line};
use crate::style::Style;

/// Renders a gate for a terminal.
pub fn gate_text(gate: &Gate, color: bool) -> String {
    let mut lines = Vec::new();
    for result in &gate.models {
        let against =
            result.baseline.as_ref().map_or_else(String::new, |baseline| format!("  against {baseline}"));
        lines.push(format!("{}{against}", Style::Bold.paint(&result.path, color)));
        match &result.comparison {
            Some(comparison) => lines.extend(comparison_lines(comparison, color)),
            None if !result.verdicts.is_empty() => {
                lines.extend(table(&result.verdicts, color));
                let summary = result.summary.as_deref().unwrap_or_default();
                lines.push(verdict_line(result.verdict, summary, color));
            }
            None => {}
        }
        lines.extend(result.minimum_effects.iter().map(|effect| format!("visible   {}", effect.sentence())));
        lines.extend(result.failure.iter().map(|failure| format!("failed    {}", failure.message)));
        lines.push(String::new());
    }
    let models = units::counted(gate.models.len() as u64, "model");
    lines.push(format!("gate      {} over {models}", painted(gate.verdict, color)));
    joined(&lines)
}

/// Renders a gate for a step summary or a comment.
pub fn gate_markdown(document: &Gate) -> String {
    let mut text = format!("## ortscope gate: {}\n\n", document.verdict.name());
    for result in &document.models {
        text += &format!("### {}\n\n", plain(&result.path));
        if let Some(baseline) = &result.baseline {
            text += &format!("against {}\n\n", plain(baseline));
        }
        if let Some(failure) = &result.failure {
            text += &format!("**failed**: {}\n\n", plain(&failure.message));
        }
        if !result.verdicts.is_empty() {
            text += "| metric | baseline | now | change | interval | margin | verdict |\n|---|---:|---:|---:|---|---:|---|\n";
            for found in &result.verdicts {
                let figure = |value: Option<f64>| {
                    value.map_or_else(|| "n/a".into(), |value| shown(found.metric, value))
                };
                text += &format!(
                    "| {} | {} | {} | {} | {} | {} | {} |\n",
                    found.metric,
                    figure(found.a),
                    figure(found.b),
                    found.change.map_or_else(|| "n/a".into(), signed),
                    interval(found),
                    units::percent(found.margin),
                    mark(found.verdict),
                );
            }
            text += "\n";
        }
        if let Some(summary) = &result.summary {
            text += &format!("{}: {}\n\n", mark(result.verdict), plain(summary));
        }
        for effect in &result.minimum_effects {
            text += &format!("- {}\n", plain(&effect.sentence()));
        }
        for note in &result.notes {
            text += &format!("- {}\n", plain(note));
        }
    }
    text
}

fn mark(verdict: Verdict) -> String {
    match verdict {
        Verdict::Regression => "**regression**".into(),
        other => other.name().into(),
    }
}

/// Escapes Markdown in names and messages.
fn plain(text: &str) -> String {
    text.chars()
        .flat_map(|c| match c {
            '|' | '*' | '_' | '`' | '<' | '>' | '[' | ']' | '\\' | '#' => vec!['\\', c],
            '\n' | '\r' => vec![' '],
            _ => vec![c],
        })
        .collect()
}

pub fn gate_junit(document: &Gate) -> String {
    let mut cases = String::new();
    let (mut tests, mut failures, mut errors, mut skipped) = (0, 0, 0, 0);
    let mut case = |class: &str, name: &str, inner: &str| {
        tests += 1;
        cases +=
            &format!("    <testcase classname=\"{}\" name=\"{}\" time=\"0\"", escape(class), escape(name));
        cases += &if inner.is_empty() { "/>\n".to_owned() } else { format!(">{inner}</testcase>\n") };
    };
    for result in &document.models {
        for found in &result.verdicts {
            let sentence = escape(&sentence(found));
            let inner = match found.verdict {
                Verdict::Pass | Verdict::Improvement => String::new(),
                Verdict::Regression => {
                    failures += 1;
                    format!("<failure message=\"{sentence}\" type=\"regression\"/>")
                }
                Verdict::Inconclusive => {
                    skipped += 1;
                    format!("<skipped message=\"{sentence}\"/>")
                }
            };
            case(&result.path, found.metric.name(), &inner);
        }
        if result.outputs_differ {
            failures += 1;
            let message = escape(result.summary.as_deref().unwrap_or("other answers"));
            case(&result.path, "outputs", &format!("<failure message=\"{message}\" type=\"outputs\"/>"));
        }
        if let Some(failure) = &result.failure {
            errors += 1;
            let message = escape(&failure.message);
            case(&result.path, "measurement", &format!("<error message=\"{message}\" type=\"failure\"/>"));
        }
    }
    let totals = format!(
        "tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\" time=\"{:.3}\"",
        document.wall_seconds
    );
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"ortscope\" {totals}>\n  <testsuite name=\"ortscope \
         gate\" {totals} skipped=\"{skipped}\">\n{cases}  </testsuite>\n</testsuites>\n"
    )
}

/// XML 1.0 has no control characters, not even escaped ones.
fn escape(text: &str) -> String {
    text.chars()
        .filter(|c| !c.is_control() || matches!(c, '\t' | '\n'))
        .map(|c| match c {
            '&' => "&amp;".to_owned(),
            '<' => "&lt;".to_owned(),
            '>' => "&gt;".to_owned(),
            '"' => "&quot;".to_owned(),
            '\n' => "&#10;".to_owned(),
            other => other.to_string(),
        })
        .collect()
}

fn sentence(found: &MetricVerdict) -> String {
    let change = found.change.map_or_else(|| "n/a".into(), signed);
    let reason = found.reason.as_ref().map_or_else(String::new, |reason| format!(", {reason}"));
    format!("{} {change} {}, margin {}{reason}", found.metric, interval(found), units::percent(found.margin))
}

/// A CI system with annotations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ci {
    GitHub,
    Azure,
}

impl Ci {
    pub fn of_environment(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let is_true = |name: &str| variable(name).is_some_and(|value| value.eq_ignore_ascii_case("true"));
        if is_true("GITHUB_ACTIONS") {
            Some(Self::GitHub)
        } else if is_true("TF_BUILD") {
            Some(Self::Azure)
        } else {
            None
        }
    }

    /// Returns one line per model that did not pass.
    pub fn annotations(self, document: &Gate) -> Vec<String> {
        document
            .models
            .iter()
            .filter_map(|result| {
                let (is_error, text) = problem(result)?;
                Some(self.line(is_error, &result.path, &text))
            })
            .collect()
    }

    fn line(self, is_error: bool, path: &str, text: &str) -> String {
        let kind = if is_error { "error" } else { "warning" };
        match self {
            Self::GitHub => {
                let data = text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
                let title = format!("ortscope {path}").replace('%', "%25").replace('\r', "%0D");
                let title = title.replace('\n', "%0A").replace(':', "%3A").replace(',', "%2C");
                format!("::{kind} title={title}::{data}")
            }
            Self::Azure => {
                let data = format!("ortscope {path}: {text}").replace('%', "%AZP25");
                let data = data.replace('\r', "%0D").replace('\n', "%0A");
                format!("##vso[task.logissue type={kind}]{data}")
            }
        }
    }
}

/// Returns whether a model failed, and why, if it did not pass.
fn problem(result: &GateResult) -> Option<(bool, String)> {
    if let Some(failure) = &result.failure {
        return Some((true, failure.message.clone()));
    }
    let summary = result.summary.clone().unwrap_or_default();
    match result.verdict {
        Verdict::Regression => Some((true, format!("regression: {summary}"))),
        Verdict::Inconclusive => Some((false, format!("inconclusive: {summary}"))),
        Verdict::Pass | Verdict::Improvement => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ortscope_core::failure::Failure;
    use ortscope_result::comparison::Metric;

    fn document() -> Gate {
        let found = |metric, verdict| MetricVerdict {
            metric,
            margin: 0.02,
            verdict,
            rounds: 10,
            a: Some(1.0),
            b: Some(1.1),
            change: Some(0.1),
            low: Some(0.08),
            high: Some(0.12),
            alpha: 0.01,
            p_regression: Some(0.001),
            reason: None,
        };
        let result = |path: &str| GateResult::new(path.to_owned());
        let worse = GateResult {
            verdict: Verdict::Regression,
            summary: Some("p50 +10.0 %\nsecond, line".into()),
            verdicts: vec![
                found(Metric::P50, Verdict::Regression),
                found(Metric::P99, Verdict::Inconclusive),
            ],
            ..result("a|<b>.onnx")
        };
        let broken = GateResult { failure: Some(Failure::model("no \"file\" & more")), ..result("c.onnx") };
        let fine = GateResult {
            verdict: Verdict::Pass,
            verdicts: vec![found(Metric::P50, Verdict::Pass)],
            ..result("d.onnx")
        };
        Gate::new(false, vec![worse, broken, fine], 0.0)
    }

    #[test]
    fn junit_counts_cases_and_escapes_text() {
        let text = gate_junit(&document());
        assert!(text.contains("tests=\"4\" failures=\"1\" errors=\"1\""), "{text}");
        assert!(text.contains("skipped=\"1\"") && text.contains("a|&lt;b&gt;.onnx"), "{text}");
        assert!(text.contains("no &quot;file&quot; &amp; more"), "{text}");
        assert_eq!(text.matches("<testcase").count(), 4);
    }

    #[test]
    fn markdown_tables_survive_special_characters_in_names() {
        let text = gate_markdown(&document());
        assert!(text.contains("a\\|\\<b\\>.onnx"), "{text}");
        assert!(
            text.contains(
                "| p50 | 1.00 ms | 1.10 ms | +10.0 % | [+8.0 %, +12.0 %] | 2.0 % | **regression** |"
            ),
            "{text}"
        );
        assert!(text.contains("p50 +10.0 % second, line"), "{text}");
    }

    #[test]
    fn annotations_are_one_line_each() {
        let github = Ci::GitHub.annotations(&document());
        assert_eq!(github.len(), 2);
        assert_eq!(github[0], "::error title=ortscope a|<b>.onnx::regression: p50 +10.0 %25%0Asecond, line");
        let azure = Ci::Azure.annotations(&document());
        assert!(
            azure[0].starts_with("##vso[task.logissue type=error]ortscope a|<b>.onnx: regression"),
            "{azure:?}"
        );
        assert!(azure.iter().all(|line| !line.contains('\n')));
        let of =
            |name: &'static str| Ci::of_environment(move |asked| (asked == name).then(|| "True".to_owned()));
        assert_eq!(
            (of("GITHUB_ACTIONS"), of("TF_BUILD"), of("CI")),
            (Some(Ci::GitHub), Some(Ci::Azure), None)
        );
    }
}
