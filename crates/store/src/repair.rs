//! Turns an interrupted or damaged recording into a complete one with everything that is still readable.
//!
//! Nothing useful is deleted: unreadable files are moved to `damaged/`. Every step leaves a readable recording and
//! can be repeated.

use std::collections::BTreeMap;
use std::io::{BufWriter, Read as _};
use std::path::{Path, PathBuf};

use fs_err::File;
use ortscope_channel::disk::{Change, change, open_to_read, remove_temporary_file};
use ortscope_channel::pid_of;
use ortscope_core::clock::WallAnchor;
use ortscope_core::schema::{TableId, WallAnchorRow};
use ortscope_core::tables::{ReadError, Scan, Tables};
use serde::Serialize;

use crate::StoreError;
use crate::encryption::Seal;
use crate::files::WriterLock;
use crate::files::{
    CHANNEL, DOCUMENTS, JOURNAL, MANIFEST, SEGMENTS, file_name as name, make_directory, new_file_for,
    put_in_place, remove_directory, segment_files, segment_name, segment_path,
};
use crate::manifest::{ChannelPlace, RecordingEnd};
use crate::recording::Recording;
use crate::segment::{Segment, SegmentBuilder, SegmentWriter};
use crate::writer::{convert_all, rows_kept, set_aside, write_segment};

/// Segments that a repair adds in place of lost ones; more than this is a stray number.
const MAX_PLACEHOLDERS: u64 = 10_000;

/// Length of the page through which an observer steers.
const CONTROL_BYTES: u64 = 4096;

/// Result of a repair.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RepairReport {
    pub id: String,
    /// The actions as sentences; empty if nothing was necessary.
    pub actions: Vec<String>,
    /// Files that were moved to `damaged/`.
    pub set_aside: Vec<PathBuf>,
    /// Rows that are there now, by table.
    pub rows: BTreeMap<String, u64>,
    /// Rows that are known to be lost.
    pub rows_lost: u64,
}

impl RepairReport {
    pub fn sentences(&self) -> Vec<String> {
        if self.actions.is_empty() {
            return vec![format!("{} is whole: nothing to repair", self.id)];
        }
        let mut sentences = self.actions.clone();
        sentences.extend(self.set_aside.iter().map(|path| format!("kept aside: {}", path.display())));
        sentences.push(format!("{} now has {} rows", self.id, self.rows.values().sum::<u64>()));
        sentences
    }

    fn done(&mut self, action: String) {
        self.actions.push(action);
    }
}

/// Repairs the recording in a directory. Fails while it is being written.
pub fn repair(path: &Path) -> Result<RepairReport, StoreError> {
    if path.is_file() {
        let problem =
            format!("'{}' is a packed file: only a recording's directory can be repaired", path.display());
        return Err(StoreError::Argument(problem));
    }
    // Rejects other directories and newer formats before anything is locked.
    drop(Recording::open(path)?);
    let _lock = WriterLock::take(path)?;
    let before = Recording::open_locked(path)?;
    let seal = before.manifest().encryption.clone();
    let seal = seal.as_ref();
    let mut report = RepairReport { id: before.manifest().id.clone(), ..RepairReport::default() };

    // One whose disk was refused early has none yet.
    make_directory(&path.join(SEGMENTS))?;
    let highest = segment_files(path)?.last().map_or(0, |(number, _)| *number);
    set_aside_lost_segments(path, seal, &mut report)?;
    let from_journal = convert_all(path, seal)?;
    if from_journal > 0 {
        report.done(format!("{from_journal} rows of the journal became segments"));
    }
    rewrite_damaged_segments(path, seal, &mut report)?;
    keep_rows_of_rings(path, &before, &mut report)?;
    fill_gaps(path, highest, seal, &mut report)?;
    let journal_left = path.join(JOURNAL).exists() || path.join(CHANNEL).exists();
    set_aside_documents(path, &before, &mut report)?;
    remove_channels(&before.manifest().channels);
    report.rows = rows_kept(path, seal)?;
    finish_manifest(path, &before, &mut report)?;
    if journal_left {
        // The damaged rings may belong to a channel outside the recording.
        let has_rings = path.join(CHANNEL).exists();
        if has_rings && before.condition().damaged.iter().any(|damage| damage.place == CHANNEL) {
            report.set_aside.push(set_aside(path, &path.join(CHANNEL))?);
        }
        remove_directory(&path.join(JOURNAL))?;
        remove_directory(&path.join(CHANNEL))?;
    }
    Ok(report)
}

