//! The numbers of a report as CSV (RFC 4180): one row per number, unknown ones empty.

use ortscope_result::{ReportModel, metrics};

pub fn csv(model: &ReportModel) -> String {
    let mut out = String::from("metric,value,unit,n,low,high,source\r\n");
    let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    for metric in metrics(model) {
        let cells = [
            field(&metric.name),
            number(metric.value),
            field(metric.unit),
            metric.n.to_string(),
            number(metric.low),
            number(metric.high),
            field(&metric.source),
        ];
        out += &cells.join(",");
        out += "\r\n";
    }
    out
}

/// Quoted where it must be. A field that a spreadsheet would take for a formula becomes text.
fn field(text: &str) -> String {
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let text = if formula { format!("'{text}") } else { text.to_owned() };
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_and_no_formulas() {
        assert_eq!(field("plain"), "plain");
        assert_eq!(field("a,\"b\""), "\"a,\"\"b\"\"\"");
        assert_eq!(field("=HYPERLINK(1)"), "'=HYPERLINK(1)");
        assert_eq!(field("@a,b"), "\"'@a,b\"");
    }
}
