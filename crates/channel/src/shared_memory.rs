//! The only unsafe code of the crate: words and bytes in memory that another process changes.
//!
//! The mapping is never seen as a Rust reference to plain data. Words are atomics; bytes are copied in and out by raw
//! pointers, and a copy is trusted only after its checksum was verified.
#![expect(unsafe_code, reason = "memory shared with another process")]

use std::fs::File;
use std::sync::atomic::AtomicU64;

use memmap2::{MmapOptions, MmapRaw};

/// A file's memory, shared with every process that maps it.
#[derive(Debug)]
pub struct SharedMemory {
    map: MmapRaw,
}

impl SharedMemory {
    /// Maps the whole file for reading and writing.
    pub fn map(file: &File) -> std::io::Result<Self> {
        Ok(Self { map: MmapOptions::new().map_raw(file)? })
    }

    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// The word at byte `offset`.
    ///
    /// # Panics
    /// If the offset is not a multiple of 8 inside the mapping: offsets are constants of this crate.
    #[inline]
    pub fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset + 8 <= self.map.len(), "word outside the mapping");
        // SAFETY: in bounds and aligned (mappings start at a page); atomics may be shared with other processes; the
        // mapping lives as long as `self`, whose lifetime the reference has.
        unsafe { AtomicU64::from_ptr(self.map.as_mut_ptr().add(offset).cast()) }
    }

    /// Copies bytes into the mapping.
    #[inline]
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.map.len(), "write outside the mapping");
        // SAFETY: in bounds; `bytes` is private memory, so the ranges cannot overlap. A reader that races sees a torn
        // frame at worst, which its checksum reveals: readers do not touch bytes beyond the published head.
        unsafe {
            self.map.as_mut_ptr().add(offset).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
    }

    /// Copies bytes out of the mapping.
    #[inline]
    pub fn read(&self, offset: usize, bytes: &mut [u8]) {
        assert!(offset + bytes.len() <= self.map.len(), "read outside the mapping");
        // SAFETY: in bounds; `bytes` is private memory. Torn data is possible if a writer misbehaves, and every byte
        // pattern is a valid u8.
        unsafe {
            self.map.as_ptr().add(offset).copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len());
        }
    }

    /// Asks the system to write the pages to disk, without waiting for it.
    pub fn sync_soon(&self) -> std::io::Result<()> {
        self.map.flush_async()
    }
}
