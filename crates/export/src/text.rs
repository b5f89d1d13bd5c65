//! Text output in whole pieces: values as JSON, and a buffer that is only written at the end of a row or event, so that
//! a file that was cut off ends where something complete ends.

use std::io::{self, Write};

use ortscope_core::batch::Batch;
use ortscope_core::schema::{Column, ColumnData, TableId};
use serde::Serialize;

/// Bytes that are gathered before they are written.
const CHUNK_BYTES: usize = 64 << 10;

pub(crate) struct Chunked<'w> {
    out: Box<dyn Write + Send + 'w>,
    pub(crate) bytes: Vec<u8>,
    written: u64,
}

impl<'w> Chunked<'w> {
    pub(crate) fn new(out: impl Write + Send + 'w) -> Self {
        let bytes = Vec::with_capacity(CHUNK_BYTES + CHUNK_BYTES / 4);
        Self { out: Box::new(out), bytes, written: 0 }
    }

    /// Bytes that have left the buffer.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Something is complete: here the output may be cut.
    pub(crate) fn boundary(&mut self) -> io::Result<()> {
        if self.bytes.len() >= CHUNK_BYTES { self.flush() } else { Ok(()) }
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.out.write_all(&self.bytes)?;
        self.written += self.bytes.len() as u64;
        self.bytes.clear();
        Ok(())
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.bytes.extend_from_slice(text.as_bytes());
    }

    pub(crate) fn json<T: Serialize + ?Sized>(&mut self, value: &T) {
        json(&mut self.bytes, value);
    }
}

/// Appends a value as JSON.
pub(crate) fn json<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    // Memory cannot refuse bytes, and our types have text keys and no maps of their own making.
    serde_json::to_writer(out, value).ok();
}

/// JSON has no word for what is not a number. Texts keep it apart from a missing value, in the words that Protocol
/// Buffers' JSON uses.
pub(crate) fn json_f64(out: &mut Vec<u8>, value: f64) {
    if value.is_finite() {
        json(out, &value);
    } else if value.is_nan() {
        out.extend_from_slice(b"\"NaN\"");
    } else {
        out.extend_from_slice(if value > 0.0 { b"\"Infinity\"" } else { b"\"-Infinity\"" });
    }
}

fn json_cell(out: &mut Vec<u8>, column: &Column, row: usize) {
    if !column.has_value(row) {
        out.extend_from_slice(b"null");
        return;
    }
    match &column.data {
        ColumnData::U64(values) => json(out, &values[row]),
        ColumnData::I64(values) => json(out, &values[row]),
        ColumnData::F64(values) => json_f64(out, values[row]),
        ColumnData::Bool(values) => json(out, &values[row]),
        ColumnData::Text(values) => json(out, &*values[row]),
    }
}

/// Writes rows of one table as JSON objects.
pub(crate) struct JsonRows {
    /// What stands before each value: a comma but for the first, and the name.
    keys: Vec<Vec<u8>>,
}

impl JsonRows {
    /// `first` are members that every object starts with, like `"table":"operators"`.
    pub(crate) fn new(table: TableId, first: &str) -> Self {
        let mut keys = Vec::new();
        for (index, column) in table.def().columns.iter().enumerate() {
            let mut key = if index == 0 { format!("{{{first}").into_bytes() } else { Vec::new() };
            if index > 0 || !first.is_empty() {
                key.push(b',');
            }
            // A member of that name says already which table the row is of.
            let name =
                if column.name == "table" && !first.is_empty() { "sampled_table" } else { column.name };
            json(&mut key, name);
            key.push(b':');
            keys.push(key);
        }
        Self { keys }
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>, batch: &Batch, row: usize) {
        for (key, column) in self.keys.iter().zip(batch.columns()) {
            out.extend_from_slice(key);
            json_cell(out, column, row);
        }
        out.push(b'}');
    }
}
