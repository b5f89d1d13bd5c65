//! Accounts of threads and processes computed from kernel events: exact CPU time between any two points in time, 1 ms
//! buckets, waits for a processor, starts and ends.
//!
//! Every switch away from a thread carries its total run time. A slice is the increase since the last such switch,
//! ending now, so a lost event misplaces a slice but never changes its length. Sources without that total (perf
//! rings) are followed by timestamps.
//!
//! Pure: no clock, no I/O. Everything is bounded by [`Limits`], and omissions are counted in [`Counts`].

mod chain;
mod ends;
mod query;
mod slices;
mod table;
#[cfg(test)]
mod tests;
mod thread;

use std::collections::VecDeque;

use chain::Chains;
use table::Table;

use super::{
    ById, Exec, Exit, FaultKind, KernelEvent, RunState, Start, Switch, SwitchReason, Task, ThreadState,
    Wakeup,
};

pub use slices::Slice;
pub use thread::{Now, Process, Thread, ThreadKey};

/// Sources report start times in different units: kernel clock, 10 ms ticks, or the time of the start event. Ids are
/// not reused within this time, because all other ids are used first.
const SAME_START_NS: u64 = 20_000_000;

fn is_same_start(one_ns: u64, other_ns: u64) -> bool {
    one_ns.abs_diff(other_ns) <= SAME_START_NS
}

/// The accounts of all threads of a machine.
#[derive(Debug, Clone)]
pub struct Threads {
    limits: Limits,
    table: Table,
    processes: ById<Process>,
    /// Processes that ended within the horizon, in the order of their ends.
    ended_processes: VecDeque<Process>,
    /// Threads that ended within the horizon, in the order of their ends.
    ended: VecDeque<(u64, ThreadKey)>,
    chains: Chains,
    counts: Counts,
    /// Slices kept by all threads together.
    slices: usize,
    /// Time of the newest event.
    now_ns: u64,
    /// Time of the last sweep.
    swept_ns: u64,
}

