//! Converts kernel events to rows of the schema, for the watched processes. Live capture and import both use it.
//!
//! A single context switch carries little information. A row covers the whole interval between losing a processor and
//! getting one again: `context_switch` if the thread was preempted (the detail names the thread that ran instead), `wait` if
//! it gave the processor up (the detail is the reason). In both, `value` is the time the thread was ready without a processor.

use std::collections::{HashMap, HashSet};

use ortscope_core::kernel::{
    BlockPhase, FaultKind, FileIo, FileOperation, ImageLoad, KernelEvent, MemoryCallKind, Switch,
    SwitchReason, Task,
};
use ortscope_core::schema::{KernelEventKind, KernelEventRow, Text};

/// Maximum number of threads tracked at once. Intervals of further threads produce no rows and are counted.
const MAX_THREADS: usize = 100_000;

/// Makes rows from events, which must arrive in time order.
#[derive(Debug)]
pub struct KernelRows {
    /// `None` means every process.
    watched: Option<HashSet<u32>>,
    /// Threads that currently have no processor.
    off: HashMap<u32, Off>,
    /// The time at which each waiting thread was woken.
    woken: HashMap<u32, u64>,
    last_cpu: HashMap<u32, u32>,
    names: HashMap<u32, Text>,
    reasons: WaitReasons,
    untracked: u64,
}

#[derive(Debug, Clone, Copy)]
struct Off {
    at_ns: u64,
    cpu: u32,
    reason: SwitchReason,
    /// The thread that got the processor.
    replaced_by: u32,
}

/// Shared texts, so that a row costs no allocation.
#[derive(Debug)]
struct WaitReasons {
    sleeping: Text,
    blocked: Text,
    stopped: Text,
    other: Text,
}

impl KernelRows {
    pub fn new(watched: Option<HashSet<u32>>) -> Self {
        Self {
            watched,
            off: HashMap::new(),
            woken: HashMap::new(),
            last_cpu: HashMap::new(),
            names: HashMap::new(),
            reasons: WaitReasons {
                sleeping: "sleeping".into(),
                blocked: "blocked".into(),
                stopped: "stopped".into(),
                other: "other".into(),
            },
            untracked: 0,
        }
    }

    /// Sets the name of a thread, for example from a snapshot.
    pub fn name(&mut self, tid: u32, name: &str) {
        if self.names.len() < MAX_THREADS || self.names.contains_key(&tid) {
            self.names.insert(tid, name.into());
        }
    }

    /// Number of intervals without a row because too many threads were tracked already.
    pub fn untracked(&self) -> u64 {
        self.untracked
    }

    fn is_watched(&self, task: Task) -> bool {
        !task.is_idle() && self.watched.as_ref().is_none_or(|pids| pids.contains(&task.pid))
    }

    /// Takes an event and emits the rows that it completes.
    pub fn push(&mut self, event: &KernelEvent, out: &mut impl FnMut(KernelEventRow)) {
        match event {
            KernelEvent::Switch(switch) => self.switch(switch, out),
            KernelEvent::Wakeup(wakeup)
                if self.is_watched(wakeup.thread) && self.woken.len() < MAX_THREADS =>
            {
                self.woken.entry(wakeup.thread.tid).or_insert(wakeup.at_ns);
            }
            KernelEvent::Start(start) => {
                // Children of watched processes belong to the same program.
                if let Some(watched) = &mut self.watched
                    && watched.contains(&start.parent.pid)
                    && watched.len() < MAX_THREADS
                {
                    watched.insert(start.thread.pid);
                }
                if let Some(name) = self.names.get(&start.parent.tid).cloned() {
                    self.name(start.thread.tid, &name);
                }
                if self.is_watched(start.thread) {
                    let parent = Some(u64::from(start.parent.tid));
                    let row = self.row(
                        KernelEventKind::ThreadStart,
                        start.at_ns,
                        start.cpu,
                        start.thread,
                        None,
                        parent,
                    );
                    let detail = start.stack_bytes.map(|bytes| format!("stack of {bytes} bytes").into());
                    out(KernelEventRow { detail, ..row });
                }
            }
            KernelEvent::Exec(exec) => self.name(exec.thread.tid, &exec.name.to_string()),
            KernelEvent::Exit(exit) => {
                if self.is_watched(exit.thread) {
                    let code = exit.code.and_then(|code| u64::try_from(code).ok());
                    out(self.row(KernelEventKind::ThreadExit, exit.at_ns, exit.cpu, exit.thread, None, code));
                }
                self.woken.remove(&exit.thread.tid);
                self.last_cpu.remove(&exit.thread.tid);
                self.names.remove(&exit.thread.tid);
            }
            KernelEvent::PageFault(fault) if self.is_watched(fault.thread) => {
                let kind = match fault.kind {
                    FaultKind::Major => KernelEventKind::HardFault,
                    _ => KernelEventKind::PageFault,
                };
                out(self.row(kind, fault.at_ns, fault.cpu, fault.thread, None, Some(fault.address)));
            }
            KernelEvent::BlockIo(io) if io.phase == BlockPhase::Completed => {
                let start_ns = io.at_ns.saturating_sub(io.device_ns.unwrap_or(0));
                let bytes = Some(u64::from(io.bytes));
                out(self.row(KernelEventKind::DiskIo, start_ns, io.cpu, io.thread, io.device_ns, bytes));
            }
            KernelEvent::MemoryCall(call) if self.is_watched(call.thread) => {
                let kind = match call.kind {
                    MemoryCallKind::Map => KernelEventKind::MemoryMap,
                    MemoryCallKind::Unmap => KernelEventKind::MemoryUnmap,
                    MemoryCallKind::Heap => KernelEventKind::MemoryHeap,
                };
                out(self.row(kind, call.at_ns, call.cpu, call.thread, None, Some(call.bytes)));
            }
            _ => {}
        }
    }

