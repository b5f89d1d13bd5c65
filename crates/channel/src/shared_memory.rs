//! The only unsafe code of the crate: words and bytes in memory that another process changes.
//!
//! The mapping is never seen as a Rust reference to plain data. Words are atomics; bytes are copied in and out by raw
//! pointers, and a copy is trusted only after its checksum was verified.
#![expect(unsafe_code, reason = "memory shared with another process")]

use std::fs::File;
use std::sync::atomic::AtomicU64;

use memmap2::{MmapOptions, MmapRaw};

/// Asks the processor to fetch the memory at an address, which need not be one. A hint: nothing is read.
#[inline]
pub fn fetch(address: *const u8) {
    std::cfg_select! {
        target_arch = "x86_64" => {
            // SAFETY: the instruction has no effect but on caches, whatever the address is.
            unsafe { std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast()) };
        }
        _ => {
            let _ = address;
        }
    }
}

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

    /// Maps the whole file for reading what others write; writing to it would end this process.
    pub fn map_to_listen(file: &File) -> std::io::Result<Self> {
        Ok(Self { map: MmapOptions::new().map_raw_read_only(file)? })
    }

    /// Maps the whole file, which may be read-only; what is written stays in this process and never reaches the file.
    pub fn map_private(file: &File) -> std::io::Result<Self> {
        // SAFETY: the mapping becomes raw memory at once; no Rust reference to its bytes is ever made, so it does not
        // matter that another process may change the file.
        let map = unsafe { MmapOptions::new().map_copy(file)? };
        Ok(Self { map: map.into() })
    }

    /// A page that a child of `fork` finds full of zeros; `None` where the system has no such pages.
    pub fn wiped_on_fork() -> Option<Self> {
        std::cfg_select! {
            target_os = "linux" => {
                let map: MmapRaw = MmapOptions::new().len(4096).map_anon().ok()?.into();
                // SAFETY: the range is the whole of an anonymous private mapping that we own, as the advice demands; it
                // changes nothing in this process.
                let advised = unsafe {
                    rustix::mm::madvise(
                        map.as_mut_ptr().cast(),
                        map.len(),
                        rustix::mm::Advice::LinuxWipeOnFork,
                    )
                };
                advised.ok().map(|()| Self { map })
            }
            _ => None,
        }
    }

    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// The address of the byte at `offset`, for [`fetch`]; it may be outside.
    #[inline]
    pub fn address(&self, offset: usize) -> *const u8 {
        self.map.as_ptr().wrapping_add(offset)
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

    /// Writes the first `bytes` to disk, as far as they changed, and waits for it.
    pub fn sync_first(&self, bytes: usize) -> std::io::Result<()> {
        self.map.flush_range(0, bytes.min(self.map.len()))
    }
}
