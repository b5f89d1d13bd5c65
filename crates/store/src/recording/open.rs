//! Finds out what there is of a recording.

use std::collections::BTreeMap;
use std::path::Path;

use ortscope_channel::ChannelError;
use ortscope_channel::journal::{JournalFile, journal_files};

use super::{Condition, Recording, Unit, rings};
use crate::StoreError;
use crate::encryption::{Seal, seal_of_files};
use crate::files::is_written;
use crate::files::{JOURNAL, MANIFEST, SEGMENTS, segment_files, segment_name, segment_path};
use crate::manifest::{Found, Manifest};
use crate::segment::{Segment, View};

pub(super) fn open(path: &Path) -> Result<Recording, StoreError> {
    let metadata = match fs_err::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(StoreError::Unknown { run: path.display().to_string(), close: Vec::new() });
        }
        Err(error) => return Err(error.into()),
    };
    if metadata.is_dir() {
        return open_directory(path, is_written(path));
    }
    let unpacked = crate::pack::unpack(path)?;
    let mut recording = open_directory(unpacked.path(), false)?;
    recording.path = path.to_owned();
    recording._unpacked = Some(unpacked);
    Ok(recording)
}

pub(super) fn open_directory(directory: &Path, being_written: bool) -> Result<Recording, StoreError> {
    let mut condition = Condition { being_written, ..Condition::default() };
    let manifest = match Manifest::read(directory)? {
        Found::Whole(manifest) => *manifest,
        found => {
            if !directory.join(SEGMENTS).is_dir() && !directory.join(JOURNAL).is_dir() {
                // Killed before it had anything else, and damaged since.
                if let Found::Damaged(problem) = found {
                    return Err(StoreError::damaged(directory.join(MANIFEST), problem));
                }
                let problem = format!("'{}' is not a recording: it has no {MANIFEST}", directory.display());
                return Err(StoreError::Argument(problem));
            }
            let problem = match found {
                Found::Damaged(problem) => problem,
                _ => "it is missing".into(),
            };
            condition.note(MANIFEST, problem, Some(0));
            Manifest { encryption: seal_of_files(directory)?, ..Manifest::of_lost(directory) }
        }
    };
    condition.finished = manifest.end.is_some();

    let mut units = find_units(directory, manifest.encryption.as_ref(), &mut condition)?;
    connect(&mut units, &mut condition);
    note_what_is_not_understood(&units, &mut condition);
    if let Some(end) = &manifest.end {
        let found: u64 =
            units.iter().map(Unit::rows).sum::<u64>() + condition.unknown_tables.values().sum::<u64>();
        condition.note_missing(end.rows.values().sum::<u64>().saturating_sub(found));
    }
    if !condition.finished && !condition.being_written {
        add_rings(directory, &manifest, &mut units, &mut condition);
    }
    let directory = directory.to_owned();
    Ok(Recording { path: directory.clone(), directory, manifest, condition, units, _unpacked: None })
}

