//! Assigns stacks to events while a trace is read in chronological order, with bounded memory.
//!
//! A stack record refers to its event by the exact timestamp and follows it, sometimes by milliseconds: a user stack is
//! captured when the thread leaves the kernel. Newer systems write a key instead of the addresses; its definition comes
//! even later, and keys are reused, so a key refers to the first definition at or after its use.

use std::collections::{HashMap, VecDeque};

use crate::payload::kernel::{KernelBody, KernelPayload};
use crate::payload::{Array, Cursor};
use crate::{EventRecord, ExtendedItem, Hook, Identity, PointerSize};

/// Events whose stacks may still follow.
const DEFAULT_WINDOW: usize = 1 << 17;
/// Limit for uses of keys without a definition.
const DEFAULT_PENDING: usize = 1 << 18;

const STACK_GROUP: u8 = 0x18;
/// Limit for inspected events of one timestamp: a file may claim that all events happened at once.
const SAME_TIME: usize = 1024;

/// The event that a stack belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StackOwner {
    pub ticks: u64,
    pub processor: u16,
    /// The caller's value for the event.
    pub token: u64,
}

/// Which part of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StackPart {
    /// Kernel, user or both, depending on the addresses.
    Whole,
    Kernel,
    User,
    /// In the event itself. Parts with the same nonzero number belong to one stack.
    InEvent {
        match_id: u64,
    },
}

/// A stack, or a part of one, of one event.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stack<'a> {
    pub owner: StackOwner,
    pub process_id: Option<u32>,
    pub thread_id: Option<u32>,
    pub part: StackPart,
    addresses: Array<'a>,
}

