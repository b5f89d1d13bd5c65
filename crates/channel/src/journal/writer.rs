//! Appending batches to a journal.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use ortscope_core::batch::Batch;
use ortscope_core::pipeline::{Journal, JournalError};

use super::background::Shared;
use super::file::{MappedFile, Place};
use super::header::{PAGE_BYTES, State};
use super::{FILE_BYTES, JournalOptions, SYNC_PERIOD, journal_files, number_of};
use crate::batch_frame::BatchEncoder;
use crate::frame::{FrameKind, MAX_PAYLOAD_BYTES, frame_bytes};
use crate::seal::{SEAL_OVERHEAD_BYTES, Sealer};
use crate::{ChannelError, private_files};

/// Writes a journal. Dropping it without [`JournalWriter::seal`] leaves the last file as a killed writer would.
#[derive(Debug)]
pub struct JournalWriter {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// `None` after the end.
    active: Option<(Arc<MappedFile>, Place)>,
    encoder: BatchEncoder,
    payload: Vec<u8>,
    max_payload: usize,
    /// Bytes that encryption adds to a payload.
    overhead: usize,
    file_number: u64,
    asked_for_next: bool,
    /// Of the batch that was appended last.
    rows_kept: u64,
}

impl JournalWriter {
    /// Makes the directory if needed and the first file. Files that are there already stay; numbers go on behind theirs.
    pub fn create(directory: &Path, options: JournalOptions) -> Result<Self, ChannelError> {
        Self::create_sealed(directory, options, None)
    }

    /// Creates a journal with encrypted frames if `sealer` is given.
    pub fn create_sealed(
        directory: &Path,
        options: JournalOptions,
        sealer: Option<Arc<dyn Sealer>>,
    ) -> Result<Self, ChannelError> {
        if !FILE_BYTES.contains(&options.file_bytes) {
            return Err(ChannelError::BadJournalSize(options.file_bytes));
        }
        private_files::create_directory(directory)?;
        let number = first_free_number(directory)?;
        let encoder = BatchEncoder::default();
        let schema = encoder.schema_json().to_vec();
        let (file, place) =
            MappedFile::create(directory, number, options.file_bytes, &schema, sealer.as_deref())?;
        file.set_state(State::InUse);
        let file = Arc::new(file);
        // Half of a file's capacity: a frame always fits into a new file, and little space is wasted at the end of
        // one.
        let overhead = if sealer.is_some() { SEAL_OVERHEAD_BYTES } else { 0 };
        let room = options.file_bytes as usize - PAGE_BYTES - frame_bytes(schema.len() + overhead);
        let shared = Arc::new(Shared::new(
            directory.to_owned(),
            options.file_bytes,
            schema,
            sealer,
            options.sync_period.clamp(*SYNC_PERIOD.start(), *SYNC_PERIOD.end()),
            Arc::clone(&file),
        ));
        let mut writer = Self {
            shared: Arc::clone(&shared),
            threads: Vec::new(),
            active: Some((file, place)),
            encoder,
            payload: Vec::new(),
            max_payload: MAX_PAYLOAD_BYTES.min(room / 2 - 16) - overhead,
            overhead,
            file_number: number,
            asked_for_next: false,
            rows_kept: 0,
        };
        // A writer that gets only one of its threads ends it when it is dropped.
        let for_sync = Arc::clone(&shared);
        let spawn = |name: &str| Builder::new().name(name.into());
        writer.threads.push(spawn("journal-sync").spawn(move || for_sync.keep_syncing())?);
        writer.threads.push(spawn("journal-next").spawn(move || shared.keep_making_files())?);
        Ok(writer)
    }

    /// Keeps a batch: when this returns, its rows survive the end of this process. A batch that is larger than a frame
    /// is split. Rows that do not fit into any frame are left out and counted in the error.
    pub fn append(&mut self, batch: &Batch) -> Result<(), ChannelError> {
        self.rows_kept = 0;
        if batch.is_empty() {
            return Ok(());
        }
        let parts = batch.bytes() / self.max_payload + 1;
        let step = batch.len().div_ceil(parts);
        let mut too_large = 0;
        for start in (0..batch.len()).step_by(step) {
            self.append_rows(batch, start..(start + step).min(batch.len()), &mut too_large)?;
        }
        match too_large {
            0 => Ok(()),
            rows => Err(ChannelError::RowsTooLarge { table: batch.table().def().name, rows }),
        }
    }

