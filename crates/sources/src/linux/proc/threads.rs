//! The threads of one process: a kept `schedstat` for each, and `stat` only for those that ran.

use std::os::fd::AsFd;

use ortscope_core::schema::Text;
use ortscope_decode::procfs;

use super::files::{self, Kept, Path, read_error};
use super::process::{Context, Process};
use crate::sampler::{ReadError, ThreadReading, ThreadState};

/// Interval for listing threads; they are also listed when their number changed or one has exited.
const LIST_NS: u64 = 1_000_000_000;
/// Interval for reading the state of a thread that does not run.
const STATE_NS: u64 = 1_000_000_000;

#[derive(Debug)]
struct Thread {
    tid: u32,
    schedstat: Option<Kept>,
    name: Text,
    run_ns: u64,
    time_slices: Option<u64>,
    state: ThreadState,
    processor: Option<u64>,
    priority: Option<i64>,
    read_ns: Option<u64>,
    gone: bool,
}

#[derive(Debug, Default)]
pub(super) struct Threads {
    /// Sorted by id.
    list: Vec<Thread>,
    listed_ns: Option<u64>,
    stale: bool,
    /// Switches of exited threads.
    past_switches: u64,
    tids: Vec<u32>,
}

impl Threads {
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Reads every thread.
    pub fn update(
        &mut self,
        process: &Process,
        expected: Option<u64>,
        context: &mut Context<'_>,
    ) -> Result<(), ReadError> {
        let old = self.listed_ns.is_none_or(|at| context.now_ns.saturating_sub(at) >= LIST_NS);
        if old || self.stale || expected.is_some_and(|count| count != self.list.len() as u64) {
            self.list_again(process, context)?;
        }
        for thread in &mut self.list {
            // A thread that exited after it was listed keeps its last values until the next list.
            thread.gone = thread.read(process, context) == Err(ReadError::Gone);
            self.stale |= thread.gone;
        }
        Ok(())
    }

    fn list_again(&mut self, process: &Process, context: &mut Context<'_>) -> Result<(), ReadError> {
        let directory = process.open_directory(c"task").map_err(read_error)?;
        self.tids.clear();
        let tids = &mut self.tids;
        files::each_number(directory.as_fd(), context.scratch, |tid| tids.push(tid)).map_err(read_error)?;
        tids.sort_unstable();
        let past = &mut self.past_switches;
        self.list.retain(|thread| {
            let stays = !thread.gone && tids.binary_search(&thread.tid).is_ok();
            if !stays {
                *past += thread.time_slices.unwrap_or(0);
            }
            stays
        });
        let known = self.list.len();
        for tid in &self.tids {
            if self.list[..known].binary_search_by_key(tid, |thread| thread.tid).is_err() {
                let path = Path::new(format_args!("{tid}/schedstat"));
                let schedstat =
                    context.budget.has_budget().then(|| files::open(directory.as_fd(), path.as_c_str()).ok());
                let schedstat = schedstat.flatten().and_then(|file| context.budget.keep(file));
                self.list.push(Thread::new(*tid, schedstat));
            }
        }
        self.list.sort_unstable_by_key(|thread| thread.tid);
        self.listed_ns = Some(context.now_ns);
        self.stale = false;
        Ok(())
    }

    /// Context switches of all threads, including observed exited ones; `None` if this kernel does not count them.
    pub fn context_switches(&self) -> Option<u64> {
        let live = self.list.iter().map(|thread| thread.time_slices).sum::<Option<u64>>();
        live.filter(|_| !self.list.is_empty()).map(|live| live.saturating_add(self.past_switches))
    }

    pub fn count(&self, state: ThreadState) -> u64 {
        self.list.iter().filter(|thread| !thread.gone && thread.state == state).count() as u64
    }

    pub fn each(&self, emit: &mut dyn FnMut(&ThreadReading<'_>)) {
        for thread in self.list.iter().filter(|thread| !thread.gone) {
            emit(&ThreadReading {
                tid: thread.tid,
                name: Some(&thread.name),
                cpu_time_ns: thread.run_ns,
                cpu_cycles: None,
                context_switches: thread.time_slices,
                state: Some(thread.state),
                processor: thread.processor,
                priority: thread.priority,
            });
        }
    }
}

impl Thread {
    fn new(tid: u32, schedstat: Option<Kept>) -> Self {
        Self {
            tid,
            schedstat,
            name: Text::from(""),
            run_ns: 0,
            time_slices: None,
            state: ThreadState::Other,
            processor: None,
            priority: None,
            read_ns: None,
            gone: false,
        }
    }

    fn read(&mut self, process: &Process, context: &mut Context<'_>) -> Result<(), ReadError> {
        let path = Path::new(format_args!("task/{}/schedstat", self.tid));
        let bytes = process.read(self.schedstat.as_ref(), path.as_c_str(), context.buffer);
        let stat = match bytes {
            Ok(bytes) => procfs::parse_schedstat(bytes),
            // Either the kernel lacks this file or the thread has exited, which its stat will show.
            Err(_) => None,
        };
        let ran = stat.is_none_or(|stat| stat.run_ns != self.run_ns);
        if let Some(stat) = stat {
            self.run_ns = stat.run_ns;
            self.time_slices = Some(stat.time_slices);
        }
        let old = self.read_ns.is_none_or(|at| context.now_ns.saturating_sub(at) >= STATE_NS);
        if !(ran || old || self.state == ThreadState::Running) {
            return Ok(());
        }
        self.read_state(process, stat.is_none(), context)
    }

    fn read_state(
        &mut self,
        process: &Process,
        time_too: bool,
        context: &mut Context<'_>,
    ) -> Result<(), ReadError> {
        let path = Path::new(format_args!("task/{}/stat", self.tid));
        let bytes = process.read(None, path.as_c_str(), context.buffer)?;
        let stat = procfs::parse_stat(bytes)
            .ok_or_else(|| ReadError::Failed("stat has an unknown format".into()))?;
        self.state = match stat.state {
            // Linux does not expose which of the runnable threads has a processor.
            'R' => ThreadState::Running,
            'S' | 'D' | 'I' | 'K' | 'W' | 'P' => ThreadState::Waiting,
            'T' | 't' => ThreadState::Stopped,
            _ => ThreadState::Other,
        };
        self.processor = stat.processor;
        self.priority = Some(stat.priority);
        if time_too {
            let ticks = stat.user_ticks.saturating_add(stat.system_ticks);
            self.run_ns = ticks.saturating_mul(context.units.nanos_per_tick);
        }
        if self.name.as_bytes() != stat.name {
            let name = String::from_utf8_lossy(stat.name);
            if *self.name != *name {
                self.name = name.into();
            }
        }
        self.read_ns = Some(context.now_ns);
        Ok(())
    }
}
