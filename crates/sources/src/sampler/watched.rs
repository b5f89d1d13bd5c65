//! The watched processes: their last values, starts and exits.

use std::collections::HashMap;
use std::sync::Arc;

use ortscope_core::clock::WallAnchor;
use ortscope_core::pipeline::Emitter;
use ortscope_core::schema::{ProcessRow, ProcessSampleRow, Text, ThreadSampleRow};

use super::backend::{ProcessBackend, ProcessFacts, ReadError, ThreadState};
use super::command_line;
use super::groups::{GroupSet, MetricGroup};
use super::options::CommandLines;

/// Process start times have clock tick resolution; within this error the order relative to the start of sampling is
/// unknown.
const START_ERROR_NS: u64 = 20_000_000;

#[derive(Debug)]
struct Process {
    slot: usize,
    facts: ProcessFacts,
    name: Text,
    row: ProcessSampleRow,
    /// Every group has been read once.
    complete: bool,
    gone: bool,
}

#[derive(Debug)]
struct Events {
    seen: Text,
    started: Text,
    exited: Text,
}

#[derive(Debug)]
pub(super) struct Watched {
    /// In order of arrival, which is also the order of rows in every tick.
    processes: Vec<Process>,
    by_pid: HashMap<u32, usize>,
    free_slots: Vec<usize>,
    slots: usize,
    began: WallAnchor,
    events: Events,
    states: [Text; ThreadState::ALL.len()],
    command_lines: CommandLines,
}

impl Watched {
    pub fn new(command_lines: CommandLines) -> Self {
        Self {
            processes: Vec::new(),
            by_pid: HashMap::new(),
            free_slots: Vec::new(),
            slots: 0,
            began: WallAnchor::now(),
            events: Events { seen: "seen".into(), started: "started".into(), exited: "exited".into() },
            states: ThreadState::ALL.map(|state| state.name().into()),
            command_lines,
        }
    }

    pub fn len(&self) -> usize {
        self.processes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }

    /// Slots by process id.
    pub fn by_pid(&self) -> &HashMap<u32, usize> {
        &self.by_pid
    }

    /// Starts watching a process and emits its start. A process that has already exited is not an error.
    pub fn join(
        &mut self,
        now_ns: u64,
        facts: ProcessFacts,
        backend: &mut dyn ProcessBackend,
        out: &mut Emitter,
    ) -> bool {
        let slot = self.free_slots.pop().unwrap_or(self.slots);
        if backend.watch(slot, &facts).is_err() {
            if slot < self.slots {
                self.free_slots.push(slot);
            }
            return false;
        }
        self.slots = self.slots.max(slot + 1);
        let is_new = facts
            .create_time_unix_ns
            .is_some_and(|created| created > self.began.unix_ns.saturating_add(START_ERROR_NS));
        let event = if is_new { &self.events.started } else { &self.events.seen };
        let name: Text = String::from_utf8_lossy(&facts.name).into();
        let arguments = match self.command_lines {
            CommandLines::Off => None,
            _ => backend.command_line(slot),
        };
        let command_line = arguments.and_then(|arguments| command_line::text(&arguments, self.command_lines));
        out.emit(&ProcessRow {
            command_line: command_line.map(Into::into),
            ..process_row(now_ns, &facts, Arc::clone(event), Arc::clone(&name))
        });
        let row = ProcessSampleRow {
            pid: u64::from(facts.pid),
            process_start: facts.start,
            ..ProcessSampleRow::default()
        };
        self.by_pid.insert(facts.pid, slot);
        self.processes.push(Process { slot, facts, name, row, complete: false, gone: false });
        true
    }

    pub fn mark_gone_slots(&mut self, slots: &[usize]) {
        if !slots.is_empty() {
            self.processes.iter_mut().for_each(|process| process.gone |= slots.contains(&process.slot));
        }
    }

    pub fn mark_gone_pids(&mut self, sorted_pids: &[u32]) {
        if !sorted_pids.is_empty() {
            let is_gone = |process: &Process| sorted_pids.binary_search(&process.facts.pid).is_ok();
            self.processes.iter_mut().for_each(|process| process.gone |= is_gone(process));
        }
    }

    /// Reads the due groups; for new processes, all groups.
    pub fn read(&mut self, due: GroupSet, wanted: GroupSet, backend: &mut dyn ProcessBackend) {
        for process in self.processes.iter_mut().filter(|process| !process.gone) {
            let groups = if process.complete { due } else { wanted };
            process.gone = process.read(groups, backend) == Err(ReadError::Gone);
            process.complete = true;
        }
    }

