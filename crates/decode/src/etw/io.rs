//! Disks, files and memory: pairs of start and end events, and file names.

use std::collections::HashMap;
use std::sync::Arc;

use ortscope_core::kernel::Task;

use super::sink::{EtwSink, FileEnd, FileOperation};

/// Limit for requests in progress: 65,536 each for disks and files.
const MAX_OPEN: usize = 1 << 16;
/// Limit for file names: 65,536 and 16 MiB.
const MAX_NAMES: usize = 1 << 16;
const MAX_NAME_BYTES: usize = 16 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IoCounts {
    pub disk_transfers: u64,
    pub disk_bytes: u64,
    pub file_operations: u64,
    /// File operations without a recorded end.
    pub files_without_end: u64,
    /// Ends without a recorded start.
    pub ends_without_begin: u64,
    /// Hard faults that a second kind of event repeated.
    pub duplicate_faults: u64,
    /// Names and requests beyond the limits.
    pub dropped: u64,
}

#[derive(Debug, Default)]
pub(super) struct Io {
    issuers: HashMap<u64, Task>,
    files: HashMap<u64, FileOperation>,
    names: HashMap<u64, Arc<str>>,
    name_bytes: usize,
    /// The trace has separate events for hard faults.
    pub has_hard_faults: bool,
    pub counts: IoCounts,
}

impl Io {
    /// Records the thread that issued the transfer of this request packet.
    pub fn issued(&mut self, irp: u64, thread: Task) {
        if self.issuers.len() < MAX_OPEN || self.issuers.contains_key(&irp) {
            self.issuers.insert(irp, thread);
        } else {
            self.counts.dropped += 1;
        }
    }

    pub fn issuer(&mut self, irp: u64) -> Option<Task> {
        self.issuers.remove(&irp)
    }

    pub fn name_file(&mut self, file_object: u64, name: String) {
        if let Some(old) = self.names.remove(&file_object) {
            self.name_bytes -= old.len();
        }
        if self.names.len() >= MAX_NAMES || self.name_bytes + name.len() > MAX_NAME_BYTES {
            self.counts.dropped += 1;
            return;
        }
        self.name_bytes += name.len();
        self.names.insert(file_object, name.into());
    }

    pub fn knows(&self, file_object: u64) -> bool {
        self.names.contains_key(&file_object)
    }

    pub fn file(&self, object: u64, key: u64) -> Option<Arc<str>> {
        self.names.get(&object).or_else(|| self.names.get(&key)).cloned()
    }

    pub fn begin_file<S: EtwSink + ?Sized>(&mut self, irp: u64, operation: FileOperation, sink: &mut S) {
        self.counts.file_operations += 1;
        let before = if self.files.len() < MAX_OPEN || self.files.contains_key(&irp) {
            self.files.insert(irp, operation)
        } else {
            Some(operation)
        };
        if let Some(without_end) = before {
            self.counts.files_without_end += 1;
            sink.file(&without_end);
        }
    }

    /// Returns whether the start was known.
    pub fn end_file<S: EtwSink + ?Sized>(
        &mut self,
        irp: u64,
        at_ns: u64,
        status: u32,
        information: u64,
        sink: &mut S,
    ) -> bool {
        let Some(mut operation) = self.files.remove(&irp) else {
            self.counts.ends_without_begin += 1;
            return false;
        };
        let duration_ns = at_ns.saturating_sub(operation.at_ns);
        operation.end = Some(FileEnd { duration_ns, status, information });
        sink.file(&operation);
        true
    }

    pub fn finish<S: EtwSink + ?Sized>(&mut self, sink: &mut S) {
        let mut left: Vec<FileOperation> = self.files.drain().map(|(_, operation)| operation).collect();
        left.sort_by_key(|operation| (operation.at_ns, operation.thread.tid));
        self.counts.files_without_end += left.len() as u64;
        for operation in &left {
            sink.file(operation);
        }
        self.issuers.clear();
    }
}
