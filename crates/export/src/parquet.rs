//! Parquet: one file per table. Types are exact (`UINT_64` for unsigned integers), columns that cannot be null are
//! `required`, and the file's key-value metadata holds the recording, the table's documentation, and per column its unit
//! and what it means: `ortscope.schema`, `ortscope.info`, `ortscope.table`, `ortscope.columns`.

use std::io::Write;
use std::sync::Arc;

use ::parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as PhysicalType};
use ::parquet::column::writer::ColumnWriter;
use ::parquet::data_type::ByteArray;
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::KeyValue;
use ::parquet::file::properties::{WriterProperties, WriterPropertiesPtr};
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::types::{ColumnPath, Type, TypePtr};
use ortscope_core::batch::Batch;
use ortscope_core::schema::{Column, ColumnData, ColumnDef, ColumnType, TableId, Text};

use crate::error::ExportError;
use crate::info::SCHEMA;
use crate::source::{RowSource, TableRows};

/// A row group is complete in memory before it is written: at most this many rows …
const GROUP_ROWS: usize = 64 << 10;
/// … and about this many bytes.
const GROUP_BYTES: usize = 24 << 20;

pub(crate) fn write(
    source: &RowSource<'_>,
    table: TableId,
    out: &mut (dyn Write + Send),
) -> Result<TableRows, ExportError> {
    let mut writer = SerializedFileWriter::new(out, schema(table)?, properties(source, table))?;
    let mut pending = Batch::new(table);
    let mut rows = 0;
    for batch in source.batches(table) {
        let batch = batch?;
        rows += batch.len() as u64;
        let average = (batch.bytes() / batch.len().max(1)).max(1);
        let step = (GROUP_BYTES / average).clamp(1, GROUP_ROWS);
        let all: Vec<usize> = (0..batch.len()).collect();
        for part in all.chunks(step) {
            if pending.len() + part.len() > GROUP_ROWS || pending.bytes() >= GROUP_BYTES {
                write_group(&mut writer, &pending)?;
                pending = Batch::new(table);
            }
            // A batch that is no larger than a part need not be copied row by row.
            let fits = part.len() == batch.len() && pending.append(&batch);
            if !fits {
                pending.append(&batch.take(part));
            }
        }
    }
    if !pending.is_empty() {
        write_group(&mut writer, &pending)?;
    }
    writer.close()?;
    Ok(TableRows { table, rows })
}

fn schema(table: TableId) -> Result<TypePtr, ParquetError> {
    let fields = table.def().columns.iter().map(|column| field(column).map(Arc::new));
    let fields = fields.collect::<Result<Vec<_>, _>>()?;
    Ok(Arc::new(Type::group_type_builder(table.def().name).with_fields(fields).build()?))
}

fn field(column: &ColumnDef) -> Result<Type, ParquetError> {
    let (physical, logical) = match column.column_type {
        ColumnType::U64 => (PhysicalType::INT64, Some(LogicalType::integer(64, false))),
        ColumnType::I64 => (PhysicalType::INT64, None),
        ColumnType::F64 => (PhysicalType::DOUBLE, None),
        ColumnType::Bool => (PhysicalType::BOOLEAN, None),
        ColumnType::Text => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
    };
    let repetition = if column.nullable { Repetition::OPTIONAL } else { Repetition::REQUIRED };
    Type::primitive_type_builder(column.name, physical)
        .with_repetition(repetition)
        .with_logical_type(logical)
        .build()
}

fn properties(source: &RowSource<'_>, table: TableId) -> WriterPropertiesPtr {
    let def = table.def();
    let metadata = [
        ("ortscope.schema", SCHEMA.to_owned()),
        ("ortscope.info", serde_json::to_string(&source.head()).unwrap_or_default()),
        ("ortscope.table", serde_json::to_string(def).unwrap_or_default()),
        ("ortscope.columns", serde_json::to_string(def.columns).unwrap_or_default()),
    ];
    let metadata = metadata.into_iter().map(|(key, value)| KeyValue::new(key.to_owned(), value)).collect();
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by(format!("ortscope {}", env!("CARGO_PKG_VERSION")))
        .set_key_value_metadata(Some(metadata));
    if let Some(time) = def.columns.first() {
        // Times grow steadily: their differences are small, and none of them repeats.
        let path = ColumnPath::from(time.name);
        properties = properties
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
    }
    Arc::new(properties.build())
}

fn write_group<W: Write + Send>(
    writer: &mut SerializedFileWriter<W>,
    batch: &Batch,
) -> Result<(), ParquetError> {
    let mut group = writer.next_row_group()?;
    for column in batch.columns() {
        let Some(mut out) = group.next_column()? else {
            return Err(ParquetError::General("the file has fewer columns than the table".to_owned()));
        };
        write_column(out.untyped(), column)?;
        out.close()?;
    }
    group.close()?;
    Ok(())
}

fn write_column(out: &mut ColumnWriter<'_>, column: &Column) -> Result<(), ParquetError> {
    let levels: Vec<i16> = column.valid.iter().map(|valid| i16::from(*valid)).collect();
    let levels = (!levels.is_empty()).then_some(levels.as_slice());
    match (out, &column.data) {
        // The logical type says that the bits are of an unsigned number.
        (ColumnWriter::Int64ColumnWriter(out), ColumnData::U64(values)) => {
            out.write_batch(&present(column, values, |value| *value as i64), levels, None)
        }
        (ColumnWriter::Int64ColumnWriter(out), ColumnData::I64(values)) => {
            out.write_batch(&present(column, values, |value| *value), levels, None)
        }
        (ColumnWriter::DoubleColumnWriter(out), ColumnData::F64(values)) => {
            out.write_batch(&present(column, values, |value| *value), levels, None)
        }
        (ColumnWriter::BoolColumnWriter(out), ColumnData::Bool(values)) => {
            out.write_batch(&present(column, values, |value| *value), levels, None)
        }
        (ColumnWriter::ByteArrayColumnWriter(out), ColumnData::Text(values)) => {
            out.write_batch(&texts(column, values), levels, None)
        }
        _ => Err(ParquetError::General("a column is not of its table's type".to_owned())),
    }?;
    Ok(())
}

/// The values that are not null.
fn present<T, V>(column: &Column, values: &[T], value: impl Fn(&T) -> V) -> Vec<V> {
    values.iter().enumerate().filter(|(row, _)| column.has_value(*row)).map(|(_, item)| value(item)).collect()
}

/// Rows share texts: one that was just copied is used again.
fn texts(column: &Column, values: &[Text]) -> Vec<ByteArray> {
    let mut last: Option<(&Text, ByteArray)> = None;
    let mut out = Vec::with_capacity(values.len());
    for (row, text) in values.iter().enumerate() {
        if !column.has_value(row) {
            continue;
        }
        let bytes = match &last {
            Some((same, bytes)) if Text::ptr_eq(same, text) => bytes.clone(),
            _ => ByteArray::from(text.as_bytes()),
        };
        last = Some((text, bytes.clone()));
        out.push(bytes);
    }
    out
}
