//! The checks of a report as JUnit XML, which build servers show as tests: one suite per recording.

use ortscope_core::units::utc;
use ortscope_result::{Check, Limit, Outcome, ReportModel, checks};

pub fn junit(model: &ReportModel, limits: &[Limit]) -> String {
    let checks = checks(model, limits);
    let failures = checks.iter().filter(|check| matches!(check.outcome, Outcome::Failed(_))).count();
    let errors = checks.iter().filter(|check| matches!(check.outcome, Outcome::Unknown(_))).count();
    let header = &model.header;
    let seconds = format!("{:.3}", header.duration_seconds);
    // ISO 8601 without a zone is what the schema asks for; the zone is UTC.
    let timestamp = utc(header.started_unix_ns).replacen(' ', "T", 1).replace(" UTC", "");
    let totals =
        format!("tests=\"{}\" failures=\"{failures}\" errors=\"{errors}\" time=\"{seconds}\"", checks.len());
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    out += &format!("<testsuites name=\"ortscope\" {totals}>\n");
    out += &format!(
        "  <testsuite name=\"{}\" id=\"0\" package=\"ortscope\" hostname=\"localhost\" timestamp=\"{timestamp}\" skipped=\"0\" {totals}>\n",
        escape(&format!("{} {}", header.subject, header.id))
    );
    out += "    <properties>\n";
    let mut properties = vec![("id", header.id.clone()), ("started", header.started_utc.clone())];
    properties.extend(header.ort_versions.iter().map(|version| ("onnxruntime", version.clone())));
    properties.extend(header.command.iter().map(|command| ("command", command.clone())));
    for (name, value) in properties {
        out += &format!("      <property name=\"{name}\" value=\"{}\"/>\n", escape(&value));
    }
    out += "    </properties>\n";
    for check in &checks {
        out += &test_case(check);
    }
    out += "  </testsuite>\n</testsuites>\n";
    out
}

fn test_case(check: &Check) -> String {
    let opening = format!(
        "    <testcase classname=\"ortscope.{}\" name=\"{}\" time=\"0\"",
        check.class,
        escape(&check.name)
    );
    let problem = |element: &str, text: &str| {
        let text = escape(text);
        format!(
            "{opening}>\n      <{element} message=\"{text}\" type=\"{}\">{text}</{element}>\n    </testcase>\n",
            check.class
        )
    };
    match &check.outcome {
        Outcome::Passed(value) if value.is_empty() => format!("{opening}/>\n"),
        Outcome::Passed(value) => {
            format!("{opening}>\n      <system-out>{}</system-out>\n    </testcase>\n", escape(value))
        }
        Outcome::Failed(text) => problem("failure", text),
        Outcome::Unknown(text) => problem("error", text),
    }
}

/// For attributes and content. Characters that XML cannot hold at all are replaced.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&apos;",
            '\t' | '\n' | '\r' => out.push(' '),
            '\u{0}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
    out
}
