//! Processes and threads of a trace, from their first to their last event.
//!
//! Only running ones and those that ended a moment ago are kept: the last events of a thread follow its end event.

use std::collections::{BTreeMap, VecDeque};

use ortscope_core::kernel::threads::{ThreadKey, Threads};
use ortscope_core::kernel::{RunState, Task, ThreadName, ThreadState};

use super::MAX_COUNTERS;
use super::sink::EtwSink;
use super::wait_reason::WaitReason;

/// Limit for concurrent threads and for processes: 200,000 each.
const MAX_LIFETIMES: usize = 200_000;
/// Limit for names and command lines of all processes: 32 MiB.
const MAX_TEXT: usize = 32 << 20;
/// How long ended ones are kept for their last events: 1 s.
const LINGER_NS: u64 = 1_000_000_000;

/// The id of unknown processes and threads: ETW writes -1.
pub const UNKNOWN_ID: u32 = u32::MAX;

/// One process from start to end. Names are those of the image file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProcessLife {
    pub pid: u32,
    pub parent_pid: u32,
    pub session_id: Option<u32>,
    pub image_name: String,
    pub command_line: String,
    pub package: String,
    /// The owner's SID, `S-1-5-21-…`.
    pub user_sid: Option<String>,
    /// `None` if it existed before the trace, or its start was lost.
    pub start_ns: Option<u64>,
    /// `None` if it existed at the end of the trace, or its end was lost.
    pub end_ns: Option<u64>,
    pub exit_code: Option<i32>,
    pub totals: ProcessTotals,
}

/// Sums of a process's events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProcessTotals {
    /// From context switches, of threads whose account was closed before the process ended.
    pub run_ns: u64,
    pub threads: u64,
    pub images: u64,
    pub samples: u64,
    pub hard_faults: u64,
    pub disk_read_bytes: u64,
    pub disk_write_bytes: u64,
    pub network_sent_bytes: u64,
    pub network_received_bytes: u64,
}

/// One thread from start to end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ThreadLife {
    pub thread: Task,
    pub start_ns: Option<u64>,
    pub end_ns: Option<u64>,
    /// The name set by the program; usually empty.
    pub name: String,
    pub start_address: Option<u64>,
    pub base_priority: Option<u8>,
    pub account: ThreadAccount,
    pub(super) key: Option<ThreadKey>,
    pub(super) off: Option<Off>,
}

/// Activity of a thread, from context switches.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ThreadAccount {
    /// Exact time on processors.
    pub run_ns: u64,
    /// Time in the ready queue: from being readied or preempted to running.
    pub ready_ns: u64,
    /// By reason, from leaving the processor to being readied, ordered by reason.
    pub waits: Vec<Wait>,
    pub switches: u64,
    pub preemptions: u64,
    /// Processor counters while the thread ran, in the order of their names.
    pub counters: [u64; MAX_COUNTERS],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    pub reason: WaitReason,
    pub total_ns: u64,
    pub count: u64,
    /// Waits in `count` without a ready event: their time in the ready queue is included in `total_ns`.
    pub with_ready_time: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Off {
    pub since_ns: u64,
    pub reason: WaitReason,
}

impl ThreadLife {
    /// For accounts that begin with a snapshot. ETW's rundown has no times: they are 0.
    pub fn state(&self, parent_pid: u32, at_ns: u64) -> ThreadState {
        ThreadState {
            thread: self.thread,
            parent_pid,
            start_ns: self.start_ns.unwrap_or(at_ns),
            name: ThreadName::from_bytes(self.name.as_bytes()),
            state: RunState::Unknown,
            is_kernel_thread: self.thread.pid == 4 || self.thread.pid == 0,
            cpu: 0,
            run_ns: 0,
            wait_ns: None,
            user_ns: 0,
            system_ns: 0,
            voluntary_switches: 0,
            involuntary_switches: 0,
            minor_faults: 0,
            major_faults: 0,
            io: None,
            priority: 0,
            ended_threads_run_ns: 0,
        }
    }

