//! A journal's knowledge of a channel: where reading must continue after a crash, and which rows must not be added
//! twice.
//!
//! The position in a ring is journaled right after the rows that were read up to it. A recorder killed between the
//! two leaves rows without a position, while the rings still have their frames. So the rows after the last position
//! are remembered, and skipped when the rings are read.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

use ortscope_core::batch::Batch;
use ortscope_core::schema::{
    AnnotationRow, ChannelPositionRow, InferenceRow, MemoryRow, SessionRow, TableId, Text,
};

use crate::ChannelError;
use crate::recovery::{Recovered, recover_rings};

/// Rows remembered behind the last position. One pass over the rings gives no more than they hold, which is less.
const MAX_ROWS: usize = 1 << 18;

/// Follows the batches of a recording, in the order they were journaled.
#[derive(Debug, Default)]
pub struct JournaledChannel {
    positions: BTreeMap<String, u64>,
    behind: VecDeque<Batch>,
    rows_behind: usize,
}

impl JournaledChannel {
    /// Takes note of a batch; of most tables there is nothing to note.
    pub fn see(&mut self, batch: &Batch) {
        match batch.table() {
            TableId::ChannelPositions => {
                for row in batch.rows::<ChannelPositionRow>() {
                    let position = self.positions.entry(row.ring.to_string()).or_default();
                    *position = row.position.max(*position);
                }
                self.behind.clear();
                self.rows_behind = 0;
            }
            TableId::Inferences | TableId::Sessions | TableId::Memory | TableId::Annotations => {
                self.rows_behind += batch.len();
                self.behind.push_back(batch.clone());
                while self.rows_behind > MAX_ROWS
                    && let Some(oldest) = self.behind.pop_front()
                {
                    self.rows_behind -= oldest.len();
                }
            }
            _ => {}
        }
    }

    /// How far each ring was read, by the name of its file.
    pub fn positions(&self) -> &BTreeMap<String, u64> {
        &self.positions
    }

    /// Reads the records that are in no journal from the rings, each once.
    pub fn recover(&self, directory: &Path, session_ids: &[Text]) -> Result<Recovered, ChannelError> {
        let mut recovered = recover_rings(directory, &self.positions, session_ids)?;
        let mut inferences: BTreeMap<_, u64> = BTreeMap::new();
        let mut already_read: BTreeMap<[Text; 3], u64> = BTreeMap::new();
        for batch in &self.behind {
            for row in batch.rows::<InferenceRow>() {
                *inferences.entry(identity(&row)).or_default() += 1;
            }
            for name in names_of_messages(batch) {
                *already_read.entry(name).or_default() += 1;
            }
        }
        for batch in &mut recovered.batches {
            let keep: Vec<bool> = match batch.table() {
                TableId::Inferences => batch
                    .rows::<InferenceRow>()
                    .map(|row| !take_one(&mut inferences, &identity(&row)))
                    .collect(),
                _ => names_of_messages(batch).iter().map(|name| !take_one(&mut already_read, name)).collect(),
            };
            if keep.contains(&false) {
                *batch = batch.filter(&keep);
            }
        }
        recovered.batches.retain(|batch| !batch.is_empty());
        Ok(recovered)
    }
}

/// Unique per record.
fn identity(row: &InferenceRow) -> [u64; 5] {
    [row.timestamp_ns, row.planned_ns, row.stream, row.sequence, row.run_ns]
}

/// Identifies a row made from a message: messages have no number.
fn names_of_messages(batch: &Batch) -> Vec<[Text; 3]> {
    let table = || Text::from(batch.table().def().name);
    match batch.table() {
        TableId::Sessions => {
            batch.rows::<SessionRow>().map(|row| [table(), row.session_id, Text::default()]).collect()
        }
        TableId::Memory => {
            batch.rows::<MemoryRow>().map(|row| [table(), row.session_id, row.metric]).collect()
        }
        TableId::Annotations => {
            batch.rows::<AnnotationRow>().map(|row| [table(), row.kind, row.text]).collect()
        }
        _ => Vec::new(),
    }
}

/// Whether there was one; then there is one less.
fn take_one<K: Ord>(counts: &mut BTreeMap<K, u64>, key: &K) -> bool {
    match counts.get_mut(key) {
        Some(count) if *count > 0 => {
            *count -= 1;
            true
        }
        _ => false,
    }
}