/// Removes rings outside the recording, now that their rows are in it. A manifest can name any directory, so only
/// rings and their control page are removed; a directory with other files stays.
fn remove_channels(places: &[ChannelPlace]) {
    for place in places {
        let Ok(entries) = std::fs::read_dir(&place.directory) else {
            continue;
        };
        let paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        let (rings, others): (Vec<_>, Vec<_>) = paths.into_iter().partition(|path| is_ring(path));
        let is_channel = !rings.is_empty() || pid_of(&place.directory).is_some();
        let is_control = |path: &Path| {
            path.file_name().is_some_and(|name| name == "control")
                && std::fs::symlink_metadata(path).is_ok_and(|found| found.len() == CONTROL_BYTES)
        };
        let control = others.into_iter().filter(|path| is_channel && is_control(path));
        for path in rings.into_iter().chain(control) {
            remove_temporary_file(&path).ok();
        }
        std::fs::remove_dir(&place.directory).ok();
    }
}

/// Whether a file really is a ring.
fn is_ring(path: &Path) -> bool {
    let mut head = [0; 8];
    path.extension().is_some_and(|ending| ending == "ring")
        && std::fs::symlink_metadata(path).is_ok_and(|found| found.is_file())
        && File::open(path).and_then(|mut file| file.read_exact(&mut head)).is_ok()
        && &head == b"ORTSRING"
}

/// Documents that are not as they were written.
fn set_aside_documents(
    recording: &Path,
    before: &Recording,
    report: &mut RepairReport,
) -> Result<(), StoreError> {
    for name in before.manifest().documents.keys() {
        if let Err(StoreError::Damaged { problem, .. }) = before.document(name) {
            report.done(format!("the document {name} cannot be read: {problem}"));
            report.set_aside.push(set_aside(recording, &recording.join(DOCUMENTS).join(name))?);
        }
    }
    Ok(())
}

/// Segments whose directory cannot be read.
fn set_aside_lost_segments(
    recording: &Path,
    seal: Option<&Seal>,
    report: &mut RepairReport,
) -> Result<(), StoreError> {
    for (_, path) in segment_files(recording)? {
        if let Err(problem) = Segment::open(&path, seal)? {
            report.done(format!("{} cannot be read: {problem}", name(&path)));
            report.set_aside.push(set_aside(recording, &path)?);
        }
    }
    Ok(())
}

/// Rewrites segments with unreadable chunks or recorded losses.
fn rewrite_damaged_segments(
    recording: &Path,
    seal: Option<&Seal>,
    report: &mut RepairReport,
) -> Result<(), StoreError> {
    for (_, path) in segment_files(recording)? {
        let segment = Segment::open(&path, seal)?.map_err(|problem| StoreError::damaged(&path, problem))?;
        let damaged = damaged_chunks(&segment)?;
        let has_new_loss = segment.footer.damaged_frames > 0 && !segment.footer.accepted;
        if damaged.is_empty() && !has_new_loss {
            continue;
        }
        if damaged.is_empty() {
            report.done(format!("{} lost frames of its journal", name(&path)));
        } else {
            let rows: u64 = damaged.iter().map(|number| segment.footer.chunks[*number].rows).sum();
            report.done(format!("{} lost {rows} rows", name(&path)));
            report.rows_lost += rows;
            // The name is never without a file: a copy goes aside.
            let copy = recording.join(SEGMENTS).join(format!("copy-of-{}", name(&path)));
            change(Change::MakeFile(&copy), || fs_err::copy(&path, &copy))?;
            report.set_aside.push(set_aside(recording, &copy)?);
        }
        rewrite_without(&segment, &damaged, seal)?;
    }
    Ok(())
}

