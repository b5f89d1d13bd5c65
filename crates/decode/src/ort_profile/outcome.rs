//! What became of a profile: what was read, what was lost or repaired, and why a file is none.

use std::fmt;

/// Why a file is not a profile, in one sentence each.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotAProfile {
    Empty,
    Gzip,
    OtherFile { what: &'static str },
    NotAList { first: String },
    OtherJson,
    ForeignTrace { event: String, category: String },
}

impl fmt::Display for NotAProfile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => formatter.write_str(
                "the file is empty: ONNX Runtime writes a profile only when the session ends its profiling or is destroyed",
            ),
            Self::Gzip => formatter.write_str("the file is compressed with gzip: unpack it first"),
            Self::OtherFile { what } => write!(formatter, "the file is {what}, not a profile"),
            Self::NotAList { first } => {
                write!(formatter, "the file is not a list of trace events in JSON: it begins with {first:?}")
            }
            Self::OtherJson => formatter.write_str("the file is JSON, but not a list of trace events"),
            Self::ForeignTrace { event, category } => write!(
                formatter,
                "the file is a trace of another tool: no event is one of ONNX Runtime's (the first is {event:?} of the \
                 category {category:?})"
            ),
        }
    }
}

/// The first thing that was wrong in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where in the file, in bytes.
    pub offset: u64,
    /// What, in one sentence.
    pub sentence: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} (at byte {})", self.sentence, self.offset)
    }
}

/// Which versions of ONNX Runtime write such a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionHint {
    Unknown,
    /// Has fences: up to 1.20.
    UpTo1_20,
    /// Has neither fences nor memory statistics: 1.21 to 1.27, or a later one whose allocator keeps none.
    From1_21,
    /// Has memory statistics: 1.28 or later.
    From1_28,
}

/// What became of a profile.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProfileOutcome {
    /// Events handed out.
    pub events: u64,
    /// Of these, nodes that ran.
    pub operators: u64,
    /// Of these, calls of `Run`.
    pub runs: u64,
    /// Of these, fences; only versions up to 1.20 write them.
    pub fences: u64,
    /// Of these, kernels and calls that a provider reports of its device.
    pub device_events: u64,
    /// Of these, nodes with memory statistics; only versions from 1.28 on write them.
    pub memory_stats: u64,
    /// Events that were begun but not handed out: unreadable, without a time, too large or cut off.
    pub skipped_events: u64,
    /// Events that are not JSON as they stand, but could be read.
    pub repaired_events: u64,
    /// Commas that are missing, doubled or follow the last value.
    pub bad_commas: u64,
    /// Keys that one event has twice; the last one counts.
    pub duplicate_keys: u64,
    /// Numbers that are none, such as NaN.
    pub bad_numbers: u64,
    /// Keys of sessions and nodes that this reader does not know: the file may be of a newer version.
    pub unknown_keys: u64,
    /// The first of them.
    pub unknown_key_names: Vec<String>,
    /// Bytes between events that belong to none.
    pub junk_bytes: u64,
    /// The file ends before its list does.
    pub truncated: bool,
    /// ONNX Runtime stopped recording at its limit of 1,000,000 events.
    pub capped: bool,
    /// How many events it left out; versions before 1.31 do not say.
    pub dropped_events: Option<u64>,
    /// Process that wrote the profile.
    pub process: Option<u64>,
    pub not_a_profile: Option<NotAProfile>,
    pub first_problem: Option<Problem>,
    /// Size of the file.
    pub bytes: u64,
}

impl ProfileOutcome {
    pub fn version_hint(&self) -> VersionHint {
        match self {
            Self { operators: 0, .. } => VersionHint::Unknown,
            Self { memory_stats: 1.., .. } => VersionHint::From1_28,
            Self { fences: 1.., .. } => VersionHint::UpTo1_20,
            _ => VersionHint::From1_21,
        }
    }

    /// Whether everything the file holds was read as it stands.
    pub fn is_clean(&self) -> bool {
        self.not_a_profile.is_none() && self.first_problem.is_none() && !self.truncated && !self.capped
    }
}
