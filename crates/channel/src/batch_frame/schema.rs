//! The tables and columns as their writer knew them, readable by later programs.

use ortscope_core::schema::{ColumnType, TableId};
use serde::{Deserialize, Serialize};

/// All tables of a writer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenSchema {
    pub tables: Vec<WrittenTable>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenTable {
    pub name: String,
    pub columns: Vec<WrittenColumn>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenColumn {
    pub name: String,
    #[serde(rename = "type")]
    pub column_type: WrittenType,
    pub nullable: bool,
}

/// The type of a column. A program that does not know a type cannot read the tables that use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WrittenType {
    U64,
    I64,
    F64,
    Bool,
    Text,
    #[serde(other)]
    Unknown,
}

impl WrittenSchema {
    /// The tables of this program, in the order of [`TableId::ALL`].
    pub fn current() -> Self {
        let columns = |table: &TableId| {
            let of = |column: &ortscope_core::schema::ColumnDef| WrittenColumn {
                name: column.name.to_owned(),
                column_type: column.column_type.into(),
                nullable: column.nullable,
            };
            table.def().columns.iter().map(of).collect()
        };
        let tables = TableId::ALL
            .iter()
            .map(|table| WrittenTable { name: table.def().name.to_owned(), columns: columns(table) });
        Self { tables: tables.collect() }
    }

    pub fn to_json(&self) -> Vec<u8> {
        // Plain structs with text keys: writing them cannot fail.
        serde_json::to_vec(self).unwrap_or_default()
    }

    pub fn from_json(text: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(text)
    }
}

/// Tells one schema from another: each batch carries it, so that it is never read by the wrong one.
pub fn schema_checksum(json: &[u8]) -> u32 {
    crc32c::crc32c(json)
}

impl From<ColumnType> for WrittenType {
    fn from(column_type: ColumnType) -> Self {
        match column_type {
            ColumnType::U64 => Self::U64,
            ColumnType::I64 => Self::I64,
            ColumnType::F64 => Self::F64,
            ColumnType::Bool => Self::Bool,
            ColumnType::Text => Self::Text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_round_trips_and_unknown_types_are_tolerated() {
        let current = WrittenSchema::current();
        assert_eq!(WrittenSchema::from_json(&current.to_json()).expect("own text"), current);
        let newer =
            br#"{"tables":[{"name":"x","columns":[{"name":"a","type":"u128","nullable":false}]}],"more":1}"#;
        let newer = WrittenSchema::from_json(newer).expect("tolerant");
        assert_eq!(newer.tables[0].columns[0].column_type, WrittenType::Unknown);
    }
}