impl Threads {
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            table: Table::default(),
            processes: ById::default(),
            ended_processes: VecDeque::new(),
            ended: VecDeque::new(),
            chains: Chains::default(),
            counts: Counts::default(),
            slices: 0,
            now_ns: 0,
            swept_ns: 0,
        }
    }

    /// Adopts all threads from a snapshot taken at `at_ns`, at the start and after losses. Threads missing from it
    /// have ended. Nothing is counted twice: run times are used only where no event reported them.
    ///
    /// Start the trace before taking the snapshot: events older than it count as late and change nothing.
    pub fn resync(&mut self, snapshot: &[ThreadState], at_ns: u64) {
        self.now_ns = self.now_ns.max(at_ns);
        let started_later = |start_ns: Option<u64>| start_ns.is_some_and(|start_ns| start_ns >= at_ns);
        let mut held: Vec<u32> = snapshot.iter().map(|state| state.thread.tid).collect();
        held.sort_unstable();
        let live = self.table.iter().filter(|thread| thread.is_open() && !started_later(thread.start_ns));
        let tids = live.map(|thread| thread.thread.tid);
        let gone: Vec<u32> = tids.filter(|tid| held.binary_search(tid).is_err()).collect();
        for tid in gone {
            self.counts.missed_exits += 1;
            self.close(tid, at_ns);
        }
        for state in snapshot.iter().filter(|state| state.state != RunState::Ended) {
            self.seed(state, at_ns);
        }
    }

    fn seed(&mut self, state: &ThreadState, at_ns: u64) {
        let tid = state.thread.tid;
        let known_start_ns = self.table.current(tid).and_then(|thread| thread.start_ns);
        if known_start_ns.is_some_and(|start_ns| !is_same_start(start_ns, state.start_ns)) {
            self.counts.missed_exits += 1;
            self.close(tid, at_ns);
        }
        let Some(thread) = self.follow(state.thread) else { return };
        thread.start_ns = Some(state.start_ns);
        thread.name = state.name;
        // An event newer than the snapshot has the larger value.
        thread.kernel_run_ns = thread.kernel_run_ns.or(Some(state.run_ns));
        thread.first_wait_ns = thread.first_wait_ns.or(state.wait_ns);
        if thread.now == Now::Unknown && state.state != RunState::Running {
            let reason = match state.state {
                RunState::Blocked => SwitchReason::Blocked,
                RunState::Stopped => SwitchReason::Stopped,
                RunState::Sleeping | RunState::Idle => SwitchReason::Sleeping,
                _ => SwitchReason::Unknown,
            };
            thread.now = Now::Off { since_ns: at_ns, reason };
        }
        if let Some(process) = self.processes.get_mut(&state.thread.pid) {
            process.parent_pid = Some(state.parent_pid);
            if tid == state.thread.pid {
                process.start_ns = Some(state.start_ns);
                process.name = state.name;
            }
        }
    }

    /// Applies one event. Events of one processor must be in order; those of others may be late.
    pub fn apply(&mut self, event: &KernelEvent) {
        self.counts.events += 1;
        self.now_ns = self.now_ns.max(event.at_ns());
        match event {
            KernelEvent::Switch(event) => self.switch(event),
            KernelEvent::Wakeup(event) => self.wakeup(event),
            KernelEvent::Start(event) => self.start(event),
            KernelEvent::Exec(event) => self.exec(event),
            KernelEvent::Exit(event) => self.exit(event),
            KernelEvent::Migration(event) => {
                if let Some(thread) = self.follow(event.thread) {
                    thread.migrations += 1;
                }
            }
            KernelEvent::PageFault(event) => {
                if let Some(thread) = self.follow(event.thread) {
                    thread.minor_faults += u64::from(event.kind == FaultKind::Minor);
                    thread.major_faults += u64::from(event.kind == FaultKind::Major);
                }
            }
            KernelEvent::BlockIo(_) | KernelEvent::MemoryCall(_) => {}
        }
    }

    fn switch(&mut self, event: &Switch) {
        if let Some(missing) = self.chains.follow(event.cpu, event.prev.tid, event.next.tid)
            && let Some(thread) = self.table.current_mut(missing)
            && matches!(thread.now, Now::OnCpu { cpu, .. } if cpu == event.cpu)
        {
            // It left, but when and why was lost.
            thread.now = Now::Unknown;
        }
        if !event.prev.is_idle() {
            self.leave(event);
        }
        if !event.next.is_idle() {
            self.enter(event);
        }
    }

    fn leave(&mut self, event: &Switch) {
        let Some(thread) = self.follow(event.prev) else { return };
        let on_cpu_since_ns = match thread.now {
            Now::OnCpu { cpu, since_ns } if cpu == event.cpu => Some(since_ns),
            _ => None,
        };
        let by_stamps_ns = on_cpu_since_ns.map(|since_ns| event.at_ns.saturating_sub(since_ns));
        let (ran_ns, is_late) = match (event.prev_run_ns, thread.kernel_run_ns) {
            (Some(now_ns), Some(before_ns)) => (Some(now_ns.saturating_sub(before_ns)), now_ns < before_ns),
            (Some(_), None) => (by_stamps_ns, false),
            (None, _) => {
                (by_stamps_ns, thread.slices.last_end_ns().is_some_and(|end_ns| end_ns > event.at_ns))
            }
        };
        if !is_late {
            thread.kernel_run_ns = event.prev_run_ns.or(thread.kernel_run_ns);
            thread.kernel_wait_ns = event.prev_wait_ns.or(thread.kernel_wait_ns);
            thread.first_wait_ns = thread.first_wait_ns.or(event.prev_wait_ns);
            thread.now = match event.reason {
                SwitchReason::Preempted => Now::Queued { since_ns: event.at_ns },
                reason => Now::Off { since_ns: event.at_ns, reason },
            };
        }
        match event.reason {
            SwitchReason::Preempted => thread.involuntary_switches += 1,
            _ => thread.voluntary_switches += 1,
        }
        let before = thread.slices.len();
        thread.slices.push(on_cpu_since_ns, event.at_ns, ran_ns.unwrap_or(0));
        let (key, grown, kept) = (thread.key, thread.slices.len() - before, thread.slices.len());
        self.slices += grown;
        self.counts.late += u64::from(is_late);
        self.counts.unmeasured += u64::from(ran_ns.is_none());
        if kept > self.limits.slices_per_thread.max(2) {
            self.shorten(key);
        }
        if self.slices > self.limits.slices.max(2) {
            self.shorten_all();
        }
        if event.reason == SwitchReason::Ended {
            self.close(event.prev.tid, event.at_ns);
        }
    }

    fn enter(&mut self, event: &Switch) {
        let Some(thread) = self.follow(event.next) else { return };
        if thread.slices.last_end_ns().is_some_and(|end_ns| end_ns > event.at_ns) {
            // A newer switch away from it, on another processor, was seen already.
            self.counts.late += 1;
            return;
        }
        if let Now::Queued { since_ns } = thread.now {
            let waited_ns = event.at_ns.saturating_sub(since_ns);
            thread.queued_ns = thread.queued_ns.saturating_add(waited_ns);
            thread.queued_count += 1;
            thread.queued_max_ns = thread.queued_max_ns.max(waited_ns);
        }
        thread.now = Now::OnCpu { cpu: event.cpu, since_ns: event.at_ns };
    }

    fn wakeup(&mut self, event: &Wakeup) {
        let Some(thread) = self.follow(event.thread) else { return };
        thread.wakeups += 1;
        thread.last_waker = Some(event.waker);
        if let Now::Off { .. } | Now::Unknown = thread.now {
            thread.now = Now::Queued { since_ns: event.at_ns };
        }
    }

    fn start(&mut self, event: &Start) {
        if event.thread.is_idle() {
            return;
        }
        let start_ns = event.start_ns.unwrap_or(event.at_ns);
        let name = self.table.current(event.parent.tid).map(|parent| parent.name).unwrap_or_default();
        if let Some(old) = self.table.current(event.thread.tid) {
            if old.start_ns.is_some_and(|old_ns| is_same_start(old_ns, start_ns)) {
                // A snapshot came first.
                return;
            }
            self.counts.missed_exits += u64::from(old.ended_ns.is_none());
            self.close(event.thread.tid, event.at_ns);
        }
        let Some(thread) = self.follow(event.thread) else { return };
        thread.start_ns = Some(start_ns);
        thread.parent = Some(event.parent);
        thread.name = name;
        // A new thread has not run: from here on its account is complete.
        thread.kernel_run_ns = Some(0);
        thread.first_wait_ns = Some(0);
        thread.now = Now::Queued { since_ns: event.at_ns };
        if event.is_process()
            && let Some(process) = self.processes.get_mut(&event.thread.pid)
        {
            process.start_ns = Some(start_ns);
            process.parent_pid = Some(event.parent.pid);
            process.name = name;
        }
    }

    fn exec(&mut self, event: &Exec) {
        if !event.is_rename
            && event.old_tid != event.thread.tid
            && self.table.current(event.old_tid).is_some()
        {
            self.close(event.thread.tid, event.at_ns);
            self.table.rename(event.old_tid, event.thread.tid);
        }
        let Some(thread) = self.follow(event.thread) else { return };
        thread.name = event.name;
        if event.thread.tid == event.thread.pid
            && let Some(process) = self.processes.get_mut(&event.thread.pid)
        {
            process.name = event.name;
        }
    }

    fn exit(&mut self, event: &Exit) {
        let Some(thread) = self.follow(event.thread) else { return };
        thread.start_ns = thread.start_ns.or(event.start_ns);
        thread.exit_code = event.code;
        thread.ended_ns = Some(event.at_ns);
        let is_first = event.thread.tid == event.thread.pid;
        if let Some(process) = self.processes.get_mut(&event.thread.pid)
            && (is_first || event.is_last == Some(true))
        {
            process.exit_code = event.code;
        }
    }

    /// The account of the current thread with this id, created if needed; `None` if there are too many.
    fn follow(&mut self, task: Task) -> Option<&mut Thread> {
        if task.is_idle() {
            return None;
        }
        if let Some(slot) = self.table.slot(task.tid) {
            return self.table.at_mut(slot);
        }
        if self.table.len() >= self.limits.threads {
            self.counts.untracked += 1;
            return None;
        }
        let thread = self.table.insert(task);
        let process = self.processes.entry(task.pid).or_insert_with(|| Process::new(task.pid));
        process.threads.push(thread.key);
        process.live_threads += 1;
        Some(thread)
    }
}

