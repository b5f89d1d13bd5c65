//! Result of reading a profile: counts, losses and repairs, and why a file is not a profile.

use std::fmt;

/// Why a file is not a profile.
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
                "the file is empty: ONNX Runtime writes a profile only when profiling ends or the session is destroyed",
            ),
            Self::Gzip => formatter.write_str("the file is compressed with gzip: decompress it first"),
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

/// The first problem in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Offset in the file.
    pub offset: u64,
    /// Description of the problem.
    pub sentence: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} (at byte {})", self.sentence, self.offset)
    }
}

/// The ONNX Runtime versions that write such a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionHint {
    Unknown,
    /// Has fences: up to 1.20.
    UpTo1_20,
    /// Has neither fences nor memory statistics: 1.21 to 1.27, or a later version whose allocator keeps none.
    From1_21,
    /// Has memory statistics: 1.28 or later.
    From1_28,
}

/// Result of reading a profile.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProfileOutcome {
    /// Emitted events.
    pub events: u64,
    /// Emitted nodes.
    pub operators: u64,
    /// Emitted calls of `Run`.
    pub runs: u64,
    /// Emitted fences; only versions up to 1.20 write them.
    pub fences: u64,
    /// Emitted device kernels and calls.
    pub device_events: u64,
    /// Emitted nodes with memory statistics; only versions since 1.28 write them.
    pub memory_stats: u64,
    /// Events that were not emitted: unreadable, without a time, too large or truncated.
    pub skipped_events: u64,
    /// Events that are invalid JSON but could be read.
    pub repaired_events: u64,
    /// Missing, doubled or trailing commas.
    pub bad_commas: u64,
    /// Duplicate keys within an event; the last one wins.
    pub duplicate_keys: u64,
    /// Invalid numbers, such as NaN.
    pub bad_numbers: u64,
    /// Unknown keys of sessions and nodes: the file may be from a newer version.
    pub unknown_keys: u64,
    /// The first of them.
    pub unknown_key_names: Vec<String>,
    /// Bytes between events that belong to none.
    pub junk_bytes: u64,
    /// The file is truncated.
    pub truncated: bool,
    /// ONNX Runtime stopped recording at its limit of 1,000,000 events.
    pub capped: bool,
    /// Number of events dropped by ONNX Runtime; unknown before 1.31.
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

    /// Whether everything in the file was read without irregularities.
    pub fn is_clean(&self) -> bool {
        self.not_a_profile.is_none() && self.first_problem.is_none() && !self.truncated && !self.capped
    }
}
