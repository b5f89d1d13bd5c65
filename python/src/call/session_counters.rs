//! The per-session state that changes with every inference, stored together and next to [`HOT`], which saves the
//! processor a page lookup.

use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use ortscope_channel::{Phase, PlainInference};
use ortscope_core::clock::now_ns;
use pyo3::prelude::*;

use super::hot::HOT;

/// Sessions with counters next to [`HOT`]; further ones are allocated separately.
pub const INLINE_SESSIONS: usize = 32;

/// The counters of further sessions, as many as ever existed at once: they are never freed, but reused.
static MORE: Mutex<Vec<&'static SessionCounters>> = Mutex::new(Vec::new());
/// No run began later.
const NEVER: u64 = u64::MAX;

/// The counters of one session. Written with the GIL held: plain loads and stores are enough.
#[derive(Debug)]
pub struct SessionCounters {
    next_sequence: AtomicU64,
    /// Since when these shapes are remembered.
    shapes_since_ns: AtomicU64,
    /// Of the shapes that are remembered.
    pub batch_size: AtomicU32,
    session: AtomicU16,
    is_taken: AtomicBool,
}

impl SessionCounters {
    pub const fn empty() -> Self {
        Self {
            next_sequence: AtomicU64::new(0),
            shapes_since_ns: AtomicU64::new(NEVER),
            batch_size: AtomicU32::new(0),
            session: AtomicU16::new(0),
            is_taken: AtomicBool::new(false),
        }
    }

    /// Counters for a session, reset: unused ones, or new ones.
    pub fn take(session: u16) -> &'static Self {
        // With the GIL held, the lock is always free.
        let mut more = MORE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = HOT.session_counters.iter().chain(more.iter().copied());
        let free = all.find(|counters| !counters.is_taken.load(Ordering::Relaxed));
        let counters = free.unwrap_or_else(|| {
            let made: &Self = Box::leak(Box::new(Self::empty()));
            more.push(made);
            made
        });
        counters.is_taken.store(true, Ordering::Relaxed);
        counters.next_sequence.store(0, Ordering::Relaxed);
        counters.shapes_since_ns.store(NEVER, Ordering::Relaxed);
        counters.batch_size.store(0, Ordering::Relaxed);
        counters.session.store(session, Ordering::Relaxed);
        counters
    }

    pub fn leave(&self) {
        self.is_taken.store(false, Ordering::Relaxed);
    }

    /// The number of the next inference, which is the caller's.
    #[inline]
    pub fn next(&self) -> u64 {
        // With the GIL held, the two steps are not interrupted.
        let sequence = self.next_sequence.load(Ordering::Relaxed);
        self.next_sequence.store(sequence + 1, Ordering::Relaxed);
        sequence
    }

    /// Inferences so far.
    pub fn inferences(&self) -> u64 {
        self.next_sequence.load(Ordering::Relaxed)
    }

    /// Whether the remembered shapes were valid when a run began. If they changed in the very same nanosecond the
    /// order is unknown, and the run's shapes are read.
    #[inline]
    pub fn has_shapes_since(&self, start_ns: u64) -> bool {
        self.shapes_since_ns.load(Ordering::Relaxed) < start_ns
    }

    /// Other shapes are remembered from now on. The caller has the GIL from before they are written to after this, so that
    /// every run has begun before or begins later.
    pub fn set_batch_size(&self, batch_size: u32) {
        self.shapes_since_ns.store(now_ns(), Ordering::Relaxed);
        self.batch_size.store(batch_size, Ordering::Relaxed);
    }

    /// Records a run with only its times and batch size.
    #[inline]
    pub fn record(
        &self,
        py: Python<'_>,
        sequence: u64,
        (start_ns, end_ns): (u64, u64),
        ok: bool,
        batch_size: u32,
    ) {
        let phase = if sequence == 0 { Phase::First } else { Phase::Steady };
        HOT.write_plain_inference(py, |stream| PlainInference {
            start_ns,
            run_ns: end_ns.saturating_sub(start_ns),
            sequence,
            batch_size,
            stream,
            session: self.session.load(Ordering::Relaxed),
            phase,
            ok,
        });
    }
}