    /// Emits new names of programs that executed another one.
    pub fn emit_renamed(&mut self, now_ns: u64, backend: &mut dyn ProcessBackend, out: &mut Emitter) {
        for process in self.processes.iter_mut().filter(|process| !process.gone) {
            if let Some(name) = backend.renamed(process.slot, &process.facts.name) {
                process.name = String::from_utf8_lossy(&name).into();
                process.facts.name = name;
                let (event, name) = (Arc::clone(&self.events.seen), Arc::clone(&process.name));
                out.emit(&process_row(now_ns, &process.facts, event, name));
            }
        }
    }

    /// Reads and emits every thread up to a limit; returns the number of dropped ones.
    pub fn emit_threads(
        &mut self,
        now_ns: u64,
        capacity: usize,
        backend: &mut dyn ProcessBackend,
        out: &mut Emitter,
    ) -> u64 {
        let (mut count, mut beyond) = (0, 0);
        let states = &self.states;
        for process in self.processes.iter_mut().filter(|process| !process.gone) {
            let (pid, process_start) = (process.row.pid, process.row.process_start);
            let result = backend.threads(process.slot, &mut process.row, &mut |thread| {
                if count == capacity {
                    beyond += 1;
                    return;
                }
                count += 1;
                out.emit(&ThreadSampleRow {
                    timestamp_ns: now_ns,
                    pid,
                    process_start,
                    tid: u64::from(thread.tid),
                    name: thread.name.map(Arc::clone),
                    cpu_time_ns: thread.cpu_time_ns,
                    cpu_cycles: thread.cpu_cycles,
                    context_switches: thread.context_switches,
                    state: thread.state.map(|state| Arc::clone(&states[state as usize])),
                    processor: thread.processor,
                    priority: thread.priority,
                });
            });
            process.gone |= result == Err(ReadError::Gone);
        }
        beyond
    }

    /// Emits one full row per running process; returns their number.
    pub fn emit_samples(&mut self, now_ns: u64, out: &mut Emitter) -> u64 {
        let mut count = 0;
        for process in self.processes.iter_mut().filter(|process| !process.gone) {
            process.row.timestamp_ns = now_ns;
            out.emit(&process.row);
            count += 1;
        }
        count
    }

    /// Emits exits and releases the slots.
    pub fn part(
        &mut self,
        now_ns: u64,
        backend: &mut dyn ProcessBackend,
        out: &mut Emitter,
        mut left: impl FnMut(u32),
    ) {
        if !self.processes.iter().any(|process| process.gone) {
            return;
        }
        let (by_pid, free_slots, exited) = (&mut self.by_pid, &mut self.free_slots, &self.events.exited);
        self.processes.retain_mut(|process| {
            if process.gone {
                out.emit(&ProcessRow {
                    exit_code: backend.exit_code(process.slot),
                    ..process_row(now_ns, &process.facts, Arc::clone(exited), Arc::clone(&process.name))
                });
                backend.forget(process.slot);
                free_slots.push(process.slot);
                // The id may already belong to a new watched process.
                if by_pid.get(&process.facts.pid) == Some(&process.slot) {
                    by_pid.remove(&process.facts.pid);
                }
                left(process.facts.pid);
            }
            !process.gone
        });
    }
}

impl Process {
    /// Only an exit matters to the caller: other failures keep the old values, and the backend reports them once.
    fn read(&mut self, groups: GroupSet, backend: &mut dyn ProcessBackend) -> Result<(), ReadError> {
        let (slot, row) = (self.slot, &mut self.row);
        let mut end = Ok(());
        let mut note = |result: Result<(), ReadError>| {
            if result == Err(ReadError::Gone) {
                end = result;
            }
        };
        if groups.has(MetricGroup::Cpu) {
            note(backend.cpu(slot, row));
        }
        if groups.has(MetricGroup::Memory) {
            note(backend.memory(slot, row));
        }
        if groups.has(MetricGroup::Io) {
            note(backend.io(slot, row));
        }
        if groups.has(MetricGroup::Details) {
            note(backend.details(slot, row));
        }
        if groups.has(MetricGroup::Network) {
            note(backend.network(slot, row));
        }
        end
    }
}

fn process_row(now_ns: u64, facts: &ProcessFacts, event: Text, name: Text) -> ProcessRow {
    ProcessRow {
        timestamp_ns: now_ns,
        pid: u64::from(facts.pid),
        process_start: facts.start,
        event,
        name,
        parent_pid: facts.parent_pid.map(u64::from),
        os_session: facts.os_session,
        create_time_unix_ns: facts.create_time_unix_ns,
        exit_code: None,
        command_line: None,
    }
}
