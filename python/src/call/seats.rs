//! What changes with every inference of a session, in one place for all sessions: beside each other, and beside [`HOT`], it
//! takes a page of memory less for the processor to find its way to.

use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use ortscope_channel::{Phase, PlainInference};
use ortscope_core::clock::now_ns;
use pyo3::prelude::*;

use super::hot::HOT;

/// Sessions that have a place beside [`HOT`]; those beyond have theirs anywhere.
pub const SEATS: usize = 32;

/// The seats of those beyond, as many as there ever were at once: a seat is never freed, but taken again.
static MORE: Mutex<Vec<&'static Seat>> = Mutex::new(Vec::new());
/// No run began later.
const NEVER: u64 = u64::MAX;

/// The counters of one session. Written with the GIL held: plain loads and stores are enough.
#[derive(Debug)]
pub struct Seat {
    next_sequence: AtomicU64,
    /// Since when these shapes are remembered.
    shapes_since_ns: AtomicU64,
    /// Of the shapes that are remembered.
    pub batch_size: AtomicU32,
    session: AtomicU16,
    is_taken: AtomicBool,
}

impl Seat {
    pub const fn empty() -> Self {
        Self {
            next_sequence: AtomicU64::new(0),
            shapes_since_ns: AtomicU64::new(NEVER),
            batch_size: AtomicU32::new(0),
            session: AtomicU16::new(0),
            is_taken: AtomicBool::new(false),
        }
    }

    /// A seat for a session, with all counters at their start: one that is nobody's, or a new one.
    pub fn take(session: u16) -> &'static Self {
        // With the GIL held nobody comes between: the lock is always free.
        let mut more = MORE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = HOT.seats.iter().chain(more.iter().copied());
        let free = all.find(|seat| !seat.is_taken.load(Ordering::Relaxed));
        let seat = free.unwrap_or_else(|| {
            let made: &Self = Box::leak(Box::new(Self::empty()));
            more.push(made);
            made
        });
        seat.is_taken.store(true, Ordering::Relaxed);
        seat.next_sequence.store(0, Ordering::Relaxed);
        seat.shapes_since_ns.store(NEVER, Ordering::Relaxed);
        seat.batch_size.store(0, Ordering::Relaxed);
        seat.session.store(session, Ordering::Relaxed);
        seat
    }

    pub fn leave(&self) {
        self.is_taken.store(false, Ordering::Relaxed);
    }

    /// The number of the next inference, which is the caller's.
    #[inline]
    pub fn next(&self) -> u64 {
        // With the GIL held nobody comes between the two.
        let sequence = self.next_sequence.load(Ordering::Relaxed);
        self.next_sequence.store(sequence + 1, Ordering::Relaxed);
        sequence
    }

    /// Inferences so far.
    pub fn inferences(&self) -> u64 {
        self.next_sequence.load(Ordering::Relaxed)
    }

    /// Whether the shapes that are remembered now were remembered when a run began. In the very nanosecond in which they
    /// were changed nobody can tell which came first, and the run is asked for its shapes.
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

    /// Records a run about which there is nothing more to tell than its times and the batch's size.
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
