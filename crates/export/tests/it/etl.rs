//! Traces of Windows, as our own reader and `dissect.etl` read them.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;

use ortscope_core::schema::TableId;
use ortscope_core::tables::{MemoryTables, Tables as _};
use ortscope_etl::EtlFile;
use ortscope_etl::payload::trace_logging::TraceLogging;
use ortscope_etl::payload::{Value as Decoded, Visitor};
use ortscope_export::{ExportOptions, Format, export};
use serde_json::Value;

use crate::skips;
use crate::support::{figures, info, nasty_tables};
use crate::traces::trace_tables;

/// Sums of whole numbers by field.
#[derive(Default)]
struct Sums(BTreeMap<String, i128>);

impl Visitor for Sums {
    fn field(&mut self, name: &str, value: Decoded<'_>) {
        let mut json = String::new();
        value.write_json(&mut json).unwrap();
        let number: i128 = match json.trim_matches('"') {
            "true" => 1,
            "false" => 0,
            text => match text.parse() {
                Ok(number) => number,
                Err(_) => return,
            },
        };
        *self.0.entry(name.to_owned()).or_default() += number;
    }
}

fn written(tables: &MemoryTables) -> (tempfile::TempDir, std::path::PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.etl");
    let report = export(tables, &info(), &ExportOptions::new(Format::Etl), &path).unwrap();
    let usual = TableId::ALL.iter().filter(|table| **table != TableId::ChannelPositions);
    assert_eq!(report.rows, usual.map(|table| tables.row_count(*table)).sum::<u64>(), "{:?}", report.notes);
    (directory, path)
}

fn reads_back(tables: &MemoryTables) {
    let (_directory, path) = written(tables);
    let file = EtlFile::open(&path).unwrap();
    let mut found: BTreeMap<String, (u64, Sums)> = BTreeMap::new();
    let walk = file
        .ordered(|record| {
            if let Some(event) = TraceLogging::of(record) {
                assert_eq!(event.provider_name, Some("ortscope"));
                let entry = found.entry(event.event_name.to_owned()).or_default();
                entry.0 += 1;
                let used = event.visit(record.payload, record.pointer_size, &mut entry.1).unwrap();
                assert_eq!(used, record.payload.len(), "to the last byte");
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    assert!(!walk.losses.damage.loses_records(), "{:?}", walk.losses);
    for table in TableId::ALL.iter().filter(|table| **table != TableId::ChannelPositions) {
        let (rows, sums) = found.remove(table.def().name).unwrap_or_default();
        assert_eq!(rows, tables.row_count(*table), "{}", table.def().name);
        if rows == 0 {
            continue;
        }
        let expected = figures(tables, *table);
        for (column, figures) in expected["columns"].as_object().unwrap() {
            // Texts that look like numbers were summed too; they are not asked for.
            let Some(sum) = sum_of(figures) else { continue };
            let found = sums.0.get(column).copied().unwrap_or(0);
            assert_eq!(found.to_string(), sum, "{}.{column}", table.def().name);
        }
    }
    assert!(found.is_empty());
}

#[test]
fn our_reader_finds_every_row_and_sum() {
    reads_back(&trace_tables());
}

#[test]
fn nasty_values_survive() {
    reads_back(&nasty_tables(300));
}

/// `dissect.etl` finds the records and what each says of its fields; by that the fields are read.
fn dissect_reads(tables: &MemoryTables) {
    let Some(python) = skips::python_with(&["dissect.etl"]) else { return };
    let (_directory, path) = written(tables);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/check_etl.py");
    let output = Command::new(&python).arg("-X").arg("utf8").arg(script).arg(&path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    for table in TableId::ALL.iter().filter(|table| **table != TableId::ChannelPositions) {
        let (name, event) = (table.def().name, &found[table.def().name]);
        assert_eq!(event["rows"].as_u64().unwrap_or(0), tables.row_count(*table), "{name}");
        let expected = figures(tables, *table);
        for (column, figures) in expected["columns"].as_object().unwrap() {
            let Some(sum) = sum_of(figures).filter(|sum| sum != "0") else { continue };
            assert_eq!(event["sums"][column].as_str(), Some(sum.as_str()), "{name}.{column}");
        }
    }
}

/// The sum of a column of whole numbers or of yes and no, as text.
fn sum_of(figures: &Value) -> Option<String> {
    let sum = figures["sum"].as_str().map(str::to_owned);
    sum.or_else(|| figures["true"].as_u64().map(|count| count.to_string()))
}

#[test]
fn dissect_finds_every_row_and_sum() {
    dissect_reads(&trace_tables());
}

#[test]
fn dissect_finds_nasty_values() {
    dissect_reads(&nasty_tables(100));
}
