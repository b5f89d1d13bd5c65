//! A trace of Event Tracing for Windows, for PerfView and the Windows Performance Analyzer: one TraceLogging event per
//! row, named after its table, with a field for every column that has a value.
//!
//! A trace wants the events of a processor in the order of time, so that every table has a processor of its own and its
//! rows are put in order within a window. A row that comes later than that, or before the trace begins, gets the time of
//! the one before it; its own stands in its first field in any case.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{Seek, Write};

use ortscope_core::batch::Batch;
use ortscope_core::schema::{ColumnData, TableId};
use ortscope_etl::writer::{
    Field, FileSettings, Place, Provider, TraceLoggingEvent, Value, WriteError, Writer,
};
use ortscope_etl::{EventDescriptor, FileTime, Guid};

use crate::error::ExportError;
use crate::source::{RowSource, TableRows};

/// Made once for this purpose.
pub(crate) const PROVIDER: Guid = Guid::new(0x6f72_7473_636f_7065_8a1d_5a3c_9b5e_2f41);
/// Nanoseconds, as everywhere.
const TICKS_PER_SECOND: u64 = 1_000_000_000;
/// Rows that wait to be put in order.
const WINDOW_ROWS: usize = 16 << 10;
/// Verbose would be hidden by viewers that show what is informational.
const LEVEL: u8 = 4;

/// A row that waits: its time, its number, and what to write.
type Waiting = Reverse<(u64, u64, OwnedRow)>;

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct OwnedRow {
    pid: Option<u64>,
    fields: Vec<(&'static str, Owned)>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Owned {
    U64(u64),
    I64(i64),
    /// The bits: rows are kept in an order, which floats have none of.
    F64(u64),
    Bool(bool),
    Text(String),
}

impl From<WriteError> for ExportError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Io(error) => Self::Io(error),
            other => Self::Io(std::io::Error::other(other.to_string())),
        }
    }
}

pub(crate) fn write<W: Write + Seek>(source: &RowSource<'_>, out: W) -> Result<Vec<TableRows>, ExportError> {
    let start_ns = source.trace_start_ns();
    let unix_ns = i64::try_from(source.info.started.unix_ns_at(start_ns)).unwrap_or(i64::MAX);
    let start = FileTime::from_unix_ns(unix_ns);
    let settings = FileSettings::new(source.selected.len().max(1) as u16, TICKS_PER_SECOND, start_ns, start)
        .names("ortscope", &format!("{}.etl", source.info.id));
    let mut writer = Writer::new(out, settings)?;
    let provider = Provider { name: "ortscope".to_owned(), id: PROVIDER, group: None };
    let mut written = Vec::new();
    let (mut late, mut too_large) = (0, 0);
    for (processor, table) in source.selected.iter().enumerate() {
        let mut lane = Lane {
            writer: &mut writer,
            provider: &provider,
            table: *table,
            processor: processor as u16,
            last: start_ns,
            waiting: BinaryHeap::new(),
            late: 0,
            too_large: 0,
            rows: 0,
        };
        let mut number = 0;
        for batch in source.batches(*table) {
            let batch = batch?;
            for row in 0..batch.len() {
                lane.push(batch.times_ns()[row], number, owned(&batch, row))?;
                number += 1;
            }
        }
        lane.finish()?;
        late += lane.late;
        too_large += lane.too_large;
        written.push(TableRows { table: *table, rows: lane.rows });
    }
    writer.finish()?;
    if late > 0 {
        source.note(format!(
            "{late} rows are out of the order of time; their own is in the field of that name"
        ));
    }
    if too_large > 0 {
        source.note(format!("{too_large} rows are larger than an event can be and are not in it"));
    }
    Ok(written)
}

struct Lane<'a, W: Write + Seek> {
    writer: &'a mut Writer<W>,
    provider: &'a Provider,
    table: TableId,
    processor: u16,
    last: u64,
    waiting: BinaryHeap<Waiting>,
    late: u64,
    too_large: u64,
    rows: u64,
}

impl<W: Write + Seek> Lane<'_, W> {
    fn push(&mut self, time_ns: u64, number: u64, row: OwnedRow) -> Result<(), ExportError> {
        self.waiting.push(Reverse((time_ns, number, row)));
        if self.waiting.len() > WINDOW_ROWS { self.write_first() } else { Ok(()) }
    }

    fn finish(&mut self) -> Result<(), ExportError> {
        while !self.waiting.is_empty() {
            self.write_first()?;
        }
        Ok(())
    }

    fn write_first(&mut self) -> Result<(), ExportError> {
        let Some(Reverse((time_ns, _, row))) = self.waiting.pop() else { return Ok(()) };
        // Beyond half of the range readers would see times before the beginning.
        let shown = if (self.last..=i64::MAX as u64 / 4).contains(&time_ns) { time_ns } else { self.last };
        self.late += u64::from(shown != time_ns);
        self.last = shown;
        let fields: Vec<Field<'_>> =
            row.fields.iter().map(|(name, value)| Field::new(name, of(value))).collect();
        let id = row.pid.and_then(|pid| u32::try_from(pid).ok()).unwrap_or(0);
        let event = TraceLoggingEvent {
            provider: self.provider,
            name: self.table.def().name,
            descriptor: EventDescriptor {
                id: 0,
                version: 0,
                channel: 0,
                level: LEVEL,
                opcode: 0,
                task: 0,
                keyword: 1,
            },
            fields: &fields,
        };
        match self.writer.trace_logging(&Place::at(self.processor, shown).in_thread(id, 0), &event) {
            Ok(()) => self.rows += 1,
            Err(WriteError::TooLarge { .. }) => self.too_large += 1,
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

fn of(value: &Owned) -> Value<'_> {
    match value {
        Owned::U64(value) => Value::U64(*value),
        Owned::I64(value) => Value::I64(*value),
        Owned::F64(bits) => Value::F64(f64::from_bits(*bits)),
        Owned::Bool(value) => Value::Bool(*value),
        Owned::Text(text) => Value::Str(text),
    }
}

/// What has no value has no field.
fn owned(batch: &Batch, row: usize) -> OwnedRow {
    let defs = batch.table().def().columns;
    let mut fields = Vec::with_capacity(defs.len());
    let mut pid = None;
    for (def, column) in defs.iter().zip(batch.columns()) {
        if !column.has_value(row) {
            continue;
        }
        let value = match &column.data {
            ColumnData::U64(values) => Owned::U64(values[row]),
            ColumnData::I64(values) => Owned::I64(values[row]),
            ColumnData::F64(values) => Owned::F64(values[row].to_bits()),
            ColumnData::Bool(values) => Owned::Bool(values[row]),
            // A NUL ends a text in this format.
            ColumnData::Text(values) => Owned::Text(values[row].replace('\0', "\u{fffd}")),
        };
        if let (true, Owned::U64(value)) = (def.name == "pid", &value) {
            pid = Some(*value);
        }
        fields.push((def.name, value));
    }
    OwnedRow { pid, fields }
}
