//! A recording that is written.
//!
//! Every batch goes through the change filter into the journal, which survives the end of this process. A thread turns
//! each journal file that is full into a segment; at the end the last one becomes a segment too.

mod convert;
mod journal;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ortscope_channel::journal::{JournalOptions, JournalWriter};
use ortscope_channel::seal::Sealer;
use ortscope_core::batch::Batch;
use ortscope_core::clock::WallAnchor;
use ortscope_core::units::utc;

use convert::SegmentThread;
pub use convert::after_segments;
pub(crate) use convert::{convert_all, set_aside, write_segment};
use journal::KeptJournal;
pub use journal::RecordingJournal;

use crate::StoreError;
use crate::encryption::{Key, Seal, document_name, seal_small};
use crate::files::WriterLock;
use crate::files::{
    CHANNEL, DOCUMENTS, JOURNAL, SEGMENTS, bytes_below, is_plain_name, make_directory, remove_directory,
    segment_files, sync_directory, write_whole,
};
use crate::manifest::{ChannelPlace, FORMAT, Found, Manifest, RecordingEnd};
use crate::segment::Segment;

/// Metadata known when a recording begins.
#[derive(Debug, Clone, Default)]
pub struct NewRecording {
    /// The command that creates it: run, record, attach, import.
    pub origin: String,
    /// The recorded models or program, for lists.
    pub subject: String,
    /// The user's own name for it.
    pub name: Option<String>,
    /// The command that makes it, redacted.
    pub command: Option<String>,
    pub ortscope_version: String,
    /// Facts that decide whether two recordings can be compared.
    pub fingerprint: BTreeMap<String, String>,
    pub boot_id: Option<String>,
    /// Host name of the recorded machine.
    pub host: Option<String>,
    /// `session_ids[n]` names session number n of the channel.
    pub session_ids: Vec<String>,
    /// Encrypts all of it.
    pub key: Option<Key>,
    pub journal: JournalOptions,
}

/// A recording that is written. Dropped without [`RecordingWriter::finish`] it looks cut off, and can be read as such.
#[derive(Debug)]
pub struct RecordingWriter {
    id: String,
    directory: PathBuf,
    root: PathBuf,
    manifest: Mutex<Manifest>,
    journal: Arc<KeptJournal>,
    segments: SegmentThread,
    seal: Option<Seal>,
    lock: WriterLock,
}

/// A recording that ended in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    pub id: String,
    pub directory: PathBuf,
    /// Rows that were kept, by table.
    pub rows: BTreeMap<String, u64>,
    /// Size on disk.
    pub bytes: u64,
}

impl RecordingWriter {
    pub(crate) fn begin(root: &Path, new: NewRecording) -> Result<Self, StoreError> {
        let started = WallAnchor::now();
        let id = new_id(started.unix_ns);
        let directory = root.join(&id);
        let seal = new.key.as_ref().map(Seal::new).transpose()?;
        // Its owner's only.
        ortscope_channel::disk::create_directory(&directory)?;
        Self::set_up(root, directory.clone(), id, started, new, seal).inspect_err(|_| {
            // Nothing was recorded yet, so the directory is useless.
            remove_directory(&directory).ok();
        })
    }

