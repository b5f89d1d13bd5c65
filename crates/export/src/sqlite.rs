//! SQLite: one database, one table for each of ours, and two that explain them: `info` (the recording, key and value)
//! and `columns` (table, column, type, unit, documentation).
//!
//! SQLite has no unsigned integers: a number beyond 2^63-1 is stored as the number minus 2^64, which keeps its bits, and
//! `columns.wrapped_values` counts them. SQLite has no NaN either: it becomes NULL, and `columns.nan_values` counts it
//! (so real columns are never NOT NULL). Infinities are kept, the sign of a zero is not. Booleans are 0 and 1.

use std::path::Path;

use ortscope_core::batch::Batch;
use ortscope_core::schema::{Column, ColumnData, ColumnType, TableId, TableKind};
use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, Statement, params_from_iter};

use crate::error::ExportError;
use crate::info::SCHEMA;
use crate::source::{RowSource, TableRows};

/// Rows that one transaction takes: enough that committing costs nothing, few enough for the page cache.
const TRANSACTION_ROWS: u64 = 50_000;

/// Writes into an empty file.
pub(crate) fn write(source: &RowSource<'_>, path: &Path) -> Result<Vec<TableRows>, ExportError> {
    let database = Connection::open(path)?;
    // The file gets its name only when it is complete, so it needs no protection against a crash.
    database.execute_batch(
        "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE; \
         PRAGMA cache_size = -8192; PRAGMA application_id = 1330795347;",
    )?;
    describe_recording(&database, source)?;
    let mut written = Vec::new();
    for table in source.selected.iter().copied() {
        let mut odd = OddValues::of(table);
        let rows = write_table(&database, source, table, &mut odd)?;
        describe_columns(&database, table, &odd)?;
        written.push(TableRows { table, rows });
    }
    database.close().map_err(|(_, error)| error)?;
    Ok(written)
}

/// Values that SQLite cannot hold as they are, by column.
struct OddValues {
    wrapped: Vec<u64>,
    nan: Vec<u64>,
}

impl OddValues {
    fn of(table: TableId) -> Self {
        let columns = table.def().columns.len();
        Self { wrapped: vec![0; columns], nan: vec![0; columns] }
    }
}

fn describe_recording(database: &Connection, source: &RowSource<'_>) -> Result<(), ExportError> {
    database.execute_batch(
        "BEGIN;
         CREATE TABLE info (key TEXT PRIMARY KEY NOT NULL, value TEXT NOT NULL) WITHOUT ROWID;
         CREATE TABLE columns (
            table_name TEXT NOT NULL, column_name TEXT NOT NULL, position INTEGER NOT NULL, type TEXT NOT NULL,
            unit TEXT NOT NULL, nullable INTEGER NOT NULL, is_sample_key INTEGER NOT NULL, doc TEXT NOT NULL,
            wrapped_values INTEGER NOT NULL, nan_values INTEGER NOT NULL,
            PRIMARY KEY (table_name, column_name));",
    )?;
    let mut insert = database.prepare("INSERT INTO info VALUES (?, ?)")?;
    insert.execute(["schema", SCHEMA])?;
    for (key, value) in source.head().fields() {
        insert.execute([key, value])?;
    }
    database.execute_batch("COMMIT")?;
    Ok(())
}

fn describe_columns(database: &Connection, table: TableId, odd: &OddValues) -> Result<(), ExportError> {
    let def = table.def();
    let keys: &[&str] = match def.kind {
        TableKind::Samples(keys) => keys,
        TableKind::Events => &[],
    };
    database.execute_batch("BEGIN")?;
    let mut insert = database.prepare("INSERT INTO columns VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")?;
    for (position, column) in def.columns.iter().enumerate() {
        let word = |value: serde_json::Result<serde_json::Value>| {
            value.ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
        };
        insert.execute(rusqlite::params![
            def.name,
            column.name,
            position as i64,
            word(serde_json::to_value(column.column_type)),
            word(serde_json::to_value(column.unit)),
            column.nullable,
            keys.contains(&column.name),
            column.doc.trim(),
            odd.wrapped[position] as i64,
            odd.nan[position] as i64,
        ])?;
    }
    database.execute_batch("COMMIT")?;
    Ok(())
}

fn write_table(
    database: &Connection,
    source: &RowSource<'_>,
    table: TableId,
    odd: &mut OddValues,
) -> Result<u64, ExportError> {
    let def = table.def();
    let columns: Vec<String> = def
        .columns
        .iter()
        .map(|column| {
            let (kind, can_be_null) = match column.column_type {
                ColumnType::U64 | ColumnType::I64 | ColumnType::Bool => ("INTEGER", column.nullable),
                ColumnType::F64 => ("REAL", true),
                ColumnType::Text => ("TEXT", column.nullable),
            };
            format!("\"{}\" {kind}{}", column.name, if can_be_null { "" } else { " NOT NULL" })
        })
        .collect();
    database.execute_batch(&format!("CREATE TABLE \"{}\" ({})", def.name, columns.join(", ")))?;

    let places = vec!["?"; def.columns.len()].join(", ");
    let mut insert = database.prepare(&format!("INSERT INTO \"{}\" VALUES ({places})", def.name))?;
    let (mut rows, mut in_transaction) = (0u64, 0u64);
    for batch in source.batches(table) {
        let batch = batch?;
        for row in 0..batch.len() {
            if in_transaction == 0 {
                database.execute_batch("BEGIN")?;
            }
            write_row(&mut insert, &batch, row, odd)?;
            rows += 1;
            in_transaction += 1;
            if in_transaction == TRANSACTION_ROWS {
                database.execute_batch("COMMIT")?;
                in_transaction = 0;
            }
        }
    }
    if in_transaction > 0 {
        database.execute_batch("COMMIT")?;
    }
    Ok(rows)
}

fn write_row(
    insert: &mut Statement<'_>,
    batch: &Batch,
    row: usize,
    odd: &mut OddValues,
) -> Result<(), rusqlite::Error> {
    let columns = batch.columns();
    for (index, column) in columns.iter().enumerate() {
        if column.has_value(row) {
            match &column.data {
                ColumnData::U64(values) => odd.wrapped[index] += u64::from(values[row] > i64::MAX as u64),
                ColumnData::F64(values) => odd.nan[index] += u64::from(values[row].is_nan()),
                _ => {}
            }
        }
    }
    insert.execute(params_from_iter(columns.iter().map(|column| cell(column, row))))?;
    Ok(())
}

fn cell(column: &Column, row: usize) -> ToSqlOutput<'_> {
    if !column.has_value(row) {
        return ToSqlOutput::Owned(Value::Null);
    }
    match &column.data {
        ColumnData::U64(values) => ToSqlOutput::Owned(Value::Integer(values[row] as i64)),
        ColumnData::I64(values) => ToSqlOutput::Owned(Value::Integer(values[row])),
        ColumnData::F64(values) => ToSqlOutput::Owned(Value::Real(values[row])),
        ColumnData::Bool(values) => ToSqlOutput::Owned(Value::Integer(values[row].into())),
        ColumnData::Text(values) => ToSqlOutput::Borrowed(ValueRef::Text(values[row].as_bytes())),
    }
}
