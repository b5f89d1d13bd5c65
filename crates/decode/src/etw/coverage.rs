//! Counts which events were used, and why others were not: nothing is dropped uncounted.

use std::collections::HashMap;

use ortscope_etl::payload::PayloadError;
use ortscope_etl::{Classic, EventRecord, Guid, Identity};

/// Limit for distinct kinds of unused events; further ones are counted together.
const MAX_KINDS: usize = 1 << 14;

/// A kind of event according to its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EventKind {
    Kernel {
        hook: u16,
        version: u16,
    },
    Classic {
        class: Guid,
        kind: u8,
        version: u16,
    },
    /// All TraceLogging events have id 0.
    Event {
        provider: Guid,
        id: u16,
        version: u8,
    },
    /// WPP messages: their texts are not in the trace.
    Message,
    Error,
}

impl EventKind {
    pub fn of(record: &EventRecord<'_>) -> Self {
        match record.identity {
            Identity::Kernel { hook, version } => Self::Kernel { hook: hook.0, version },
            Identity::Classic(Classic { class, kind, version, .. }) => Self::Classic { class, kind, version },
            Identity::Event { provider, descriptor } => {
                Self::Event { provider, id: descriptor.id, version: descriptor.version }
            }
            Identity::Message(_) => Self::Message,
            Identity::Error => Self::Error,
        }
    }
}

/// Why an event was not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Unused {
    /// Its contents are not needed; its layout may be known.
    NotNeeded,
    NoLayout,
    UnknownVersion,
    /// Its payload ends before a field that is needed.
    TooShort,
    /// It refers to something whose beginning was not recorded.
    NoContext,
}

impl Unused {
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotNeeded => "not needed",
            Self::NoLayout => "no layout is known",
            Self::UnknownVersion => "the version is not known",
            Self::TooShort => "the payload is too short",
            Self::NoContext => "its context was not recorded",
        }
    }
}

impl From<PayloadError> for Unused {
    fn from(error: PayloadError) -> Self {
        match error {
            PayloadError::UnknownVersion { .. } => Self::UnknownVersion,
            PayloadError::TooShort { .. } => Self::TooShort,
            _ => Self::NoLayout,
        }
    }
}

/// Counts of all events of a trace.
#[derive(Debug, Clone, Default)]
pub struct Coverage {
    used: u64,
    unused: HashMap<(EventKind, Unused), u64>,
    others: u64,
}

impl Coverage {
    pub(super) fn count(&mut self, record: &EventRecord<'_>, outcome: Result<(), Unused>) {
        let Err(reason) = outcome else {
            self.used += 1;
            return;
        };
        let key = (EventKind::of(record), reason);
        let has_room = self.unused.len() < MAX_KINDS;
        match self.unused.get_mut(&key) {
            Some(count) => *count += 1,
            None if has_room => {
                self.unused.insert(key, 1);
            }
            None => self.others += 1,
        }
    }

    /// Events that gave a result or context for others.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Unused events by kind and reason, ordered by kind.
    pub fn unused(&self) -> Vec<(EventKind, Unused, u64)> {
        let mut list: Vec<_> =
            self.unused.iter().map(|((kind, reason), count)| (*kind, *reason, *count)).collect();
        list.sort_unstable();
        list
    }

    /// Unused events beyond the limit of distinct kinds.
    pub fn others(&self) -> u64 {
        self.others
    }

    pub fn total(&self) -> u64 {
        self.used + self.others + self.unused.values().sum::<u64>()
    }
}
