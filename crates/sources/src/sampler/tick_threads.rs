//! Decides which thread takes a tick. Normally there is one thread. But a hypervisor may stop a processor for up to 200
//! ms, with the threads that run or sleep there, while others continue. On such machines a backup thread on the other
//! half of the processors takes every tick that the first thread did not begin.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError, TryLockError};
use std::thread::{Builder, Scope};

use ortscope_core::pipeline::{Control, Emitter, SourceError};

use super::run::Run;
use crate::sys::Processors;

/// How often a paused sampler checks whether it may continue.
const PAUSE_NS: u64 = 50_000_000;
/// Slower ticks are not missed due to such stalls. Also the delay after which the first thread notices the backup
/// thread's results.
const SLOWEST_NS: u64 = 100_000_000;

/// Samples until the targets have exited or it is stopped.
pub(super) fn run_ticks(run: Run<'_>, out: &mut Emitter, control: &Control) -> Result<(), SourceError> {
    let threads = TickThreads {
        state: Mutex::new(State { run, out, was_paused: false, outcome: None }),
        backup_cpu_ns: AtomicU64::new(0),
        is_over: Mutex::new(false),
        over: Condvar::new(),
    };
    std::thread::scope(|scope| {
        threads.first(control, scope);
        // The backup thread may still be waiting if the first thread could not take the last tick.
        *threads.is_over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        threads.over.notify_all();
    });
    let state = threads.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    state.outcome.unwrap_or(Ok(()))
}

struct State<'r, 'o> {
    run: Run<'r>,
    out: &'o mut Emitter,
    was_paused: bool,
    /// `Some` when sampling has ended.
    outcome: Option<Result<(), SourceError>>,
}

struct TickThreads<'r, 'o> {
    state: Mutex<State<'r, 'o>>,
    backup_cpu_ns: AtomicU64,
    is_over: Mutex<bool>,
    over: Condvar,
}

impl<'r, 'o> TickThreads<'r, 'o> {
    fn first<'t>(&'t self, control: &'t Control, scope: &'t Scope<'t, '_>) {
        let mut kept = None;
        // A panic of the other thread is propagated from here when both have ended.
        while let Ok(mut state) = self.state.lock() {
            let Some(next_ns) = state.take_tick(control, self.backup_cpu_ns.load(Ordering::Relaxed)) else {
                return;
            };
            let needs_backup_thread = kept.is_none() && state.run.needs_backup_thread();
            drop(state);
            if needs_backup_thread {
                kept = self.start_backup(control, scope);
            }
            if !control.sleep_until(next_ns) {
                return;
            }
        }
    }

    /// `None` with a single processor, or if no thread can be started.
    fn start_backup<'t>(&'t self, control: &'t Control, scope: &'t Scope<'t, '_>) -> Option<RestoreAffinity> {
        let all = Processors::of_this_thread()?;
        let (ours, others) = all.halves()?;
        let thread = Builder::new().name("tick backup".into());
        thread.spawn_scoped(scope, move || self.run_backup(control, &others)).ok()?;
        ours.keep_this_thread();
        Some(RestoreAffinity { before: all })
    }

    fn run_backup(&self, control: &Control, processors: &Processors) {
        processors.keep_this_thread();
        crate::sys::prefer_this_thread();
        let mut cpu_clock = crate::thread_cpu_clock();
        let mut check_ns = control.clock().now_ns();
        while self.wait_until(check_ns, control) {
            self.backup_cpu_ns.store(cpu_clock().unwrap_or(0), Ordering::Relaxed);
            check_ns = match self.state.try_lock() {
                Ok(mut state) => match state.take_late_tick(control) {
                    Some(next_ns) => next_ns,
                    None => return,
                },
                // The first thread is busy with the tick.
                Err(TryLockError::WouldBlock) => check_ns.saturating_add(SLOWEST_NS / 100),
                Err(TryLockError::Poisoned(_)) => return,
            };
        }
    }

    /// Waits until the deadline; returns false as soon as sampling has ended.
    fn wait_until(&self, deadline_ns: u64, control: &Control) -> bool {
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
    /// Takes the tick if it is due. Returns the time of the next check; `None` at the end.
    fn take_tick(&mut self, control: &Control, backup_cpu_ns: u64) -> Option<u64> {
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
        self.run.apply_requested_rate(now_ns, control.rate_hertz());
        if now_ns >= self.run.next_ns() {
            self.tick(now_ns, Some(backup_cpu_ns));
        }
        self.outcome.is_none().then(|| self.run.next_ns())
    }

    /// The same for the backup thread: takes only late ticks and makes no decisions.
    fn take_late_tick(&mut self, control: &Control) -> Option<u64> {
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

    fn tick(&mut self, now_ns: u64, backup_cpu_ns: Option<u64>) {
        self.outcome = match self.run.tick(now_ns, backup_cpu_ns, self.out) {
            Ok(()) => self.run.is_finished().then_some(Ok(())),
            Err(error) => Some(Err(error)),
        };
    }
}

/// Restores the affinity of a source's thread, which may belong to the caller.
struct RestoreAffinity {
    before: Processors,
}

impl Drop for RestoreAffinity {
    fn drop(&mut self) {
        self.before.keep_this_thread();
    }
}
