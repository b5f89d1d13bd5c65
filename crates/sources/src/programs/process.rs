//! One instrumented process: its rings, its sessions, what its messages mean.

use std::collections::HashMap;
use std::path::Path;

use ortscope_channel::rows::FrameRows;
use ortscope_channel::{ChannelError, ChannelReader, FrameKind, InferenceRecord};
use ortscope_core::identity::SessionId;
use ortscope_core::pipeline::Emitter;
use ortscope_core::schema::{AnnotationRow, ChannelPositionRow, MemoryRow, OperatorRow, SessionRow, Text};
use ortscope_decode::ort_profile::{ProfileOptions, ProfileStart, RowOptions, read_rows};

use super::message::{ProgramMessage, SessionNote};

/// Names are made for this many sessions from the start; more when they are needed.
const FIRST_SESSIONS: usize = 64;
/// Profiles of single runs are small; a larger file is not one.
const MAX_PROFILE_BYTES: u64 = 64 << 20;
/// A run's profile starts within this time of the call.
const PROFILE_START_ERROR_NS: u64 = 100_000;

/// A process and how far it was read.
#[derive(Debug)]
pub(super) struct Process {
    reader: ChannelReader,
    sessions: Sessions,
    given_up: bool,
    positions: u64,
}

/// The names of a process's sessions.
#[derive(Debug)]
struct Sessions {
    pid: Option<u64>,
    ids: Vec<String>,
    rows: FrameRows,
    profiled_runs: HashMap<u16, u64>,
}

impl Process {
    pub fn new(directory: &Path) -> Self {
        let pid = directory
            .file_name()
            .and_then(|name| name.to_str()?.strip_prefix("process-")?.split('-').next()?.parse().ok());
        let mut sessions = Sessions {
            pid,
            ids: Vec::new(),
            rows: FrameRows::new(Vec::new()),
            profiled_runs: HashMap::new(),
        };
        sessions.reserve(FIRST_SESSIONS - 1);
        Self { reader: ChannelReader::new(directory), sessions, given_up: false, positions: 0 }
    }

    pub fn session_ids(&self) -> &[String] {
        &self.sessions.ids
    }

    /// Positions sent on so far.
    pub fn positions(&self) -> u64 {
        self.positions
    }

    /// Reads what is new and sends it. The positions go last: a journal that has one has everything before it.
    pub fn pass(&mut self, out: &mut Emitter, now_ns: u64) -> Result<(), ChannelError> {
        if self.given_up {
            return Ok(());
        }
        let sessions = &mut self.sessions;
        let drained = self.reader.read(|kind, payload| sessions.take(kind, payload, out, now_ns))?;
        out.lost("damaged frames", drained.damaged);
        for (kind, count) in drained.lost {
            out.lost(kind.name(), count);
        }
        out.flush();
        self.positions += drained.positions.len() as u64;
        for at in drained.positions {
            out.emit(&ChannelPositionRow { timestamp_ns: now_ns, ring: at.ring, position: at.position });
        }
        out.flush();
        Ok(())
    }

    /// Says once why nothing more comes from here.
    pub fn give_up(&mut self, out: &mut Emitter, now_ns: u64, why: &str) {
        self.given_up = true;
        let text = format!("a process can no longer be read: {why}");
        out.emit(&AnnotationRow { timestamp_ns: now_ns, kind: "error".into(), text: text.into() });
        out.flush();
    }

    pub fn fullness(&self) -> f64 {
        if self.given_up { 0.0 } else { self.reader.fullness() }
    }

    pub fn mark(&mut self) {
        self.reader.mark();
    }

    pub fn release(&mut self) {
        self.reader.release();
    }
}

impl Sessions {
    /// Makes names up to this session, in steps that double.
    fn reserve(&mut self, session: usize) {
        if session < self.ids.len() {
            return;
        }
        let wanted = (session + 1).next_power_of_two();
        self.ids.resize_with(wanted, || SessionId::random().to_string());
        self.rows = FrameRows::new(self.ids.iter().map(|id| id.as_str().into()).collect());
    }

    fn id(&mut self, session: u16) -> Text {
        self.reserve(usize::from(session));
        self.ids[usize::from(session)].as_str().into()
    }

    fn take(&mut self, kind: FrameKind, payload: &[u8], out: &mut Emitter, now_ns: u64) {
        if kind == FrameKind::INFERENCE
            && let Some(record) = InferenceRecord::from_bytes(payload)
        {
            self.reserve(usize::from(record.session));
            out.emit(&self.rows.inference(&record));
        } else if kind == FrameKind::MESSAGE {
            match serde_json::from_slice(payload) {
                Ok(message) => self.message(message, out),
                // Of a program with another version: kept as it is.
                Err(_) => out.emit(&self.rows.message(payload, now_ns)),
            }
        } else {
            out.lost(kind.name(), 1);
        }
    }

