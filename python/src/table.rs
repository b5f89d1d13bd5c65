//! A table of a recording as a Python object: the columns stay here, and all consumers share the same memory.
//!
//! pandas, polars and pyarrow take it through `__arrow_c_stream__` ([`crate::arrow`]), numpy through the address of a
//! column. Numbers are never copied; booleans, texts and nulls have another form in Arrow and are packed once, on
//! first use.

use std::sync::{Arc, OnceLock};

use ortscope_core::batch::Batch;
use ortscope_core::schema::{Column, ColumnData};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList};

use crate::arrow;

/// A table, all rows in one piece.
#[pyclass(frozen, module = "ortscope._native")]
#[derive(Debug)]
pub struct TableData {
    table: Arc<Packed>,
}

/// Rows, with the parts that Arrow needs in another form.
#[derive(Debug)]
pub struct Packed {
    pub batch: Batch,
    columns: OnceLock<Vec<PackedColumn>>,
}

/// The parts of a column besides its numbers that Arrow needs.
#[derive(Debug)]
pub struct PackedColumn {
    /// One bit per row, set where there is a value; `None`: there always is.
    pub validity: Option<Vec<u8>>,
    pub missing: usize,
    pub form: Form,
}

/// The values in Arrow's form.
#[derive(Debug)]
pub enum Form {
    /// As they are.
    Numbers,
    /// One bit per row.
    Bits(Vec<u8>),
    /// Where each text begins, and all texts one behind the other.
    Text(Vec<i32>, Vec<u8>),
    /// The same for more than two gigabytes of text.
    LargeText(Vec<i64>, Vec<u8>),
}

impl TableData {
    pub fn new(batch: Batch) -> Self {
        Self { table: Arc::new(Packed { batch, columns: OnceLock::new() }) }
    }

    fn column(&self, name: &str) -> PyResult<&Column> {
        let batch = &self.table.batch;
        batch.column(name).ok_or_else(|| {
            let definition = batch.table().def();
            let known: Vec<&str> = definition.columns.iter().map(|column| column.name).collect();
            PyKeyError::new_err(format!(
                "{} has no column '{name}'; it has {}",
                definition.name,
                known.join(", ")
            ))
        })
    }
}

impl Packed {
    pub fn columns(&self) -> &[PackedColumn] {
        self.columns.get_or_init(|| self.batch.columns().iter().map(PackedColumn::new).collect())
    }
}

impl PackedColumn {
    fn new(column: &Column) -> Self {
        let missing = column.valid.iter().filter(|valid| !**valid).count();
        let form = match &column.data {
            ColumnData::U64(_) | ColumnData::I64(_) | ColumnData::F64(_) => Form::Numbers,
            ColumnData::Bool(values) => Form::Bits(bits(values)),
            ColumnData::Text(values) => {
                let bytes: Vec<u8> = values.iter().flat_map(|text| text.bytes()).collect();
                let ends = values.iter().scan(0, |end, text| {
                    *end += text.len();
                    Some(*end)
                });
                if i32::try_from(bytes.len()).is_ok() {
                    Form::Text(std::iter::once(0).chain(ends.map(|end| end as i32)).collect(), bytes)
                } else {
                    Form::LargeText(std::iter::once(0).chain(ends.map(|end| end as i64)).collect(), bytes)
                }
            }
        };
        Self { validity: (missing > 0).then(|| bits(&column.valid)), missing, form }
    }
}

/// Truth values, eight to a byte, the first in the lowest bit.
fn bits(values: &[bool]) -> Vec<u8> {
    let byte = |eight: &[bool]| {
        eight.iter().enumerate().fold(0, |byte, (place, value)| byte | (u8::from(*value) << place))
    };
    values.chunks(8).map(byte).collect()
}

#[pymethods]
impl TableData {
    fn __len__(&self) -> usize {
        self.table.batch.len()
    }

    /// Name and type of every column: `u64`, `i64`, `f64`, `bool` or `text`.
    #[getter]
    fn columns(&self) -> Vec<(&'static str, &'static str)> {
        let batch = &self.table.batch;
        let named = batch.table().def().columns.iter().zip(batch.columns());
        named.map(|(definition, column)| (definition.name, kind(column))).collect()
    }

    /// The values of a column; `None` where there is none.
    fn values<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyList>> {
        let column = self.column(name)?;
        let valid = |row: usize| column.valid.get(row).copied().unwrap_or(true);
        macro_rules! list {
            ($values:expr, $value:ident => $shown:expr) => {
                PyList::new(py, $values.iter().enumerate().map(|(row, $value)| valid(row).then_some($shown)))
            };
        }
        match &column.data {
            ColumnData::U64(values) => list!(values, value => *value),
            ColumnData::I64(values) => list!(values, value => *value),
            ColumnData::F64(values) => list!(values, value => *value),
            ColumnData::Bool(values) => list!(values, value => *value),
            ColumnData::Text(values) => list!(values, value => &**value),
        }
    }

    /// The addresses of a column's values and of its validity bytes, one per row (`None` if it is never null). Both
    /// stay valid as long as this object; texts have no address.
    fn addresses(&self, name: &str) -> PyResult<(Option<usize>, Option<usize>)> {
        let column = self.column(name)?;
        let values = match &column.data {
            ColumnData::U64(values) => Some(values.as_ptr().addr()),
            ColumnData::I64(values) => Some(values.as_ptr().addr()),
            ColumnData::F64(values) => Some(values.as_ptr().addr()),
            ColumnData::Bool(values) => Some(values.as_ptr().addr()),
            ColumnData::Text(_) => None,
        };
        let valid = &column.valid;
        Ok((values, (!valid.is_empty()).then(|| valid.as_ptr().addr())))
    }

    /// Types and names of the columns for Arrow consumers.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        arrow::schema_capsule(py, &self.table)
    }

    /// The table for Arrow consumers. A requested schema is ignored, which the interface allows.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        py.detach(|| self.table.columns().len());
        arrow::stream_capsule(py, &self.table)
    }
}

fn kind(column: &Column) -> &'static str {
    match &column.data {
        ColumnData::U64(_) => "u64",
        ColumnData::I64(_) => "i64",
        ColumnData::F64(_) => "f64",
        ColumnData::Bool(_) => "bool",
        ColumnData::Text(_) => "text",
    }
}
