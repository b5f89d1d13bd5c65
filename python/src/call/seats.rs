//! What changes with every inference of a session, in one place for all sessions: beside each other, and beside [`HOT`], it
//! takes a page of memory less for the processor to find its way to.

use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering};

use ortscope_channel::{Phase, PlainInference};
use pyo3::prelude::*;

use super::hot::HOT;

/// Sessions that have a place here; those beyond have theirs anywhere.
pub const SEATS: usize = 32;

/// The counters of one session. Written with the GIL held: plain loads and stores are enough.
#[derive(Debug)]
pub struct Seat {
    next_sequence: AtomicU64,
    /// Of the shapes that are remembered.
    pub batch_size: AtomicU32,
    /// Another one for every set of shapes that is remembered.
    generation: AtomicU32,
    session: AtomicU16,
    is_taken: AtomicBool,
}

impl Seat {
    pub const fn empty() -> Self {
        Self {
            next_sequence: AtomicU64::new(0),
            batch_size: AtomicU32::new(0),
            generation: AtomicU32::new(0),
            session: AtomicU16::new(0),
            is_taken: AtomicBool::new(false),
        }
    }

    /// A seat for a session, with all counters at their start. One that is nobody's is found, or made and never freed: it is
    /// a few bytes, and used again by the next session.
    pub fn take(session: u16) -> &'static Self {
        let free = HOT.seats.iter().find(|seat| !seat.is_taken.load(Ordering::Relaxed));
        let seat = free.unwrap_or_else(|| Box::leak(Box::new(Self::empty())));
        seat.is_taken.store(true, Ordering::Relaxed);
        seat.next_sequence.store(0, Ordering::Relaxed);
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

    #[inline]
    pub fn generation(&self) -> u32 {
        self.generation.load(Ordering::Relaxed)
    }

    /// Other shapes are remembered from now on.
    pub fn set_batch_size(&self, batch_size: u32) {
        self.generation.store(self.generation().wrapping_add(1), Ordering::Relaxed);
        self.batch_size.store(batch_size, Ordering::Relaxed);
    }

    /// Records a run about which there is nothing more to tell than its times and the batch's size.
    #[inline]
    pub fn record(
        &self,
        py: Python<'_>,
        sequence: u64,
        (start_nanos, end_nanos): (u64, u64),
        ok: bool,
        batch_size: u32,
    ) {
        let phase = if sequence == 0 { Phase::First } else { Phase::Steady };
        HOT.write_plain_inference(py, |stream| PlainInference {
            start_nanos,
            run_nanos: end_nanos.saturating_sub(start_nanos),
            sequence,
            batch_size,
            stream,
            session: self.session.load(Ordering::Relaxed),
            phase,
            ok,
        });
    }
}
