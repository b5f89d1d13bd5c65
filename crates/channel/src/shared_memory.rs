//! Words and bytes in memory that another process changes.
//!
//! The mapping is never seen as a Rust reference to plain data. Words are atomics; bytes are copied in and out by raw
//! pointers, and a copy is trusted only after its checksum was verified.
#![expect(unsafe_code, reason = "memory shared with another process")]

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use memmap2::{MmapOptions, MmapRaw};

/// A word of shared memory.
pub type Word = AtomicU64;

/// Asks the processor to fetch the memory at an address, which need not be one. A hint: nothing is read.
#[inline]
pub fn fetch(address: *const u8) {
    std::cfg_select! {
        target_arch = "x86_64" => {
            // SAFETY: the instruction only affects caches, for any address.
            unsafe { std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast()) };
        }
        _ => {
            let _ = address;
        }
    }
}

/// A number unique to the calling thread while it lives; it may be reused afterwards. On most processors it comes
/// from a register, without a memory access.
#[inline]
pub fn thread_marker() -> usize {
    std::cfg_select! {
        all(target_os = "linux", target_arch = "x86_64") => {
            let marker: usize;
            // SAFETY: the first word of a thread's control block is its own address, by the ABI of x86-64; it is read only.
            unsafe {
                std::arch::asm!("mov {}, fs:[0]", out(reg) marker, options(nostack, preserves_flags, readonly));
            }
            marker
        }
        all(target_os = "linux", target_arch = "aarch64") => {
            let marker: usize;
            // SAFETY: every program may read this register.
            unsafe {
                std::arch::asm!("mrs {}, tpidr_el0", out(reg) marker, options(nomem, nostack, preserves_flags));
            }
            marker
        }
        _ => {
            thread_local!(static HERE: u8 = const { 0 });
            HERE.with(|here| std::ptr::from_ref(here).addr())
        }
    }
}

/// CRC-32C of whole words by the processor's own instruction.
///
/// The caller has checked [`has_checksum_instruction`]; without the instruction the program ends.
#[inline]
pub fn checksum_of_words(start: u32, words: &[u64]) -> u32 {
    std::cfg_select! {
        target_arch = "x86_64" => {
            let mut sum = u64::from(!start);
            for word in words {
                // SAFETY: an instruction between registers. The caller checked that the processor supports it;
                // otherwise it raises an exception and does nothing else.
                unsafe {
                    std::arch::asm!(
                        "crc32 {sum}, {word}",
                        sum = inout(reg) sum,
                        word = in(reg) *word,
                        options(pure, nomem, nostack, preserves_flags)
                    );
                }
            }
            !(sum as u32)
        }
        _ => {
            let mut sum = start;
            for word in words {
                sum = crc32c::crc32c_append(sum, &word.to_ne_bytes());
            }
            sum
        }
    }
}

/// Whether [`checksum_of_words`] may be called and is worth it.
pub fn has_checksum_instruction() -> bool {
    std::cfg_select! {
        target_arch = "x86_64" => std::arch::is_x86_feature_detected!("sse4.2"),
        _ => false,
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

    /// Maps the whole file, which may be read-only; writes stay in this process and never reach the file.
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

    /// The word at byte `offset`.
    ///
    /// # Panics
    /// If the offset is not a multiple of 8 inside the mapping: offsets are constants of this crate.
    #[inline]
    pub fn word(&self, offset: usize) -> &Word {
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

    /// Hints that these pages of a file need not stay in this process's memory; their content stays in the file. Only
    /// whole pages are released.
    pub fn give_back_pages(&self, from: usize, to: usize) {
        std::cfg_select! {
            target_os = "linux" => {
                let page = rustix::param::page_size();
                let from = from.next_multiple_of(page);
                let length = to.min(self.map.len()).saturating_sub(from) / page * page;
                if length == 0 {
                    return;
                }
                // SAFETY: the range is inside a shared mapping of a file: its pages keep their content and are loaded
                // again when touched. Nothing in this process refers to them except through `self`.
                let advised = unsafe {
                    rustix::mm::madvise(
                        self.map.as_mut_ptr().add(from).cast(),
                        length,
                        rustix::mm::Advice::LinuxDontNeed,
                    )
                };
                // Refused, they stay for a while longer.
                advised.ok();
            }
            _ => {
                let _ = (from, to);
            }
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

/// A mapping with its bounds stored inline, next to the user's own data.
#[derive(Debug)]
pub struct View {
    start: *mut u8,
    bytes: usize,
    /// Keeps it mapped.
    memory: Arc<SharedMemory>,
}

// SAFETY: a view is a copy of the address and length of memory that may be used from any thread, and keeps it mapped.
unsafe impl Send for View {}

impl View {
    pub fn new(memory: Arc<SharedMemory>) -> Self {
        Self { start: memory.map.as_mut_ptr(), bytes: memory.len(), memory }
    }

    pub fn memory(&self) -> &Arc<SharedMemory> {
        &self.memory
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// The address of the byte at `offset`, for [`fetch`]; it may be outside.
    #[inline]
    pub fn address(&self, offset: usize) -> *const u8 {
        self.start.wrapping_add(offset)
    }

    /// The word at byte `offset`.
    ///
    /// # Panics
    /// If the offset is not a multiple of 8 inside the mapping: offsets are constants of this crate.
    #[inline]
    pub fn word(&self, offset: usize) -> &Word {
        assert!(offset.is_multiple_of(8) && offset + 8 <= self.bytes, "word outside the mapping");
        // SAFETY: as in `SharedMemory::word`: in bounds, aligned, and mapped as long as `self` lives.
        unsafe { AtomicU64::from_ptr(self.start.add(offset).cast()) }
    }

    /// Copies bytes into the mapping.
    #[inline]
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.bytes, "write outside the mapping");
        // SAFETY: as in `SharedMemory::write`.
        unsafe { self.start.add(offset).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }
}
