//! Batch to bytes.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use ortscope_core::batch::Batch;
use ortscope_core::schema::{Column, ColumnData, Text};

use super::bytes::{from_signed, put_bits, put_numbers, put_words};
use super::schema::{WrittenSchema, schema_checksum};
use super::{HEAD_BYTES, Presence, index_bytes};

/// Writes batches of this program's schema.
#[derive(Debug)]
pub struct BatchEncoder {
    schema: Vec<u8>,
    checksum: u32,
}

impl Default for BatchEncoder {
    fn default() -> Self {
        let schema = WrittenSchema::current().to_json();
        Self { checksum: schema_checksum(&schema), schema }
    }
}

impl BatchEncoder {
    /// The schema text that must precede the batches.
    pub fn schema_json(&self) -> &[u8] {
        &self.schema
    }

    /// Replaces the content of `out` by these rows of the batch; rows beyond its end are ignored.
    pub fn encode(&self, batch: &Batch, rows: Range<usize>, out: &mut Vec<u8>) {
        let rows = rows.start.min(batch.len())..rows.end.min(batch.len());
        out.clear();
        out.reserve(HEAD_BYTES + batch.columns().len() * rows.len() * 8);
        out.extend_from_slice(&self.checksum.to_le_bytes());
        out.extend_from_slice(&(batch.table() as u16).to_le_bytes());
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&(rows.len() as u32).to_le_bytes());
        let texts = TextTable::of(batch.columns(), &rows);
        texts.put(out);
        let mut text_columns = texts.indices.chunks(rows.len().max(1));
        for (number, (column, def)) in batch.columns().iter().zip(batch.table().def().columns).enumerate() {
            let is_first = number == 0;
            let presence = presence(column, &rows);
            if def.nullable {
                out.push(presence as u8);
                if presence == Presence::Some {
                    put_bits(out, &column.valid[rows.clone()]);
                }
            }
            match &column.data {
                ColumnData::U64(times) if is_first => put_words(out, times[rows.clone()].iter().copied()),
                _ if presence == Presence::None => {}
                _ => put_values(column, &rows, &texts, &mut text_columns, out),
            }
        }
    }
}

fn put_values<'t>(
    column: &Column,
    rows: &Range<usize>,
    texts: &TextTable<'_>,
    text_columns: &mut impl Iterator<Item = &'t [u32]>,
    out: &mut Vec<u8>,
) {
    match &column.data {
        ColumnData::U64(values) => put_numbers(out, values[rows.clone()].iter().copied()),
        ColumnData::I64(values) => put_numbers(out, values[rows.clone()].iter().copied().map(from_signed)),
        ColumnData::F64(values) => put_numbers(out, values[rows.clone()].iter().map(|value| value.to_bits())),
        ColumnData::Bool(values) => put_bits(out, &values[rows.clone()]),
        ColumnData::Text(_) => {
            let indices = text_columns.next().unwrap_or_default();
            match index_bytes(texts.entries.len()) {
                1 => out.extend(indices.iter().map(|index| *index as u8)),
                2 => out.extend(indices.iter().flat_map(|index| (*index as u16).to_le_bytes())),
                _ => out.extend(indices.iter().flat_map(|index| index.to_le_bytes())),
            }
        }
    }
}

fn presence(column: &Column, rows: &Range<usize>) -> Presence {
    let valid = column.valid.get(rows.clone()).unwrap_or_default();
    match valid.iter().filter(|valid| **valid).count() {
        count if count == valid.len() => Presence::All,
        0 => Presence::None,
        _ => Presence::Some,
    }
}

/// The different texts of a batch, and the index of each value of its text columns, one column after the other. Columns
/// without any value are left out.
#[derive(Default)]
struct TextTable<'a> {
    entries: Vec<&'a str>,
    known: HashMap<&'a str, u32>,
    indices: Vec<u32>,
}

impl<'a> TextTable<'a> {
    fn of(columns: &'a [Column], rows: &Range<usize>) -> Self {
        let mut table = Self::default();
        for column in columns {
            if let ColumnData::Text(values) = &column.data
                && presence(column, rows) != Presence::None
            {
                table.add(&values[rows.clone()]);
            }
        }
        table
    }

    fn add(&mut self, values: &'a [Text]) {
        // Rows mostly share the text of the row before: the very same object, which costs no look-up.
        let mut last: Option<(&Text, u32)> = None;
        for value in values {
            let index = match last {
                Some((text, index)) if Arc::ptr_eq(text, value) => index,
                _ => *self.known.entry(value).or_insert_with(|| {
                    self.entries.push(value);
                    (self.entries.len() - 1) as u32
                }),
            };
            last = Some((value, index));
            self.indices.push(index);
        }
    }

    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.entries.len() as u32).to_le_bytes());
        out.extend(self.entries.iter().flat_map(|text| (text.len() as u32).to_le_bytes()));
        for text in &self.entries {
            out.extend_from_slice(text.as_bytes());
        }
    }
}
