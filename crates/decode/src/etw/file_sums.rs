//! Sums of file operations: a program that reads a model makes thousands, too many for one row each.

use std::collections::HashMap;

use ortscope_core::kernel::{FileIo, FileKind, FileOperation as Call, Task};

use super::sink::{FileOperation, FileVerb};

/// Limit for sums per thread and operation kind: 16,384. Operations beyond it are only counted.
const MAX_SUMS: usize = 1 << 14;

/// A sum for every thread and operation kind since the last call of [`Self::take`].
#[derive(Debug, Default)]
pub struct FileSums {
    sums: HashMap<(Task, Call), FileIo>,
    left_out: u64,
}

impl FileSums {
    /// Counts an operation. Closing, querying attributes and the like are not counted.
    pub fn add(&mut self, operation: &FileOperation) {
        let call = match operation.verb {
            FileVerb::Read => Call::Read,
            FileVerb::Write => Call::Write,
            FileVerb::Create => Call::Open,
            FileVerb::Flush => Call::Sync,
            _ => return,
        };
        let key = (operation.thread, call);
        if self.sums.len() >= MAX_SUMS && !self.sums.contains_key(&key) {
            self.left_out += 1;
            return;
        }
        let sum = self.sums.entry(key).or_insert(FileIo {
            thread: operation.thread,
            operation: call,
            kind: FileKind::Regular,
            calls: 0,
            failed: 0,
            bytes: 0,
            total_ns: 0,
            longest_ns: 0,
        });
        sum.calls += 1;
        let moves_bytes = matches!(call, Call::Read | Call::Write);
        match operation.end {
            Some(end) => {
                let has_failed = (end.status as i32) < 0;
                sum.failed += u64::from(has_failed);
                sum.bytes += if moves_bytes && !has_failed { end.information } else { 0 };
                sum.total_ns = sum.total_ns.saturating_add(end.duration_ns);
                sum.longest_ns = sum.longest_ns.max(end.duration_ns);
            }
            None => sum.bytes += if moves_bytes { u64::from(operation.bytes.unwrap_or(0)) } else { 0 },
        }
    }

    pub fn len(&self) -> usize {
        self.sums.len()
    }

    pub fn is_empty(&self) -> bool {
        self.sums.is_empty()
    }

    /// The sums by process and thread, and the number of operations beyond the limit.
    pub fn take(&mut self) -> (Vec<FileIo>, u64) {
        let mut sums: Vec<FileIo> = self.sums.drain().map(|(_, io)| io).collect();
        sums.sort_by_key(|io| (io.thread.pid, io.thread.tid, io.operation));
        (sums, std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::super::sink::FileEnd;
    use super::*;

    fn operation(tid: u32, verb: FileVerb, end: Option<FileEnd>) -> FileOperation {
        let thread = Task { tid, pid: 7 };
        FileOperation { at_ns: 0, cpu: 0, thread, verb, file: None, bytes: Some(100), offset: None, end }
    }

    #[test]
    fn transferred_bytes_are_counted_and_failures_transfer_none() {
        let mut sums = FileSums::default();
        let end = |status, information, duration_ns| Some(FileEnd { duration_ns, status, information });
        sums.add(&operation(1, FileVerb::Read, end(0, 60, 5)));
        sums.add(&operation(1, FileVerb::Read, end(0xc000_0011, 0, 9)));
        // Its end was not recorded: the requested bytes are the best estimate.
        sums.add(&operation(1, FileVerb::Read, None));
        sums.add(&operation(1, FileVerb::Create, end(0, 1, 2)));
        sums.add(&operation(1, FileVerb::Close, end(0, 0, 1)));
        let (taken, left_out) = sums.take();
        assert_eq!((taken.len(), left_out), (2, 0));
        let read = taken[0];
        assert_eq!((read.operation, read.calls, read.failed), (Call::Read, 3, 1));
        assert_eq!((read.bytes, read.total_ns, read.longest_ns), (160, 14, 9));
        assert_eq!((taken[1].operation, taken[1].bytes), (Call::Open, 0));
        assert!(sums.is_empty());
    }

    #[test]
    fn sums_beyond_the_limit_are_counted() {
        let mut sums = FileSums::default();
        for tid in 0..MAX_SUMS as u32 + 10 {
            sums.add(&operation(tid, FileVerb::Write, None));
        }
        sums.add(&operation(0, FileVerb::Write, None));
        let (taken, left_out) = sums.take();
        assert_eq!((taken.len(), left_out), (MAX_SUMS, 10));
        assert_eq!(taken[0].calls, 2);
    }
}
