//! Collects the rows of a journal file and lays them out as a segment.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::io::Write;
use std::sync::Arc;

use ortscope_core::batch::Batch;
use ortscope_core::schema::{Column, ColumnData, TableId, TableKind, Text};

use super::write::SegmentWriter;
use crate::columns::{append_stretch, compare_cells, empty_columns, integers, pick};

/// Rows of a chunk. Small enough to be decoded into a few megabytes, large enough to compress well.
const CHUNK_ROWS: usize = 65_536;

/// Rows that become one segment. Bounded by the journal file they come from.
#[derive(Debug, Default)]
pub(crate) struct SegmentBuilder {
    tables: BTreeMap<TableId, Vec<Column>>,
    texts: HashSet<Text>,
    rows: u64,
}

impl SegmentBuilder {
    pub fn add(&mut self, batch: &Batch) {
        let columns = self.tables.entry(batch.table()).or_insert_with(|| empty_columns(batch.table()));
        for (column, more) in columns.iter_mut().zip(batch.columns()) {
            append_stretch(column, more, 0..batch.len());
            if let ColumnData::Text(values) = &mut column.data {
                let new = values.len() - batch.len();
                share(&mut values[new..], &mut self.texts);
            }
        }
        self.rows += batch.len() as u64;
    }

    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Writes the chunks: each spans a stretch of time, and within it sampled tables are sorted by their keys,
    /// because consecutive rows of one process are similar.
    pub fn write_into(self, segment: &mut SegmentWriter<impl Write>) -> std::io::Result<()> {
        for (table, columns) in self.tables {
            let times = columns.first().map(integers).unwrap_or_default();
            let mut order: Vec<u32> = (0..times.len() as u32).collect();
            if !times.is_sorted() {
                order.sort_by_key(|row| times[*row as usize]);
            }
            for rows in order.chunks_mut(CHUNK_ROWS) {
                sort_by_keys(table, &columns, rows);
                segment.add_columns(table, columns.iter().map(|column| Cow::Owned(pick(column, rows))))?;
            }
        }
        Ok(())
    }
}

/// Lets equal texts share their memory: a reader may have made each one anew.
fn share(values: &mut [Text], known: &mut HashSet<Text>) {
    let mut last: Option<(Text, Text)> = None;
    for value in values {
        if let Some((from, to)) = &last
            && Arc::ptr_eq(from, value)
        {
            *value = Text::clone(to);
            continue;
        }
        let shared = match known.get(value) {
            Some(shared) => Text::clone(shared),
            None => {
                known.insert(Text::clone(value));
                Text::clone(value)
            }
        };
        last = Some((std::mem::replace(value, Text::clone(&shared)), shared));
    }
}

/// Stable: the rows of one key stay in the order of time.
fn sort_by_keys(table: TableId, columns: &[Column], rows: &mut [u32]) {
    let def = table.def();
    if let TableKind::Samples(keys) = def.kind {
        let keys: Vec<&Column> = keys.iter().filter_map(|key| columns.get(def.column_index(key)?)).collect();
        rows.sort_by(|a, b| {
            let different = keys.iter().map(|key| compare_cells(key, *a as usize, *b as usize));
            different.into_iter().find(|order| order.is_ne()).unwrap_or(std::cmp::Ordering::Equal)
        });
    }
}
