//! What pyarrow, sqlite3 and Python's json read is what was written: counts, nulls, sums and checksums of every column.

use ortscope_core::schema::TableId;
use ortscope_core::tables::{MemoryTables, Tables};
use ortscope_export::{ExportOptions, Format, export};
use serde_json::Value;

use crate::support::{check, figures, info, nasty_tables};

/// A trace is another matter.
const TABLE_FORMATS: &[Format] =
    &[Format::Json, Format::JsonLines, Format::Csv, Format::Parquet, Format::Sqlite];

fn compare(tables: &dyn Tables, format: &str, found: &Value, every_table: bool) {
    let found = found["tables"].as_object().unwrap_or_else(|| panic!("{format}: {found}"));
    for table in TableId::ALL.iter().filter(|table| **table != TableId::ChannelPositions) {
        let name = table.def().name;
        let Some(read) = found.get(name) else {
            // JSON lines have nothing to say about an empty table.
            assert!(!every_table && tables.row_count(*table) == 0, "{format} has no {name}");
            continue;
        };
        let written = figures(tables, *table);
        assert_eq!(read["rows"], written["rows"], "{format}: rows of {name}");
        for (column, figures) in written["columns"].as_object().unwrap() {
            assert_eq!(&read["columns"][column], figures, "{format}: {name}.{column}");
        }
    }
    assert!(!found.contains_key("channel_positions"));
}

fn round_trip(tables: &MemoryTables, formats: &[Format]) {
    let directory = tempfile::tempdir().unwrap();
    let mut exports = Vec::new();
    for format in formats {
        for gzip in [false, true] {
            if gzip && !format.can_gzip() {
                continue;
            }
            let ending = if gzip { ".gz" } else { "" };
            let path = directory.path().join(format!("all.{}{ending}", format.extension()));
            let options = ExportOptions { gzip, ..ExportOptions::new(*format) };
            let report = export(tables, &info(), &options, &path).unwrap();
            let usual = TableId::ALL.iter().filter(|table| **table != TableId::ChannelPositions);
            assert_eq!(report.rows, usual.map(|table| tables.row_count(*table)).sum::<u64>());
            for file in &report.files {
                assert_eq!(
                    std::fs::metadata(&file.path).unwrap().len(),
                    file.bytes,
                    "{}",
                    file.path.display()
                );
                if let Some(table) = file.table {
                    assert_eq!(file.rows, tables.row_count(table));
                }
            }
            exports.push((format.name(), path));
        }
    }
    let Some(results) = check(directory.path(), &exports) else {
        return;
    };
    assert_eq!(results.len(), exports.len());
    for ((format, _), found) in exports.iter().zip(&results) {
        compare(tables, format, found, *format != "jsonl");
    }
}

#[test]
fn nasty_values_survive_every_format() {
    round_trip(&nasty_tables(700), TABLE_FORMATS);
}

#[test]
fn empty_tables_survive_every_format() {
    round_trip(&MemoryTables::default(), TABLE_FORMATS);
}

/// More rows than a row group of Parquet and a transaction of SQLite.
#[test]
fn many_rows_survive_groups_and_transactions() {
    let tables = MemoryTables { batches: crate::traces::operators(70_000) };
    round_trip(&tables, &[Format::Parquet, Format::Sqlite]);
}