    /// Ends a wait: the thread was readied, or runs without a ready event.
    pub(super) fn waited(&mut self, at_ns: u64, with_ready_time: bool) {
        let Some(off) = self.off.take() else { return };
        let waits = &mut self.account.waits;
        let index = waits.binary_search_by_key(&off.reason, |wait| wait.reason).unwrap_or_else(|index| {
            waits.insert(index, Wait { reason: off.reason, total_ns: 0, count: 0, with_ready_time: 0 });
            index
        });
        waits[index].total_ns = waits[index].total_ns.saturating_add(at_ns.saturating_sub(off.since_ns));
        waits[index].count += 1;
        waits[index].with_ready_time += u64::from(with_ready_time);
    }
}

/// Omissions and guesses of the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LifeCounts {
    pub processes: u64,
    pub threads: u64,
    /// Restarts without a recorded end.
    pub missed_ends: u64,
    /// Ends without a recorded beginning.
    pub unknown_ends: u64,
    /// Threads that appeared in an event before their process was known.
    pub threads_without_process: u64,
    /// Processes and threads beyond the limits.
    pub dropped: u64,
    /// Texts dropped because all names together are too long.
    pub dropped_texts: u64,
}

/// The first event of a thread in the whole trace, from a first pass.
#[derive(Debug, Clone, Copy)]
struct First {
    ticks: u64,
    pid: u32,
    is_start: bool,
}

#[derive(Debug, Default)]
pub(super) struct Lifetimes {
    processes: BTreeMap<u32, ProcessLife>,
    threads: BTreeMap<u32, ThreadLife>,
    ended_processes: VecDeque<(u64, u32)>,
    ended_threads: VecDeque<(u64, u32)>,
    first: BTreeMap<u32, First>,
    text_bytes: usize,
    pub counts: LifeCounts,
}

impl Lifetimes {
    /// Records the process of a thread that appears before its own first event.
    pub fn learn(&mut self, tid: u32, pid: u32, ticks: u64, is_start: bool) {
        let seen = First { ticks, pid, is_start };
        let has_room = self.first.len() < MAX_LIFETIMES;
        match self.first.get_mut(&tid) {
            Some(first) if ticks < first.ticks => *first = seen,
            Some(_) => {}
            None if has_room => {
                self.first.insert(tid, seen);
            }
            None => self.counts.dropped += 1,
        }
    }

    /// The thread with its current process, created if unknown.
    pub fn task(&mut self, tid: u32, known_pid: Option<u32>) -> Task {
        if tid == 0 {
            return Task::IDLE;
        }
        if tid == UNKNOWN_ID {
            return Task { tid, pid: known_pid.unwrap_or(UNKNOWN_ID) };
        }
        if let Some(life) = self.threads.get_mut(&tid) {
            if life.thread.pid == UNKNOWN_ID
                && let Some(pid) = known_pid.filter(|pid| *pid != UNKNOWN_ID)
            {
                life.thread.pid = pid;
            }
            return life.thread;
        }
        let first = self.first.get(&tid).filter(|first| !first.is_start).map(|first| first.pid);
        let pid = known_pid.filter(|pid| *pid != UNKNOWN_ID).or(first).unwrap_or(UNKNOWN_ID);
        let thread = Task { tid, pid };
        self.counts.threads_without_process += u64::from(pid == UNKNOWN_ID);
        self.insert_thread(ThreadLife { thread, ..ThreadLife::default() });
        thread
    }

    pub fn thread_mut(&mut self, tid: u32) -> Option<&mut ThreadLife> {
        self.threads.get_mut(&tid)
    }

    pub fn process(&self, pid: u32) -> Option<&ProcessLife> {
        self.processes.get(&pid)
    }

