//! Counts what is read, and finally evaluates the file.

use super::event::{EventKind, ProfileEvent};
use super::outcome::{NotAProfile, Problem, ProfileOutcome};

/// ONNX Runtime's maximum number of events.
const EVENT_CAP: u64 = 1_000_000;
const MAX_UNKNOWN_KEY_NAMES: usize = 8;

/// Where the file ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// Before anything began.
    Nothing,
    /// In or behind a list of events.
    List,
    /// In or behind an object without such a list.
    Object,
    /// It has another format, which was already reported.
    Elsewhere,
}

#[derive(Debug, Default)]
pub(super) struct Tally {
    pub outcome: ProfileOutcome,
    /// Events that count towards the cap; those of providers do not.
    recorded_events: u64,
    is_of_onnx_runtime: bool,
    /// Name and category.
    first_event: Option<(String, String)>,
}

impl Tally {
    #[inline]
    pub(super) fn count(&mut self, event: &ProfileEvent<'_>) {
        let outcome = &mut self.outcome;
        outcome.events += 1;
        self.is_of_onnx_runtime |= event.kind.is_of_onnx_runtime();
        match event.kind {
            EventKind::Operator => {
                outcome.operators += 1;
                outcome.memory_stats += u64::from(event.memory.in_use_bytes.is_some());
            }
            EventKind::Run => {
                outcome.runs += 1;
                outcome.process = u64::try_from(event.process).ok();
            }
            EventKind::FenceBefore | EventKind::FenceAfter => outcome.fences += 1,
            EventKind::Kernel | EventKind::Api => outcome.device_events += 1,
            EventKind::CapNotice => {
                outcome.capped = true;
                outcome.dropped_events = event.dropped_events;
            }
            EventKind::Executor | EventKind::Session | EventKind::Other | EventKind::Foreign => {}
        }
        if self.first_event.is_none() {
            self.first_event = Some((shortened(event.name), shortened(event.category)));
        }
        let is_recorded = is_of_the_host(event) && event.kind != EventKind::CapNotice;
        self.recorded_events += u64::from(is_recorded);
    }

    /// All keys of sessions and nodes are known; providers may write any.
    #[cold]
    pub(super) fn note_unknown(&mut self, event: &ProfileEvent<'_>, keys: u32, first: &str) {
        if !is_of_the_host(event) {
            return;
        }
        self.outcome.unknown_keys += u64::from(keys);
        let first = shortened(first);
        let names = &mut self.outcome.unknown_key_names;
        if names.len() < MAX_UNKNOWN_KEY_NAMES && !names.contains(&first) {
            names.push(first);
        }
    }

    #[cold]
    pub(super) fn problem(&mut self, offset: u64, sentence: &'static str) {
        let problem = || Problem { offset, sentence: sentence.to_owned() };
        self.outcome.first_problem.get_or_insert_with(problem);
    }

    pub(super) fn cut(&mut self, offset: u64, sentence: &'static str) {
        self.outcome.truncated = true;
        self.problem(offset, sentence);
    }

    pub(super) fn finish(mut self, ending: Ending, cap_reported: bool) -> ProfileOutcome {
        let mut outcome = self.outcome;
        outcome.capped |= cap_reported || self.recorded_events == EVENT_CAP;
        if ending == Ending::Elsewhere || self.is_of_onnx_runtime {
            return outcome;
        }
        let first_event = self.first_event.take();
        outcome.not_a_profile = match (ending, first_event) {
            (_, Some((event, category))) => Some(NotAProfile::ForeignTrace { event, category }),
            (Ending::Nothing, None) => Some(NotAProfile::Empty),
            // Only an empty list or the beginning of an event: it may be a profile.
            (Ending::List, None)
                if outcome.junk_bytes == 0 && outcome.skipped_events <= u64::from(outcome.truncated) =>
            {
                None
            }
            _ => Some(NotAProfile::OtherJson),
        };
        outcome
    }
}

fn is_of_the_host(event: &ProfileEvent<'_>) -> bool {
    matches!(event.category, "Session" | "Node")
}

fn shortened(text: &str) -> String {
    text.chars().take(80).collect()
}
