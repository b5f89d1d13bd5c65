//! Recovers records left in the rings of a channel whose observer was killed.

use std::collections::BTreeMap;
use std::path::Path;

use ortscope_core::batch::Batch;
use ortscope_core::schema::{Row, TableId, Text};

use crate::channel_reader::ring_name;
use crate::control_page::ControlPage;
use crate::directory::pid_of;
use crate::record::InferenceRecord;
use crate::ring::RingReader;
use crate::rows::{FrameRows, MessageRow};
use crate::{ChannelError, FrameKind, ring_files};

/// Rows in one batch.
const BATCH_ROWS: usize = 4096;

/// Rows that were in rings and in no journal.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Recovered {
    pub batches: Vec<Batch>,
    /// Frames that were read.
    pub frames: u64,
    /// Rings that could not be read, and frames that could not be understood.
    pub damaged: u64,
    /// Records that the writers had counted as lost and no reader had reported.
    pub lost: u64,
    /// How far each ring was read: with these positions the same call finds nothing more.
    pub positions: BTreeMap<String, u64>,
}

/// Reads the rings of a directory, each from its position on, and changes nothing. A ring without a position is read
/// from the start or, if that was overwritten, from the released position. A directory that does not exist has no
/// rings.
pub fn recover_rings(
    directory: &Path,
    positions: &BTreeMap<String, u64>,
    session_ids: &[Text],
) -> Result<Recovered, ChannelError> {
    let paths = match ring_files(directory) {
        Ok(paths) => paths,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let mut recovered = Recovered::default();
    let mut inferences = Collecting::new(TableId::Inferences);
    let mut messages = Vec::new();
    let rows = FrameRows::new(session_ids.to_vec(), pid_of(directory).map(u64::from));
    let mut last_end_ns = ControlPage::last_beat_left_in(directory).unwrap_or(0);
    for path in paths {
        let Ok(mut ring) = RingReader::open_for_recovery(&path) else {
            recovered.damaged += 1;
            continue;
        };
        let name = ring_name(&path).to_string();
        let Some(start) = start_of(&ring, positions.get(&name).copied()) else {
            continue;
        };
        ring.seek(start);
        let mut unknown = 0;
        let outcome = ring.read(|kind, payload| match (kind, InferenceRecord::from_bytes(payload)) {
            (FrameKind::INFERENCE, Some(record)) => {
                let row = rows.inference(&record);
                let took_ns = row.copy_in_ns.saturating_add(row.run_ns).saturating_add(row.copy_out_ns);
                last_end_ns = last_end_ns.max(row.timestamp_ns.saturating_add(took_ns));
                inferences.push(&row);
            }
            (FrameKind::MESSAGE, _) => messages.push(payload.to_vec()),
            _ => unknown += 1,
        });
        recovered.frames += outcome.frames;
        recovered.damaged += u64::from(outcome.damaged) + unknown;
        recovered.lost += ring.take_new_losses().values().sum::<u64>();
        recovered.positions.insert(name, ring.position());
    }
    recovered.batches = inferences.finish();
    recovered.batches.extend(rows_of_messages(&rows, &messages, last_end_ns));
    Ok(recovered)
}

/// The programs' messages, as the same rows that a live reader produces.
fn rows_of_messages(rows: &FrameRows, messages: &[Vec<u8>], last_end_ns: u64) -> Vec<Batch> {
    let mut sessions = Collecting::new(TableId::Sessions);
    let mut memory = Collecting::new(TableId::Memory);
    let mut annotations = Collecting::new(TableId::Annotations);
    for payload in messages {
        let Ok(message) = serde_json::from_slice(payload) else {
            // The time of writing is unknown; the last record comes closest.
            annotations.push(&rows.text(payload, last_end_ns));
            continue;
        };
        for row in rows.message(&message) {
            match row {
                MessageRow::Session(row) => sessions.push(&row),
                MessageRow::Memory(row) => memory.push(&row),
                MessageRow::Annotation(row) => annotations.push(&row),
            }
        }
    }
    [sessions, memory, annotations].into_iter().flat_map(Collecting::finish).collect()
}

/// Where reading begins; `None` if the journal is ahead of the ring (after a power loss).
fn start_of(ring: &RingReader, journaled: Option<u64>) -> Option<u64> {
    let (head, tail) = (ring.head(), ring.tail());
    let oldest = head.saturating_sub(ring.capacity());
    match journaled {
        Some(position) if position > head => None,
        Some(position) if position >= oldest => Some(position),
        // Nothing was freed before it was journaled, so what lies before the tail is not missing.
        Some(_) => Some(tail),
        None if oldest == 0 => Some(0),
        None => Some(tail),
    }
}

/// Rows of one table in batches of bounded size.
struct Collecting {
    done: Vec<Batch>,
    open: Batch,
}

impl Collecting {
    fn new(table: TableId) -> Self {
        Self { done: Vec::new(), open: Batch::new(table) }
    }

    fn push<R: Row>(&mut self, row: &R) {
        self.open.push(row);
        if self.open.len() >= BATCH_ROWS {
            let next = Batch::new(self.open.table());
            self.done.push(std::mem::replace(&mut self.open, next));
        }
    }

    fn finish(mut self) -> Vec<Batch> {
        if !self.open.is_empty() {
            self.done.push(self.open);
        }
        self.done
    }
}
