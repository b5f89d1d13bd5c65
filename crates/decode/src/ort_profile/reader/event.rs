//! One event: simple, difficult, too large, or the last one of a truncated file.

use super::super::event::ProfileEvent;
use super::super::fields::Unusable;
use super::super::frame::{End, Frame, NEXT_EVENT};
use super::super::tolerant::{Found, Repairs};
use super::super::{fast, tolerant};
use super::{JOINED_BYTES, ProfileReader};

/// Length limit for the fast parser. Larger events are rare, and a malicious file must not cause repeated scans of the
/// rest.
const SIMPLE_EVENT_BYTES: usize = 16 << 10;

/// Progress of the current event.
pub(super) enum Progress {
    /// Consumed, with this length.
    Passed(usize),
    /// It does not end in these bytes.
    Unfinished,
}

impl ProfileReader {
    /// The event at the start of `rest`, `at` bytes behind the current offset.
    #[inline]
    pub(super) fn event(
        &mut self,
        rest: &[u8],
        at: usize,
        out: &mut impl FnMut(ProfileEvent<'_>),
    ) -> Progress {
        if self.frame.is_none() {
            let near = rest.get(..SIMPLE_EVENT_BYTES).unwrap_or(rest);
            if let Some(text) = fast::parse(near, &mut self.fields)
                && text.len() <= self.options.max_event_bytes
            {
                self.deliver(text, at, out);
                return Progress::Passed(text.len());
            }
        }
        self.framed_event(rest, at, out)
    }

    /// An event whose end must be searched for.
    #[cold]
    fn framed_event(&mut self, rest: &[u8], at: usize, out: &mut impl FnMut(ProfileEvent<'_>)) -> Progress {
        let frame = self.frame.get_or_insert_with(Frame::default);
        let Some((length, end)) = frame.scan(rest.get(self.scanned..).unwrap_or_default()) else {
            self.scanned = rest.len();
            // Some of the scanned bytes may belong to the next event.
            if self.scanned > self.options.max_event_bytes + NEXT_EVENT.len() {
                self.problem(at, "an event is larger than the limit");
                self.is_skipping = true;
                self.skipped_offset = self.offset + at as u64;
            }
            return Progress::Unfinished;
        };
        let behind = if end == End::Interrupted { NEXT_EVENT.len() } else { 0 };
        let length = (self.scanned + length).saturating_sub(behind);
        self.frame = None;
        self.scanned = 0;
        if length > self.options.max_event_bytes {
            self.problem(at, "an event is larger than the limit");
            self.pass_event(self.offset + at as u64, true);
            return Progress::Passed(length);
        }
        let bytes = rest.get(..length).unwrap_or_default();
        if end == End::Closed
            && let Some(text) = fast::parse(bytes, &mut self.fields)
        {
            self.deliver(text, at, out);
            return Progress::Passed(length);
        }
        let found = self.difficult_event(bytes, at, out);
        if end == End::Closed {
            return Progress::Passed(length);
        }
        // The tolerant parser finds the end of its texts. A comma, or unreadable data, follows.
        let found = found.unwrap_or(length).min(length);
        let behind = bytes.get(found..).unwrap_or_default();
        if behind.iter().all(|byte| byte.is_ascii_whitespace() || *byte == b',') {
            return Progress::Passed(found);
        }
        self.tally.outcome.junk_bytes += behind.len() as u64;
        self.problem(at + found, "there is something other than an event in the list");
        self.list.commas = 1;
        Progress::Passed(length)
    }

    /// Parses an event that is not simple; returns its length, if it has an end.
    fn difficult_event(
        &mut self,
        bytes: &[u8],
        at: usize,
        out: &mut impl FnMut(ProfileEvent<'_>),
    ) -> Option<usize> {
        let mut scratch = std::mem::take(&mut self.scratch);
        let Found { repairs, length } = tolerant::parse(bytes, &mut self.fields, &mut scratch);
        self.tally.outcome.bad_commas += u64::from(repairs.bad_commas);
        if repairs.bad_commas > 0 {
            self.problem(at, "an event has a missing or extra comma");
        }
        if let Some((inside, sentence)) = repairs.problem {
            self.problem(at + inside, sentence);
        }
        let is_delivered = self.deliver(&scratch, at, out);
        self.tally.outcome.repaired_events += u64::from(is_delivered && repairs != Repairs::default());
        self.scratch = scratch;
        self.scratch.shrink_to(JOINED_BYTES);
        length
    }

    /// The file ended during the search for the end of an event. A stray quote may hide it.
    pub(super) fn last_event(
        &mut self,
        bytes: &[u8],
        out: &mut impl FnMut(ProfileEvent<'_>),
    ) -> Option<usize> {
        self.frame.take()?;
        self.scanned = 0;
        let mut scratch = std::mem::take(&mut self.scratch);
        let length = tolerant::parse(bytes, &mut self.fields, &mut scratch).length;
        self.scratch = scratch;
        // Only a complete event counts.
        length.filter(|length| *length <= self.options.max_event_bytes)?;
        self.difficult_event(bytes, 0, out)
    }

    /// Ends an event, whatever its outcome.
    #[inline]
    fn pass_event(&mut self, offset: u64, is_skipped: bool) {
        self.tally.outcome.skipped_events += u64::from(is_skipped);
        let wanted = u32::from(self.list.has_events);
        if self.list.commas != wanted && self.list.has_brackets {
            self.tally.outcome.bad_commas += u64::from(self.list.commas.abs_diff(wanted));
            self.tally.problem(offset, "a comma between events is missing or extra");
        }
        self.list.has_events = true;
        self.list.commas = 0;
    }

    /// Emits the event, if it is valid.
    #[inline]
    fn deliver(&mut self, text: &str, at: usize, out: &mut impl FnMut(ProfileEvent<'_>)) -> bool {
        self.tally.outcome.duplicate_keys += u64::from(self.fields.duplicate_keys);
        self.tally.outcome.bad_numbers += u64::from(self.fields.bad_numbers);
        let offset = self.offset + at as u64;
        let event = match self.fields.event(text, offset) {
            Ok(event) => event,
            Err(Unusable(sentence)) => {
                self.tally.problem(offset, sentence);
                self.pass_event(offset, true);
                return false;
            }
        };
        self.pass_event(offset, false);
        self.tally.count(&event);
        if self.fields.unknown_keys > 0 {
            self.tally.note_unknown(&event, self.fields.unknown_keys, self.fields.first_unknown_key.of(text));
        }
        out(event);
        true
    }

    /// Skips bytes of an event that is too large; returns those after it.
    pub(super) fn skip<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let Some((length, end)) = self.frame.get_or_insert_with(Frame::default).scan(bytes) else {
            self.offset += bytes.len() as u64;
            return &[];
        };
        self.offset += length as u64;
        if end == End::Interrupted {
            // The next event has begun, possibly in an earlier piece: repeat its beginning.
            let begun = NEXT_EVENT.get(1..).unwrap_or_default();
            self.offset -= begun.len() as u64;
            self.carry.extend_from_slice(begun);
        }
        self.is_skipping = false;
        self.frame = None;
        self.scanned = 0;
        self.pass_event(self.skipped_offset, true);
        bytes.get(length..).unwrap_or_default()
    }
}
