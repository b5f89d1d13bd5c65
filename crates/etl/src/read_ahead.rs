//! Decompresses buffers ahead of an ordered walk on other threads.
//!
//! Helpers decompress buffers in the order of their sequence numbers, which is almost the order in which the walk needs
//! them. The walk never waits for a buffer that was not begun: it decompresses that one itself. Helpers therefore cannot
//! delay it, however wrong their guess.

use std::collections::VecDeque;
use std::num::NonZero;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::Storage;
use crate::cursor::{BufferCursor, Shared, Tally};
use crate::index::{Index, Lane};

/// Limit for pending buffers, and for those held by the walk itself.
const READY_BYTES: usize = 12 << 20;
const MAX_READY: usize = 64;
/// Smaller files are decompressed faster than threads are started.
const WORTH_IT: u64 = 16;
const MAX_HELPERS: usize = 4;

/// Number of helpers for an ordered walk over this file.
pub(crate) fn helpers_for(index: &Index) -> usize {
    let held_by_walk = index.lanes.len().saturating_mul(index.largest_buffer);
    if index.compressed_buffers < WORTH_IT || held_by_walk > READY_BYTES {
        return 0;
    }
    thread::available_parallelism().map_or(0, |cores| (NonZero::get(cores) - 1).min(MAX_HELPERS))
}

/// `None` if the buffer has nothing to read, and the counts so far.
type Loaded<'s> = (Option<BufferCursor<'s>>, Tally);

enum Slot<'s> {
    Working,
    Ready(Box<Loaded<'s>>),
    /// The walk tries again itself and encounters the reason.
    Failed,
}

struct LaneState<'s> {
    /// The first buffer that was not begun.
    next: usize,
    /// Earlier buffers that the walk has not taken.
    slots: VecDeque<Slot<'s>>,
    /// The buffer of the first slot.
    first: usize,
}

struct State<'s> {
    lanes: Vec<LaneState<'s>>,
    waiting: usize,
    stop: bool,
}

/// The buffers that helpers have decompressed or are decompressing.
pub(crate) struct ReadAhead<'s> {
    lanes: &'s [Lane],
    state: Mutex<State<'s>>,
    changed: Condvar,
    max_ready: usize,
}

impl<'s> ReadAhead<'s> {
    pub(crate) fn new(index: &'s Index) -> Self {
        let lanes =
            index.lanes.iter().map(|_| LaneState { next: 0, slots: VecDeque::new(), first: 0 }).collect();
        Self {
            lanes: &index.lanes,
            state: Mutex::new(State { lanes, waiting: 0, stop: false }),
            changed: Condvar::new(),
            max_ready: (READY_BYTES / index.largest_buffer.max(1)).clamp(1, MAX_READY),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<'s>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For the walk: a lane's buffer, if a helper has begun it. `None` makes the walk do it.
    pub(crate) fn take(&self, lane: usize, buffer: usize) -> Option<Loaded<'s>> {
        let mut state = self.lock();
        if state.lanes[lane].next <= buffer {
            let lane = &mut state.lanes[lane];
            lane.next = buffer + 1;
            lane.first = buffer + 1;
            return None;
        }
        while matches!(state.lanes[lane].slots.front(), Some(Slot::Working)) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let lane = &mut state.lanes[lane];
        lane.first = buffer + 1;
        let slot = lane.slots.pop_front();
        state.waiting -= 1;
        drop(state);
        self.changed.notify_all();
        match slot {
            Some(Slot::Ready(loaded)) => Some(*loaded),
            _ => None,
        }
    }

    /// The main loop of a helper.
    pub(crate) fn help<S: Storage>(&self, shared: Shared<'s, S>) {
        while let Some((lane, buffer, offset)) = self.begin() {
            // Even if this thread panics, the walk must not wait forever.
            let mut done = Done { ahead: self, lane, buffer, slot: Some(Slot::Failed) };
            let mut tally = Tally::default();
            let loaded =
                BufferCursor::open(shared, offset, 0, Vec::new(), &mut tally.losses).and_then(|cursor| {
                    cursor.map(|mut cursor| cursor.load(shared, &mut tally).map(|()| cursor)).transpose()
                });
            if let Ok(cursor) = loaded {
                done.slot = Some(Slot::Ready(Box::new((cursor, tally))));
            }
        }
    }

    pub(crate) fn stop(&self) {
        self.lock().stop = true;
        self.changed.notify_all();
    }

    /// Chooses the next buffer to decompress; waits while enough of them are pending.
    fn begin(&self) -> Option<(usize, usize, u64)> {
        let mut state = self.lock();
        loop {
            if state.stop {
                return None;
            }
            if state.waiting < self.max_ready {
                break;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let next = |(lane, progress): (usize, &LaneState<'_>)| {
            let (sequence, offset) = self.lanes[lane].buffer(progress.next)?;
            Some((sequence, lane, progress.next, offset))
        };
        let (_, lane, buffer, offset) = state.lanes.iter().enumerate().filter_map(next).min()?;
        state.lanes[lane].next += 1;
        state.lanes[lane].slots.push_back(Slot::Working);
        state.waiting += 1;
        Some((lane, buffer, offset))
    }
}

/// Stores a helper's result.
struct Done<'a, 's> {
    ahead: &'a ReadAhead<'s>,
    lane: usize,
    buffer: usize,
    slot: Option<Slot<'s>>,
}

impl Drop for Done<'_, '_> {
    fn drop(&mut self) {
        let mut state = self.ahead.lock();
        let lane = &mut state.lanes[self.lane];
        // The walk waits for a slot in progress, so the slot must still exist.
        if let Some(place) = lane.slots.get_mut(self.buffer.saturating_sub(lane.first))
            && let Some(slot) = self.slot.take()
        {
            *place = slot;
        }
        drop(state);
        self.ahead.changed.notify_all();
    }
}

/// Stops the helpers when the walk ends, even by a panic of its callback.
pub(crate) struct StopAtEnd<'a, 's>(pub(crate) &'a ReadAhead<'s>);

impl Drop for StopAtEnd<'_, '_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}
