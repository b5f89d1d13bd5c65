//! From frames to rows of the schema: the same for a living channel and for one that was left behind.

use ortscope_core::schema::{AnnotationRow, InferenceRow, MemoryRow, SessionRow, Text};

use crate::message::{ProgramMessage, SessionNote};
use crate::record::InferenceRecord;

/// Kind of the annotation rows that carry a writer's messages.
pub const MESSAGE_KIND: &str = "message";

/// Makes rows of what the writers of a channel wrote.
#[derive(Debug, Clone)]
pub struct FrameRows {
    session_ids: Vec<Text>,
    /// Process id of the writer, if known.
    pid: Option<u64>,
    message_kind: Text,
}

/// A row that a message becomes.
#[derive(Debug, Clone, PartialEq)]
pub enum MessageRow {
    Session(SessionRow),
    Memory(MemoryRow),
    Annotation(AnnotationRow),
}

impl FrameRows {
    /// `session_ids[n]` names the writer's session number `n`.
    pub fn new(session_ids: Vec<Text>, pid: Option<u64>) -> Self {
        Self { session_ids, pid, message_kind: MESSAGE_KIND.into() }
    }

    /// The name of a session by its number; empty if it has none.
    pub fn session_id(&self, session: u16) -> Text {
        self.session_ids.get(usize::from(session)).cloned().unwrap_or_default()
    }

    pub fn inference(&self, record: &InferenceRecord) -> InferenceRow {
        InferenceRow {
            timestamp_ns: record.start_ns,
            planned_ns: record.planned_ns,
            session_id: self.session_id(record.session),
            sequence: record.sequence,
            stream: u64::from(record.stream),
            phase: record.phase.into(),
            copy_in_ns: record.copy_in_ns,
            run_ns: record.run_ns,
            copy_out_ns: record.copy_out_ns,
            batch_size: (record.batch_size > 0).then_some(u64::from(record.batch_size)),
            queue_depth: record.queue_depth.map(u64::from),
            token: record.token.map(u64::from),
            ok: record.ok,
        }
    }

    /// Text that is not a program message. Its time is when it was read.
    pub fn text(&self, payload: &[u8], read_at_ns: u64) -> AnnotationRow {
        AnnotationRow {
            timestamp_ns: read_at_ns,
            kind: Text::clone(&self.message_kind),
            text: String::from_utf8_lossy(payload).into(),
        }
    }

    /// The rows of a program message. A profile becomes a mark: it must be read before this call.
    pub fn message(&self, message: &ProgramMessage) -> Vec<MessageRow> {
        let annotation = |timestamp_ns: &u64, kind: &str, text: &str| {
            let row = AnnotationRow { timestamp_ns: *timestamp_ns, kind: kind.into(), text: text.into() };
            vec![MessageRow::Annotation(row)]
        };
        match message {
            ProgramMessage::Session(note) => self.session(note),
            ProgramMessage::Note { timestamp_ns, name, text } => annotation(timestamp_ns, name, text),
            ProgramMessage::Profile { timestamp_ns, sequence, .. } => {
                let text = format!("the profile of inference {sequence} was not read");
                annotation(timestamp_ns, "profile", &text)
            }
            ProgramMessage::InputShapes { timestamp_ns, session, .. }
            | ProgramMessage::InferenceError { timestamp_ns, session, .. } => {
                self.mark(message, *timestamp_ns, Some(*session))
            }
            ProgramMessage::Batch { timestamp_ns, .. } | ProgramMessage::Span { timestamp_ns, .. } => {
                self.mark(message, *timestamp_ns, None)
            }
        }
    }

    fn session(&self, note: &SessionNote) -> Vec<MessageRow> {
        let session_id = self.session_id(note.session);
        let mut rows = vec![MessageRow::Session(SessionRow {
            timestamp_ns: note.timestamp_ns,
            session_id: Text::clone(&session_id),
            pid: self.pid,
            model_name: note.model_name.as_str().into(),
            execution_providers: note.execution_providers.join(",").into(),
            ort_version: note.ort_version.as_deref().map(Into::into),
            options: note.options.as_deref().map(Into::into),
        })];
        let memory =
            [("before_session", note.memory_before_bytes), ("after_session", note.memory_after_bytes)];
        for (metric, bytes) in memory {
            if let Some(bytes) = bytes.and_then(|bytes| i64::try_from(bytes).ok()) {
                rows.push(MessageRow::Memory(MemoryRow {
                    timestamp_ns: note.timestamp_ns,
                    session_id: Text::clone(&session_id),
                    scope: "process".into(),
                    metric: metric.into(),
                    bytes,
                }));
            }
        }
        let missing: Vec<&str> = note
            .requested_providers
            .iter()
            .filter(|wanted| !note.execution_providers.contains(wanted))
            .map(String::as_str)
            .collect();
        if !missing.is_empty() {
            let text = format!("{}: {} was asked for and is not used", note.model_name, missing.join(", "));
            rows.push(MessageRow::Annotation(AnnotationRow {
                timestamp_ns: note.timestamp_ns,
                kind: "provider_fallback".into(),
                text: text.into(),
            }));
        }
        rows
    }

    /// A message as a mark on the time line: the same JSON, with names instead of the program's numbers.
    fn mark(&self, message: &ProgramMessage, timestamp_ns: u64, session: Option<u16>) -> Vec<MessageRow> {
        let Ok(serde_json::Value::Object(mut fields)) = serde_json::to_value(message) else {
            return Vec::new();
        };
        let kind =
            fields.remove("kind").and_then(|kind| kind.as_str().map(str::to_owned)).unwrap_or_default();
        fields.remove("timestamp_ns");
        fields.remove("session");
        if let Some(session) = session {
            fields.insert("session_id".into(), (*self.session_id(session)).into());
        }
        if let Some(pid) = self.pid {
            fields.insert("pid".into(), pid.into());
        }
        let text = serde_json::Value::Object(fields).to_string();
        vec![MessageRow::Annotation(AnnotationRow { timestamp_ns, kind: kind.into(), text: text.into() })]
    }
}
