//! The threads of one watched process: from the snapshot, and figures that are available only through their handles.

use ortscope_core::schema::Text;
use ortscope_decode::nt::{Count32, Process, RunState, Thread};

use super::handles::{ProcessHandle, ThreadHandle};
use crate::sampler::{ThreadReading, ThreadState};

#[derive(Debug)]
struct Known {
    tid: u32,
    create_time: u64,
    switches: Count32,
    /// Queried once, when thread rows are requested.
    is_queried: bool,
    handle: Option<ThreadHandle>,
    /// The name that the program set, or else the start address.
    name: Option<Text>,
    round: u64,
}

/// Observed threads, sorted by id.
#[derive(Debug, Default)]
pub(super) struct Threads {
    known: Vec<Known>,
    /// Context switches of exited threads.
    past_switches: u64,
    round: u64,
}

/// Number of threads by state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct StateCounts {
    pub active: u64,
    pub suspended: u64,
}

impl Threads {
    /// Updates the list from a snapshot.
    pub fn update(&mut self, process: &Process<'_>) {
        self.round += 1;
        let (round, seen) = (self.round, self.known.len());
        for thread in process.threads() {
            let Some(tid) = thread.id() else { continue };
            let found = self.known[..seen].binary_search_by_key(&tid, |known| known.tid);
            match found {
                Ok(at) if self.known[at].create_time == thread.create_time() => {
                    let known = &mut self.known[at];
                    known.round = round;
                    known.switches.read(thread.context_switches());
                }
                // A reused id is another thread; the old one is removed below.
                _ => self.known.push(Known::new(tid, &thread, round)),
            }
        }
        let past = &mut self.past_switches;
        self.known.retain(|known| {
            let stays = known.round == round;
            if !stays {
                *past = past.saturating_add(known.switches.value());
            }
            stays
        });
        self.known.sort_unstable_by_key(|known| known.tid);
    }

    /// Context switches of all threads, including observed exited ones.
    pub fn context_switches(&self) -> u64 {
        let live = self.known.iter().map(|known| known.switches.value());
        live.fold(self.past_switches, u64::saturating_add)
    }

    /// Emits every thread. Wine reports the same state and priority for all.
    pub fn emit_all(
        &mut self,
        process: &Process<'_>,
        handle: Option<&ProcessHandle>,
        is_wine: bool,
        emit: &mut dyn FnMut(&ThreadReading<'_>),
    ) -> StateCounts {
        let mut counts = StateCounts::default();
        for thread in process.threads() {
            let Some(tid) = thread.id() else { continue };
            let Ok(at) = self.known.binary_search_by_key(&tid, |known| known.tid) else { continue };
            let known = &mut self.known[at];
            known.ask_once(&thread, handle);
            let state = state_of(thread.state());
            counts.active += u64::from(matches!(state, ThreadState::Running | ThreadState::Ready));
            counts.suspended += u64::from(state == ThreadState::Stopped);
            let ticks = thread.kernel_ticks().saturating_add(thread.user_ticks());
            emit(&ThreadReading {
                tid,
                name: known.name.as_ref(),
                cpu_time_ns: ticks.saturating_mul(100),
                cpu_cycles: known.handle.as_ref().and_then(ThreadHandle::cycles),
                context_switches: Some(known.switches.value()).filter(|_| !is_wine),
                state: Some(state).filter(|_| !is_wine),
                processor: None,
                priority: Some(i64::from(thread.priority())).filter(|_| !is_wine),
            });
        }
        counts
    }
}

impl Known {
    fn new(tid: u32, thread: &Thread<'_>, round: u64) -> Self {
        let mut switches = Count32::default();
        switches.read(thread.context_switches());
        let create_time = thread.create_time();
        Self { tid, create_time, switches, is_queried: false, handle: None, name: None, round }
    }

    fn ask_once(&mut self, thread: &Thread<'_>, process: Option<&ProcessHandle>) {
        if std::mem::replace(&mut self.is_queried, true) {
            return;
        }
        self.handle = ThreadHandle::open(self.tid, self.create_time);
        let given = self.handle.as_ref().and_then(ThreadHandle::name);
        let began = || process?.place_of(thread.win32_start_address()?);
        self.name = given.or_else(began).map(Text::from);
    }
}

fn state_of(state: RunState) -> ThreadState {
    match state {
        RunState::Running => ThreadState::Running,
        RunState::Ready => ThreadState::Ready,
        RunState::Waiting => ThreadState::Waiting,
        RunState::Suspended => ThreadState::Stopped,
        RunState::Other => ThreadState::Other,
    }
}
