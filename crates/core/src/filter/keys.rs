//! Keys of terms: short names for common columns, and every column by its own name.

use crate::batch::Batch;
use crate::schema::{Cell, ColumnType, Row, TableId, Unit};
use crate::schema::{InferenceRow, UnavailabilityRow};

use super::value::{Number, Pattern, duration_text};

/// The descriptive columns that a bare word is searched in.
pub(super) const WORD_COLUMNS: &[&str] = &[
    "name",
    "op_type",
    "text",
    "model_name",
    "kind",
    "detail",
    "id",
    "evidence",
    "advice",
    "device",
    "metric",
    "scope",
    "track",
    "reason",
    "place",
    "command_line",
];

/// A key that is shorter than the column, or means more than one.
#[derive(Debug)]
pub(super) struct ShortKey {
    pub(super) name: &'static str,
    pub(super) doc: &'static str,
    columns: &'static [&'static str],
}

#[rustfmt::skip]
pub(super) const SHORT_KEYS: &[ShortKey] = &[
    ShortKey { name: "op", doc: "type of the operator, e.g. op:Conv", columns: &["op_type"] },
    ShortKey {
        name: "prov",
        doc: "kind of device or execution provider, e.g. prov:NPU, prov:Dml",
        columns: &["device", "execution_provider", "execution_providers"],
    },
    ShortKey {
        name: "dur",
        doc: "how long it took, e.g. dur>1ms; of an inference from its planned start to its end",
        columns: &["duration_ns"],
    },
    ShortKey { name: "session", doc: "beginning of the session's identifier", columns: &["session_id"] },
    ShortKey { name: "model", doc: "name of the model", columns: &["model_name"] },
    ShortKey { name: "tid", doc: "thread", columns: &["tid", "thread"] },
    ShortKey { name: "kind", doc: "kind of operator row, kernel event, annotation, loss", columns: &["kind", "event"] },
    ShortKey { name: "table", doc: "name of the table", columns: &[] },
    ShortKey { name: "from", doc: "time since the start, or absolute with ns", columns: &[] },
    ShortKey { name: "to", doc: "time since the start, or absolute with ns; rows at it are left out", columns: &[] },
];

/// The column or columns a term refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) column_type: ColumnType,
    pub(super) unit: Unit,
}

impl Key {
    /// A short key or the name of a column; `table`, `from` and `to` are not about a column.
    pub(super) fn find(name: &str) -> Option<Self> {
        let short = SHORT_KEYS.iter().find(|key| key.name.eq_ignore_ascii_case(name));
        let column = match short {
            Some(short) => short.columns.first().copied()?,
            None => name,
        };
        let defs = TableId::ALL.iter().flat_map(|table| table.def().columns);
        let def = defs.into_iter().find(|def| def.name.eq_ignore_ascii_case(column))?;
        let name = short.map_or(def.name, |short| short.name);
        Some(Self { name, column_type: def.column_type, unit: def.unit })
    }

    pub(super) fn is_duration(self) -> bool {
        self.name == "dur"
    }

    /// The columns of a table that the key is about, of a type that fits.
    pub(super) fn column_indices(self, table: TableId) -> Vec<usize> {
        let def = table.def();
        if self.is_duration() {
            return duration_columns(table).iter().filter_map(|name| def.column_index(name)).collect();
        }
        let short = SHORT_KEYS.iter().find(|key| key.name == self.name);
        let columns = short.map_or(std::slice::from_ref(&self.name), |short| short.columns);
        let mut indices: Vec<usize> = columns.iter().filter_map(|name| def.column_index(name)).collect();
        indices.retain(|index| same_kind(def.columns[*index].column_type, self.column_type));
        indices
    }

    pub(super) fn text_matches(self, pattern: &Pattern, text: &str) -> bool {
        match self.name {
            "session" => pattern.begins(text),
            // `CPU` is the device CPU and the CPUExecutionProvider; a session has a list of them.
            "prov" => text.split(',').map(str::trim).any(|provider| {
                let short = provider.strip_suffix("ExecutionProvider").unwrap_or(provider);
                pattern.is(provider) || pattern.is(short)
            }),
            _ => pattern.is(text),
        }
    }

    pub(super) fn number_text(self, value: Number) -> String {
        match value {
            Number::Integer(nanos) if self.unit == Unit::Nanoseconds => {
                u64::try_from(nanos).map_or_else(|_| value.to_string(), duration_text)
            }
            _ => value.to_string(),
        }
    }
}

fn same_kind(a: ColumnType, b: ColumnType) -> bool {
    let number = |kind| matches!(kind, ColumnType::U64 | ColumnType::I64 | ColumnType::F64);
    a == b || (number(a) && number(b))
}

/// The columns that add up to the duration of a row.
fn duration_columns(table: TableId) -> &'static [&'static str] {
    match table {
        TableId::Inferences => &["timestamp_ns", "planned_ns", "copy_in_ns", "run_ns", "copy_out_ns"],
        TableId::Unavailability => &["from_ns", "to_ns"],
        _ => &["duration_ns"],
    }
}

pub(super) fn mark_durations(marks: &mut [bool], batch: &Batch, matches: impl Fn(u64) -> bool) {
    fn number(batch: &Batch, name: &str, row: usize) -> Option<u64> {
        let column = batch.column(name)?;
        if column.has_value(row) { <u64 as Cell>::get(column, row) } else { None }
    }
    for (row, mark) in marks.iter_mut().enumerate() {
        let nanos = match batch.table() {
            InferenceRow::TABLE => inference_ns(|name| number(batch, name, row)),
            UnavailabilityRow::TABLE => number(batch, "to_ns", row)
                .zip(number(batch, "from_ns", row))
                .map(|(to, from)| to.saturating_sub(from)),
            _ => number(batch, "duration_ns", row),
        };
        *mark |= nanos.is_some_and(&matches);
    }
}

/// From the planned start to the end: latency as seen by the caller.
fn inference_ns(number: impl Fn(&str) -> Option<u64>) -> Option<u64> {
    let waited = number("timestamp_ns")?.saturating_sub(number("planned_ns")?);
    let parts = ["copy_in_ns", "run_ns", "copy_out_ns"];
    parts.iter().try_fold(waited, |sum, part| Some(sum.saturating_add(number(part)?)))
}