    pub fn totals(&mut self, pid: u32) -> Option<&mut ProcessTotals> {
        self.processes.get_mut(&pid).map(|process| &mut process.totals)
    }

    pub fn processes(&self) -> impl Iterator<Item = &ProcessLife> {
        self.processes.values()
    }

    pub fn threads(&self) -> impl Iterator<Item = &ThreadLife> {
        self.threads.values()
    }

    fn insert_thread(&mut self, life: ThreadLife) -> bool {
        if self.threads.len() >= MAX_LIFETIMES {
            self.counts.dropped += 1;
            return false;
        }
        self.counts.threads += 1;
        if let Some(process) = self.processes.get_mut(&life.thread.pid) {
            process.totals.threads += 1;
        }
        self.threads.insert(life.thread.tid, life);
        true
    }

    /// A thread exists: it started (`start_ns`), or a rundown lists it.
    pub fn begin_thread<S: EtwSink + ?Sized>(&mut self, life: ThreadLife, accounts: &Threads, sink: &mut S) {
        let tid = life.thread.tid;
        match self.threads.get_mut(&tid) {
            // Known: it is the same thread unless it starts now.
            Some(known) if life.start_ns.is_none() && known.end_ns.is_none() => {
                if known.thread.pid == UNKNOWN_ID {
                    self.counts.threads_without_process =
                        self.counts.threads_without_process.saturating_sub(1);
                    known.thread.pid = life.thread.pid;
                    if let Some(totals) = self.processes.get_mut(&life.thread.pid) {
                        totals.totals.threads += 1;
                    }
                }
                if known.name.is_empty() {
                    known.name = life.name;
                }
                known.start_address = known.start_address.or(life.start_address);
                known.base_priority = known.base_priority.or(life.base_priority);
                return;
            }
            Some(known) => {
                self.counts.missed_ends += u64::from(known.end_ns.is_none());
                self.close_thread(tid, accounts, sink);
            }
            None => {}
        }
        sink.thread_begins(&life);
        self.insert_thread(life);
    }

    /// The thread ends; its last switch follows.
    pub fn end_thread(&mut self, tid: u32, pid: u32, at_ns: u64) {
        if !self.threads.contains_key(&tid) {
            self.counts.unknown_ends += 1;
            self.task(tid, Some(pid));
        }
        if let Some(life) = self.threads.get_mut(&tid) {
            life.end_ns = Some(at_ns);
            push_ended(&mut self.ended_threads, (at_ns, tid));
        }
    }

    pub fn begin_process<S: EtwSink + ?Sized>(&mut self, mut life: ProcessLife, sink: &mut S) {
        let pid = life.pid;
        match self.processes.get_mut(&pid) {
            Some(known) if life.start_ns.is_none() && known.end_ns.is_none() => {
                // A rundown at the end lists a known process, perhaps without its name.
                if known.image_name.is_empty() {
                    (life.totals, life.start_ns) = (known.totals, known.start_ns);
                    self.fit(&mut life);
                    sink.process_begins(&life);
                    self.processes.insert(pid, life);
                }
                return;
            }
            Some(known) => {
                self.counts.missed_ends += u64::from(known.end_ns.is_none());
                self.close_process(pid, sink);
            }
            None => {}
        }
        if self.processes.len() >= MAX_LIFETIMES {
            self.counts.dropped += 1;
            return;
        }
        self.fit(&mut life);
        self.counts.processes += 1;
        sink.process_begins(&life);
        self.processes.insert(pid, life);
    }

    /// Drops the texts if those of all processes are too long.
    fn fit(&mut self, life: &mut ProcessLife) {
        let bytes = text_bytes(life);
        if self.text_bytes + bytes > MAX_TEXT {
            self.counts.dropped_texts += 1;
            (life.image_name, life.command_line, life.package) = Default::default();
        } else {
            self.text_bytes += bytes;
        }
    }

