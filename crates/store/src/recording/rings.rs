//! Rows of the observed process that had not reached the journal when everything ended.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use ortscope_channel::rows::MESSAGE_KIND;
use ortscope_channel::{ChannelError, recover_rings};
use ortscope_core::batch::Batch;
use ortscope_core::schema::{
    AnnotationRow, ChannelPositionRow, InferenceRow, MemoryRow, Row, SessionRow, TableId, Text,
};
use ortscope_core::tables::Scan;

use super::unit::Unit;
use crate::files::CHANNEL;
use crate::manifest::{ChannelPlace, Manifest};

/// Rows found in the rings.
#[derive(Debug, Default)]
pub(super) struct FromRings {
    pub batches: Vec<Batch>,
    /// Rings and frames that could not be read.
    pub damaged: u64,
    /// Records that their writers had counted as lost.
    pub lost: u64,
}

impl FromRings {
    pub fn rows(&self) -> u64 {
        self.batches.iter().map(|batch| batch.len() as u64).sum()
    }
}

/// Reads the rings behind the positions that the journal knows, and leaves out what the journal has after all: a row
/// reaches it before the position that follows it.
pub(super) fn read(recording: &Path, manifest: &Manifest, units: &[Unit]) -> Result<FromRings, ChannelError> {
    let (positions, read_at_ns) = positions(units);
    let mut found = FromRings::default();
    let own = ChannelPlace { directory: recording.join(CHANNEL), session_ids: manifest.session_ids.clone() };
    for place in [own].iter().chain(&manifest.channels) {
        let session_ids: Vec<Text> = place.session_ids.iter().map(|id| id.as_str().into()).collect();
        let recovered = recover_rings(&place.directory, &positions, &session_ids)?;
        found.batches.extend(recovered.batches);
        found.damaged += recovered.damaged;
        found.lost += recovered.lost;
    }
    let batches = &mut found.batches;
    let kept = inferences_kept(batches, units);
    let mut messages = messages_kept(batches, units, read_at_ns);
    let sessions = sessions_kept(units);
    for batch in batches.iter_mut() {
        let is_new: Vec<bool> = match batch.table() {
            TableId::Inferences => batch.rows().map(|row| !kept.contains(&name(&row))).collect(),
            TableId::Annotations => batch.rows().map(|row| !take_one(&mut messages, &row)).collect(),
            TableId::Sessions => {
                batch.rows::<SessionRow>().map(|row| !sessions.contains(&row.session_id)).collect()
            }
            // Reported together with the session.
            TableId::Memory => {
                batch.rows::<MemoryRow>().map(|row| !sessions.contains(&row.session_id)).collect()
            }
            _ => continue,
        };
        *batch = batch.filter(&is_new);
    }
    batches.retain(|batch| !batch.is_empty());
    Ok(found)
}

/// How far each ring was read, and when that was last stored.
fn positions(units: &[Unit]) -> (BTreeMap<String, u64>, u64) {
    let mut positions: BTreeMap<String, u64> = BTreeMap::new();
    let mut last_ns = 0;
    for row in rows::<ChannelPositionRow>(units, TableId::ChannelPositions, &Scan::all()) {
        let position = positions.entry(row.ring.to_string()).or_default();
        *position = (*position).max(row.position);
        last_ns = last_ns.max(row.timestamp_ns);
    }
    (positions, last_ns)
}

/// Identifies an inference: session, stream, number.
type Name = (Text, u64, u64);

fn name(row: &InferenceRow) -> Name {
    (Text::clone(&row.session_id), row.stream, row.sequence)
}

/// The inferences that the journal has of the time that was found in rings.
fn inferences_kept(found: &[Batch], units: &[Unit]) -> HashSet<Name> {
    let of_inferences = found.iter().filter(|batch| batch.table() == TableId::Inferences);
    let Some(from_ns) = of_inferences.flat_map(Batch::times_ns).min() else {
        return HashSet::new();
    };
    let scan = Scan { from_ns: Some(*from_ns), ..Scan::all() }.columns(&["session_id", "stream", "sequence"]);
    rows(units, TableId::Inferences, &scan).map(|row| name(&row)).collect()
}

/// The sessions that the journal has.
fn sessions_kept(units: &[Unit]) -> HashSet<Text> {
    rows::<SessionRow>(units, TableId::Sessions, &Scan::all()).map(|row| row.session_id).collect()
}

/// Messages by kind and text, counted, because they have no number. A message in the journal after the last stored
/// position is the same one, and so is one with the time given by its program.
type Messages = HashMap<(Text, Text, Option<u64>), u64>;

fn messages_kept(found: &[Batch], units: &[Unit], read_at_ns: u64) -> Messages {
    let messages = found.iter().filter(|batch| batch.table() == TableId::Annotations);
    let first_ns = messages.flat_map(Batch::times_ns).min().copied();
    let from_ns = first_ns.map_or(read_at_ns, |first_ns| first_ns.min(read_at_ns));
    let scan = Scan { from_ns: Some(from_ns), ..Scan::all() };
    let mut kept = Messages::new();
    for row in rows::<AnnotationRow>(units, TableId::Annotations, &scan) {
        // A text without a time of its own has that of its reading.
        if &*row.kind != MESSAGE_KIND || row.timestamp_ns >= read_at_ns {
            *kept.entry(message_name(&row)).or_default() += 1;
        }
    }
    kept
}

fn message_name(row: &AnnotationRow) -> (Text, Text, Option<u64>) {
    let program_ns = (&*row.kind != MESSAGE_KIND).then_some(row.timestamp_ns);
    (Text::clone(&row.kind), Text::clone(&row.text), program_ns)
}

fn take_one(messages: &mut Messages, row: &AnnotationRow) -> bool {
    let count = messages.get_mut(&message_name(row));
    count.filter(|count| **count > 0).map(|count| *count -= 1).is_some()
}

/// All rows of a table. Read errors are reported by the scan.
fn rows<'a, R: Row>(units: &'a [Unit], table: TableId, scan: &Scan) -> impl Iterator<Item = R> + 'a {
    let scan = scan.clone();
    let batches = units.iter().flat_map(move |unit| unit.scan(table, &scan)).flatten();
    batches.flat_map(|batch| batch.rows::<R>().collect::<Vec<_>>())
}
