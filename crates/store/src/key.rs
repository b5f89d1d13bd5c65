//! The identity of a sampled thing: the values of its table's key columns.

use ortscope_core::schema::{Column, ColumnData, ColumnType, TableDef, TableKind, Text};
use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum KeyPart {
    Null,
    Unsigned(u64),
    Signed(i64),
    /// By its bits.
    Float(u64),
    Bool(bool),
    Text(Text),
}

pub(crate) type Key = Vec<KeyPart>;

/// The numbers of a table's key columns; none for tables of events.
pub(crate) fn key_columns(def: &TableDef) -> Vec<usize> {
    match def.kind {
        TableKind::Samples(keys) => keys.iter().filter_map(|key| def.column_index(key)).collect(),
        TableKind::Events => Vec::new(),
    }
}

/// The key of row `row`.
pub(crate) fn key_of(columns: &[Column], keys: &[usize], row: usize) -> Key {
    keys.iter()
        .map(|key| {
            let column = &columns[*key];
            if !column.has_value(row) {
                return KeyPart::Null;
            }
            match &column.data {
                ColumnData::U64(values) => KeyPart::Unsigned(values[row]),
                ColumnData::I64(values) => KeyPart::Signed(values[row]),
                ColumnData::F64(values) => KeyPart::Float(values[row].to_bits()),
                ColumnData::Bool(values) => KeyPart::Bool(values[row]),
                ColumnData::Text(values) => KeyPart::Text(Text::clone(&values[row])),
            }
        })
        .collect()
}

/// The key as stored in `sample_ends`: a JSON list.
pub(crate) fn key_to_json(key: &Key) -> Text {
    let parts = key.iter().map(|part| match part {
        KeyPart::Null => Value::Null,
        KeyPart::Unsigned(value) => (*value).into(),
        KeyPart::Signed(value) => (*value).into(),
        KeyPart::Float(bits) => f64::from_bits(*bits).into(),
        KeyPart::Bool(value) => (*value).into(),
        KeyPart::Text(value) => (**value).into(),
    });
    Value::Array(parts.collect()).to_string().into()
}

/// The key back from its JSON; `None` if it does not fit the table.
pub(crate) fn key_from_json(json: &str, def: &TableDef, keys: &[usize]) -> Option<Key> {
    let parts: Vec<Value> = serde_json::from_str(json).ok()?;
    if parts.len() != keys.len() {
        return None;
    }
    let part = |(value, key): (Value, &usize)| {
        Some(match (value, def.columns[*key].column_type) {
            (Value::Null, _) => KeyPart::Null,
            (value, ColumnType::U64) => KeyPart::Unsigned(value.as_u64()?),
            (value, ColumnType::I64) => KeyPart::Signed(value.as_i64()?),
            (value, ColumnType::F64) => KeyPart::Float(value.as_f64()?.to_bits()),
            (value, ColumnType::Bool) => KeyPart::Bool(value.as_bool()?),
            (Value::String(text), ColumnType::Text) => KeyPart::Text(text.into()),
            _ => return None,
        })
    };
    parts.into_iter().zip(keys).map(part).collect()
}

#[cfg(test)]
mod tests {
    use ortscope_core::batch::Batch;
    use ortscope_core::schema::{DeviceSampleRow, TableId, ThreadSampleRow};

    use super::*;

    #[test]
    fn keys_survive_their_text() {
        let mut threads = Batch::new(TableId::ThreadSamples);
        threads.push(&ThreadSampleRow {
            pid: u64::MAX,
            process_start: 0,
            tid: 7,
            ..ThreadSampleRow::default()
        });
        let mut devices = Batch::new(TableId::DeviceSamples);
        devices.push(&DeviceSampleRow { device: "gpu\"0".into(), metric: "".into(), ..Default::default() });
        for batch in [threads, devices, Batch::new(TableId::SystemSamples)] {
            let def = batch.table().def();
            let keys = key_columns(def);
            let key = key_of(batch.columns(), &keys, 0);
            let json = key_to_json(&key);
            assert_eq!(key_from_json(&json, def, &keys), Some(key), "{json}");
        }
        let def = TableId::ThreadSamples.def();
        let keys = key_columns(def);
        for wrong in ["", "[]", "[1,2]", "[1,2,\"x\"]", "[1,2,-3]", "{}"] {
            assert_eq!(key_from_json(wrong, def, &keys), None, "{wrong}");
        }
    }
}
