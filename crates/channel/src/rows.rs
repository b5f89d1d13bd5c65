//! From frames to rows of the schema: the same for a living channel and for one that was left behind.

use ortscope_core::schema::{AnnotationRow, InferenceRow, Text};

use crate::record::{InferenceRecord, Phase};

/// Kind of the annotation rows that carry a writer's messages.
pub const MESSAGE_KIND: &str = "message";

/// Makes rows of what the writers of a channel wrote.
#[derive(Debug, Clone)]
pub struct FrameRows {
    session_ids: Vec<Text>,
    /// One shared text per phase, so that a row costs no allocation.
    phases: [(Phase, Text); Phase::ALL.len()],
    message_kind: Text,
}

impl FrameRows {
    /// `session_ids[n]` names the writer's session number `n`.
    pub fn new(session_ids: Vec<Text>) -> Self {
        let phases = Phase::ALL.map(|phase| (phase, Text::from(phase.name())));
        Self { session_ids, phases, message_kind: MESSAGE_KIND.into() }
    }

    pub fn inference(&self, record: &InferenceRecord) -> InferenceRow {
        InferenceRow {
            timestamp_ns: record.start_nanos,
            planned_ns: record.planned_nanos,
            session_id: self.session_ids.get(usize::from(record.session)).cloned().unwrap_or_default(),
            sequence: record.sequence,
            stream: u64::from(record.stream),
            phase: self
                .phases
                .iter()
                .find(|(phase, _)| *phase == record.phase)
                .map_or_else(|| record.phase.name().into(), |(_, text)| Text::clone(text)),
            copy_in_ns: record.copy_in_nanos,
            run_ns: record.run_nanos,
            copy_out_ns: record.copy_out_nanos,
            batch_size: (record.batch_size > 0).then_some(u64::from(record.batch_size)),
            queue_depth: record.queue_depth.map(u64::from),
            token: record.token.map(u64::from),
            ok: record.ok,
        }
    }

    /// Messages carry no time of their own: it is when they were read.
    pub fn message(&self, payload: &[u8], read_at_ns: u64) -> AnnotationRow {
        AnnotationRow {
            timestamp_ns: read_at_ns,
            kind: Text::clone(&self.message_kind),
            text: String::from_utf8_lossy(payload).into(),
        }
    }
}