impl<'a> Stack<'a> {
    /// From the innermost frame outwards.
    pub fn addresses(&self) -> impl Iterator<Item = u64> + use<'a> {
        self.addresses.iter().filter_map(|value| value.as_u64())
    }

    pub fn len(&self) -> usize {
        self.addresses.len()
    }

    pub fn is_empty(&self) -> bool {
        self.addresses.is_empty()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StackCounts {
    /// Stack records of all kinds that refer to an event: complete stacks, keys, and stacks in events.
    pub records: u64,
    /// Parts passed to the caller.
    pub attached: u64,
    /// Uses of keys among the records.
    pub keys: u64,
    pub definitions: u64,
    /// Definitions without a pending use.
    pub unused_definitions: u64,
    /// Stacks without their event: it was lost, or is too far back.
    pub without_owner: u64,
    /// Stacks whose event ran on another processor.
    pub on_other_processor: u64,
    /// Keys dropped because too many were waiting for their definition.
    pub keys_dropped: u64,
    /// Keys that are waiting for their definition.
    pub keys_waiting: u64,
}

/// Matches stacks with events. It must receive every record in chronological order.
#[derive(Debug)]
pub struct StackMatcher {
    recent: VecDeque<StackOwner>,
    window: usize,
    waiting: HashMap<u64, Vec<Waiting>>,
    max_waiting: u64,
    counts: StackCounts,
}

#[derive(Debug, Clone, Copy)]
struct Waiting {
    owner: StackOwner,
    process_id: Option<u32>,
    thread_id: Option<u32>,
    part: StackPart,
}

impl Default for StackMatcher {
    fn default() -> Self {
        Self::new(DEFAULT_WINDOW, DEFAULT_PENDING)
    }
}

impl StackMatcher {
    /// Remembers the last `window` events, and at most `max_waiting` uses of keys.
    pub fn new(window: usize, max_waiting: usize) -> Self {
        Self {
            recent: VecDeque::new(),
            window: window.max(1),
            waiting: HashMap::new(),
            max_waiting: max_waiting as u64,
            counts: StackCounts::default(),
        }
    }

    pub fn counts(&self) -> StackCounts {
        self.counts
    }

    /// Takes one record. `token` is returned with the stacks of this event; `each` receives the stacks that it
    /// completes.
    pub fn push(&mut self, record: &EventRecord<'_>, token: u64, mut each: impl FnMut(&Stack<'_>)) {
        if let Identity::Kernel { hook, .. } = record.identity
            && hook.group() == STACK_GROUP
        {
            return self.stack_record(record, hook, each);
        }
        let owner = StackOwner { ticks: record.ticks, processor: record.processor, token };
        if self.recent.len() == self.window {
            self.recent.pop_front();
        }
        self.recent.push_back(owner);
        if !record.extended_bytes.is_empty() {
            self.extended(record, owner, &mut each);
        }
    }

    fn stack_record(&mut self, record: &EventRecord<'_>, hook: Hook, mut each: impl FnMut(&Stack<'_>)) {
        let Ok(payload) = KernelPayload::decode(record) else { return };
        match payload.body {
            KernelBody::StackWalk(stack) => {
                self.counts.records += 1;
                let Some(owner) = self.owner(stack.event_ticks, record.processor) else { return };
                self.counts.attached += 1;
                each(&Stack {
                    owner,
                    process_id: Some(stack.process_id),
                    thread_id: Some(stack.thread_id),
                    part: StackPart::Whole,
                    addresses: stack.addresses.0,
                });
            }
            KernelBody::StackKey(key) => {
                self.counts.records += 1;
                let Some(owner) = self.owner(key.event_ticks, record.processor) else { return };
                let part = if hook.kind() == 0x25 { StackPart::Kernel } else { StackPart::User };
                let (process_id, thread_id) = (Some(key.process_id), Some(key.thread_id));
                self.wait(key.key.0, Waiting { owner, process_id, thread_id, part });
            }
            KernelBody::StackDefinition(definition) => {
                self.counts.definitions += 1;
                let Some(uses) = self.waiting.remove(&definition.key.0) else {
                    self.counts.unused_definitions += 1;
                    return;
                };
                self.counts.keys_waiting -= uses.len() as u64;
                self.counts.attached += uses.len() as u64;
                for Waiting { owner, process_id, thread_id, part } in uses {
                    let addresses = definition.addresses.0;
                    each(&Stack { owner, process_id, thread_id, part, addresses });
                }
            }
            _ => {}
        }
    }

    fn extended(&mut self, record: &EventRecord<'_>, owner: StackOwner, each: &mut impl FnMut(&Stack<'_>)) {
        for item in record.extended() {
            let pointer_size = match item.kind {
                ExtendedItem::STACK_32 | ExtendedItem::STACK_KEY_32 => PointerSize::Four,
                ExtendedItem::STACK_64 | ExtendedItem::STACK_KEY_64 => PointerSize::Eight,
                _ => continue,
            };
            let mut cursor = Cursor::new(item.data, pointer_size, 0);
            let Ok(match_id) = cursor.u64() else { continue };
            let (process_id, thread_id) = (record.process_id, record.thread_id);
            let part = StackPart::InEvent { match_id };
            self.counts.records += 1;
            if matches!(item.kind, ExtendedItem::STACK_KEY_32 | ExtendedItem::STACK_KEY_64) {
                match cursor.pointer() {
                    Ok(key) => self.wait(key, Waiting { owner, process_id, thread_id, part }),
                    Err(_) => self.counts.without_owner += 1,
                }
            } else {
                self.counts.attached += 1;
                let addresses = Array::of_pointers(cursor.rest(), pointer_size);
                each(&Stack { owner, process_id, thread_id, part, addresses });
            }
        }
    }

    fn wait(&mut self, key: u64, waiting: Waiting) {
        self.counts.keys += 1;
        if self.counts.keys_waiting >= self.max_waiting {
            self.counts.keys_dropped += 1;
            return;
        }
        self.counts.keys_waiting += 1;
        self.waiting.entry(key).or_default().push(waiting);
    }

    /// The event with this time stamp, on this processor if there is one.
    fn owner(&mut self, ticks: u64, processor: u16) -> Option<StackOwner> {
        let first = self.recent.partition_point(|event| event.ticks < ticks);
        let same_time =
            || self.recent.range(first..).take(SAME_TIME).take_while(|event| event.ticks == ticks);
        let found =
            same_time().find(|event| event.processor == processor).or_else(|| same_time().next()).copied();
        match found {
            None => self.counts.without_owner += 1,
            Some(owner) => self.counts.on_other_processor += u64::from(owner.processor != processor),
        }
        found
    }
}