/// Segments, and journal files that have not become one.
fn find_units(
    directory: &Path,
    seal: Option<&Seal>,
    condition: &mut Condition,
) -> Result<Vec<Unit>, StoreError> {
    // The journal is read first: files that leave it meanwhile are among the segments.
    let journal = match journal_files(&directory.join(JOURNAL)) {
        Ok(files) => files,
        Err(ChannelError::Io(error)) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let mut units = BTreeMap::new();
    let mut damaged = BTreeMap::new();
    for (number, path) in segment_files(directory)? {
        match Segment::open(&path, seal)? {
            Ok(segment) => drop(units.insert(number, Unit::of_segment(number, segment))),
            Err(problem) => drop(damaged.insert(number, problem)),
        }
    }
    for file in journal.iter().filter(|file| file.number > 0) {
        if units.contains_key(&file.number) {
            continue;
        }
        match read_journal(directory, file, seal, condition) {
            Ok(unit) => {
                damaged.remove(&file.number);
                condition.journal_rows += if unit.segment().is_none() { unit.rows() } else { 0 };
                units.insert(file.number, unit);
            }
            Err(StoreError::Damaged { problem, .. }) => drop(damaged.insert(file.number, problem)),
            Err(error) => return Err(error),
        }
    }
    for (number, problem) in damaged {
        condition.note(format!("{SEGMENTS}/{}", segment_name(number)), problem, None);
    }
    Ok(units.into_values().collect())
}

fn read_journal(
    directory: &Path,
    file: &JournalFile,
    seal: Option<&Seal>,
    condition: &mut Condition,
) -> Result<Unit, StoreError> {
    let segment = segment_path(directory, file.number);
    let grows = condition.being_written && !file.sealed;
    let (unit, outcome) = match Unit::of_journal(file.number, &file.path, &segment, grows, seal) {
        Ok(read) => read,
        // It has become a segment in the meantime.
        Err(ChannelError::Io(error)) if error.kind() == std::io::ErrorKind::NotFound => {
            return match Segment::open(&segment, seal)? {
                Ok(segment) => Ok(Unit::of_segment(file.number, segment)),
                Err(problem) => Err(StoreError::damaged(segment, problem)),
            };
        }
        Err(error) => return Err(error.into()),
    };
    let name = file.path.file_name().unwrap_or_default().to_string_lossy();
    let place = format!("{JOURNAL}/{name}");
    if outcome.damaged_frames > 0 {
        let problem =
            outcome.problem.unwrap_or_else(|| format!("{} frames cannot be read", outcome.damaged_frames));
        condition.note(place, problem, None);
    } else if let Some(problem) = outcome.problem {
        condition.note(place, problem, Some(0));
    }
    if outcome.unknown_tables > 0 {
        *condition.unknown_tables.entry("in the journal".into()).or_default() += outcome.unknown_tables;
    }
    Ok(unit)
}

/// Marks which units are contiguous and records missing ones.
fn connect(units: &mut [Unit], condition: &mut Condition) {
    let mut expected = 1;
    for unit in units {
        unit.follows = unit.number == expected && unit.number > 1;
        for missing in expected..unit.number {
            let place = format!("{SEGMENTS}/{}", segment_name(missing));
            if !condition.damaged.iter().any(|damage| damage.place == place) {
                condition.note(place, "it is missing", None);
            }
            if missing - expected > 100 {
                // A stray number, not a row of losses.
                break;
            }
        }
        expected = unit.number.saturating_add(1);
    }
}

/// Counts tables and columns of other versions, and journal losses recorded when segments were built.
fn note_what_is_not_understood(units: &[Unit], condition: &mut Condition) {
    for segment in units.iter().filter_map(Unit::segment) {
        let name = segment.path.file_name().unwrap_or_default().to_string_lossy();
        let place = format!("{SEGMENTS}/{name}");
        if segment.footer.accepted {
            condition.repaired_segments += 1;
        } else if segment.footer.damaged_frames > 0 {
            let frames = segment.footer.damaged_frames;
            condition.note(&place, format!("{frames} frames of its journal could not be read"), None);
        }
        for (index, (stored, view)) in segment.views().enumerate() {
            let chunks = segment.footer.chunks.iter().filter(|chunk| chunk.table == index);
            let rows: u64 = chunks.map(|chunk| chunk.rows).sum();
            match view {
                View::Known { unknown_columns, .. } => condition.unknown_columns += *unknown_columns as u64,
                View::Unknown => *condition.unknown_tables.entry(stored.name.clone()).or_default() += rows,
                View::Refused { problem, .. } => condition.note(&place, problem, Some(rows)),
            }
        }
    }
}

fn add_rings(directory: &Path, manifest: &Manifest, units: &mut Vec<Unit>, condition: &mut Condition) {
    match rings::read(directory, manifest, units) {
        Ok(found) => {
            if found.damaged > 0 {
                condition.note(
                    "channel",
                    format!("{} frames cannot be read", found.damaged),
                    Some(found.damaged),
                );
            }
            condition.lost_in_rings = found.lost;
            condition.recovered_rows = found.rows();
            if !found.batches.is_empty() {
                let number = units.last().map_or(1, |unit| unit.number + 1);
                units.push(Unit::of_memory(number, found.batches));
            }
        }
        Err(error) => condition.note("channel", error.to_string(), None),
    }
}
