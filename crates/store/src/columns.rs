//! Work on columns in place: compare, copy, pick and join cells without going through typed rows.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use ortscope_core::batch::Batch;
use ortscope_core::schema::{Column, ColumnData, ColumnDef, ColumnType, TableId, Text};

/// A text that all empty cells share.
pub(crate) fn empty_text() -> Text {
    static EMPTY: OnceLock<Text> = OnceLock::new();
    Text::clone(EMPTY.get_or_init(|| Text::from("")))
}

/// A column of zeros, empty texts and, where the table allows them, nulls.
pub(crate) fn blank_column(def: &ColumnDef, rows: usize) -> Column {
    let data = match def.column_type {
        ColumnType::U64 => ColumnData::U64(vec![0; rows]),
        ColumnType::I64 => ColumnData::I64(vec![0; rows]),
        ColumnType::F64 => ColumnData::F64(vec![0.0; rows]),
        ColumnType::Bool => ColumnData::Bool(vec![false; rows]),
        ColumnType::Text => ColumnData::Text(vec![empty_text(); rows]),
    };
    Column { data, valid: if def.nullable { vec![false; rows] } else { Vec::new() } }
}

/// Empty columns of a table.
pub(crate) fn empty_columns(table: TableId) -> Vec<Column> {
    table.def().columns.iter().map(|column| Column::new(column.column_type)).collect()
}

/// A batch of columns that fit by construction; an empty one if they should not.
pub(crate) fn batch_of(table: TableId, columns: Vec<Column>) -> Batch {
    Batch::from_columns(table, columns).unwrap_or_else(|problem| {
        debug_assert!(false, "{problem}");
        Batch::new(table)
    })
}

fn same_text(a: &Text, b: &Text) -> bool {
    Arc::ptr_eq(a, b) || a == b
}

/// Sets `marks[i]` where cell `current[range][i]` differs from `previous[from + i]`. Numbers differ by their bits, so
/// that NaN equals itself. Whole slices are compared first: most columns of most ticks do not change at all.
pub(crate) fn mark_changes(
    current: &Column,
    range: Range<usize>,
    previous: &Column,
    from: usize,
    marks: &mut [bool],
) {
    let before = from..from + range.len();
    match (&current.data, &previous.data) {
        (ColumnData::U64(now), ColumnData::U64(then)) => {
            mark(&now[range.clone()], &then[before.clone()], marks);
        }
        (ColumnData::I64(now), ColumnData::I64(then)) => {
            mark(&now[range.clone()], &then[before.clone()], marks);
        }
        (ColumnData::Bool(now), ColumnData::Bool(then)) => {
            mark(&now[range.clone()], &then[before.clone()], marks);
        }
        (ColumnData::F64(now), ColumnData::F64(then)) => {
            for ((now, then), mark) in
                now[range.clone()].iter().zip(&then[before.clone()]).zip(marks.iter_mut())
            {
                *mark |= now.to_bits() != then.to_bits();
            }
        }
        (ColumnData::Text(now), ColumnData::Text(then)) => {
            for ((now, then), mark) in
                now[range.clone()].iter().zip(&then[before.clone()]).zip(marks.iter_mut())
            {
                *mark |= !same_text(now, then);
            }
        }
        // Both columns are of one table: their types agree.
        _ => marks.fill(true),
    }
    if !current.valid.is_empty() {
        mark(&current.valid[range], &previous.valid[before], marks);
    }
}

#[inline]
fn mark<T: PartialEq>(now: &[T], then: &[T], marks: &mut [bool]) {
    if now != then {
        for ((now, then), mark) in now.iter().zip(then).zip(marks.iter_mut()) {
            *mark |= now != then;
        }
    }
}

/// Whether a stretch of cells equals another one.
pub(crate) fn same_stretch(a: &Column, range: Range<usize>, b: &Column, from: usize) -> bool {
    let other = from..from + range.len();
    let values = match (&a.data, &b.data) {
        (ColumnData::U64(a), ColumnData::U64(b)) => a[range.clone()] == b[other.clone()],
        (ColumnData::I64(a), ColumnData::I64(b)) => a[range.clone()] == b[other.clone()],
        (ColumnData::Bool(a), ColumnData::Bool(b)) => a[range.clone()] == b[other.clone()],
        (ColumnData::F64(a), ColumnData::F64(b)) => {
            a[range.clone()].iter().zip(&b[other.clone()]).all(|(a, b)| a.to_bits() == b.to_bits())
        }
        (ColumnData::Text(a), ColumnData::Text(b)) => {
            a[range.clone()].iter().zip(&b[other.clone()]).all(|(a, b)| same_text(a, b))
        }
        _ => false,
    };
    values && (a.valid.is_empty() || a.valid[range] == b.valid[other])
}

