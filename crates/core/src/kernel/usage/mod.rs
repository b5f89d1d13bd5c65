//! CPU use of every thread in windows of equal length, computed from context switches, for monitors that refresh many
//! times per second. [`super::threads`] keeps more detail; this module is cheap enough to follow a whole machine all
//! day.
//!
//! Every switch away from a thread carries its total run time, so lost events misplace time but never change the sum.
//! The clock estimates the use of threads that keep running until their next switch corrects it.
//!
//! Pure: no clock, no I/O.

#[cfg(test)]
mod tests;

use super::{ById, Exec, KernelEvent, Start, Switch, SwitchReason, Task, ThreadState};

/// Further threads are counted and ignored: their exit events must have been lost.
const MAX_THREADS: usize = 200_000;
/// Machines with more processors are supported, but threads that keep running without a switch are not tracked on
/// them.
const MAX_CPUS: usize = 8192;

/// The use of one thread in one window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    pub thread: Task,
    /// Start of the first thread of its process; `None` if that was not seen.
    pub process_start_ns: Option<u64>,
    pub from_ns: u64,
    /// Can exceed the length of the window, because late events are reported late.
    pub used_ns: u64,
}

/// Usage that has not been reported yet.
#[derive(Debug, Clone, Copy)]
struct Unreported {
    window: u64,
    tid: u32,
    used_ns: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UsageCounts {
    /// Switches whose previous thread was not the one running there, so events were lost.
    pub chain_breaks: u64,
    /// Switches away from a thread whose run time is unknown.
    pub unmeasured: u64,
    /// Switches ignored because there are too many threads.
    pub untracked: u64,
}

#[derive(Debug, Clone, Copy)]
struct ThreadUse {
    process: u32,
    /// Run time in the last event from the kernel.
    run_ns: Option<u64>,
    /// Time reported from the clock since then.
    ahead_ns: u64,
    memory_mark: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Running {
    task: Task,
    since_ns: u64,
}

/// Before the first switch on a processor.
const NOT_KNOWN: Running = Running { task: Task::IDLE, since_ns: u64::MAX };

#[derive(Debug, Default)]
struct ProcessUse {
    pid: u32,
    start_ns: Option<u64>,
    threads: u32,
    /// Has unreported windows.
    is_active: bool,
    is_memory_stale: bool,
    /// Oldest first.
    windows: Vec<Unreported>,
}

/// The unreported CPU use of all processes.
#[derive(Debug)]
pub struct Usage {
    window_ns: u64,
    threads: ById<ThreadUse>,
    processes: Vec<ProcessUse>,
    free: Vec<u32>,
    by_pid: ById<u32>,
    /// By processor.
    running: Vec<Running>,
    active: Vec<u32>,
    stale: Vec<u32>,
    reported_to_ns: u64,
    counts: UsageCounts,
}

impl Usage {
    /// Windows begin at multiples of their length; nothing before `from_ns` is reported.
    pub fn new(window_ns: u64, from_ns: u64) -> Self {
        let window_ns = window_ns.max(1);
        Self {
            window_ns,
            threads: ById::default(),
            processes: Vec::new(),
            free: Vec::new(),
            by_pid: ById::default(),
            running: Vec::new(),
            active: Vec::new(),
            stale: Vec::new(),
            reported_to_ns: from_ns - from_ns % window_ns,
            counts: UsageCounts::default(),
        }
    }

    pub fn counts(&self) -> UsageCounts {
        self.counts
    }

    /// Records the run times so far, so that the first switch of a thread gives a difference. Start the trace, then
    /// take the snapshot, then drain.
    pub fn begin(&mut self, snapshot: &[ThreadState]) {
        for state in snapshot {
            let Some(thread) = self.follow(state.thread) else { continue };
            thread.run_ns = thread.run_ns.or(Some(state.run_ns));
            let process = thread.process;
            if state.thread.tid == state.thread.pid
                && let Some(process) = self.processes.get_mut(process as usize)
            {
                process.start_ns = Some(state.start_ns);
            }
        }
    }

    pub fn apply(&mut self, event: &KernelEvent) {
        match event {
            KernelEvent::Switch(event) => self.switch(event),
            KernelEvent::Start(event) => self.start(event),
            KernelEvent::Exec(event) => self.exec(event),
            _ => {}
        }
    }

