//! A queue bounded in bytes, between threads.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Which items are dropped when a queue is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overflow {
    /// The oldest waiting items: right for live views, which want the present.
    DropOldest,
    /// The item that does not fit: right for exporters, which want an unbroken past.
    DropNewest,
    /// Nothing: the producer waits. Only for producers that can.
    Wait,
}

/// Outcome of a push.
#[derive(Debug, PartialEq, Eq)]
pub enum PushOutcome<T> {
    Kept,
    /// These went instead.
    Dropped(Vec<T>),
    /// The queue is closed.
    Closed(T),
}

#[derive(Debug)]
struct State<T> {
    items: VecDeque<(usize, T)>,
    bytes: usize,
    closed: bool,
}

/// A FIFO that holds at most `capacity_bytes`, but always at least one item.
#[derive(Debug)]
pub struct ByteQueue<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
    capacity_bytes: usize,
}

impl<T> ByteQueue<T> {
    pub fn new(capacity_bytes: usize) -> Self {
        let state = State { items: VecDeque::new(), bytes: 0, closed: false };
        Self { state: Mutex::new(state), changed: Condvar::new(), capacity_bytes }
    }

    pub fn push(&self, item: T, bytes: usize, overflow: Overflow) -> PushOutcome<T> {
        let mut state = self.lock();
        let mut dropped = Vec::new();
        loop {
            if state.closed {
                return PushOutcome::Closed(item);
            }
            if state.items.is_empty() || state.bytes + bytes <= self.capacity_bytes {
                break;
            }
            match overflow {
                Overflow::DropNewest => return PushOutcome::Dropped(vec![item]),
                Overflow::DropOldest => {
                    if let Some((freed, old)) = state.items.pop_front() {
                        state.bytes -= freed;
                        dropped.push(old);
                    }
                }
                Overflow::Wait => {
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
        state.items.push_back((bytes, item));
        state.bytes += bytes;
        drop(state);
        self.changed.notify_all();
        if dropped.is_empty() { PushOutcome::Kept } else { PushOutcome::Dropped(dropped) }
    }

    /// Takes the next item, waiting up to `timeout`. `None` on time-out, or when closed and empty.
    pub fn pop(&self, timeout: Duration) -> Option<T> {
        let state = self.lock();
        let (mut state, _) = self
            .changed
            .wait_timeout_while(state, timeout, |state| state.items.is_empty() && !state.closed)
            .unwrap_or_else(PoisonError::into_inner);
        let (bytes, item) = state.items.pop_front()?;
        state.bytes -= bytes;
        drop(state);
        self.changed.notify_all();
        Some(item)
    }

    /// No more pushes; what waits can still be taken.
    pub fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    pub fn is_finished(&self) -> bool {
        let state = self.lock();
        state.closed && state.items.is_empty()
    }

    pub fn bytes(&self) -> usize {
        self.lock().bytes
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // A panic while the lock was held cannot leave the deque half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(1);

    #[test]
    fn drops_the_newest() {
        let queue = ByteQueue::new(10);
        assert_eq!(queue.push('a', 6, Overflow::DropNewest), PushOutcome::Kept);
        assert_eq!(queue.push('b', 6, Overflow::DropNewest), PushOutcome::Dropped(vec!['b']));
        assert_eq!(queue.pop(SOON), Some('a'));
        assert_eq!(queue.pop(SOON), None);
    }

    #[test]
    fn drops_only_as_many_old_items_as_needed() {
        let queue = ByteQueue::new(10);
        for item in ['a', 'b'] {
            queue.push(item, 5, Overflow::DropOldest);
        }
        assert_eq!(queue.push('c', 9, Overflow::DropOldest), PushOutcome::Dropped(vec!['a', 'b']));
        assert_eq!(queue.pop(SOON), Some('c'));
    }

    #[test]
    fn an_item_larger_than_the_queue_still_passes() {
        let queue = ByteQueue::new(10);
        assert_eq!(queue.push('a', 100, Overflow::Wait), PushOutcome::Kept);
        assert_eq!(queue.bytes(), 100);
    }

    #[test]
    fn waiting_producer_resumes_when_space_is_free() {
        let queue = ByteQueue::new(10);
        queue.push(1, 10, Overflow::Wait);
        std::thread::scope(|scope| {
            let producer = scope.spawn(|| queue.push(2, 10, Overflow::Wait));
            assert_eq!(queue.pop(Duration::from_secs(10)), Some(1));
            assert_eq!(queue.pop(Duration::from_secs(10)), Some(2));
            assert_eq!(producer.join().expect("producer"), PushOutcome::Kept);
        });
    }

    #[test]
    fn closing_wakes_the_consumer_and_keeps_queued_items() {
        let queue = ByteQueue::new(10);
        queue.push(1, 1, Overflow::Wait);
        queue.close();
        assert_eq!(queue.push(2, 1, Overflow::Wait), PushOutcome::Closed(2));
        assert!(!queue.is_finished());
        assert_eq!(queue.pop(Duration::from_secs(10)), Some(1));
        assert!(queue.is_finished());
    }
}
