//! One column of one chunk as bytes: first where it has values, then the values it has.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ortscope_core::schema::{Column, ColumnData, ColumnDef, ColumnType};

use super::bytes::{Bytes, Problem};
use super::{bits, numbers, texts};
use crate::columns::empty_text;

/// How a column is best stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Nature {
    /// Values of their own.
    Own,
    /// Times that many rows share.
    SharedTimes,
}

pub(super) fn encode(column: &Column, nature: Nature) -> Result<Vec<u8>, Problem> {
    let mut bytes = Vec::new();
    bits::encode(&column.valid, &mut bytes);
    match &column.data {
        ColumnData::U64(values) if nature == Nature::SharedTimes => {
            numbers::encode_shared(values, &mut bytes)?;
        }
        ColumnData::U64(values) => numbers::encode(&present(values, &column.valid), &mut bytes)?,
        ColumnData::I64(values) => numbers::encode(&present(values, &column.valid), &mut bytes)?,
        ColumnData::F64(values) => numbers::encode(&present(values, &column.valid), &mut bytes)?,
        ColumnData::Bool(values) => bits::encode(&present(values, &column.valid), &mut bytes),
        ColumnData::Text(values) => {
            let has_value = |index: usize| column.valid.get(index).copied().unwrap_or(true);
            let texts =
                values.iter().enumerate().filter(|(index, _)| has_value(*index)).map(|(_, text)| text);
            texts::encode(texts, &mut bytes)?;
        }
    }
    Ok(bytes)
}

/// The values that are there; nulls are not stored.
fn present<'a, T: Copy>(values: &'a [T], valid: &[bool]) -> std::borrow::Cow<'a, [T]> {
    if valid.iter().all(|valid| *valid) {
        values.into()
    } else {
        values.iter().zip(valid).filter(|(_, valid)| **valid).map(|(value, _)| *value).collect()
    }
}

/// Reads a column of `rows` rows that was stored for this definition. The caller has bounded `rows`.
pub(super) fn decode(
    bytes: &[u8],
    rows: usize,
    def: &ColumnDef,
    was_nullable: bool,
) -> Result<Column, Problem> {
    // The checksum matched, so a writer wrote these bytes; a panic of the decoder still counts as damage.
    catch_unwind(AssertUnwindSafe(|| decode_trusting(bytes, rows, def, was_nullable)))
        .unwrap_or_else(|_| Err("it cannot be unpacked".into()))
}

fn decode_trusting(
    bytes: &[u8],
    rows: usize,
    def: &ColumnDef,
    was_nullable: bool,
) -> Result<Column, Problem> {
    let mut bytes = Bytes(bytes);
    let mut valid = bits::decode(&mut bytes, if was_nullable { rows } else { 0 })?;
    let has_nulls = valid.iter().any(|valid| !valid);
    if has_nulls && !def.nullable {
        return Err("it has nulls where there must be none".into());
    }
    let count = if was_nullable { valid.iter().filter(|valid| **valid).count() } else { rows };
    let data = match def.column_type {
        ColumnType::U64 => ColumnData::U64(spread(numbers::decode(&mut bytes, count)?, &valid, has_nulls, 0)),
        ColumnType::I64 => ColumnData::I64(spread(numbers::decode(&mut bytes, count)?, &valid, has_nulls, 0)),
        ColumnType::F64 => {
            ColumnData::F64(spread(numbers::decode(&mut bytes, count)?, &valid, has_nulls, 0.0))
        }
        ColumnType::Bool => {
            ColumnData::Bool(spread(bits::decode(&mut bytes, count)?, &valid, has_nulls, false))
        }
        ColumnType::Text => {
            ColumnData::Text(spread(texts::decode(&mut bytes, count)?, &valid, has_nulls, empty_text()))
        }
    };
    match (def.nullable, was_nullable) {
        (true, false) => valid = vec![true; rows],
        (false, _) => valid.clear(),
        (true, true) => {}
    }
    Ok(Column { data, valid })
}

/// Puts the values in their rows, and `blank` where there is none.
fn spread<T: Clone>(values: Vec<T>, valid: &[bool], has_nulls: bool, blank: T) -> Vec<T> {
    if !has_nulls {
        return values;
    }
    let mut values = values.into_iter();
    valid
        .iter()
        .map(|valid| if *valid { values.next().unwrap_or_else(|| blank.clone()) } else { blank.clone() })
        .collect()
}
