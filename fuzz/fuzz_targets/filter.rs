//! Any text as a filter: never a panic, one sentence when it is none; what is accepted reads back as itself and can be
//! asked of rows of every table.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use ortscope_core::batch::Batch;
use ortscope_core::filter::Filter;
use ortscope_core::schema::{Column, ColumnData, ColumnType, TableId};

/// Two rows of each table: one of small values, one of the largest, and nulls where there may be some.
static ROWS: LazyLock<Vec<Batch>> = LazyLock::new(|| {
    TableId::ALL
        .iter()
        .map(|table| {
            let columns = table.def().columns.iter().map(|column| Column {
                data: match column.column_type {
                    ColumnType::U64 => ColumnData::U64(vec![1, u64::MAX]),
                    ColumnType::I64 => ColumnData::I64(vec![i64::MIN, i64::MAX]),
                    ColumnType::F64 => ColumnData::F64(vec![0.5, f64::NAN]),
                    ColumnType::Bool => ColumnData::Bool(vec![false, true]),
                    ColumnType::Text => ColumnData::Text(vec!["Conv".into(), "ä\0".into()]),
                },
                valid: if column.nullable { vec![true, false] } else { Vec::new() },
            });
            Batch::from_columns(*table, columns.collect()).expect("columns of the table")
        })
        .collect()
});

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Filter::parse(text) {
        Ok(filter) => {
            let shown = filter.to_string();
            let again = Filter::parse(&shown);
            assert_eq!(again.as_ref(), Ok(&filter), "{shown:?} of {text:?}");
            let _ = filter.check_range(7).is_ok() & filter.scan(u64::MAX).every_tick;
            // One table, so that most inputs stay cheap; all get their turn.
            let batch = &ROWS[data.len() % ROWS.len()];
            assert_eq!(filter.mask(batch, 7).len(), 2);
            assert!(!filter.columns(batch.table()).is_empty());
        }
        Err(error) => {
            let sentence = error.to_string();
            assert!(!sentence.is_empty() && !sentence.contains('\n'), "one sentence: {sentence:?}");
        }
    }
});
