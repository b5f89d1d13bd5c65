//! Bytes to batch. The bytes are untrusted: every length is checked before use.

use std::sync::LazyLock;

use ortscope_core::batch::Batch;
use ortscope_core::schema::{Column, ColumnData, ColumnType, TableId, Text};

use super::bytes::{Bytes, to_signed};
use super::schema::{WrittenSchema, WrittenType, schema_checksum};
use super::{HEAD_BYTES, Presence, index_bytes};

/// Why a payload is not a batch that this program can read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    #[error("the batch ends too early")]
    TooShort,
    #[error("the batch does not fit its own lengths")]
    Inconsistent,
    #[error("the batch belongs to another schema than the one before it")]
    OtherSchema,
    #[error("{table} has no column {column}, which this program needs")]
    MissingColumn { table: &'static str, column: &'static str },
    #[error("the column {table}.{column} has another type")]
    OtherType { table: &'static str, column: &'static str },
    #[error("the column {table}.{column} has rows without a value")]
    MissingValue { table: &'static str, column: &'static str },
}

/// Content of a payload.
#[derive(Debug, Clone, PartialEq)]
pub enum Decoded {
    Batch(Batch),
    /// Rows of a table that this program does not know.
    UnknownTable,
}

/// Reads batches of one written schema.
#[derive(Debug)]
pub struct Decoder {
    checksum: u32,
    tables: Vec<Plan>,
}

/// How one written table is read.
#[derive(Debug)]
enum Plan {
    Unknown,
    /// The table is known, but some column makes it unreadable.
    Refused(DecodeError),
    Read {
        table: TableId,
        /// Of each written column: its type, whether it has marks, and which of our columns it fills.
        columns: Vec<(WrittenType, bool, Option<usize>)>,
    },
}

impl Decoder {
    /// Parses the schema text that preceded the batches.
    pub fn from_json(json: &[u8]) -> Result<Self, serde_json::Error> {
        let schema = WrittenSchema::from_json(json)?;
        Ok(Self { checksum: schema_checksum(json), tables: schema.tables.iter().map(Plan::of).collect() })
    }

    /// For what this program writes.
    pub fn current() -> &'static Self {
        static CURRENT: LazyLock<Decoder> = LazyLock::new(|| {
            let schema = WrittenSchema::current();
            let checksum = schema_checksum(&schema.to_json());
            Decoder { checksum, tables: schema.tables.iter().map(Plan::of).collect() }
        });
        &CURRENT
    }

    /// Whether the payload was written under this schema.
    pub fn is_for(&self, payload: &[u8]) -> bool {
        Bytes(payload).number() == Some(self.checksum)
    }

    pub fn decode(&self, payload: &[u8]) -> Result<Decoded, DecodeError> {
        if !self.is_for(payload) {
            return Err(if payload.len() < HEAD_BYTES {
                DecodeError::TooShort
            } else {
                DecodeError::OtherSchema
            });
        }
        let mut bytes = Bytes(payload);
        let head = (|| {
            bytes.number()?;
            let table = bytes.half()?;
            bytes.half()?;
            Some((usize::from(table), bytes.number()? as usize, bytes.number()? as usize))
        })();
        let (table, rows, texts) = head.ok_or(DecodeError::TooShort)?;
        match self.tables.get(table) {
            None | Some(Plan::Unknown) => Ok(Decoded::UnknownTable),
            Some(Plan::Refused(error)) => Err(error.clone()),
            Some(Plan::Read { table, columns }) => {
                // The time of each row takes 8 bytes. This bounds all that is allocated below by the payload.
                if rows > payload.len() / 8 {
                    return Err(DecodeError::Inconsistent);
                }
                let texts = read_texts(&mut bytes, texts)?;
                read_columns(*table, columns, &mut bytes, rows, &texts).map(Decoded::Batch)
            }
        }
    }
}

impl Plan {
    fn of(written: &super::schema::WrittenTable) -> Self {
        let Some(table) = TableId::by_name(&written.name) else {
            return Self::Unknown;
        };
        let def = table.def();
        if written.columns.iter().any(|column| column.column_type == WrittenType::Unknown) {
            // The size of its values is not known, so nothing behind it can be found.
            return Self::Unknown;
        }
        for column in def.columns {
            match written.columns.iter().find(|candidate| candidate.name == column.name) {
                None if !column.nullable => {
                    return Self::Refused(DecodeError::MissingColumn {
                        table: def.name,
                        column: column.name,
                    });
                }
                Some(found) if found.column_type != column.column_type.into() => {
                    return Self::Refused(DecodeError::OtherType { table: def.name, column: column.name });
                }
                _ => {}
            }
        }
        let mut seen = vec![false; def.columns.len()];
        let columns = written.columns.iter().map(|column| {
            // Of two columns with one name the first counts.
            let ours =
                def.column_index(&column.name).filter(|ours| !std::mem::replace(&mut seen[*ours], true));
            (column.column_type, column.nullable, ours)
        });
        Self::Read { table, columns: columns.collect() }
    }
}

fn read_texts(bytes: &mut Bytes<'_>, count: usize) -> Result<Vec<Text>, DecodeError> {
    let lengths =
        bytes.take(count.checked_mul(4).ok_or(DecodeError::TooShort)?).ok_or(DecodeError::TooShort)?;
    let (lengths, _) = lengths.as_chunks::<4>();
    let text = |length: &[u8; 4]| {
        let text = bytes.take(u32::from_le_bytes(*length) as usize).ok_or(DecodeError::TooShort)?;
        std::str::from_utf8(text).map(Text::from).map_err(|_| DecodeError::Inconsistent)
    };
    lengths.iter().map(text).collect()
}