    fn switch(&mut self, event: &Switch) {
        let cpu = event.cpu as usize;
        let mut entered_ns = None;
        if cpu < MAX_CPUS {
            if cpu >= self.running.len() {
                self.running.resize(cpu + 1, NOT_KNOWN);
            }
            let was = self.running[cpu];
            if was.task.tid == event.prev.tid {
                entered_ns = Some(was.since_ns).filter(|since_ns| *since_ns <= event.at_ns);
            } else {
                self.counts.chain_breaks += u64::from(was.since_ns != NOT_KNOWN.since_ns);
            }
            self.running[cpu] = Running { task: event.next, since_ns: event.at_ns };
        }
        if !event.prev.is_idle() {
            self.leave(event, entered_ns);
        }
    }

    fn leave(&mut self, event: &Switch, entered_ns: Option<u64>) {
        let Some(thread) = self.follow(event.prev) else { return };
        let by_clock_ns = entered_ns.map(|entered_ns| event.at_ns - entered_ns);
        let ran_ns = match (event.prev_run_ns, thread.run_ns) {
            (Some(now_ns), Some(before_ns)) => Some(now_ns.saturating_sub(before_ns)),
            _ => by_clock_ns,
        };
        // Events older than the snapshot have smaller totals.
        thread.run_ns = event.prev_run_ns.max(thread.run_ns);
        let rest_ns = ran_ns.unwrap_or(0).saturating_sub(thread.ahead_ns);
        thread.ahead_ns = thread.ahead_ns.saturating_sub(ran_ns.unwrap_or(0));
        let is_memory_stale =
            thread.memory_mark != event.prev_memory_mark || event.prev_memory_mark.is_none();
        thread.memory_mark = event.prev_memory_mark;
        let process = thread.process;
        self.counts.unmeasured += u64::from(ran_ns.is_none());
        if is_memory_stale && let Some(found) = self.processes.get_mut(process as usize) {
            if !found.is_memory_stale {
                self.stale.push(process);
            }
            found.is_memory_stale = true;
        }
        self.add(process, event.prev.tid, [event.at_ns.saturating_sub(rest_ns), event.at_ns], rest_ns);
        if event.reason == SwitchReason::Ended {
            self.remove(event.prev.tid);
        }
    }

    fn start(&mut self, event: &Start) {
        if event.thread.is_idle() {
            return;
        }
        // The id belonged to a thread whose exit was missed.
        self.remove(event.thread.tid);
        let Some(thread) = self.follow(event.thread) else { return };
        thread.run_ns = Some(0);
        let process = thread.process;
        if event.is_process()
            && let Some(process) = self.processes.get_mut(process as usize)
        {
            process.start_ns = event.start_ns.or(Some(event.at_ns));
        }
    }

    /// A thread that is not the first one takes over the first one's id.
    fn exec(&mut self, event: &Exec) {
        if event.is_rename || event.old_tid == event.thread.tid {
            return;
        }
        if let Some(thread) = self.threads.remove(&event.old_tid) {
            self.remove(event.thread.tid);
            self.threads.insert(event.thread.tid, thread);
        }
        for running in self.running.iter_mut().filter(|running| running.task.tid == event.old_tid) {
            running.task = event.thread;
        }
    }

    /// Reports every window that ended by `to_ns` and in which a thread ran, in order of time within each process.
    /// Events up to that time must have been applied; later events that belong before it are reported with the first
    /// unreported window.
    pub fn settle(&mut self, to_ns: u64, report: &mut impl FnMut(Window)) {
        let to_ns = to_ns - to_ns % self.window_ns;
        if to_ns <= self.reported_to_ns {
            return;
        }
        for cpu in 0..self.running.len() {
            let Running { task, since_ns } = self.running[cpu];
            let from_ns = since_ns.max(self.reported_to_ns);
            if task.is_idle() || from_ns >= to_ns {
                continue;
            }
            if let Some(thread) = self.follow(task) {
                thread.ahead_ns += to_ns - from_ns;
                let process = thread.process;
                self.add(process, task.tid, [from_ns, to_ns], to_ns - from_ns);
            }
        }
        self.reported_to_ns = to_ns;
        let (end, window_ns) = (to_ns / self.window_ns, self.window_ns);
        let mut still_active = 0;
        for index in 0..self.active.len() {
            let slot = self.active[index];
            let Some(process) = self.processes.get_mut(slot as usize) else { continue };
            let (pid, start_ns) = (process.pid, process.start_ns);
            process.windows.retain(|unreported| {
                let is_over = unreported.window < end;
                if is_over {
                    report(Window {
                        thread: Task { tid: unreported.tid, pid },
                        process_start_ns: start_ns,
                        from_ns: unreported.window * window_ns,
                        used_ns: unreported.used_ns,
                    });
                }
                !is_over
            });
            process.is_active = !process.windows.is_empty();
            if process.is_active {
                self.active[still_active] = slot;
                still_active += 1;
            } else if process.threads == 0 {
                self.forget(slot);
            }
        }
        self.active.truncate(still_active);
    }

