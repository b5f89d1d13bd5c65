//! Turns journal files into segments.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use ortscope_channel::ChannelError;
use ortscope_channel::journal::{JournalFile, JournalFileReader, journal_files};
use ortscope_channel::seal::Sealer;

use crate::StoreError;
use crate::encryption::Seal;
use crate::files::{
    DAMAGED, JOURNAL, file_name, make_directory, new_file_for, put_in_place, remove_file, rename,
    segment_path, sync_directory,
};
use crate::segment::{Segment, SegmentBuilder, SegmentWriter};

static AFTER_SEGMENTS: OnceLock<fn()> = OnceLock::new();

/// Called each time after segments were built while a recording continues: building takes many times the memory of
/// anything else, which the caller may want to release. The first call decides.
pub fn after_segments(then: fn()) {
    AFTER_SEGMENTS.get_or_init(|| then);
}

/// The thread that builds segments while the recording continues.
#[derive(Debug)]
pub(super) struct SegmentThread {
    /// `None` once it was joined.
    running: Option<(Wake, JoinHandle<()>)>,
}

/// Wakes the thread, which ends when all of these are dropped.
#[derive(Debug, Clone)]
pub(super) struct Wake {
    call: SyncSender<()>,
    /// Calls that it has not answered yet.
    open_calls: Arc<AtomicU64>,
}

impl Wake {
    pub fn call(&self) {
        self.open_calls.fetch_add(1, Ordering::AcqRel);
        if self.call.try_send(()).is_err() {
            // It has not seen the last call yet, and will see this file with it.
            self.open_calls.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

impl SegmentThread {
    /// Starts it, and gives what wakes it.
    pub fn start(recording: &Path, seal: Option<Seal>) -> Result<(Self, Wake), StoreError> {
        let (call, called) = sync_channel(1);
        let recording = recording.to_owned();
        let open_calls = Arc::new(AtomicU64::new(0));
        let wake = Wake { call, open_calls: Arc::clone(&open_calls) };
        let work = move || work(&recording, seal.as_ref(), &called, &open_calls);
        let thread = Builder::new().name("segments".into()).spawn(work)?;
        Ok((Self { running: Some((wake.clone(), thread)) }, wake))
    }

    /// Waits until it has answered all calls.
    pub fn settle(&self) {
        while let Some((wake, thread)) = &self.running
            && wake.open_calls.load(Ordering::Acquire) > 0
            && !thread.is_finished()
        {
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    /// Waits for its current work. Its journal must have been sealed, so that it is not woken again.
    pub fn join(&mut self) {
        if let Some((wake, thread)) = self.running.take() {
            drop(wake);
            if thread.join().is_err() {
                tracing::error!("the thread that makes segments panicked; its journal is read again");
            }
        }
    }
}

fn work(recording: &Path, seal: Option<&Seal>, called: &Receiver<()>, open_calls: &AtomicU64) {
    while called.recv().is_ok() {
        // A file that cannot become a segment now stays in the journal, and is tried again with the next one.
        if let Err(error) = convert_sealed(recording, seal) {
            tracing::warn!("{error}; the journal is kept");
        }
        if let Some(then) = AFTER_SEGMENTS.get() {
            then();
        }
        open_calls.fetch_sub(1, Ordering::AcqRel);
    }
}

fn convert_sealed(recording: &Path, seal: Option<&Seal>) -> Result<(), StoreError> {
    for file in files(recording)?.iter().filter(|file| file.sealed) {
        convert(recording, file, seal)?;
    }
    Ok(())
}

/// Turns every journal file into a segment, also one whose writer was killed. Only for a recording that is locked.
/// Returns the rows that were written.
pub(crate) fn convert_all(recording: &Path, seal: Option<&Seal>) -> Result<u64, StoreError> {
    let mut rows = 0;
    for file in files(recording)? {
        rows += convert(recording, &file, seal)?;
    }
    Ok(rows)
}

fn files(recording: &Path) -> Result<Vec<JournalFile>, StoreError> {
    match journal_files(&recording.join(JOURNAL)) {
        Err(ChannelError::Io(error)) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        other => Ok(other?),
    }
}

/// The segment is durable under its name before the journal file is removed, so one of them always exists.
fn convert(recording: &Path, file: &JournalFile, seal: Option<&Seal>) -> Result<u64, StoreError> {
    let target = segment_path(recording, file.number);
    let is_there = target.is_file() && Segment::open(&target, seal)?.is_ok();
    let mut rows = 0;
    let mut is_damaged = false;
    if !is_there {
        let mut reader =
            match JournalFileReader::open_sealed(&file.path, seal.map(|seal| seal as &dyn Sealer)) {
                Ok(reader) => reader,
                Err(error @ (ChannelError::NotAJournal { .. } | ChannelError::Sealed(_))) => {
                    tracing::error!("{error}");
                    set_aside(recording, &file.path)?;
                    return Ok(0);
                }
                Err(error) => return Err(error.into()),
            };
        let mut builder = SegmentBuilder::default();
        while let Some(batch) = reader.next_batch() {
            builder.add(&batch);
        }
        rows = builder.rows();
        let outcome = reader.outcome();
        is_damaged = outcome.damaged_frames > 0;
        let damage = (outcome.damaged_frames, outcome.skipped_bytes);
        drop(reader);
        write_segment(&target, builder, damage, seal)?;
    }
    if is_damaged {
        set_aside(recording, &file.path)?;
    } else if let Err(error) = remove_file(&file.path) {
        // Where a file that is still mapped cannot be removed: the next round, or the end, does it.
        tracing::debug!("{error}");
    }
    Ok(rows)
}

/// Writes rows as a segment: whole under its name, or not at all.
pub(crate) fn write_segment(
    target: &Path,
    builder: SegmentBuilder,
    (damaged_frames, skipped_bytes): (u64, u64),
    seal: Option<&Seal>,
) -> Result<(), StoreError> {
    let file = new_file_for(target)?;
    let mut segment = SegmentWriter::new(BufWriter::new(file), seal, &file_name(target))?;
    segment.note_damage(damaged_frames, skipped_bytes);
    builder.write_into(&mut segment)?;
    let mut buffered = segment.finish()?;
    buffered.flush()?;
    let file = buffered.into_inner().map_err(std::io::IntoInnerError::into_error)?;
    put_in_place(file, target)
}

/// Moves an unreadable file to a directory that only people look into. Returns its new path.
pub(crate) fn set_aside(recording: &Path, path: &Path) -> Result<PathBuf, StoreError> {
    let directory = recording.join(DAMAGED);
    make_directory(&directory)?;
    let name = path.file_name().unwrap_or_default();
    let mut to = directory.join(name);
    let mut copies = 1;
    while to.exists() {
        copies += 1;
        to = directory.join(format!("{}.{copies}", name.to_string_lossy()));
    }
    rename(path, &to)?;
    sync_directory(&directory);
    Ok(to)
}