fn read_columns(
    table: TableId,
    written: &[(WrittenType, bool, Option<usize>)],
    bytes: &mut Bytes<'_>,
    rows: usize,
    texts: &[Text],
) -> Result<Batch, DecodeError> {
    let def = table.def();
    let mut columns: Vec<Option<Column>> = def.columns.iter().map(|_| None).collect();
    for (number, (written_type, nullable, ours)) in written.iter().enumerate() {
        let is_time = number == 0 && !nullable && *written_type == WrittenType::U64;
        let presence = if *nullable { read_presence(bytes, rows)? } else { (Presence::All, Vec::new()) };
        let Some(slot) = ours else {
            if presence.0 != Presence::None {
                skip_values(*written_type, is_time, bytes, rows, texts.len()).ok_or(DecodeError::TooShort)?;
            }
            continue;
        };
        let ours = &def.columns[*slot];
        if !ours.nullable && presence.0 != Presence::All {
            return Err(DecodeError::MissingValue { table: def.name, column: ours.name });
        }
        let data = match presence.0 {
            Presence::None => no_values(ours.column_type, rows),
            _ if is_time => ColumnData::U64(bytes.words(rows).ok_or(DecodeError::TooShort)?.collect()),
            _ => read_values(*written_type, bytes, rows, texts)?,
        };
        let valid = match presence {
            _ if !ours.nullable => Vec::new(),
            (Presence::All, _) => vec![true; rows],
            (Presence::None, _) => vec![false; rows],
            (Presence::Some, marks) => marks,
        };
        columns[*slot] = Some(Column { data, valid });
    }
    if !bytes.0.is_empty() {
        return Err(DecodeError::Inconsistent);
    }
    // Columns unknown to the writer are null; the plan made sure that they are nullable.
    let columns = columns.into_iter().zip(def.columns).map(|(column, def)| {
        column.unwrap_or_else(|| Column { data: no_values(def.column_type, rows), valid: vec![false; rows] })
    });
    Batch::from_columns(table, columns.collect()).map_err(|_| DecodeError::Inconsistent)
}

fn read_presence(bytes: &mut Bytes<'_>, rows: usize) -> Result<(Presence, Vec<bool>), DecodeError> {
    match bytes.byte().ok_or(DecodeError::TooShort)? {
        0 => Ok((Presence::All, Vec::new())),
        1 => Ok((Presence::None, Vec::new())),
        2 => Ok((Presence::Some, bytes.bits(rows).ok_or(DecodeError::TooShort)?)),
        _ => Err(DecodeError::Inconsistent),
    }
}

fn read_values(
    written_type: WrittenType,
    bytes: &mut Bytes<'_>,
    rows: usize,
    texts: &[Text],
) -> Result<ColumnData, DecodeError> {
    let short = DecodeError::TooShort;
    Ok(match written_type {
        WrittenType::U64 => ColumnData::U64(bytes.numbers(rows).ok_or(short)?),
        WrittenType::I64 => {
            ColumnData::I64(bytes.numbers(rows).ok_or(short)?.into_iter().map(to_signed).collect())
        }
        WrittenType::F64 => {
            ColumnData::F64(bytes.numbers(rows).ok_or(short)?.into_iter().map(f64::from_bits).collect())
        }
        WrittenType::Bool => ColumnData::Bool(bytes.bits(rows).ok_or(short)?),
        WrittenType::Text => ColumnData::Text(read_indices(bytes, rows, texts)?),
        WrittenType::Unknown => return Err(DecodeError::Inconsistent),
    })
}

fn read_indices(bytes: &mut Bytes<'_>, rows: usize, texts: &[Text]) -> Result<Vec<Text>, DecodeError> {
    let size = index_bytes(texts.len());
    let indices =
        bytes.take(rows.checked_mul(size).ok_or(DecodeError::TooShort)?).ok_or(DecodeError::TooShort)?;
    let text = |index: &[u8]| {
        let index = index.iter().rev().fold(0usize, |index, byte| index << 8 | usize::from(*byte));
        texts.get(index).cloned().ok_or(DecodeError::Inconsistent)
    };
    indices.chunks_exact(size).map(text).collect()
}

fn no_values(column_type: ColumnType, rows: usize) -> ColumnData {
    match column_type {
        ColumnType::U64 => ColumnData::U64(vec![0; rows]),
        ColumnType::I64 => ColumnData::I64(vec![0; rows]),
        ColumnType::F64 => ColumnData::F64(vec![0.0; rows]),
        ColumnType::Bool => ColumnData::Bool(vec![false; rows]),
        ColumnType::Text => ColumnData::Text(vec![Text::default(); rows]),
    }
}

/// Goes over the values of a column that this program does not know.
fn skip_values(
    written_type: WrittenType,
    is_time: bool,
    bytes: &mut Bytes<'_>,
    rows: usize,
    texts: usize,
) -> Option<()> {
    match written_type {
        _ if is_time => bytes.take(rows.checked_mul(8)?).map(drop),
        WrittenType::U64 | WrittenType::I64 | WrittenType::F64 => bytes.skip_numbers(rows),
        WrittenType::Bool => bytes.take(rows.div_ceil(8)).map(drop),
        WrittenType::Text => bytes.take(rows.checked_mul(index_bytes(texts))?).map(drop),
        WrittenType::Unknown => None,
    }
}
