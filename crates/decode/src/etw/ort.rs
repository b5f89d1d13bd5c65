//! ONNX Runtime's events: sessions, inferences, operators, QNN's profile. Fields are found by name, because releases add
//! and remove some.

use std::collections::HashMap;

use ortscope_etl::payload::builtin::ort::OrtEvent;
use ortscope_etl::payload::trace_logging::TraceLogging;
use ortscope_etl::{EventRecord, Guid, Identity};

use super::coverage::Unused;
use super::fields::Fields;
use super::lifetimes::UNKNOWN_ID;
use super::sink::EtwSink;

/// Limit for unfinished inferences, session creations and activities, each: 65,536.
const MAX_OPEN: usize = 1 << 16;

const START: u8 = 1;
const STOP: u8 = 2;

/// One `Run` of a session, from EvaluationStart to EvaluationStop in the same thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inference {
    pub pid: u32,
    pub tid: u32,
    pub session_id: u64,
    pub start_ns: u64,
    pub end_ns: u64,
}

/// A session was created, or ONNX Runtime reported an existing one on request.
#[derive(Debug, Clone, PartialEq)]
pub struct OrtSession {
    pub pid: u32,
    pub session_id: u64,
    pub at_ns: u64,
    /// From SessionCreationStart in the same thread, if recorded.
    pub creation_ns: Option<u64>,
    /// The session is older and was reported to a reader that started later.
    pub is_captured_state: bool,
    pub fields: Fields,
}

/// One operator execution; only instrumented builds of ONNX Runtime have these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrtOperator {
    pub pid: u32,
    pub tid: u32,
    pub operator: String,
    pub end_ns: u64,
    pub duration_ns: u64,
    /// The run that it belongs to.
    pub activity: Option<Guid>,
}

