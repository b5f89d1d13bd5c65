//! The reader: bytes in pieces of any size in, events out.

mod event;

use super::event::ProfileEvent;
use super::fields::Fields;
use super::frame::Frame;
use super::keys::Key;
use super::outcome::ProfileOutcome;
use super::tally::{Ending, Tally};
use super::wrapper::{Step, Wrapper};
use super::{ProfileOptions, sniff};
use event::Progress;

/// How many bytes of a piece are appended at once to the rest of the previous one.
const JOINED_BYTES: usize = 16 << 10;
/// Search limit for the first key of an object that is either an event or the wrapper.
const FIRST_KEY_BYTES: usize = 64;
/// Position in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// At the first byte.
    Start,
    /// Before the first bracket.
    Top,
    /// In the object form, outside its list.
    Wrapper,
    /// Between the events, or at the start of one.
    List,
    /// Behind the list.
    After,
    /// The file is not a profile; the rest is ignored.
    Elsewhere,
}

/// State of the current list.
#[derive(Debug, Clone, Copy, Default)]
struct List {
    /// In square brackets, instead of one event per line.
    has_brackets: bool,
    has_events: bool,
    commas: u32,
    is_wrapped: bool,
}

/// Reads a profile piece by piece. It holds at most one event and little more than [`ProfileOptions::max_event_bytes`].
#[derive(Debug)]
pub struct ProfileReader {
    options: ProfileOptions,
    place: Place,
    list: List,
    wrapper: Wrapper,
    /// Set while searching for the end of an event.
    frame: Option<Frame>,
    /// Number of scanned bytes of that event.
    scanned: usize,
    /// The event is too large: its bytes are not buffered.
    is_skipping: bool,
    /// Offset of that event.
    skipped_offset: u64,
    /// The rest of the last piece.
    carry: Vec<u8>,
    scratch: String,
    fields: Fields,
    /// File offset of the current bytes.
    offset: u64,
    tally: Tally,
}

impl ProfileReader {
    pub fn new(options: ProfileOptions) -> Self {
        Self {
            options,
            place: Place::Start,
            list: List::default(),
            wrapper: Wrapper::default(),
            frame: None,
            scanned: 0,
            is_skipping: false,
            skipped_offset: 0,
            carry: Vec::new(),
            scratch: String::new(),
            fields: Fields::default(),
            offset: 0,
            tally: Tally::default(),
        }
    }

    /// Result so far.
    pub fn so_far(&self) -> &ProfileOutcome {
        &self.tally.outcome
    }

