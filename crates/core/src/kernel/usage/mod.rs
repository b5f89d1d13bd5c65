//! CPU use of every thread in windows of equal length, straight from context switches: what a monitor shows a hundred
//! times a second, for the cost of the switches alone. [`super::threads`] keeps more and answers more; this is for
//! watching a whole machine all day.
//!
//! Every switch away from a thread carries all the time it ever ran, so that lost events cost the place of its time,
//! never the sum. Threads that run on without a switch are counted by the clock until their switch tells exactly.
//!
//! Pure: no clock, no I/O.

#[cfg(test)]
mod tests;

use super::by_id::ById;
use super::{Exec, KernelEvent, Start, Switch, SwitchReason, Task, ThreadState};

/// Threads beyond this are counted and left out: their ends must have been lost.
const MAX_THREADS: usize = 200_000;
/// Machines with more processors are followed, but threads that run on without a switch are not.
const MAX_CPUS: usize = 8192;

/// The use of one thread in one window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    pub thread: Task,
    /// Of the first thread of its process; `None` if that was not seen.
    pub process_start_ns: Option<u64>,
    pub from_ns: u64,
    /// May be more than the window is long: what was learned late is told late.
    pub used_ns: u64,
}

/// Use that was not told yet.
#[derive(Debug, Clone, Copy)]
struct Untold {
    window: u64,
    tid: u32,
    used_ns: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UsageCounts {
    /// Switches whose previous thread was not the one that ran there: something was missed.
    pub chain_breaks: u64,
    /// Switches away from a thread of which it is not known how long it ran.
    pub unmeasured: u64,
    /// Switches left out because there are too many threads.
    pub untracked: u64,
}

#[derive(Debug, Clone, Copy)]
struct ThreadUse {
    process: u32,
    /// As the kernel told it last.
    run_ns: Option<u64>,
    /// Told by the clock since then.
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
    /// Has windows that were not told.
    is_active: bool,
    is_memory_stale: bool,
    /// Oldest first.
    windows: Vec<Untold>,
}

/// The use of all processes since it was told last.
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
    told_to_ns: u64,
    counts: UsageCounts,
}

impl Usage {
    /// Windows begin at multiples of their length; nothing before `from_ns` is told.
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
            told_to_ns: from_ns - from_ns % window_ns,
            counts: UsageCounts::default(),
        }
    }

    pub fn counts(&self) -> UsageCounts {
        self.counts
    }

    /// Takes over what ran already, so that the first switch of a thread tells a difference. Begin with the trace, then
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
        // Events that are older than the snapshot have smaller accounts.
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
        // Its id was somebody else's whose end was missed.
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

    /// A thread that is not the first one takes the first one's id.
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

    /// Tells every window that has ended by `to_ns` and in which a thread ran, each process by itself in the order of
    /// time. Events up to that moment must have been applied; later ones that belong before it are told with the first
    /// window that was not.
    pub fn settle(&mut self, to_ns: u64, tell: &mut impl FnMut(Window)) {
        let to_ns = to_ns - to_ns % self.window_ns;
        if to_ns <= self.told_to_ns {
            return;
        }
        for cpu in 0..self.running.len() {
            let Running { task, since_ns } = self.running[cpu];
            let from_ns = since_ns.max(self.told_to_ns);
            if task.is_idle() || from_ns >= to_ns {
                continue;
            }
            if let Some(thread) = self.follow(task) {
                thread.ahead_ns += to_ns - from_ns;
                let process = thread.process;
                self.add(process, task.tid, [from_ns, to_ns], to_ns - from_ns);
            }
        }
        self.told_to_ns = to_ns;
        let (end, window_ns) = (to_ns / self.window_ns, self.window_ns);
        let mut still_active = 0;
        for index in 0..self.active.len() {
            let slot = self.active[index];
            let Some(process) = self.processes.get_mut(slot as usize) else { continue };
            let (pid, start_ns) = (process.pid, process.start_ns);
            process.windows.retain(|untold| {
                let is_over = untold.window < end;
                if is_over {
                    tell(Window {
                        thread: Task { tid: untold.tid, pid },
                        process_start_ns: start_ns,
                        from_ns: untold.window * window_ns,
                        used_ns: untold.used_ns,
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

    /// Tells the processes that ran and whose memory may have changed since the last call.
    pub fn take_memory_stale(&mut self, mut tell: impl FnMut(u32)) {
        for slot in self.stale.drain(..) {
            if let Some(process) = self.processes.get_mut(slot as usize)
                && std::mem::take(&mut process.is_memory_stale)
            {
                tell(process.pid);
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
        // What belongs before is told late rather than never.
        let begin_ns = begin_ns.max(self.told_to_ns);
        let mut rest_ns = used_ns;
        let mut to_ns = end_ns.max(begin_ns);
        loop {
            let number = to_ns.saturating_sub(1).max(begin_ns) / self.window_ns;
            let from_ns = (number * self.window_ns).max(begin_ns);
            let is_first = from_ns == begin_ns;
            let part_ns = if is_first { rest_ns } else { (to_ns - from_ns).min(rest_ns) };
            process.add(Untold { window: number, tid, used_ns: part_ns });
            rest_ns -= part_ns;
            if is_first || rest_ns == 0 {
                return;
            }
            to_ns = from_ns;
        }
    }

    /// The account of a thread, opened if needed; `None` if there are too many.
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

    /// The place of a process that gets one more thread.
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
            // Another process may get the id; what this one used is told under it before.
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
        // The room of its windows stays for the next.
        let windows = std::mem::take(&mut process.windows);
        *process = ProcessUse { windows, ..ProcessUse::default() };
        self.stale.retain(|stale| *stale != slot);
        self.free.push(slot);
    }
}

impl ProcessUse {
    fn add(&mut self, new: Untold) {
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