    fn set_up(
        root: &Path,
        directory: PathBuf,
        id: String,
        started: WallAnchor,
        new: NewRecording,
        seal: Option<Seal>,
    ) -> Result<Self, StoreError> {
        let lock = WriterLock::take(&directory)?;
        let journal = new.journal;
        let manifest = Manifest {
            format: FORMAT,
            id: id.clone(),
            name: new.name,
            tags: Vec::new(),
            ortscope_version: new.ortscope_version,
            origin: new.origin,
            subject: new.subject,
            command: new.command,
            started,
            boot_id: new.boot_id,
            host: new.host,
            fingerprint: new.fingerprint,
            session_ids: new.session_ids,
            channels: Vec::new(),
            documents: BTreeMap::new(),
            end: None,
            encryption: seal.clone(),
        };
        // Before anything that makes the directory a recording: a kill here leaves none, or a complete one.
        manifest.write(&directory)?;
        let sealer = seal.clone().map(|seal| Arc::new(seal) as Arc<dyn Sealer>);
        let journal = JournalWriter::create_sealed(&directory.join(JOURNAL), journal, sealer)?;
        make_directory(&directory.join(SEGMENTS))?;
        // The names of the recording and of its content: a sync of rows is worth nothing without them.
        for directory in [Some(&*directory), Some(root), root.parent()].into_iter().flatten() {
            sync_directory(directory);
        }
        let (segments, wake) = SegmentThread::start(&directory, seal.clone())?;
        let journal = Arc::new(KeptJournal::new(journal, wake, started)?);
        Ok(Self {
            id,
            directory,
            root: root.to_owned(),
            manifest: Mutex::new(manifest),
            journal,
            segments,
            seal,
            lock,
        })
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The start of the recording and of its timeline.
    pub fn started(&self) -> WallAnchor {
        self.lock_manifest().started
    }

    /// The directory for the rings of the observed process; made if needed, its owner's only.
    pub fn channel_directory(&self) -> Result<PathBuf, StoreError> {
        let path = self.directory.join(CHANNEL);
        make_directory(&path)?;
        Ok(path)
    }

    /// The journal for the pipeline.
    pub fn journal(&self) -> RecordingJournal {
        RecordingJournal::new(Arc::clone(&self.journal))
    }

    /// Keeps a batch without a pipeline. When this returns, its rows survive the end of this process.
    pub fn append(&self, batch: &Batch) -> Result<(), StoreError> {
        Ok(self.journal.append(batch)?)
    }

    /// Waits until the background threads are idle: the next journal file exists, and full ones have become segments.
    /// This makes the order of changes deterministic in tests.
    #[doc(hidden)]
    pub fn settle(&self) {
        self.journal.settle();
        self.segments.settle();
    }

    /// Waits until everything that was appended would survive a power loss.
    pub fn sync(&self) -> Result<(), StoreError> {
        Ok(self.journal.sync()?)
    }

    pub fn set_fingerprint(&self, fingerprint: BTreeMap<String, String>) -> Result<(), StoreError> {
        self.change_manifest(|manifest| manifest.fingerprint = fingerprint)
    }

    /// Stores where the rings of an observed process are, so that their records are found after a crash.
    pub fn add_channel(&self, directory: &Path, session_ids: &[String]) -> Result<(), StoreError> {
        let place = ChannelPlace { directory: directory.to_owned(), session_ids: session_ids.to_vec() };
        self.change_manifest(|manifest| manifest.channels.push(place))
    }

    /// The rings of a channel were read to their end and may go.
    pub fn remove_channel(&self, directory: &Path) -> Result<(), StoreError> {
        self.change_manifest(|manifest| manifest.channels.retain(|place| place.directory != directory))
    }

    pub fn set_subject(&self, subject: String) -> Result<(), StoreError> {
        self.change_manifest(|manifest| manifest.subject = subject)
    }

    /// Keeps a document with the recording, or replaces it.
    pub fn write_document(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        if !is_plain_name(name) {
            return Err(StoreError::Argument(format!("'{name}' cannot be the name of a document")));
        }
        let documents = self.directory.join(DOCUMENTS);
        make_directory(&documents)?;
        // Its checksum first, next to that of the document it replaces: a crash leaves either of the two known.
        let checksum = crc32c::crc32c(bytes);
        self.change_manifest(|manifest| {
            let checksums = manifest.documents.entry(name.to_owned()).or_default();
            // The first is that of the document that is there; a second one was refused by the disk.
            checksums.truncate(1);
            checksums.push(checksum);
        })?;
        match &self.seal {
            Some(seal) => {
                write_whole(&documents.join(name), &seal_small(seal, &document_name(name), bytes)?)?;
            }
            None => write_whole(&documents.join(name), bytes)?,
        }
        // Known here now, and written with the next change.
        self.lock_manifest().documents.insert(name.to_owned(), vec![checksum]);
        Ok(())
    }

    /// Ends the recording: the rest of the journal becomes segments, the manifest gets its end. The rings of the channel
    /// must have been read to the end before; they are removed.
    ///
    /// If this fails the recording is as after a crash: nothing that was appended is lost, and it can be repaired.
    pub fn finish(self, reason: &str) -> Result<Finished, StoreError> {
        self.finish_at(reason, WallAnchor::now)
    }

    /// The same for an imported file: its rows span this time from the recording's beginning, whenever it ends.
    pub fn finish_after(self, reason: &str, span: Duration) -> Result<Finished, StoreError> {
        let span_ns = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        let mut ended = self.started();
        ended.monotonic_ns = ended.monotonic_ns.saturating_add(span_ns);
        ended.unix_ns = ended.unix_ns.saturating_add(span_ns);
        self.finish_at(reason, || ended)
    }

    fn finish_at(mut self, reason: &str, ended: impl FnOnce() -> WallAnchor) -> Result<Finished, StoreError> {
        self.journal.seal()?;
        self.segments.join();
        convert_all(&self.directory, self.seal.as_ref())?;
        let rows = rows_kept(&self.directory, self.seal.as_ref())?;
        let end = RecordingEnd { ended: ended(), rows: rows.clone(), reason: reason.to_owned() };
        self.change_manifest(|manifest| {
            manifest.end = Some(end);
            manifest.channels.clear();
        })?;
        // With its end in the manifest the recording is complete: leftovers do no harm.
        for directory in [JOURNAL, CHANNEL] {
            if let Err(error) = remove_directory(&self.directory.join(directory)) {
                tracing::warn!("{error}; it is no longer needed");
            }
        }
        drop(self.lock);
        if let Err(error) = crate::catalogue::note(&self.root, &self.directory) {
            tracing::warn!("{error}; it is made again when recordings are listed");
        }
        let bytes = bytes_below(&self.directory);
        Ok(Finished { id: self.id, directory: self.directory, rows, bytes })
    }

    /// Changes the manifest. Name and tags may have been changed by others meanwhile: theirs count.
    fn change_manifest(&self, change: impl FnOnce(&mut Manifest)) -> Result<(), StoreError> {
        let mut manifest = self.lock_manifest();
        if let Ok(Found::Whole(on_disk)) = Manifest::read_with(&self.directory, self.seal.as_ref()) {
            manifest.name = on_disk.name;
            manifest.tags = on_disk.tags;
        }
        change(&mut manifest);
        manifest.write(&self.directory)
    }

    fn lock_manifest(&self) -> MutexGuard<'_, Manifest> {
        self.manifest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Rows of all segments, by table.
pub(crate) fn rows_kept(recording: &Path, seal: Option<&Seal>) -> Result<BTreeMap<String, u64>, StoreError> {
    let mut rows: BTreeMap<String, u64> = BTreeMap::new();
    for (_, path) in segment_files(recording)? {
        let segment = Segment::open(&path, seal)?.map_err(|problem| StoreError::damaged(&path, problem))?;
        for chunk in &segment.footer.chunks {
            *rows.entry(segment.footer.tables[chunk.table].name.clone()).or_default() += chunk.rows;
        }
    }
    Ok(rows)
}

/// The day in UTC and eight random digits, e.g. `2026-11-15-7f3a9c2e`.
fn new_id(unix_ns: u64) -> String {
    let random = uuid::Uuid::new_v4().simple().to_string();
    format!("{}-{}", utc(unix_ns).split(' ').next().unwrap_or_default(), &random[..8])
}

#[cfg(test)]
mod tests {
    #[test]
    fn ids_begin_with_the_day() {
        let id = super::new_id(20_772 * 86_400_000_000_000 + 5);
        assert!(id.starts_with("2026-11-15-") && id.len() == 19, "{id}");
    }
}