fn damaged_chunks(segment: &Segment) -> Result<Vec<usize>, StoreError> {
    let mut file = open_to_read(&segment.path)?;
    let mut damaged = Vec::new();
    for (number, chunk) in segment.footer.chunks.iter().enumerate() {
        match segment.read_chunk(&mut file, chunk) {
            Ok(_) => {}
            Err(ReadError::Damaged { .. }) => damaged.push(number),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(damaged)
}

fn rewrite_without(segment: &Segment, damaged: &[usize], seal: Option<&Seal>) -> Result<(), StoreError> {
    let mut file = open_to_read(&segment.path)?;
    let to = BufWriter::new(new_file_for(&segment.path)?);
    let mut rewritten = SegmentWriter::new(to, seal, &name(&segment.path))?;
    for (_, chunk) in segment.footer.chunks.iter().enumerate().filter(|(number, _)| !damaged.contains(number))
    {
        let blocks = segment.read_chunk(&mut file, chunk)?;
        rewritten.copy(&segment.footer.tables[chunk.table], chunk, blocks)?;
    }
    rewritten.note_damage(segment.footer.damaged_frames, segment.footer.skipped_bytes);
    rewritten.accept_loss();
    let new = rewritten.finish()?.into_inner().map_err(std::io::IntoInnerError::into_error)?;
    drop(file);
    put_in_place(new, &segment.path)
}

/// Rows that were in no journal yet.
fn keep_rows_of_rings(
    recording: &Path,
    before: &Recording,
    report: &mut RepairReport,
) -> Result<(), StoreError> {
    if before.condition().recovered_rows == 0 {
        return Ok(());
    }
    let Some(unit) = before.units().last() else {
        return Ok(());
    };
    let mut builder = SegmentBuilder::default();
    for table in TableId::ALL {
        for batch in unit.scan(*table, &Scan::all()) {
            builder.add(&batch?);
        }
    }
    let last = segment_files(recording)?.last().map_or(0, |(number, _)| *number);
    report.done(format!("{} rows from rings became a segment", builder.rows()));
    let target = segment_path(recording, last.max(unit.number - 1) + 1);
    write_segment(&target, builder, (0, 0), before.manifest().encryption.as_ref())
}

/// Puts an empty segment in the place of each lost one, so that the loss is recorded and no longer reported as new.
fn fill_gaps(
    recording: &Path,
    highest: u64,
    seal: Option<&Seal>,
    report: &mut RepairReport,
) -> Result<(), StoreError> {
    let numbers: Vec<u64> = segment_files(recording)?.iter().map(|(number, _)| *number).collect();
    let last = numbers.last().copied().unwrap_or(0).max(highest);
    if last > numbers.len() as u64 + MAX_PLACEHOLDERS {
        return Ok(());
    }
    for number in (1..=last).filter(|number| !numbers.contains(number)) {
        let path = segment_path(recording, number);
        let mut segment = SegmentWriter::new(BufWriter::new(new_file_for(&path)?), seal, &name(&path))?;
        segment.accept_loss();
        let file = segment.finish()?.into_inner().map_err(std::io::IntoInnerError::into_error)?;
        put_in_place(file, &path)?;
        report.done(format!("{} is lost", segment_name(number)));
    }
    Ok(())
}

fn finish_manifest(
    recording: &Path,
    before: &Recording,
    report: &mut RepairReport,
) -> Result<(), StoreError> {
    let mut manifest = before.manifest().clone();
    manifest.channels.clear();
    let is_lost = before.condition().damaged.iter().any(|damage| damage.place == MANIFEST);
    let anchors = anchors(before)?;
    if is_lost {
        let path = recording.join(MANIFEST);
        if path.exists() {
            report.set_aside.push(set_aside(recording, &path)?);
        }
        report.done("its manifest was lost and is made again".into());
        if let Some(first) = anchors.first() {
            manifest.started = *first;
        }
    }
    match &mut manifest.end {
        Some(end) if end.rows == report.rows && !is_lost => return Ok(()),
        Some(end) => {
            let expected: u64 = end.rows.values().sum();
            let lost = expected.saturating_sub(report.rows.values().sum());
            report.rows_lost = report.rows_lost.max(lost);
            end.rows.clone_from(&report.rows);
            report.done(format!("{lost} rows are lost"));
        }
        none => {
            let last_ns = before.time_range_ns().map_or(0, |(_, last_ns)| last_ns);
            let ended = ended(manifest.started, &anchors, last_ns);
            let reason = "cut off, repaired later".to_owned();
            *none = Some(RecordingEnd { ended, rows: report.rows.clone(), reason });
            report.done("it was cut off and has its end now".into());
        }
    }
    manifest.write(recording)
}

fn anchors(recording: &Recording) -> Result<Vec<WallAnchor>, StoreError> {
    let mut anchors = Vec::new();
    for batch in recording.scan(TableId::WallAnchors, &Scan::all()).flatten() {
        anchors.extend(batch.rows::<WallAnchorRow>().map(|row| WallAnchor {
            monotonic_ns: row.timestamp_ns,
            unix_ns: row.unix_ns,
            error_ns: row.error_ns,
        }));
    }
    Ok(anchors)
}

/// The time of the last row, by the last reading of both clocks.
fn ended(started: WallAnchor, anchors: &[WallAnchor], last_ns: u64) -> WallAnchor {
    let anchor = anchors.last().unwrap_or(&started);
    let monotonic_ns = last_ns.max(anchor.monotonic_ns);
    WallAnchor { monotonic_ns, unix_ns: anchor.unix_ns_at(monotonic_ns), error_ns: anchor.error_ns }
}