    fn message(&mut self, message: ProgramMessage, out: &mut Emitter) {
        match message {
            ProgramMessage::Session(note) => self.session(&note, out),
            ProgramMessage::Profile { timestamp_ns, session, sequence, prefix } => {
                let session_id = self.id(session);
                let run = self.profiled_runs.entry(session).or_default();
                let read = operators(&prefix, &session_id, *run, timestamp_ns, out);
                *run += 1;
                if let Err(why) = read {
                    out.lost("profiles", 1);
                    let text = format!("the profile of inference {sequence} cannot be read: {why}");
                    out.emit(&AnnotationRow { timestamp_ns, kind: "profile".into(), text: text.into() });
                }
            }
            ProgramMessage::Note { timestamp_ns, name, text } => {
                out.emit(&AnnotationRow { timestamp_ns, kind: name.into(), text: text.into() });
            }
            ProgramMessage::InputShapes { timestamp_ns, session, .. }
            | ProgramMessage::InferenceError { timestamp_ns, session, .. } => {
                let id = self.id(session);
                mark(&message, timestamp_ns, Some(&id), self.pid, out);
            }
            ProgramMessage::Batch { timestamp_ns, .. } | ProgramMessage::Span { timestamp_ns, .. } => {
                mark(&message, timestamp_ns, None, self.pid, out);
            }
        }
    }

    fn session(&mut self, note: &SessionNote, out: &mut Emitter) {
        let session_id = self.id(note.session);
        out.emit(&SessionRow {
            timestamp_ns: note.timestamp_ns,
            session_id: Text::clone(&session_id),
            pid: self.pid,
            model_name: note.model_name.as_str().into(),
            execution_providers: note.execution_providers.join(",").into(),
            ort_version: note.ort_version.as_deref().map(Into::into),
            options: note.options.as_deref().map(Into::into),
        });
        let memory =
            [("before_session", note.memory_before_bytes), ("after_session", note.memory_after_bytes)];
        for (metric, bytes) in memory {
            if let Some(bytes) = bytes.and_then(|bytes| i64::try_from(bytes).ok()) {
                out.emit(&MemoryRow {
                    timestamp_ns: note.timestamp_ns,
                    session_id: Text::clone(&session_id),
                    scope: "process".into(),
                    metric: metric.into(),
                    bytes,
                });
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
            out.emit(&AnnotationRow {
                timestamp_ns: note.timestamp_ns,
                kind: "provider_fallback".into(),
                text: text.into(),
            });
        }
    }
}

/// A message as a mark on the time line: the same JSON, with names instead of the program's numbers.
fn mark(
    message: &ProgramMessage,
    timestamp_ns: u64,
    session_id: Option<&str>,
    pid: Option<u64>,
    out: &mut Emitter,
) {
    let Ok(serde_json::Value::Object(mut fields)) = serde_json::to_value(message) else {
        return;
    };
    let kind = fields.remove("kind").and_then(|kind| kind.as_str().map(str::to_owned)).unwrap_or_default();
    fields.remove("timestamp_ns");
    fields.remove("session");
    if let Some(id) = session_id {
        fields.insert("session_id".into(), id.into());
    }
    if let Some(pid) = pid {
        fields.insert("pid".into(), pid.into());
    }
    let text = serde_json::Value::Object(fields).to_string();
    out.emit(&AnnotationRow { timestamp_ns, kind: kind.into(), text: text.into() });
}

/// Reads and removes the profile of one run.
fn operators(
    prefix: &Path,
    session_id: &Text,
    run: u64,
    started_ns: u64,
    out: &mut Emitter,
) -> std::io::Result<()> {
    let not_found = || std::io::Error::new(std::io::ErrorKind::NotFound, "there is no such file");
    let (Some(directory), Some(name)) = (prefix.parent(), prefix.file_name().and_then(|name| name.to_str()))
    else {
        return Err(not_found());
    };
    let mut found = None;
    for entry in fs_err::read_dir(directory)? {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(|file| file.starts_with(name)) {
            found = Some(entry.path());
        }
    }
    let path = found.ok_or_else(not_found)?;
    let file = fs_err::File::open(&path)?;
    if file.metadata()?.len() > MAX_PROFILE_BYTES {
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, "it is too large for one run"));
    }
    let options = RowOptions {
        session_id: Text::clone(session_id),
        start: ProfileStart::At { monotonic_ns: started_ns, error_ns: PROFILE_START_ERROR_NS },
        ..RowOptions::default()
    };
    let mut take = |mut row: OperatorRow| {
        row.run = row.run.map(|_| run);
        out.emit(&row);
    };
    read_rows(file, ProfileOptions::default(), options, &mut take)?;
    fs_err::remove_file(&path)
}
