//! Ending and shrinking accounts: threads close, the horizon moves, slices are joined and dropped.

use super::Threads;
use super::thread::{Now, ThreadKey};
use crate::kernel::SwitchReason;

/// An exiting thread whose last switch was lost is closed after this time.
const EXIT_PATIENCE_NS: u64 = 1_000_000_000;

/// Interval between sweeps over all threads; there may be ten thousand, so not at every drain.
const SWEEP_EVERY_NS: u64 = 250_000_000;

impl Threads {
    /// Closes the current thread with this id.
    pub(super) fn close(&mut self, tid: u32, at_ns: u64) {
        let Some(thread) = self.table.current_mut(tid) else { return };
        let (key, pid) = (thread.key, thread.thread.pid);
        let ended_ns = *thread.ended_ns.get_or_insert(at_ns);
        thread.now = Now::Off { since_ns: at_ns, reason: SwitchReason::Ended };
        thread.slices.shrink();
        self.table.release_tid(tid);
        self.ended.push_back((ended_ns, key));
        let Some(process) = self.processes.get_mut(&pid) else { return };
        process.live_threads = process.live_threads.saturating_sub(1);
        if process.live_threads == 0
            && let Some(mut process) = self.processes.remove(&pid)
        {
            process.ended_ns = Some(at_ns);
            self.ended_processes.push_back(process);
        }
    }

    /// Moves the horizon: drops slices, threads and processes that ended before it.
    pub fn advance(&mut self, now_ns: u64) {
        self.now_ns = self.now_ns.max(now_ns);
        if self.now_ns - self.swept_ns < SWEEP_EVERY_NS {
            return;
        }
        self.swept_ns = self.now_ns;
        let horizon_ns = self.now_ns.saturating_sub(self.limits.horizon_ns);
        let patience_ns = self.now_ns.saturating_sub(EXIT_PATIENCE_NS);
        let mut overdue = Vec::new();
        for thread in self.table.iter_mut() {
            self.slices -= thread.slices.drop_before(horizon_ns);
            thread.slices.shrink();
            if thread.is_open() && thread.ended_ns.is_some_and(|ended_ns| ended_ns < patience_ns) {
                overdue.push(thread.thread.tid);
            }
        }
        for tid in overdue {
            self.close(tid, self.now_ns);
        }
        while self.ended.front().is_some_and(|(ended_ns, _)| *ended_ns < horizon_ns) {
            if let Some((_, key)) = self.ended.pop_front() {
                self.forget(key);
            }
        }
        let old = |ended_ns: Option<u64>| ended_ns.is_none_or(|ended_ns| ended_ns < horizon_ns);
        while self.ended_processes.front().is_some_and(|process| old(process.ended_ns)) {
            self.ended_processes.pop_front();
        }
    }

    fn forget(&mut self, key: ThreadKey) {
        let Some(thread) = self.table.remove(key) else { return };
        self.slices -= thread.slices.len();
        if let Some(process) = self.processes.get_mut(&thread.thread.pid)
            && let Some(place) = process.threads.iter().position(|other| *other == key)
        {
            process.threads.swap_remove(place);
            process.forgotten_run_ns += thread.slices.total_ns();
        }
    }

    /// One thread has too many slices.
    pub(super) fn shorten(&mut self, key: ThreadKey) {
        let Some(thread) = self.table.get_mut(key) else { return };
        let joined = thread.slices.join();
        let mut dropped = 0;
        if thread.slices.len() > self.limits.slices_per_thread / 2 {
            dropped = thread.slices.drop_half();
        }
        self.slices -= joined + dropped;
        self.counts.dropped_slices += dropped as u64;
    }

    /// All threads together have too many.
    pub(super) fn shorten_all(&mut self) {
        self.slices -= self.table.iter_mut().map(|thread| thread.slices.join()).sum::<usize>();
        let mut kept_ns = self.limits.horizon_ns;
        while self.slices > self.limits.slices / 4 * 3 && kept_ns > 0 {
            kept_ns /= 2;
            let from_ns = self.now_ns.saturating_sub(kept_ns);
            let dropped =
                self.table.iter_mut().map(|thread| thread.slices.drop_before(from_ns)).sum::<usize>();
            self.slices -= dropped;
            self.counts.dropped_slices += dropped as u64;
        }
    }
}
