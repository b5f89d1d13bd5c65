//! Prometheus's text, as Prometheus's own checker reads it.

use std::io::Write as _;
use std::process::{Command, Stdio};

use ortscope_core::schema::TableId;
use ortscope_core::tables::Tables as _;
use ortscope_export::{ExportOptions, Format, export_to};

use crate::skips;
use crate::support::{info, nasty_tables};
use crate::traces::trace_tables;

fn text(tables: &ortscope_core::tables::MemoryTables) -> String {
    let mut out = Vec::new();
    export_to(tables, &info(), &ExportOptions::new(Format::Prometheus), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn sums_are_those_of_the_rows() {
    let tables = trace_tables();
    let text = text(&tables);
    let labels = r#"{model="squeeze \"net\" 模型",provider="unknown"}"#;
    let value = |series: &str| -> f64 {
        let line = text.lines().find(|line| line.starts_with(series));
        line.and_then(|line| line.rsplit(' ').next()).expect(series).parse().expect("a number")
    };
    let count = value(&format!("ortscope_inference_duration_seconds_count{labels}"));
    assert_eq!(count as u64, tables.row_count(TableId::Inferences));
    assert!(
        (value(&format!("ortscope_inference_run_seconds_total{labels}")) - 500.0 * 0.001_900_007).abs()
            < 1e-9
    );
    let mut operators = 0.0;
    for line in text.lines().filter(|line| line.starts_with("ortscope_operators_total{")) {
        operators += line.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok()).expect("a number");
    }
    assert_eq!(operators, 21_000.0 / 21.0 * 19.0);
    // The last of 400 readings.
    assert_eq!(value("ortscope_device_power_watts{device=\"gpu0\"}"), 99.75);
}

/// `promtool check metrics` reads every line and complains of names and types that are not as they should be.
#[test]
fn promtool_has_nothing_to_complain_about() {
    let Some(promtool) = skips::program("promtool") else { return };
    for tables in [trace_tables(), nasty_tables(300)] {
        let text = text(&tables);
        let mut child = Command::new(&promtool)
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}\n{text}");
    }
}
