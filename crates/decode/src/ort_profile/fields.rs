//! The values of one event. Both parsers fill them, and they create the event.

use super::event::{EventKind, MemoryStats, ProfileEvent};
use super::keys::{Key, Reads};

/// A part of an event's text, whose length is limited far below 4 GiB.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Span {
    start: u32,
    end: u32,
}

impl Span {
    #[inline]
    pub(super) fn new(start: usize, end: usize) -> Self {
        Self { start: start as u32, end: end as u32 }
    }

    #[inline]
    pub(super) fn of(self, text: &str) -> &str {
        text.get(self.start as usize..self.end as usize).unwrap_or("")
    }

    #[inline]
    pub(super) fn bytes_of(self, text: &[u8]) -> &[u8] {
        text.get(self.start as usize..self.end as usize).unwrap_or_default()
    }
}

/// A required value that an event lacks, as a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unusable(pub(super) &'static str);

const NO_NAME: Unusable = Unusable("an event has no name");
const NO_START: Unusable = Unusable("an event does not say when it started");
const NO_DURATION: Unusable = Unusable("an event does not say how long it took");

const SLOTS: usize = Key::ALL.len();

/// The values of one event, by key. Old values remain; `seen` marks the valid ones.
#[derive(Debug, Clone)]
pub(super) struct Fields {
    spans: [Span; SLOTS],
    /// Times are nanoseconds.
    numbers: [i64; SLOTS],
    /// One bit per key.
    seen: u64,
    pub(super) duplicate_keys: u32,
    pub(super) bad_numbers: u32,
    pub(super) unknown_keys: u32,
    pub(super) first_unknown_key: Span,
}

impl Default for Fields {
    fn default() -> Self {
        Self {
            spans: [Span::default(); SLOTS],
            numbers: [0; SLOTS],
            seen: 0,
            duplicate_keys: 0,
            bad_numbers: 0,
            unknown_keys: 0,
            first_unknown_key: Span::default(),
        }
    }
}

impl Fields {
    #[inline]
    pub(super) fn clear(&mut self) {
        self.seen = 0;
        self.duplicate_keys = 0;
        self.bad_numbers = 0;
        self.unknown_keys = 0;
    }

    /// The last of several values of a key wins, like in Python and browsers.
    #[inline]
    pub(super) fn set_text(&mut self, key: Key, value: Span) {
        self.see(key);
        self.spans[key as usize] = value;
    }

    /// `None` is an invalid number.
    #[inline]
    pub(super) fn set_number(&mut self, key: Key, value: Option<i64>) {
        self.see(key);
        match value {
            Some(value) => self.numbers[key as usize] = value,
            None => {
                self.bad_numbers += 1;
                self.seen &= !(1 << key as u32);
            }
        }
    }

    #[inline]
    fn see(&mut self, key: Key) {
        let bit = 1 << key as u32;
        self.duplicate_keys += u32::from(self.seen & bit != 0);
        self.seen |= bit;
    }

    #[cold]
    pub(super) fn pass(&mut self, key: Key, name: Span) {
        if key == Key::Unknown {
            if self.unknown_keys == 0 {
                self.first_unknown_key = name;
            }
            self.unknown_keys += 1;
        }
    }

    #[inline]
    fn has(&self, key: Key) -> bool {
        self.seen & (1 << key as u32) != 0
    }

    #[inline]
    fn text<'a>(&self, key: Key, text: &'a str) -> &'a str {
        debug_assert_eq!(key.reads(), Reads::Text);
        if self.has(key) { self.spans[key as usize].of(text) } else { "" }
    }

    #[inline]
    fn number(&self, key: Key) -> Option<i64> {
        self.has(key).then_some(self.numbers[key as usize])
    }

    #[inline]
    fn count(&self, key: Key) -> Option<u64> {
        self.number(key).and_then(|number| u64::try_from(number).ok())
    }

    /// The event, if it has all required values. `offset` is its offset in the file.
    #[inline]
    pub(super) fn event<'a>(&self, text: &'a str, offset: u64) -> Result<ProfileEvent<'a>, Unusable> {
        let category = self.text(Key::Category, text);
        let (kind, name) = EventKind::of(category, self.text(Key::Name, text));
        if !self.has(Key::Name) {
            return Err(NO_NAME);
        }
        let start_ns = self.number(Key::Start).ok_or(NO_START)?;
        // Marks and counters of other tools have no duration.
        let is_mark = kind == EventKind::Foreign && !matches!(self.text(Key::Phase, text), "X" | "");
        let duration_ns = match self.count(Key::Duration) {
            Some(duration_ns) => duration_ns,
            None if is_mark => 0,
            None => return Err(NO_DURATION),
        };
        let or = |first: Key, second: Key| self.text(if self.has(first) { first } else { second }, text);
        Ok(ProfileEvent {
            kind,
            category,
            name,
            process: self.number(Key::Process).unwrap_or(-1),
            thread: self.number(Key::Thread).unwrap_or(-1),
            start_ns,
            duration_ns,
            op_type: or(Key::OpType, Key::DeviceOpType),
            provider: or(Key::Provider, Key::Ep),
            node_index: self.count(Key::NodeIndex),
            output_bytes: self.count(Key::OutputBytes),
            activation_bytes: self.count(Key::ActivationBytes),
            parameter_bytes: self.count(Key::ParameterBytes),
            input_type_shape: self.text(Key::InputTypeShape, text),
            output_type_shape: self.text(Key::OutputTypeShape, text),
            thread_stats: self.text(Key::ThreadStats, text),
            memory: self.memory(),
            parent: self.text(Key::Parent, text),
            stream: self.count(Key::Stream),
            correlation: self.count(Key::Correlation),
            cache_key: self.text(Key::Program, text),
            dropped_events: self.count(Key::DroppedEvents),
            args: self.text(Key::Args, text),
            offset,
        })
    }

    #[inline]
    fn memory(&self) -> MemoryStats {
        MemoryStats {
            in_use_bytes: self.count(Key::InUse),
            requested_bytes: self.count(Key::Requested),
            peak_bytes: self.count(Key::Peak),
            arena_bytes: self.count(Key::Arena),
            in_use_delta_bytes: self.number(Key::InUseDelta),
            requested_delta_bytes: self.number(Key::RequestedDelta),
            arena_delta_bytes: self.number(Key::ArenaDelta),
        }
    }
}
