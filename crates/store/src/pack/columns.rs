//! Which columns could tell who and where.

use std::collections::HashMap;

use ortscope_core::batch::Batch;
use ortscope_core::schema::{Column, ColumnData, TableId, Text};

use super::redact::Redactor;
use crate::columns::{batch_of, empty_text};

/// Tables with texts of the machine or of the user. The others have names of operators, phases, metrics: those stay.
pub(super) fn is_telling(table: TableId) -> bool {
    matches!(
        table,
        TableId::Sessions
            | TableId::Processes
            | TableId::Annotations
            | TableId::KernelEvents
            | TableId::Findings
            | TableId::Unavailability
    )
}

/// The batch without what tells too much.
pub(super) fn redacted(batch: &Batch, redactor: &mut Redactor) -> Batch {
    let columns = batch.columns().iter().zip(batch.table().def().columns).map(|(column, def)| {
        let mut column = column.clone();
        match (def.name, &mut column.data) {
            ("command_line", ColumnData::Text(_)) => remove(&mut column, redactor),
            (_, ColumnData::Text(values)) => clean(values, redactor),
            _ => {}
        }
        column
    });
    batch_of(batch.table(), columns.collect())
}

fn remove(column: &mut Column, redactor: &mut Redactor) {
    let removed = column.valid.iter().filter(|valid| **valid).count();
    redactor.count("command lines", removed as u64);
    column.valid.fill(false);
    if let ColumnData::Text(values) = &mut column.data {
        values.fill(empty_text());
    }
}

fn clean(values: &mut [Text], redactor: &mut Redactor) {
    let mut known: HashMap<Text, Text> = HashMap::new();
    for value in values {
        let clean = known.entry(Text::clone(value)).or_insert_with(|| redactor.document(value).into());
        *value = Text::clone(clean);
    }
}