    /// Emits the file I/O sums of a thread up to `at_ns`. Returns whether the thread is watched.
    pub fn file_io(&mut self, at_ns: u64, io: &FileIo, out: &mut impl FnMut(KernelEventRow)) -> bool {
        if !self.is_watched(io.thread) {
            return false;
        }
        let (kind, bytes) = match io.operation {
            FileOperation::Read => (KernelEventKind::FileRead, Some(io.bytes)),
            FileOperation::Write => (KernelEventKind::FileWrite, Some(io.bytes)),
            FileOperation::Open => (KernelEventKind::FileOpen, None),
            FileOperation::Sync => (KernelEventKind::FileSync, None),
        };
        let detail = format!(
            "{}: {} calls, {} failed, longest {} ns",
            io.kind.name(),
            io.calls,
            io.failed,
            io.longest_ns
        );
        let row = self.row(kind, at_ns, 0, io.thread, Some(io.total_ns), bytes);
        // A sum can span several processors.
        out(KernelEventRow { processor: None, detail: Some(detail.into()), ..row });
        true
    }

    /// Emits the value of a processor counter for a process up to `at_ns`. Returns whether the process is watched.
    pub fn counter(
        &mut self,
        at_ns: u64,
        pid: u32,
        name: &str,
        value: u64,
        out: &mut impl FnMut(KernelEventRow),
    ) -> bool {
        let task = Task { tid: pid, pid };
        if !self.is_watched(task) {
            return false;
        }
        let row = self.row(KernelEventKind::ProcessorCounter, at_ns, 0, task, None, Some(value));
        out(KernelEventRow { processor: None, tid: None, detail: Some(name.into()), ..row });
        true
    }

    /// Emits an image load. Returns whether the process is watched.
    pub fn image(&mut self, load: &ImageLoad, out: &mut impl FnMut(KernelEventRow)) -> bool {
        let task = Task { tid: load.pid, pid: load.pid };
        if !self.is_watched(task) {
            return false;
        }
        let row = self.row(KernelEventKind::ImageLoad, load.at_ns, 0, task, None, Some(load.address));
        let detail = Some(String::from_utf8_lossy(&load.path).into());
        out(KernelEventRow { processor: None, tid: None, detail, ..row });
        true
    }

    fn switch(&mut self, switch: &Switch, out: &mut impl FnMut(KernelEventRow)) {
        let Switch { at_ns, cpu, prev, next, reason, .. } = *switch;
        if self.is_watched(prev) {
            if reason == SwitchReason::Ended {
                self.off.remove(&prev.tid);
            } else if self.off.len() < MAX_THREADS {
                self.off.insert(prev.tid, Off { at_ns, cpu, reason, replaced_by: next.tid });
            } else {
                self.untracked += 1;
            }
        }
        if !self.is_watched(next) {
            return;
        }
        let woken_ns = self.woken.remove(&next.tid);
        if let Some(off) = self.off.remove(&next.tid) {
            out(self.interval(next, at_ns, off, woken_ns));
        }
        if self.last_cpu.len() < MAX_THREADS || self.last_cpu.contains_key(&next.tid) {
            let before = self.last_cpu.insert(next.tid, cpu);
            if let Some(before) = before.filter(|before| *before != cpu) {
                out(self.row(KernelEventKind::Migration, at_ns, cpu, next, None, Some(u64::from(before))));
            }
        }
    }

