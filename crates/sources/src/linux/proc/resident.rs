//! Resident memory of any process: one read of `statm` through a kept descriptor.

use std::collections::HashMap;

use ortscope_decode::procfs;

use super::files::{self, Budget, Kept, Path};
use super::process::Units;

/// Longer than seven numbers can be.
const STATM_BYTES: usize = 160;

#[derive(Debug)]
pub struct ResidentMemory {
    files: HashMap<u32, Kept>,
    budget: Budget,
    page_bytes: u64,
}

impl ResidentMemory {
    pub fn new() -> Self {
        Self {
            files: HashMap::new(),
            budget: Budget::of_this_process(),
            page_bytes: Units::current().page_bytes,
        }
    }

    /// `None` for a process that has exited, and for kernel threads.
    pub fn read_bytes(&mut self, pid: u32) -> Option<u64> {
        if let Some(file) = self.files.get(&pid) {
            if let Some(pages) = resident_pages(file) {
                return Some(pages * self.page_bytes);
            }
            // The process has exited, and its pid may have been reused.
            self.files.remove(&pid);
        }
        let path = Path::new(format_args!("/proc/{pid}/statm"));
        let file = files::open(files::no_directory(), path.as_c_str()).ok()?;
        let pages = resident_pages(&file)?;
        if let Some(kept) = self.budget.keep(file) {
            self.files.insert(pid, kept);
        }
        Some(pages * self.page_bytes)
    }
}

fn resident_pages(file: impl std::os::fd::AsFd) -> Option<u64> {
    let mut text = [0; STATM_BYTES];
    let length = rustix::io::pread(file, &mut text, 0).ok()?;
    procfs::parse_statm(&text[..length]).map(|pages| pages.resident).filter(|pages| *pages > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_memory_is_read_and_a_missing_process_is_none() {
        let mut memory = ResidentMemory::new();
        for _ in 0..2 {
            assert!(memory.read_bytes(std::process::id()).unwrap() > 100_000);
        }
        assert_eq!(memory.read_bytes(u32::MAX), None);
        assert_eq!(memory.files.len(), 1);
    }
}
