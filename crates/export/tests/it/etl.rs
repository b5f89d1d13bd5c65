//! Traces of Windows, as our own reader and `dissect.etl` read them.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::process::Command;

use ortscope_core::schema::TableId;
use ortscope_core::tables::{MemoryTables, Tables as _};
use ortscope_etl::payload::trace_logging::TraceLogging;
use ortscope_etl::payload::{Value as Decoded, Visitor};
use ortscope_etl::{EtlFile, HeaderKind};
use ortscope_export::{ExportOptions, Format, export};

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
            let Some(sum) = figures["sum"]
                .as_str()
                .map(str::to_owned)
                .or(figures["true"].as_u64().map(|n| n.to_string()))
            else {
                continue;
            };
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

#[test]
fn dissect_finds_every_row() {
    let Some(python) = skips::variable("ORTSCOPE_TEST_PYTHON") else { return };
    if !Command::new(&python).args(["-c", "import dissect.etl"]).output().unwrap().status.success() {
        skips::skipped("this Python has no dissect.etl; `pip install dissect.etl`");
        return;
    }
    const SCRIPT: &str = "
import sys
from dissect.etl import etl
kinds = {}
with open(sys.argv[1], 'rb') as file:
    for record in etl.ETL(file):
        name = type(record.header).__name__
        kinds[name] = kinds.get(name, 0) + 1
print(kinds.get('EventHeader', 0))
";
    let tables = trace_tables();
    let (_directory, path) = written(&tables);
    let output = Command::new(&python).arg("-c").arg(SCRIPT).arg(&path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let theirs: u64 = String::from_utf8_lossy(&output.stdout).trim().parse().unwrap();
    let usual = TableId::ALL.iter().filter(|table| **table != TableId::ChannelPositions);
    assert_eq!(theirs, usual.map(|table| tables.row_count(*table)).sum::<u64>());
    let mut ours = 0;
    EtlFile::open(&path)
        .unwrap()
        .ordered(|record| {
            ours += u64::from(record.kind == HeaderKind::Event);
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(ours, theirs);
}
