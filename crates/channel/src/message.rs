//! Messages of an instrumented program other than inferences, one JSON object each.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A message of an instrumented program. Times are monotonic nanoseconds of [`ortscope_core::clock`]; sessions are the
/// program's own numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ProgramMessage {
    /// A session was made, or was there when recording began.
    Session(SessionNote),
    /// From this inference on the inputs have these shapes.
    InputShapes { timestamp_ns: u64, session: u16, from_sequence: u64, shapes: Vec<NamedShape> },
    /// A batch as the program sees it; the inferences inside carry its size.
    Batch {
        timestamp_ns: u64,
        duration_ns: u64,
        batch_size: u32,
        padding_ratio: Option<f64>,
        queue_depth: Option<u32>,
    },
    /// A stage of the program's own.
    Span {
        timestamp_ns: u64,
        duration_ns: u64,
        name: String,
        trace_id: Option<String>,
        thread: u16,
        ok: bool,
    },
    /// An inference ended with this type of exception.
    InferenceError { timestamp_ns: u64, session: u16, sequence: u64, exception: String },
    /// A run was profiled; the file's name begins with the prefix. Whoever reads it removes it.
    Profile { timestamp_ns: u64, session: u16, sequence: u64, prefix: PathBuf },
    /// Anything else worth a mark on the time line.
    Note { timestamp_ns: u64, name: String, text: String },
}

impl ProgramMessage {
    /// The number of the session that it is about, if it is about one.
    pub fn session(&self) -> Option<u16> {
        match self {
            Self::Session(note) => Some(note.session),
            Self::InputShapes { session, .. }
            | Self::InferenceError { session, .. }
            | Self::Profile { session, .. } => Some(*session),
            Self::Batch { .. } | Self::Span { .. } | Self::Note { .. } => None,
        }
    }
}

/// A session as its program knows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionNote {
    pub timestamp_ns: u64,
    pub session: u16,
    pub model_name: String,
    pub execution_providers: Vec<String>,
    /// The requested providers; empty if unknown.
    #[serde(default)]
    pub requested_providers: Vec<String>,
    pub ort_version: Option<String>,
    /// Session options as JSON.
    pub options: Option<String>,
    /// Resident memory of the process before and after the session was made.
    pub memory_before_bytes: Option<u64>,
    pub memory_after_bytes: Option<u64>,
}

/// An input and its dimensions; `None` where the value has no shape that is cheap to read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedShape {
    pub name: String,
    pub dims: Option<Vec<i64>>,
}
