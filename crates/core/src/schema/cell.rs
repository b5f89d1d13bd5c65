//! Column storage, and the types that columns can hold.

use std::sync::Arc;

use super::ColumnType;

/// Text that many rows share: cloning costs a counter.
pub type Text = Arc<str>;

/// One column of a batch.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    pub data: ColumnData,
    /// One entry per row of a nullable column, `false` where the value is null; empty for other columns.
    pub valid: Vec<bool>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ColumnData {
    U64(Vec<u64>),
    I64(Vec<i64>),
    F64(Vec<f64>),
    Bool(Vec<bool>),
    Text(Vec<Text>),
}

impl Column {
    pub fn new(column_type: ColumnType) -> Self {
        let data = match column_type {
            ColumnType::U64 => ColumnData::U64(Vec::new()),
            ColumnType::I64 => ColumnData::I64(Vec::new()),
            ColumnType::F64 => ColumnData::F64(Vec::new()),
            ColumnType::Bool => ColumnData::Bool(Vec::new()),
            ColumnType::Text => ColumnData::Text(Vec::new()),
        };
        Self { data, valid: Vec::new() }
    }

    /// Reserves space for this many rows.
    pub fn reserve(&mut self, rows: usize, nullable: bool) {
        match &mut self.data {
            ColumnData::U64(values) => values.reserve_exact(rows),
            ColumnData::I64(values) => values.reserve_exact(rows),
            ColumnData::F64(values) => values.reserve_exact(rows),
            ColumnData::Bool(values) => values.reserve_exact(rows),
            ColumnData::Text(values) => values.reserve_exact(rows),
        }
        if nullable {
            self.valid.reserve_exact(rows);
        }
    }

    pub fn len(&self) -> usize {
        match &self.data {
            ColumnData::U64(values) => values.len(),
            ColumnData::I64(values) => values.len(),
            ColumnData::F64(values) => values.len(),
            ColumnData::Bool(values) => values.len(),
            ColumnData::Text(values) => values.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn column_type(&self) -> ColumnType {
        match &self.data {
            ColumnData::U64(_) => ColumnType::U64,
            ColumnData::I64(_) => ColumnType::I64,
            ColumnData::F64(_) => ColumnType::F64,
            ColumnData::Bool(_) => ColumnType::Bool,
            ColumnData::Text(_) => ColumnType::Text,
        }
    }

    /// Whether row `index` has a value.
    pub fn has_value(&self, index: usize) -> bool {
        index < self.len() && self.valid.get(index).copied().unwrap_or(true)
    }

    /// The values at these indices, all of which must be in range.
    pub(crate) fn take(&self, indices: &[usize]) -> Self {
        fn pick<T: Clone>(values: &[T], indices: &[usize]) -> Vec<T> {
            indices.iter().filter_map(|index| values.get(*index).cloned()).collect()
        }
        let data = match &self.data {
            ColumnData::U64(values) => ColumnData::U64(pick(values, indices)),
            ColumnData::I64(values) => ColumnData::I64(pick(values, indices)),
            ColumnData::F64(values) => ColumnData::F64(pick(values, indices)),
            ColumnData::Bool(values) => ColumnData::Bool(pick(values, indices)),
            ColumnData::Text(values) => ColumnData::Text(pick(values, indices)),
        };
        Self { data, valid: pick(&self.valid, indices) }
    }

    /// Puts the values of a column of the same type behind these.
    pub(crate) fn append(&mut self, other: &Self) {
        match (&mut self.data, &other.data) {
            (ColumnData::U64(values), ColumnData::U64(more)) => values.extend_from_slice(more),
            (ColumnData::I64(values), ColumnData::I64(more)) => values.extend_from_slice(more),
            (ColumnData::F64(values), ColumnData::F64(more)) => values.extend_from_slice(more),
            (ColumnData::Bool(values), ColumnData::Bool(more)) => values.extend_from_slice(more),
            (ColumnData::Text(values), ColumnData::Text(more)) => values.extend_from_slice(more),
            // Both columns are of one table: their types agree.
            _ => return,
        }
        self.valid.extend_from_slice(&other.valid);
    }

    /// Memory use. Shared text counts once per row, so the result is an upper bound.
    pub fn bytes(&self) -> usize {
        let values = match &self.data {
            ColumnData::U64(values) => values.len() * 8,
            ColumnData::I64(values) => values.len() * 8,
            ColumnData::F64(values) => values.len() * 8,
            ColumnData::Bool(values) => values.len(),
            ColumnData::Text(values) => values.iter().map(|text| text.len() + size_of::<Text>()).sum(),
        };
        values + self.valid.len()
    }
}

/// A type that a column can hold.
pub trait Cell: Sized {
    const TYPE: ColumnType;
    const NULLABLE: bool;

    fn push(&self, column: &mut Column);
    fn get(column: &Column, index: usize) -> Option<Self>;
}

macro_rules! plain_cell {
    ($type:ty, $variant:ident, $empty:expr) => {
        impl Cell for $type {
            const TYPE: ColumnType = ColumnType::$variant;
            const NULLABLE: bool = false;

            fn push(&self, column: &mut Column) {
                if let ColumnData::$variant(values) = &mut column.data {
                    values.push(self.clone());
                }
            }

            fn get(column: &Column, index: usize) -> Option<Self> {
                match &column.data {
                    ColumnData::$variant(values) => values.get(index).cloned(),
                    _ => None,
                }
            }
        }

        impl Cell for Option<$type> {
            const TYPE: ColumnType = ColumnType::$variant;
            const NULLABLE: bool = true;

            fn push(&self, column: &mut Column) {
                column.valid.push(self.is_some());
                match self {
                    Some(value) => value.push(column),
                    None => <$type>::from($empty).push(column),
                }
            }

            fn get(column: &Column, index: usize) -> Option<Self> {
                let value = <$type as Cell>::get(column, index)?;
                Some(column.valid.get(index).copied()?.then_some(value))
            }
        }
    };
}

plain_cell!(u64, U64, 0u64);
plain_cell!(i64, I64, 0i64);
plain_cell!(f64, F64, 0f64);
plain_cell!(bool, Bool, false);
plain_cell!(Text, Text, "");