    pub fn end_process<S: EtwSink + ?Sized>(
        &mut self,
        life: ProcessLife,
        at_ns: u64,
        code: Option<i32>,
        sink: &mut S,
    ) {
        let pid = life.pid;
        if self.processes.get(&pid).is_none_or(|known| known.end_ns.is_some()) {
            self.counts.unknown_ends += 1;
            self.begin_process(ProcessLife { start_ns: None, ..life }, sink);
        }
        if let Some(known) = self.processes.get_mut(&pid) {
            known.end_ns = Some(at_ns);
            known.exit_code = code;
            push_ended(&mut self.ended_processes, (at_ns, pid));
        }
    }

    /// Emits those that ended long enough ago.
    pub fn advance<S: EtwSink + ?Sized>(&mut self, now_ns: u64, accounts: &Threads, sink: &mut S) {
        let is_over = |ended: Option<&(u64, u32)>| {
            ended.is_some_and(|(ended_ns, _)| ended_ns.saturating_add(LINGER_NS) < now_ns)
        };
        while is_over(self.ended_threads.front()) {
            if let Some((ended_ns, tid)) = self.ended_threads.pop_front()
                && self.threads.get(&tid).is_some_and(|life| life.end_ns == Some(ended_ns))
            {
                self.close_thread(tid, accounts, sink);
            }
        }
        while is_over(self.ended_processes.front()) {
            if let Some((ended_ns, pid)) = self.ended_processes.pop_front()
                && self.processes.get(&pid).is_some_and(|life| life.end_ns == Some(ended_ns))
            {
                self.close_process(pid, sink);
            }
        }
    }

    fn close_thread<S: EtwSink + ?Sized>(&mut self, tid: u32, accounts: &Threads, sink: &mut S) {
        let Some(mut life) = self.threads.remove(&tid) else { return };
        complete(&mut life, accounts);
        if let Some(totals) = self.totals(life.thread.pid) {
            totals.run_ns = totals.run_ns.saturating_add(life.account.run_ns);
        }
        sink.thread_ends(&life);
    }

    fn close_process<S: EtwSink + ?Sized>(&mut self, pid: u32, sink: &mut S) {
        let Some(life) = self.processes.remove(&pid) else { return };
        self.text_bytes = self.text_bytes.saturating_sub(text_bytes(&life));
        sink.process_ends(&life);
    }

    /// Ends the trace: emits all that remain, by ascending id.
    pub fn finish<S: EtwSink + ?Sized>(&mut self, accounts: &Threads, sink: &mut S) {
        while let Some(tid) = self.threads.first_key_value().map(|(tid, _)| *tid) {
            self.close_thread(tid, accounts, sink);
        }
        while let Some(pid) = self.processes.first_key_value().map(|(pid, _)| *pid) {
            self.close_process(pid, sink);
        }
        self.ended_threads.clear();
        self.ended_processes.clear();
    }
}

/// Those that are pushed out are emitted at the end of the trace, or when their id is reused.
fn push_ended(queue: &mut VecDeque<(u64, u32)>, ended: (u64, u32)) {
    if queue.len() >= MAX_LIFETIMES {
        queue.pop_front();
    }
    queue.push_back(ended);
}

/// Copies the times from the account of the switches.
pub(super) fn complete(life: &mut ThreadLife, accounts: &Threads) {
    let account = life.key.and_then(|key| accounts.get(key)).or_else(|| accounts.current(life.thread.tid));
    let Some(thread) = account else { return };
    // A running thread has a slice that has not ended.
    life.account.run_ns = accounts.cpu_ns(thread.key, 0, u64::MAX).max(thread.seen_run_ns());
    life.account.ready_ns = thread.queued_ns;
    life.account.switches = thread.voluntary_switches + thread.involuntary_switches;
    life.account.preemptions = thread.involuntary_switches;
}

fn text_bytes(life: &ProcessLife) -> usize {
    life.image_name.len() + life.command_line.len() + life.package.len()
}
