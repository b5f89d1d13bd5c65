//! One journal file in the hands of its writer.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::header::{AT_HEAD, AT_STATE, FORMAT, PAGE_BYTES, SEALED_FORMAT, State, fixed_part, seal_parts};
use super::{file_path, seal_name};
use crate::disk::{Change, change};
use crate::frame::{FrameKind, HEADER_BYTES, Header, frame_bytes};
use crate::private_files;
use crate::seal::{FrameSeal, Sealer};
use crate::shared_memory::SharedMemory;

/// A file whose memory frames are copied into. One thread appends; others may sync.
#[derive(Debug)]
pub(super) struct MappedFile {
    pub(super) number: u64,
    path: PathBuf,
    file: fs_err::File,
    memory: SharedMemory,
    /// The key of the file, if its frames are encrypted.
    seal: Option<Box<dyn FrameSeal>>,
    /// Bytes written, as in the header. Reading it here avoids touching the header page.
    head: AtomicU64,
    /// Raised with every change of the state.
    state_changes: AtomicU64,
    /// Head and state changes that are known to be on the disk.
    synced: Mutex<(u64, u64)>,
}

/// Where the next frame goes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) at: usize,
    sequence: u32,
}

impl MappedFile {
    /// Makes a spare file: allocated, with its header and its schema.
    pub(super) fn create(
        directory: &Path,
        number: u64,
        bytes: u64,
        schema: &[u8],
        sealer: Option<&dyn Sealer>,
    ) -> std::io::Result<(Self, Place)> {
        let path = file_path(directory, number);
        let made = private_files::create_allocated(&path, bytes)?;
        Self::set_up(&path, made, number, schema, sealer).inspect_err(|_| {
            private_files::remove_file(&path).ok();
        })
    }

    fn set_up(
        path: &Path,
        made: fs_err::File,
        number: u64,
        schema: &[u8],
        sealer: Option<&dyn Sealer>,
    ) -> std::io::Result<(Self, Place)> {
        let (header, seal) = match sealer.map(|sealer| sealer.new_file(&seal_name(number))).transpose()? {
            Some((header, seal)) => (Some(header), Some(seal)),
            None => (None, None),
        };
        let memory = SharedMemory::map(made.file())?;
        let (head, state_changes) = (AtomicU64::new(0), AtomicU64::new(0));
        let synced = Mutex::new((0, 0));
        let file =
            Self { number, path: path.to_owned(), file: made, memory, seal, head, state_changes, synced };
        let format = if header.is_some() { SEALED_FORMAT } else { FORMAT };
        file.memory.write(0, &fixed_part(format, number));
        for (at, bytes) in header.iter().flat_map(seal_parts) {
            file.memory.write(at, &bytes);
        }
        let mut place = Place { at: PAGE_BYTES, sequence: 0 };
        file.put(&mut place, FrameKind::SCHEMA, &mut schema.to_vec())?;
        // The size and the name must be on the disk before anything relies on them.
        change(Change::Sync(path), || file.file.sync_all())?;
        if let Some(directory) = path.parent() {
            private_files::sync_directory(directory);
        }
        Ok((file, place))
    }

    pub(super) fn has_room(&self, place: Place, payload: usize) -> bool {
        place.at + frame_bytes(payload) <= self.memory.len()
    }

    /// Appends a frame that fits. In an encrypted file the payload is encrypted in place. The frame number is the
    /// nonce: it only grows, and no writer appends to another writer's file.
    pub(super) fn put(
        &self,
        place: &mut Place,
        kind: FrameKind,
        payload: &mut Vec<u8>,
    ) -> std::io::Result<()> {
        if let Some(seal) = &self.seal {
            seal.seal(u64::from(place.sequence), kind.0, payload)?;
        }
        let header = Header::new(kind, place.sequence, payload);
        // The header last, so that concurrent readers never find an incomplete frame.
        self.memory.write(place.at + HEADER_BYTES, payload);
        self.memory.write(place.at, &header.to_bytes());
        place.at += frame_bytes(payload.len());
        place.sequence = place.sequence.wrapping_add(1);
        self.memory.word(AT_HEAD).store(place.at as u64, Ordering::Release);
        self.head.store(place.at as u64, Ordering::Release);
        Ok(())
    }

    /// The file is full: until it is synced its pages need not be this process's.
    pub(super) fn seal(&self) {
        self.set_state(State::Sealed);
        self.memory.give_back_pages(0, self.memory.len());
    }

    pub(super) fn set_state(&self, state: State) {
        self.memory.word(AT_STATE).store(state as u64, Ordering::Release);
        self.state_changes.fetch_add(1, Ordering::Release);
    }

    /// Writes new data to the disk and waits for it. Appending continues meanwhile; a second sync waits for the
    /// first.
    pub(super) fn sync(&self) -> std::io::Result<()> {
        let mut synced = self.synced.lock().unwrap_or_else(PoisonError::into_inner);
        let changes = self.state_changes.load(Ordering::Acquire);
        let head = self.head.load(Ordering::Acquire);
        change(Change::Sync(&self.path), || {
            if *synced != (head, changes) {
                self.memory.sync_first(head as usize)?;
                // Nobody reads them here any more. The first page is written to with every frame.
                // The one that was half full at the last sync may be full now.
                let from = (synced.0 as usize).saturating_sub(PAGE_BYTES).max(PAGE_BYTES);
                self.memory.give_back_pages(from, head as usize);
                *synced = (head, changes);
            }
            Ok(())
        })
    }

    /// Ends a file that will not grow any more: frees the space after its last frame.
    pub(super) fn trim(self) -> std::io::Result<()> {
        let used = self.head.load(Ordering::Acquire);
        // Not every system can shorten a file that is mapped.
        drop(self.memory);
        change(Change::Shorten(&self.path, used), || self.file.set_len(used))?;
        change(Change::Sync(&self.path), || self.file.sync_all())
    }

    /// Removes a spare file.
    pub(super) fn remove(self) {
        let path = self.path;
        drop((self.memory, self.file));
        private_files::remove_file(&path).ok();
    }
}