/// A run or the lifetime of a session; only instrumented builds have these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrtActivity {
    pub pid: u32,
    pub tid: u32,
    /// `OrtRun` or `OrtInferenceSessionActivity`.
    pub name: &'static str,
    pub activity: Guid,
    pub start_ns: u64,
    pub end_ns: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct OrtRow {
    pub at_ns: u64,
    pub cpu: u32,
    pub pid: u32,
    pub tid: u32,
    pub event: OrtEvent,
    pub activity: Option<Guid>,
    pub fields: Fields,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OrtCounts {
    pub events: u64,
    pub inferences: u64,
    /// Runs that restarted or never ended: they failed, or events were lost.
    pub unmatched_starts: u64,
    pub unmatched_stops: u64,
    /// Starts beyond the limit.
    pub dropped: u64,
    /// Events whose payload was too short for its fields.
    pub cut: u64,
}

#[derive(Debug, Default)]
pub(super) struct Ort {
    evaluations: HashMap<(u32, u32, u64), u64>,
    creations: HashMap<(u32, u32), u64>,
    activities: HashMap<(u32, Guid, OrtEvent), (u32, u64)>,
    pub counts: OrtCounts,
}

impl Ort {
    pub fn push<S: EtwSink + ?Sized>(
        &mut self,
        record: &EventRecord<'_>,
        at_ns: u64,
        sink: &mut S,
    ) -> Result<(), Unused> {
        let Identity::Event { provider, descriptor } = record.identity else { return Err(Unused::NoLayout) };
        let event = TraceLogging::of(record).ok_or(Unused::NoLayout)?;
        let kind = OrtEvent::of(provider, event.event_name).ok_or(Unused::NotNeeded)?;
        let mut fields = Fields::default();
        self.counts.events += 1;
        self.counts.cut += u64::from(event.visit(record.payload, record.pointer_size, &mut fields).is_err());
        let row = OrtRow {
            at_ns,
            cpu: u32::from(record.processor),
            pid: record.process_id.unwrap_or(UNKNOWN_ID),
            tid: record.thread_id.unwrap_or(UNKNOWN_ID),
            event: kind,
            activity: record.activity.filter(|activity| !activity.is_zero()),
            fields,
        };
        let used = self.meaning(&row, descriptor.opcode, sink);
        sink.ort(&row);
        used
    }

    fn meaning<S: EtwSink + ?Sized>(&mut self, row: &OrtRow, opcode: u8, sink: &mut S) -> Result<(), Unused> {
        let session = || row.fields.unsigned("sessionId").ok_or(Unused::TooShort);
        let has_room = |count: usize| count < MAX_OPEN;
        match row.event {
            OrtEvent::EvaluationStart => {
                let key = (row.pid, row.tid, session()?);
                if !has_room(self.evaluations.len()) && !self.evaluations.contains_key(&key) {
                    self.counts.dropped += 1;
                } else if self.evaluations.insert(key, row.at_ns).is_some() {
                    self.counts.unmatched_starts += 1;
                }
            }
            OrtEvent::EvaluationStop => {
                let session_id = session()?;
                let Some(start_ns) = self.evaluations.remove(&(row.pid, row.tid, session_id)) else {
                    self.counts.unmatched_stops += 1;
                    return Err(Unused::NoContext);
                };
                self.counts.inferences += 1;
                let (pid, tid, end_ns) = (row.pid, row.tid, row.at_ns);
                sink.inference(&Inference { pid, tid, session_id, start_ns, end_ns });
            }
            OrtEvent::SessionCreationStart => {
                if has_room(self.creations.len()) {
                    self.creations.insert((row.pid, row.tid), row.at_ns);
                } else {
                    self.counts.dropped += 1;
                }
            }
            OrtEvent::SessionCreation | OrtEvent::SessionCreationCaptureState => {
                let is_captured_state = row.event == OrtEvent::SessionCreationCaptureState;
                let start_ns = match is_captured_state {
                    true => None,
                    false => self.creations.remove(&(row.pid, row.tid)),
                };
                sink.session(&OrtSession {
                    pid: row.pid,
                    session_id: session()?,
                    at_ns: row.at_ns,
                    creation_ns: start_ns.map(|start_ns| row.at_ns.saturating_sub(start_ns)),
                    is_captured_state,
                    fields: row.fields.clone(),
                });
            }
            OrtEvent::OpEnd => {
                let micros = row.fields.unsigned("time").ok_or(Unused::TooShort)?;
                sink.operator(&OrtOperator {
                    pid: row.pid,
                    tid: row.tid,
                    operator: row.fields.text("op_name").unwrap_or_default().to_owned(),
                    end_ns: row.at_ns,
                    duration_ns: micros.saturating_mul(1_000),
                    activity: row.activity,
                });
            }
            OrtEvent::OrtRun | OrtEvent::InferenceSessionActivity => self.activity(row, opcode, sink)?,
            _ => {}
        }
        Ok(())
    }

    fn activity<S: EtwSink + ?Sized>(
        &mut self,
        row: &OrtRow,
        opcode: u8,
        sink: &mut S,
    ) -> Result<(), Unused> {
        let activity = row.activity.ok_or(Unused::NoContext)?;
        let key = (row.pid, activity, row.event);
        match opcode {
            START if self.activities.len() >= MAX_OPEN => self.counts.dropped += 1,
            START => {
                let before = self.activities.insert(key, (row.tid, row.at_ns));
                self.counts.unmatched_starts += u64::from(before.is_some());
            }
            STOP => {
                let Some((tid, start_ns)) = self.activities.remove(&key) else {
                    self.counts.unmatched_stops += 1;
                    return Err(Unused::NoContext);
                };
                let (pid, name, end_ns) = (row.pid, row.event.name(), row.at_ns);
                sink.ort_activity(&OrtActivity { pid, tid, name, activity, start_ns, end_ns });
            }
            _ => {}
        }
        Ok(())
    }

    /// Counts what did not end before the end of the trace.
    pub fn finish(&mut self) {
        self.counts.unmatched_starts += (self.evaluations.len() + self.activities.len()) as u64;
        self.evaluations.clear();
        self.creations.clear();
        self.activities.clear();
    }
}