pub(crate) fn same_cell(a: &Column, at: usize, b: &Column, other: usize) -> bool {
    same_stretch(a, at..at + 1, b, other)
}

/// Overwrites cell `at` of `to` with cell `index` of `from`.
pub(crate) fn set_cell(to: &mut Column, at: usize, from: &Column, index: usize) {
    match (&mut to.data, &from.data) {
        (ColumnData::U64(to), ColumnData::U64(from)) => to[at] = from[index],
        (ColumnData::I64(to), ColumnData::I64(from)) => to[at] = from[index],
        (ColumnData::F64(to), ColumnData::F64(from)) => to[at] = from[index],
        (ColumnData::Bool(to), ColumnData::Bool(from)) => to[at] = from[index],
        (ColumnData::Text(to), ColumnData::Text(from)) => to[at] = Text::clone(&from[index]),
        _ => return,
    }
    if !from.valid.is_empty() {
        to.valid[at] = from.valid[index];
    }
}

/// Puts a stretch of cells behind a column of the same type.
pub(crate) fn append_stretch(to: &mut Column, from: &Column, range: Range<usize>) {
    match (&mut to.data, &from.data) {
        (ColumnData::U64(to), ColumnData::U64(from)) => to.extend_from_slice(&from[range.clone()]),
        (ColumnData::I64(to), ColumnData::I64(from)) => to.extend_from_slice(&from[range.clone()]),
        (ColumnData::F64(to), ColumnData::F64(from)) => to.extend_from_slice(&from[range.clone()]),
        (ColumnData::Bool(to), ColumnData::Bool(from)) => to.extend_from_slice(&from[range.clone()]),
        (ColumnData::Text(to), ColumnData::Text(from)) => to.extend_from_slice(&from[range.clone()]),
        _ => return,
    }
    if !from.valid.is_empty() {
        to.valid.extend_from_slice(&from.valid[range]);
    }
}

/// The cells at these indices, in this order.
pub(crate) fn pick(column: &Column, indices: &[u32]) -> Column {
    fn of<T: Clone>(values: &[T], indices: &[u32]) -> Vec<T> {
        indices.iter().map(|index| values[*index as usize].clone()).collect()
    }
    let data = match &column.data {
        ColumnData::U64(values) => ColumnData::U64(of(values, indices)),
        ColumnData::I64(values) => ColumnData::I64(of(values, indices)),
        ColumnData::F64(values) => ColumnData::F64(of(values, indices)),
        ColumnData::Bool(values) => ColumnData::Bool(of(values, indices)),
        ColumnData::Text(values) => ColumnData::Text(of(values, indices)),
    };
    let valid = if column.valid.is_empty() { Vec::new() } else { of(&column.valid, indices) };
    Column { data, valid }
}

/// Removes one cell; those behind it move up.
pub(crate) fn remove_cell(column: &mut Column, at: usize) {
    match &mut column.data {
        ColumnData::U64(values) => drop(values.remove(at)),
        ColumnData::I64(values) => drop(values.remove(at)),
        ColumnData::F64(values) => drop(values.remove(at)),
        ColumnData::Bool(values) => drop(values.remove(at)),
        ColumnData::Text(values) => drop(values.remove(at)),
    }
    if !column.valid.is_empty() {
        column.valid.remove(at);
    }
}

/// An order of cells, for sorting by key columns.
pub(crate) fn compare_cells(column: &Column, a: usize, b: usize) -> Ordering {
    let values = match &column.data {
        ColumnData::U64(values) => values[a].cmp(&values[b]),
        ColumnData::I64(values) => values[a].cmp(&values[b]),
        ColumnData::F64(values) => values[a].total_cmp(&values[b]),
        ColumnData::Bool(values) => values[a].cmp(&values[b]),
        ColumnData::Text(values) if Arc::ptr_eq(&values[a], &values[b]) => Ordering::Equal,
        ColumnData::Text(values) => values[a].cmp(&values[b]),
    };
    if column.valid.is_empty() { values } else { column.valid[a].cmp(&column.valid[b]).then(values) }
}

/// The numbers of an integer column without nulls, such as a time.
pub(crate) fn integers(column: &Column) -> &[u64] {
    match &column.data {
        ColumnData::U64(values) => values,
        _ => &[],
    }
}
