//! Names, parents and threads of processes and the number of lost records, collected from rows.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Instant;

use ortscope_core::batch::Batch;
use ortscope_core::identity::ProcessIdentity;
use ortscope_core::pipeline::{FlushError, Sink, SinkError};
use ortscope_core::schema::{LossRow, ProcessRow, TableId, Text, ThreadSampleRow};

use crate::facts::{ProcessFacts, ThreadFacts};

/// Threads whose last samples are kept; further ones are not shown.
const MAX_THREADS: usize = 100_000;
/// Running processes that are kept; further ones are shown without name and parent.
const MAX_FACTS: usize = 50_000;

#[derive(Debug, Clone)]
struct Fact {
    name: Text,
    parent_pid: Option<u32>,
    command_line: Option<Text>,
}

/// The last sample of a thread, with the share of a core since the sample before.
#[derive(Debug, Clone, Default)]
struct LastThread {
    at_ns: u64,
    name: Option<Text>,
    cpu_time_ns: u64,
    cpu_percent: Option<f64>,
    state: Option<Text>,
}

/// The threads of a process at its newest sample; threads of the sample before that were not sampled yet are kept.
#[derive(Debug, Default)]
struct Look {
    at_ns: u64,
    threads: HashMap<u32, LastThread>,
}

#[derive(Debug, Default)]
struct Known {
    processes: HashMap<ProcessIdentity, Fact>,
    threads: HashMap<ProcessIdentity, Look>,
    thread_count: usize,
    lost: u64,
}

impl Known {
    fn process(&mut self, row: ProcessRow) {
        let Ok(pid) = u32::try_from(row.pid) else { return };
        let process = ProcessIdentity { pid, start: row.process_start };
        if &*row.event == "exited" {
            self.processes.remove(&process);
            self.thread_count -= self.threads.remove(&process).map_or(0, |look| look.threads.len());
        } else if self.processes.len() < MAX_FACTS || self.processes.contains_key(&process) {
            let parent_pid = row.parent_pid.and_then(|parent| u32::try_from(parent).ok());
            let fact = Fact { name: row.name, parent_pid, command_line: row.command_line };
            self.processes.insert(process, fact);
        }
    }

    fn thread(&mut self, row: ThreadSampleRow) {
        let (Ok(pid), Ok(tid)) = (u32::try_from(row.pid), u32::try_from(row.tid)) else { return };
        let process = ProcessIdentity { pid, start: row.process_start };
        // The process has ended meanwhile.
        if !self.processes.contains_key(&process) {
            return;
        }
        let look = self.threads.entry(process).or_default();
        if row.timestamp_ns > look.at_ns {
            // Threads without a row in the sample before have ended.
            let (before, seen) = (look.at_ns, look.threads.len());
            look.threads.retain(|_, thread| thread.at_ns >= before);
            look.at_ns = row.timestamp_ns;
            self.thread_count -= seen - look.threads.len();
        }
        let threads = &mut look.threads;
        let before = threads.get(&tid);
        if before.is_none() {
            if self.thread_count >= MAX_THREADS {
                return;
            }
            self.thread_count += 1;
        }
        let cpu_percent = before.and_then(|before| {
            let (passed, used) = (
                row.timestamp_ns.checked_sub(before.at_ns).filter(|passed| *passed > 0)?,
                row.cpu_time_ns.checked_sub(before.cpu_time_ns)?,
            );
            Some(used as f64 / passed as f64 * 100.0)
        });
        threads.insert(
            tid,
            LastThread {
                at_ns: row.timestamp_ns,
                name: row.name,
                cpu_time_ns: row.cpu_time_ns,
                cpu_percent,
                state: row.state,
            },
        );
    }

    /// Returns the threads in the newest sample of the process, busiest first. Threads of earlier samples have ended.
    fn threads_of(&self, process: ProcessIdentity) -> Vec<ThreadFacts> {
        let Some(look) = self.threads.get(&process) else { return Vec::new() };
        let mut shown: Vec<ThreadFacts> = look
            .threads
            .iter()
            .filter(|(_, thread)| thread.at_ns == look.at_ns)
            .map(|(tid, thread)| ThreadFacts {
                tid: *tid,
                name: thread.name.clone(),
                cpu_percent: thread.cpu_percent,
                state: thread.state.clone(),
            })
            .collect();
        shown.sort_by(|a, b| {
            b.cpu_percent.unwrap_or(0.0).total_cmp(&a.cpu_percent.unwrap_or(0.0)).then(a.tid.cmp(&b.tid))
        });
        shown
    }
}

/// A sink that remembers facts about processes. Clones share their state.
#[derive(Debug, Clone, Default)]
pub struct KnownProcesses(Arc<RwLock<Known>>);

impl KnownProcesses {
    /// Records that sources and queues have lost since the start.
    pub fn lost(&self) -> u64 {
        self.known().lost
    }

    fn known(&self) -> RwLockReadGuard<'_, Known> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn get<T>(&self, process: ProcessIdentity, of: impl Fn(&Fact) -> Option<T>) -> Option<T> {
        self.known().processes.get(&process).and_then(of)
    }
}

impl ProcessFacts for KnownProcesses {
    fn name(&self, process: ProcessIdentity) -> Option<Text> {
        self.get(process, |fact| Some(Text::clone(&fact.name)))
    }

    fn parent_pid(&self, process: ProcessIdentity) -> Option<u32> {
        self.get(process, |fact| fact.parent_pid)
    }

    fn command_line(&self, process: ProcessIdentity) -> Option<Text> {
        self.get(process, |fact| fact.command_line.clone())
    }

    fn threads(&self, process: ProcessIdentity) -> Vec<ThreadFacts> {
        self.known().threads_of(process)
    }
}

impl Sink for KnownProcesses {
    fn name(&self) -> &str {
        "known processes"
    }

    fn consume(&mut self, batch: &Batch) -> Result<(), SinkError> {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        match batch.table() {
            TableId::Processes => batch.rows().for_each(|row| known.process(row)),
            TableId::ThreadSamples => batch.rows().for_each(|row| known.thread(row)),
            TableId::Losses => known.lost += batch.rows::<LossRow>().map(|row| row.count).sum::<u64>(),
            _ => {}
        }
        Ok(())
    }

    fn flush(&mut self, _deadline: Instant) -> Result<(), FlushError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_the_newest_sample_are_listed_busiest_first() {
        let mut known = Known::default();
        known.process(ProcessRow {
            pid: 7,
            process_start: 1,
            event: "started".into(),
            ..ProcessRow::default()
        });
        let mut look = |at_ns: u64, tid: u64, cpu_time_ns: u64| {
            known.thread(ThreadSampleRow {
                timestamp_ns: at_ns,
                pid: 7,
                process_start: 1,
                tid,
                cpu_time_ns,
                ..ThreadSampleRow::default()
            });
        };
        for (tid, used) in [(7, 0), (8, 0), (9, 0)] {
            look(1_000, tid, used);
        }
        look(2_000, 7, 100);
        look(2_000, 8, 900);
        let process = ProcessIdentity { pid: 7, start: 1 };
        let shown: Vec<_> = known.threads_of(process).iter().map(|of| (of.tid, of.cpu_percent)).collect();
        assert_eq!(shown, [(8, Some(90.0)), (7, Some(10.0))]);
        known.process(ProcessRow {
            pid: 7,
            process_start: 1,
            event: "exited".into(),
            ..ProcessRow::default()
        });
        assert_eq!((known.thread_count, known.threads_of(process).len()), (0, 0));
    }
}