    /// The file the next append goes to.
    pub fn file_number(&self) -> u64 {
        self.file_number
    }

    /// Waits until the next file exists, if it was requested.
    #[doc(hidden)]
    pub fn settle(&self) {
        self.shared.settle();
    }

    /// Waits until everything is on the disk. Also returns earlier errors of the background threads.
    pub fn sync(&mut self) -> Result<(), ChannelError> {
        self.shared.sync().map_err(ChannelError::NotSynced)
    }

    /// Ends the journal: everything is on the disk, and the last file is sealed.
    pub fn seal(mut self) -> Result<(), ChannelError> {
        self.end()
    }

    fn append_rows(
        &mut self,
        batch: &Batch,
        rows: Range<usize>,
        too_large: &mut u64,
    ) -> Result<(), ChannelError> {
        self.encoder.encode(batch, rows.clone(), &mut self.payload);
        if self.payload.len() <= self.max_payload {
            self.put()?;
            self.rows_kept += rows.len() as u64;
            return Ok(());
        }
        if rows.len() == 1 {
            *too_large += 1;
            return Ok(());
        }
        let middle = rows.start + rows.len() / 2;
        self.append_rows(batch, rows.start..middle, too_large)?;
        self.append_rows(batch, middle..rows.end, too_large)
    }

    fn put(&mut self) -> Result<(), ChannelError> {
        let Some((file, place)) = &mut self.active else {
            return Err(ChannelError::NoNextFile("it was ended".into()));
        };
        if !file.has_room(*place, self.payload.len() + self.overhead) {
            let (next, at) = self.shared.take_next(self.file_number + 1).map_err(ChannelError::NoNextFile)?;
            self.file_number = next.number;
            self.asked_for_next = false;
            (*file, *place) = (next, at);
        }
        file.put(place, FrameKind::BATCH, &mut self.payload)?;
        if !self.asked_for_next && place.at as u64 > self.shared.file_bytes / 2 {
            self.shared.want_next(self.file_number + 1);
            self.asked_for_next = true;
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), ChannelError> {
        let Some((file, _)) = self.active.take() else {
            return Ok(());
        };
        file.set_state(State::Sealed);
        let synced = self.shared.sync();
        self.join();
        if let Some(file) = Arc::into_inner(file) {
            // A file that keeps its full length is as good.
            file.trim().ok();
        }
        synced.map_err(ChannelError::NotSynced)
    }

    fn join(&mut self) {
        self.shared.stop();
        for thread in self.threads.drain(..) {
            // It returns nothing; a panic in it was printed.
            thread.join().ok();
        }
        self.shared.let_go();
    }
}

impl Drop for JournalWriter {
    fn drop(&mut self) {
        self.join();
    }
}

impl Journal for JournalWriter {
    fn append(&mut self, batch: &Batch) -> Result<(), JournalError> {
        Self::append(self, batch).map_err(|error| match self.rows_kept {
            0 => JournalError::Failed(error.to_string()),
            kept => {
                let lost_rows = (batch.len() as u64).saturating_sub(kept);
                JournalError::Partly { lost_rows, problem: error.to_string() }
            }
        })
    }

    fn finish(&mut self) -> Result<(), JournalError> {
        self.end().map_err(|error| JournalError::Failed(error.to_string()))
    }
}

/// Behind every file there is, used or not.
fn first_free_number(directory: &Path) -> Result<u64, ChannelError> {
    // Also fails early if the directory or a file in it cannot be read.
    journal_files(directory)?;
    let mut last = 0;
    for entry in fs_err::read_dir(directory)? {
        last = last.max(number_of(&entry?.path()).unwrap_or(0));
    }
    Ok(last.saturating_add(1))
}