    /// Reports the processes that ran and whose memory may have changed since the last call.
    pub fn take_memory_stale(&mut self, mut report: impl FnMut(u32)) {
        for slot in self.stale.drain(..) {
            if let Some(process) = self.processes.get_mut(slot as usize)
                && std::mem::take(&mut process.is_memory_stale)
            {
                report(process.pid);
            }
        }
    }

    fn add(&mut self, slot: u32, tid: u32, [begin_ns, end_ns]: [u64; 2], used_ns: u64) {
        if used_ns == 0 {
            return;
        }
        let Some(process) = self.processes.get_mut(slot as usize) else { return };
        if !process.is_active {
            process.is_active = true;
            self.active.push(slot);
        }
        // Late usage is moved into the first unreported window.
        let begin_ns = begin_ns.max(self.reported_to_ns);
        let mut rest_ns = used_ns;
        let mut to_ns = end_ns.max(begin_ns);
        loop {
            let number = to_ns.saturating_sub(1).max(begin_ns) / self.window_ns;
            let from_ns = (number * self.window_ns).max(begin_ns);
            let is_first = from_ns == begin_ns;
            let part_ns = if is_first { rest_ns } else { (to_ns - from_ns).min(rest_ns) };
            process.add(Unreported { window: number, tid, used_ns: part_ns });
            rest_ns -= part_ns;
            if is_first || rest_ns == 0 {
                return;
            }
            to_ns = from_ns;
        }
    }

    /// The account of a thread, created if needed; `None` if there are too many.
    #[inline]
    fn follow(&mut self, task: Task) -> Option<&mut ThreadUse> {
        if task.is_idle() {
            return None;
        }
        if !self.threads.contains_key(&task.tid) {
            if self.threads.len() >= MAX_THREADS {
                self.counts.untracked += 1;
                return None;
            }
            let process = self.process(task.pid);
            let thread = ThreadUse { process, run_ns: None, ahead_ns: 0, memory_mark: None };
            self.threads.insert(task.tid, thread);
        }
        self.threads.get_mut(&task.tid)
    }

    /// The slot of a process that gets one more thread.
    fn process(&mut self, pid: u32) -> u32 {
        let slot = *self.by_pid.entry(pid).or_insert_with(|| {
            self.free.pop().unwrap_or_else(|| {
                self.processes.push(ProcessUse::default());
                (self.processes.len() - 1) as u32
            })
        });
        let process = &mut self.processes[slot as usize];
        process.pid = pid;
        process.threads += 1;
        slot
    }

    fn remove(&mut self, tid: u32) {
        let Some(thread) = self.threads.remove(&tid) else { return };
        let process = &mut self.processes[thread.process as usize];
        process.threads = process.threads.saturating_sub(1);
        if process.threads == 0 {
            // Another process may reuse the id, so this one's use is reported first.
            let pid = process.pid;
            let is_active = process.is_active;
            self.by_pid.remove(&pid);
            if !is_active {
                self.forget(thread.process);
            }
        }
    }

    fn forget(&mut self, slot: u32) {
        let process = &mut self.processes[slot as usize];
        // The allocation is reused by the next process.
        let windows = std::mem::take(&mut process.windows);
        *process = ProcessUse { windows, ..ProcessUse::default() };
        self.stale.retain(|stale| *stale != slot);
        self.free.push(slot);
    }
}

impl ProcessUse {
    fn add(&mut self, new: Unreported) {
        // Almost always the last window, or the one before it.
        let mut place = self.windows.len();
        for (index, other) in self.windows.iter_mut().enumerate().rev() {
            if other.window < new.window {
                break;
            }
            if other.window == new.window && other.tid == new.tid {
                other.used_ns += new.used_ns;
                return;
            }
            if other.window > new.window {
                place = index;
            }
        }
        self.windows.insert(place, new);
    }
}
