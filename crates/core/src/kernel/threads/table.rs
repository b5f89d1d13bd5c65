//! Threads by key and by id. Slots are reused with a new generation.

use super::thread::{Thread, ThreadKey};
use crate::kernel::{ById, Task};

#[derive(Debug, Clone, Default)]
pub struct Table {
    slots: Vec<Option<Thread>>,
    free: Vec<u32>,
    by_tid: ById<u32>,
    lives: u32,
}

impl Table {
    /// Every thread that is kept.
    pub fn iter(&self) -> impl Iterator<Item = &Thread> {
        self.slots.iter().flatten()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Thread> {
        self.slots.iter_mut().flatten()
    }

    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub fn get(&self, key: ThreadKey) -> Option<&Thread> {
        self.slots.get(key.slot as usize)?.as_ref().filter(|thread| thread.key == key)
    }

    pub fn get_mut(&mut self, key: ThreadKey) -> Option<&mut Thread> {
        self.slots.get_mut(key.slot as usize)?.as_mut().filter(|thread| thread.key == key)
    }

    /// Slot of the current thread with this id.
    pub fn slot(&self, tid: u32) -> Option<u32> {
        self.by_tid.get(&tid).copied()
    }

    pub fn at_mut(&mut self, slot: u32) -> Option<&mut Thread> {
        self.slots.get_mut(slot as usize)?.as_mut()
    }

    /// The current thread with this id.
    pub fn current(&self, tid: u32) -> Option<&Thread> {
        self.slots.get(self.slot(tid)? as usize)?.as_ref()
    }

    pub fn current_mut(&mut self, tid: u32) -> Option<&mut Thread> {
        self.at_mut(self.slot(tid)?)
    }

    /// Adds a new thread with this id.
    pub fn insert(&mut self, task: Task) -> &mut Thread {
        self.lives = self.lives.wrapping_add(1);
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            (self.slots.len() - 1) as u32
        });
        self.by_tid.insert(task.tid, slot);
        self.slots[slot as usize].insert(Thread::new(ThreadKey { slot, life: self.lives }, task))
    }

    /// Detaches the id; the thread itself is kept.
    pub fn release_tid(&mut self, tid: u32) {
        self.by_tid.remove(&tid);
    }

    /// A thread continues under another id.
    pub fn rename(&mut self, from_tid: u32, to_tid: u32) {
        if let Some(slot) = self.by_tid.remove(&from_tid) {
            self.by_tid.insert(to_tid, slot);
            if let Some(thread) = self.slots[slot as usize].as_mut() {
                thread.thread.tid = to_tid;
            }
        }
    }

    /// Forgets a thread.
    pub fn remove(&mut self, key: ThreadKey) -> Option<Thread> {
        self.get(key)?;
        let thread = self.slots[key.slot as usize].take()?;
        if self.by_tid.get(&thread.thread.tid) == Some(&key.slot) {
            self.by_tid.remove(&thread.thread.tid);
        }
        self.free.push(key.slot);
        Some(thread)
    }
}
