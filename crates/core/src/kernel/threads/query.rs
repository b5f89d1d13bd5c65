//! Queries over the accounts.

use super::slices::Slice;
use super::thread::{Now, Process, Thread, ThreadKey};
use super::{Counts, Threads};

impl Threads {
    /// Time of the newest event.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    pub fn counts(&self) -> Counts {
        let (chain_breaks, chain_checked) = self.chains.breaks();
        Counts { chain_breaks, chain_checked, ..self.counts }
    }

    /// Slices of all threads, which determine the memory use.
    pub fn slice_count(&self) -> usize {
        self.slices
    }

    /// The current thread with this id.
    pub fn current(&self, tid: u32) -> Option<&Thread> {
        self.table.current(tid)
    }

    pub fn get(&self, key: ThreadKey) -> Option<&Thread> {
        self.table.get(key)
    }

    /// Every thread that is kept, including those that ended within the horizon.
    pub fn threads(&self) -> impl Iterator<Item = &Thread> {
        self.table.iter()
    }

    /// The current process with this id.
    pub fn process(&self, pid: u32) -> Option<&Process> {
        self.processes.get(&pid)
    }

    /// Processes that ended within the horizon, in the order of their ends.
    pub fn ended_processes(&self) -> impl Iterator<Item = &Process> {
        self.ended_processes.iter()
    }

    /// CPU time of a thread in an interval.
    pub fn cpu_ns(&self, key: ThreadKey, from_ns: u64, to_ns: u64) -> u64 {
        self.get(key).map_or(0, |thread| thread.cpu_ns(from_ns, to_ns, self.runs_until(thread)))
    }

    /// CPU time of all threads of a process in an interval.
    pub fn process_cpu_ns(&self, process: &Process, from_ns: u64, to_ns: u64) -> u64 {
        process.threads().iter().map(|key| self.cpu_ns(*key, from_ns, to_ns)).sum()
    }

    /// Adds the CPU time of a thread in consecutive buckets (usually of 1 ms) from `from_ns` on to `into`.
    pub fn add_buckets(&self, key: ThreadKey, from_ns: u64, bucket_ns: u64, into: &mut [u32]) {
        if let Some(thread) = self.get(key) {
            thread.add_buckets(from_ns, bucket_ns, self.runs_until(thread), into);
        }
    }

    /// The same for all threads of a process: 4 threads that run all the time fill a bucket of 1 ms with 4 ms.
    pub fn add_process_buckets(&self, process: &Process, from_ns: u64, bucket_ns: u64, into: &mut [u32]) {
        for key in process.threads() {
            self.add_buckets(*key, from_ns, bucket_ns, into);
        }
    }

    /// When a thread ran, oldest first, without the slice that has not ended.
    pub fn slices(&self, key: ThreadKey) -> impl Iterator<Item = &Slice> {
        self.get(key).into_iter().flat_map(|thread| thread.slices.iter())
    }

    /// For a running thread: the time up to which that is certain. A thread whose processor has moved on is not
    /// running; its switch was lost.
    fn runs_until(&self, thread: &Thread) -> Option<u64> {
        let Now::OnCpu { cpu, .. } = thread.now else { return None };
        (self.chains.running(cpu) == Some(thread.thread.tid)).then_some(self.now_ns)
    }
}