/// Bounds of the accounts. Omissions are counted in [`Counts`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How far back slices are kept. Default 10 s.
    pub horizon_ns: u64,
    /// Maximum slices per thread. Default 4096; when full, slices of one millisecond are joined, then the older half
    /// is dropped.
    pub slices_per_thread: usize,
    /// Maximum slices of all threads. Default 400,000 (10 MB); when full, all are joined, then the horizon is halved.
    pub slices: usize,
    /// Maximum threads including ended ones. Default 100,000; events of further threads are counted and ignored.
    pub threads: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { horizon_ns: 10_000_000_000, slices_per_thread: 4096, slices: 400_000, threads: 100_000 }
    }
}

/// Quality of the event stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub events: u64,
    /// Switches whose previous thread was not the one running there, out of `chain_checked`.
    pub chain_breaks: u64,
    pub chain_checked: u64,
    /// Events that arrived after newer ones of the same thread or after a newer snapshot; sums are right, times may
    /// not be.
    pub late: u64,
    /// Switches away from a thread whose run time is unknown.
    pub unmeasured: u64,
    /// Threads whose end was detected only because another thread reused their id.
    pub missed_exits: u64,
    /// Events ignored because there are too many threads.
    pub untracked: u64,
    /// Slices dropped within the horizon because there were too many.
    pub dropped_slices: u64,
}