    /// Takes the next bytes of the file and emits the events that they complete.
    pub fn feed(&mut self, bytes: &[u8], out: &mut impl FnMut(ProfileEvent<'_>)) {
        self.tally.outcome.bytes += bytes.len() as u64;
        let mut rest = bytes;
        while !rest.is_empty() {
            if self.is_skipping {
                rest = self.skip(rest);
            } else if self.carry.is_empty() {
                let used = self.advance(rest, false, out);
                self.offset += used as u64;
                self.carry.extend_from_slice(rest.get(used..).unwrap_or_default());
                return;
            } else {
                rest = self.join(rest, out);
            }
        }
    }

    /// Completes the rest of the last piece; returns the bytes that were not needed.
    fn join<'a>(&mut self, rest: &'a [u8], out: &mut impl FnMut(ProfileEvent<'_>)) -> &'a [u8] {
        let (joined, later) = rest.split_at(rest.len().min(JOINED_BYTES));
        let mut carry = std::mem::take(&mut self.carry);
        let before = carry.len();
        carry.extend_from_slice(joined);
        let used = self.advance(&carry, false, out);
        self.offset += used as u64;
        let rest = if used >= before && !self.is_skipping {
            // The rest can be parsed in place.
            self.frame = None;
            self.scanned = 0;
            carry.clear();
            carry.shrink_to(JOINED_BYTES);
            rest.get(used - before..).unwrap_or_default()
        } else {
            carry.drain(..used);
            later
        };
        self.carry = carry;
        rest
    }

    /// Ends the file and returns the result.
    pub fn finish(mut self, out: &mut impl FnMut(ProfileEvent<'_>)) -> ProfileOutcome {
        let carry = std::mem::take(&mut self.carry);
        let mut rest = self.advance_over(&carry, out);
        if let Some(length) = self.last_event(rest, out) {
            self.offset += length as u64;
            rest = self.advance_over(rest.get(length..).unwrap_or_default(), out);
        }
        if self.is_skipping || !rest.is_empty() {
            let offset = if self.is_skipping { self.skipped_offset } else { self.offset };
            self.tally.outcome.skipped_events += 1;
            self.tally.cut(offset, "the file ends inside an event");
        }
        let end = self.tally.outcome.bytes;
        let ending = match self.place {
            Place::Start | Place::Top => Ending::Nothing,
            Place::Elsewhere => Ending::Elsewhere,
            Place::Wrapper => {
                self.tally.cut(end, "the file ends before its object does");
                Ending::Object
            }
            Place::List if self.list.has_brackets => {
                self.tally.cut(end, "the file ends before its list of events does");
                Ending::List
            }
            Place::List => Ending::List,
            Place::After if self.list.has_brackets => Ending::List,
            Place::After => Ending::Object,
        };
        self.tally.finish(ending, self.options.cap_reported)
    }

    /// Reads the last bytes of the file; returns the unread ones.
    fn advance_over<'a>(&mut self, bytes: &'a [u8], out: &mut impl FnMut(ProfileEvent<'_>)) -> &'a [u8] {
        let used = self.advance(bytes, true, out);
        self.offset += used as u64;
        bytes.get(used..).unwrap_or_default()
    }

    /// Reads as far as possible and returns the number of consumed bytes.
    fn advance(&mut self, bytes: &[u8], is_last: bool, out: &mut impl FnMut(ProfileEvent<'_>)) -> usize {
        let mut at = 0;
        loop {
            let rest = bytes.get(at..).unwrap_or_default();
            let passed = match self.place {
                Place::Start => self.start(rest, is_last),
                Place::Top => self.top(rest, is_last),
                Place::Wrapper => self.wrapper(rest),
                Place::After => self.after(rest, at),
                Place::Elsewhere => Some(rest.len()),
                Place::List => match rest.first() {
                    None => None,
                    Some(b'{') => match self.event(rest, at, out) {
                        Progress::Passed(length) => Some(length),
                        Progress::Unfinished if self.is_skipping => return bytes.len(),
                        Progress::Unfinished => None,
                    },
                    Some(byte) => {
                        self.between_events(*byte, at);
                        Some(1)
                    }
                },
            };
            match passed {
                Some(length) => at += length,
                None => return at,
            }
            if at >= bytes.len() {
                return at;
            }
        }
    }

    fn start(&mut self, rest: &[u8], is_last: bool) -> Option<usize> {
        if rest.len() < sniff::HEAD_BYTES && !is_last {
            return None;
        }
        if let Some(reason) = sniff::other_file(rest) {
            self.tally.outcome.not_a_profile = Some(reason);
            self.place = Place::Elsewhere;
            return Some(rest.len());
        }
        self.place = Place::Top;
        Some(sniff::byte_order_mark(rest))
    }

    fn top(&mut self, rest: &[u8], is_last: bool) -> Option<usize> {
        match rest.first()? {
            b' ' | b'\t' | b'\r' | b'\n' => return Some(1),
            b'[' => {
                self.place = Place::List;
                self.list = List { has_brackets: true, ..List::default() };
                return Some(1);
            }
            b'{' if rest.len() >= FIRST_KEY_BYTES || is_last => {
                self.place = if starts_with_event(rest) { Place::List } else { Place::Wrapper };
                return Some(0);
            }
            b'{' => return None,
            _ if rest.len() < sniff::HEAD_BYTES && !is_last => return None,
            _ => {}
        }
        self.tally.outcome.not_a_profile = Some(sniff::not_a_list(rest));
        self.place = Place::Elsewhere;
        Some(rest.len())
    }

    fn wrapper(&mut self, rest: &[u8]) -> Option<usize> {
        for (at, byte) in rest.iter().enumerate() {
            match self.wrapper.step(*byte) {
                Step::Inside => continue,
                Step::List => {
                    self.place = Place::List;
                    self.list = List { has_brackets: true, is_wrapped: true, ..List::default() };
                }
                Step::End => self.place = Place::After,
            }
            return Some(at + 1);
        }
        Some(rest.len())
    }

    fn after(&mut self, rest: &[u8], at: usize) -> Option<usize> {
        match rest.first()? {
            b' ' | b'\t' | b'\r' | b'\n' => {}
            b'[' => {
                self.problem(at, "the file continues after the end of its list");
                self.place = Place::List;
                self.list = List { has_brackets: true, ..List::default() };
            }
            b'{' => {
                self.problem(at, "the file continues after the end of its list");
                self.place = Place::List;
                self.list = List::default();
                return Some(0);
            }
            _ => {
                self.tally.outcome.junk_bytes += 1;
                self.problem(at, "the file continues after the end of its list");
            }
        }
        Some(1)
    }

    fn between_events(&mut self, byte: u8, at: usize) {
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => {}
            b',' => self.list.commas = self.list.commas.saturating_add(1),
            b']' if self.list.has_brackets => {
                if self.list.commas > 0 {
                    self.tally.outcome.bad_commas += u64::from(self.list.commas);
                    self.problem(at, "a comma follows the last event");
                }
                self.place = if self.list.is_wrapped { Place::Wrapper } else { Place::After };
            }
            _ => {
                self.tally.outcome.junk_bytes += 1;
                self.problem(at, "there is something other than an event in the list");
            }
        }
    }

    #[cold]
    fn problem(&mut self, at: usize, sentence: &'static str) {
        self.tally.problem(self.offset + at as u64, sentence);
    }
}

/// Whether the object at the start of `bytes` is an event, judging by its first key.
fn starts_with_event(bytes: &[u8]) -> bool {
    let window = bytes.get(1..bytes.len().min(FIRST_KEY_BYTES)).unwrap_or_default();
    let Some(key) = window.trim_ascii_start().strip_prefix(b"\"") else { return false };
    let end = key.iter().position(|byte| *byte == b'"');
    end.is_some_and(|end| Key::of_event(key.get(..end).unwrap_or_default()) != Key::Unknown)
}
