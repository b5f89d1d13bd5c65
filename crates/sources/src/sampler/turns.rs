//! Who takes a tick. One thread does, unless processors of this machine stand still at times: a hypervisor that takes one
//! away stops whoever runs or sleeps there, for up to 200 ms, while the others go on. Then a second thread waits on the other
//! half of the processors, and takes each tick that the first did not begin.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError, TryLockError};
use std::thread::{Builder, Scope};

use ortscope_core::pipeline::{Control, Emitter, SourceError};

use super::run::Run;
use crate::sys::Processors;

/// How often a paused sampler looks whether it may go on.
const PAUSE_NS: u64 = 50_000_000;
/// Of slower ticks none is missed by such moments. It is also how late the first thread learns what the second one knows.
const SLOWEST_NS: u64 = 100_000_000;

/// Samples until the targets have ended or somebody says stop.
pub(super) fn take(run: Run<'_>, out: &mut Emitter, control: &Control) -> Result<(), SourceError> {
    let turns = Turns {
        state: Mutex::new(State { run, out, was_paused: false, outcome: None }),
        stand_in_cpu_ns: AtomicU64::new(0),
        is_over: Mutex::new(false),
        over: Condvar::new(),
    };
    std::thread::scope(|scope| {
        turns.first(control, scope);
        // Where the first thread could not take the last tick, the second one still waits.
        *turns.is_over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        turns.over.notify_all();
    });
    let state = turns.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    state.outcome.unwrap_or(Ok(()))
}

struct State<'r, 'o> {
    run: Run<'r>,
    out: &'o mut Emitter,
    was_paused: bool,
    /// `Some` when there is nothing more to do.
    outcome: Option<Result<(), SourceError>>,
}

struct Turns<'r, 'o> {
    state: Mutex<State<'r, 'o>>,
    stand_in_cpu_ns: AtomicU64,
    is_over: Mutex<bool>,
    over: Condvar,
}

impl<'r, 'o> Turns<'r, 'o> {
    fn first<'t>(&'t self, control: &'t Control, scope: &'t Scope<'t, '_>) {
        let mut kept = None;
        // A panic of the other thread goes on from here when both have ended.
        while let Ok(mut state) = self.state.lock() {
            let Some(next_ns) = state.turn(control, self.stand_in_cpu_ns.load(Ordering::Relaxed)) else {
                return;
            };
            let wants_stand_in = kept.is_none() && state.run.wants_stand_in();
            drop(state);
            if wants_stand_in {
                kept = self.start_stand_in(control, scope);
            }
            if !control.sleep_until(next_ns) {
                return;
            }
        }
    }

    /// `None` where there is one processor, or no thread to be had.
    fn start_stand_in<'t>(&'t self, control: &'t Control, scope: &'t Scope<'t, '_>) -> Option<Kept> {
        let all = Processors::of_this_thread()?;
        let (ours, others) = all.halves()?;
        let thread = Builder::new().name("tick stand-in".into());
        thread.spawn_scoped(scope, move || self.stand_in(control, &others)).ok()?;
        ours.keep_this_thread();
        Some(Kept { before: all })
    }

    fn stand_in(&self, control: &Control, processors: &Processors) {
        processors.keep_this_thread();
        crate::sys::prefer_this_thread();
        let mut cpu_clock = crate::thread_cpu_clock();
        let mut look_ns = control.clock().now_ns();
        while self.is_going_on_at(look_ns, control) {
            self.stand_in_cpu_ns.store(cpu_clock().unwrap_or(0), Ordering::Relaxed);
            look_ns = match self.state.try_lock() {
                Ok(mut state) => match state.late_turn(control) {
                    Some(next_ns) => next_ns,
                    None => return,
                },
                // The first one is at it.
                Err(TryLockError::WouldBlock) => look_ns.saturating_add(SLOWEST_NS / 100),
                Err(TryLockError::Poisoned(_)) => return,
            };
        }
    }

    /// Waits until then; `false` as soon as all is over.
    fn is_going_on_at(&self, deadline_ns: u64, control: &Control) -> bool {
        let mut is_over = self.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        while !*is_over {
            let wait = control.clock().real_wait(deadline_ns);
            if wait.is_zero() {
                return true;
            }
            is_over = self.over.wait_timeout(is_over, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
        false
    }
}

impl State<'_, '_> {
    /// Takes the tick if it is due. When to look again; `None` at the end.
    fn turn(&mut self, control: &Control, stand_in_cpu_ns: u64) -> Option<u64> {
        if self.outcome.is_some() {
            return None;
        }
        let now_ns = control.clock().now_ns();
        if control.is_paused() {
            self.was_paused = true;
            return Some(now_ns + PAUSE_NS);
        }
        if std::mem::take(&mut self.was_paused) {
            self.run.resume(now_ns);
        }
        self.run.obey(now_ns, control.rate_hertz());
        if now_ns >= self.run.next_ns() {
            self.tick(now_ns, Some(stand_in_cpu_ns));
        }
        self.outcome.is_none().then(|| self.run.next_ns())
    }

    /// The same for who stands in: only what is late, and nothing that the first one decides.
    fn late_turn(&mut self, control: &Control) -> Option<u64> {
        if self.outcome.is_some() {
            return None;
        }
        let now_ns = control.clock().now_ns();
        let patience = self.run.fastest_period_ns() / 4;
        if control.is_paused() || self.was_paused || patience > SLOWEST_NS / 4 {
            return Some(now_ns + PAUSE_NS);
        }
        if now_ns >= self.run.next_ns().saturating_add(patience) && !control.is_stopped() {
            self.tick(now_ns, None);
        }
        self.outcome.is_none().then(|| self.run.next_ns().saturating_add(patience))
    }

    fn tick(&mut self, now_ns: u64, stand_in_cpu_ns: Option<u64>) {
        self.outcome = match self.run.tick(now_ns, stand_in_cpu_ns, self.out) {
            Ok(()) => self.run.is_finished().then_some(Ok(())),
            Err(error) => Some(Err(error)),
        };
    }
}

/// The thread of a source may be somebody else's: it may run again where it might before.
struct Kept {
    before: Processors,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.before.keep_this_thread();
    }
}
