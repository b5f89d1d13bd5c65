//! The memory of a ring as loom sees it, in place of `shared_memory.rs` under `--cfg loom`: each word is an atomic of
//! the model, and each eight bytes of data are a cell. loom tries the possible interleavings of threads, with at most
//! three preemptions, and every value that a weak load may see; a data race on bytes fails the model.
//!
//! Files cannot be mapped here: everything but rings in a model returns an error.
#![expect(unsafe_code, reason = "cells that the model itself watches over")]

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::atomic::AtomicU64;

/// A word of shared memory.
pub type Word = AtomicU64;

const CELL_BYTES: usize = 8;

#[derive(Debug)]
struct Model {
    words: BTreeMap<usize, Word>,
    cells: Vec<UnsafeCell<[u8; CELL_BYTES]>>,
    /// Where the cells lie.
    data: Range<usize>,
}

// SAFETY: loom's cells check every access themselves and end the model when two threads meet in one.
unsafe impl Sync for Model {}
// SAFETY: as above; nothing in it belongs to one thread.
unsafe impl Send for Model {}

/// Memory that threads of a model share.
#[derive(Debug, Clone)]
pub struct SharedMemory(Arc<Model>);

/// Nothing to fetch.
pub fn fetch(_address: *const u8) {}

/// Threads of a model have no numbers, so none counts as the last writer.
pub fn thread_marker() -> usize {
    0
}

/// The same sums as the processor's instruction.
pub fn checksum_of_words(start: u32, words: &[u64]) -> u32 {
    words.iter().fold(start, |sum, word| crc32c::crc32c_append(sum, &word.to_ne_bytes()))
}

/// So that models go the way that records go.
pub fn has_checksum_instruction() -> bool {
    true
}

fn no_files() -> std::io::Error {
    std::io::Error::other("a model has no files")
}

impl SharedMemory {
    /// Zeros, with words at these places and data in this range.
    pub fn model(words: impl Iterator<Item = usize>, data: Range<usize>) -> Self {
        let cells = data.clone().step_by(CELL_BYTES).map(|_| UnsafeCell::new([0; CELL_BYTES])).collect();
        let words = words.map(|at| (at, Word::new(0))).collect();
        Self(Arc::new(Model { words, cells, data }))
    }

    pub fn map(_file: &File) -> std::io::Result<Self> {
        Err(no_files())
    }

    pub fn map_to_listen(_file: &File) -> std::io::Result<Self> {
        Err(no_files())
    }

    pub fn map_private(_file: &File) -> std::io::Result<Self> {
        Err(no_files())
    }

    pub fn wiped_on_fork() -> Option<Self> {
        None
    }

    pub fn len(&self) -> usize {
        self.0.data.end
    }

    pub fn word(&self, offset: usize) -> &Word {
        &self.0.words[&offset]
    }

    pub fn write(&self, offset: usize, bytes: &[u8]) {
        for (at, byte) in (offset..).zip(bytes) {
            let at = at - self.0.data.start;
            // SAFETY: the pointer is valid during the call, and loom has checked for exclusive access.
            self.0.cells[at / CELL_BYTES].with_mut(|cell| unsafe { (*cell)[at % CELL_BYTES] = *byte });
        }
    }

    pub fn read(&self, offset: usize, bytes: &mut [u8]) {
        for (at, byte) in (offset..).zip(bytes) {
            let at = at - self.0.data.start;
            // SAFETY: the pointer is valid during the call, and loom has checked that no thread writes here.
            *byte = self.0.cells[at / CELL_BYTES].with(|cell| unsafe { (*cell)[at % CELL_BYTES] });
        }
    }

    /// Nothing to give back: the words and cells of a model are no pages.
    pub fn give_back_pages(&self, _from: usize, _to: usize) {}

    pub fn sync_soon(&self) -> std::io::Result<()> {
        Err(no_files())
    }

    pub fn sync_first(&self, _bytes: usize) -> std::io::Result<()> {
        Err(no_files())
    }
}

/// The memory of a model, as its writer sees it.
#[derive(Debug)]
pub struct View(Arc<SharedMemory>);

impl View {
    pub fn new(memory: Arc<SharedMemory>) -> Self {
        Self(memory)
    }

    pub fn memory(&self) -> &Arc<SharedMemory> {
        &self.0
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn address(&self, _offset: usize) -> *const u8 {
        std::ptr::null()
    }

    pub fn word(&self, offset: usize) -> &Word {
        self.0.word(offset)
    }

    pub fn write(&self, offset: usize, bytes: &[u8]) {
        self.0.write(offset, bytes);
    }
}