    /// The row of a thread that has a processor again.
    fn interval(&self, task: Task, at_ns: u64, off: Off, woken_ns: Option<u64>) -> KernelEventRow {
        let duration_ns = at_ns.saturating_sub(off.at_ns);
        let is_preempted = off.reason == SwitchReason::Preempted;
        let ready_ns = match (is_preempted, woken_ns) {
            (true, _) => Some(duration_ns),
            (false, woken) => woken.map(|woken| at_ns.saturating_sub(woken.max(off.at_ns))),
        };
        let detail = if is_preempted {
            self.names.get(&off.replaced_by).cloned().or_else(|| Some(off.replaced_by.to_string().into()))
        } else {
            Some(Text::clone(match off.reason {
                SwitchReason::Sleeping => &self.reasons.sleeping,
                SwitchReason::Blocked => &self.reasons.blocked,
                SwitchReason::Stopped => &self.reasons.stopped,
                _ => &self.reasons.other,
            }))
        };
        let kind = if is_preempted { KernelEventKind::ContextSwitch } else { KernelEventKind::Wait };
        let row = self.row(kind, off.at_ns, off.cpu, task, Some(duration_ns), ready_ns);
        KernelEventRow { detail, ..row }
    }

    fn row(
        &self,
        kind: KernelEventKind,
        at_ns: u64,
        cpu: u32,
        task: Task,
        duration_ns: Option<u64>,
        value: Option<u64>,
    ) -> KernelEventRow {
        KernelEventRow {
            timestamp_ns: at_ns,
            kind: kind.into(),
            processor: Some(u64::from(cpu)),
            pid: Some(u64::from(task.pid)),
            tid: Some(u64::from(task.tid)),
            duration_ns,
            value,
            detail: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(tid: u32) -> Task {
        Task { tid, pid: tid }
    }

    fn switch(at_ns: u64, cpu: u32, prev: u32, next: u32, reason: SwitchReason) -> KernelEvent {
        KernelEvent::Switch(Switch {
            at_ns,
            cpu,
            prev: task(prev),
            next: task(next),
            reason,
            prev_run_ns: None,
            prev_wait_ns: None,
            prev_memory_mark: None,
        })
    }

    fn rows(events: &[KernelEvent]) -> Vec<KernelEventRow> {
        let mut maker = KernelRows::new(Some(HashSet::from([7])));
        maker.name(8, "intruder");
        let mut rows = Vec::new();
        for event in events {
            maker.push(event, &mut |row| rows.push(row));
        }
        rows
    }

    #[test]
    fn a_preempted_thread_names_the_thread_that_ran_instead() {
        let found = rows(&[
            switch(100, 0, 7, 8, SwitchReason::Preempted),
            switch(150, 0, 8, 7, SwitchReason::Sleeping),
        ]);
        assert_eq!(found.len(), 1);
        let row = &found[0];
        assert_eq!((&*row.kind, row.timestamp_ns, row.duration_ns), ("context_switch", 100, Some(50)));
        assert_eq!((row.value, row.detail.as_deref()), (Some(50), Some("intruder")));
    }

    #[test]
    fn ready_time_of_a_waiting_thread_starts_at_its_wakeup() {
        let wakeup = KernelEvent::Wakeup(ortscope_core::kernel::Wakeup {
            at_ns: 190,
            cpu: 1,
            thread: task(7),
            waker: task(8),
        });
        let found = rows(&[
            switch(100, 0, 7, 0, SwitchReason::Sleeping),
            wakeup,
            switch(200, 1, 8, 7, SwitchReason::Preempted),
        ]);
        assert_eq!((&*found[0].kind, found[0].duration_ns, found[0].value), ("wait", Some(100), Some(10)));
        assert_eq!(found[0].detail.as_deref(), Some("sleeping"));
    }

    #[test]
    fn resuming_on_another_processor_is_a_migration() {
        let found = rows(&[
            switch(0, 0, 8, 7, SwitchReason::Sleeping),
            switch(100, 0, 7, 8, SwitchReason::Preempted),
            switch(200, 3, 0, 7, SwitchReason::Preempted),
        ]);
        let kinds: Vec<&str> = found.iter().map(|row| &*row.kind).collect();
        assert_eq!(kinds, ["context_switch", "migration"]);
        assert_eq!((found[1].processor, found[1].value), (Some(3), Some(0)));
    }
}
