//! Memory that the kernel writes and we read: BPF maps and perf rings.
//!
//! It is never exposed as a Rust reference to plain data: words are atomics, and records are copied by volatile reads.
//! Everything read here is untrusted and is checked by the caller.
#![expect(unsafe_code, reason = "memory shared with the kernel")]

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::atomic::AtomicU64;

use memmap2::{MmapOptions, MmapRaw};

/// Memory of a file descriptor.
#[derive(Debug)]
pub struct SharedMemory {
    map: MmapRaw,
}

impl SharedMemory {
    /// Maps the first `bytes` for reading and writing; the descriptor may be closed afterwards.
    pub fn map(descriptor: &OwnedFd, bytes: usize) -> std::io::Result<Self> {
        Ok(Self { map: MmapOptions::new().len(bytes).map_raw(descriptor.as_raw_fd())? })
    }

    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// The word at byte `offset`.
    ///
    /// # Panics
    /// Panics if the offset is not a multiple of 8 inside the mapping; offsets are computed from sizes in this
    /// crate.
    #[inline]
    pub fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset + 8 <= self.map.len(), "word outside the mapping");
        // SAFETY: in bounds and aligned (mappings start at a page); atomics may be shared with the kernel; the
        // mapping lives as long as `self`, which the reference borrows.
        unsafe { AtomicU64::from_ptr(self.map.as_mut_ptr().add(offset).cast()) }
    }

    /// Copies words. They are valid only after an acquiring read of the word that publishes them.
    ///
    /// # Panics
    /// Same as [`Self::word`].
    #[inline]
    pub fn words<const COUNT: usize>(&self, offset: usize) -> [u64; COUNT] {
        assert!(
            offset.is_multiple_of(8) && offset + 8 * COUNT <= self.map.len(),
            "words outside the mapping"
        );
        // SAFETY: in bounds and aligned; `u64` has no invalid values, so a concurrent change by the kernel only
        // gives a wrong number.
        unsafe {
            let first: *const u64 = self.map.as_ptr().add(offset).cast();
            std::array::from_fn(|index| first.add(index).read_volatile())
        }
    }

    /// Copies bytes.
    ///
    /// # Panics
    /// Panics if they are not inside the mapping.
    #[inline]
    pub fn read(&self, offset: usize, into: &mut [u8]) {
        assert!(offset + into.len() <= self.map.len(), "read outside the mapping");
        // SAFETY: in bounds; `into` is private memory. The kernel does not overwrite unconsumed data.
        unsafe {
            self.map.as_ptr().add(offset).copy_to_nonoverlapping(into.as_mut_ptr(), into.len());
        }
    }
}
