//! Prometheus's text format (0.0.4), for `/prometheus` and for files that the node exporter reads. Without times: a
//! scrape has its own, and the node exporter refuses them.

use std::io::Write;

use super::families::{Family, Kind};
use super::{Metrics, Window};
use crate::error::ExportError;
use crate::source::{RowSource, TableRows};
use ortscope_core::schema::TableId;

/// Families as text.
pub fn exposition(families: &[Family]) -> String {
    let mut out = String::new();
    for family in families {
        let kind = match family.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
            Kind::Summary => "summary",
        };
        out += &format!("# HELP {} {}\n# TYPE {} {kind}\n", family.name, family.help, family.name);
        for flat in family.flat() {
            out += &flat.name;
            for (index, (name, value)) in flat.labels.iter().enumerate() {
                out += if index == 0 { "{" } else { "," };
                out += name;
                out += "=\"";
                escape(&mut out, value);
                out.push('"');
            }
            if !flat.labels.is_empty() {
                out.push('}');
            }
            out += &format!(" {}\n", flat.value);
        }
    }
    out
}

/// A carriage return would end the line for some readers.
fn escape(out: &mut String, text: &str) {
    for letter in text.chars() {
        match letter {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            '\r' => out.push(' '),
            other => out.push(other),
        }
    }
}

/// A recording as its last moment; percentiles are of all of it.
pub(crate) fn write(source: &RowSource<'_>, out: &mut dyn Write) -> Result<Vec<TableRows>, ExportError> {
    let mut metrics = Metrics::new(Window::RECORDING);
    let mut written = Vec::new();
    for batch in source.scan(TableId::Sessions, &ortscope_core::tables::Scan::all()) {
        metrics.take(&batch?);
    }
    for table in super::TABLES.iter().filter(|table| source.is_selected(**table)) {
        let mut rows = 0;
        for batch in source.batches(*table) {
            let batch = batch?;
            rows += batch.len() as u64;
            metrics.take(&batch);
        }
        written.push(TableRows { table: *table, rows });
    }
    out.write_all(exposition(&metrics.families()).as_bytes())?;
    if metrics.left_out > 0 {
        source.note(format!(
            "{} rows are beyond the most labels there may be; they share the label 'other' or are left out",
            metrics.left_out
        ));
    }
    if source.is_selected(TableId::ThreadSamples) && source.options.tables.is_some() {
        source.note("metrics are of inferences, operators, samples of processes, the machine and devices, losses and findings".to_owned());
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use ortscope_core::batch::Batch;
    use ortscope_core::schema::{InferenceRow, SessionRow, TableId};

    use super::*;

    fn metrics(model: &str) -> Metrics {
        let mut metrics = Metrics::new(Window::RECORDING);
        let mut sessions = Batch::new(TableId::Sessions);
        sessions.push(&SessionRow {
            session_id: "s".into(),
            model_name: model.into(),
            execution_providers: "DmlExecutionProvider,CPUExecutionProvider".into(),
            ..SessionRow::default()
        });
        let mut rows = Batch::new(TableId::Inferences);
        for number in 0..40 {
            rows.push(&InferenceRow {
                session_id: "s".into(),
                run_ns: 2_000_000 + number,
                ok: number > 0,
                ..InferenceRow::default()
            });
        }
        metrics.take(&sessions);
        metrics.take(&rows);
        metrics
    }

    #[test]
    fn text_is_what_prometheus_documents() {
        let text = exposition(&metrics("a \"b\" \\ c\nd").families());
        let labels = r#"model="a \"b\" \\ c\nd",provider="DmlExecutionProvider""#;
        for line in [
            "# TYPE ortscope_inference_duration_seconds histogram".to_owned(),
            format!("ortscope_inference_duration_seconds_bucket{{{labels},le=\"0.001\"}} 0"),
            format!("ortscope_inference_duration_seconds_bucket{{{labels},le=\"0.0025\"}} 40"),
            format!("ortscope_inference_duration_seconds_bucket{{{labels},le=\"+Inf\"}} 40"),
            format!("ortscope_inference_duration_seconds_count{{{labels}}} 40"),
            format!("ortscope_inference_errors_total{{{labels}}} 1"),
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn the_number_of_series_is_bounded() {
        let mut metrics = Metrics::new(Window::MINUTE);
        for number in 0..2_000 {
            let id: std::sync::Arc<str> = format!("s{number}").into();
            let mut sessions = Batch::new(TableId::Sessions);
            sessions.push(&SessionRow {
                session_id: id.clone(),
                model_name: id.clone(),
                ..SessionRow::default()
            });
            let mut rows = Batch::new(TableId::Inferences);
            rows.push(&InferenceRow { session_id: id, ..InferenceRow::default() });
            metrics.take(&sessions);
            metrics.take(&rows);
        }
        let series: usize = metrics.families().iter().map(|family| family.flat().len()).sum();
        assert!(series < 10_000, "{series}");
        assert_eq!(metrics.left_out, 2_000 - super::super::MAX_MODELS as u64);
        let text = exposition(&metrics.families());
        assert!(text.contains("model=\"other\",provider=\"other\"} 1750"), "{text}");
    }
}
