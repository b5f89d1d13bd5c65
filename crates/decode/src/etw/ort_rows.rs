//! Converts ONNX Runtime's ETW events to rows: sessions, inferences and operators. Live capture and import both use it.

use std::collections::HashMap;

use ortscope_core::identity::SessionId;
use ortscope_core::schema::{InferenceRow, KernelEventRow, OperatorRow, SessionRow, Text};
use ortscope_etl::payload::builtin::ort::OrtEvent;

use super::{DeviceRow, Inference, OrtOperator, OrtRow, OrtSession};

/// Maximum number of sessions. Inferences of further ones are counted as lost.
const MAX_SESSIONS: usize = 1 << 16;
/// Maximum number of streams per session; all further threads share one stream.
const MAX_STREAMS: usize = 4096;

/// A session with a row identity.
#[derive(Debug)]
struct Known {
    id: Text,
    inferences: u64,
    threads: Vec<u32>,
    /// Whether a creation event described it.
    was_described: bool,
    first_ns: u64,
}

/// Process id and session number. ONNX Runtime numbers sessions per process.
type Key = (u32, u64);

/// Makes rows of ONNX Runtime's events.
#[derive(Debug, Default)]
pub struct OrtRows {
    known: HashMap<Key, Known>,
    /// The session that each process ran last, because operator events do not name theirs.
    latest: HashMap<u32, u64>,
    versions: HashMap<u32, Text>,
    /// Events of sessions beyond the limit.
    pub dropped: u64,
    /// Whether QNN reported cycles without times.
    pub has_cycles_only: bool,
}

impl OrtRows {
    fn known(&mut self, key: Key, at_ns: u64) -> Option<&mut Known> {
        if self.known.len() >= MAX_SESSIONS && !self.known.contains_key(&key) {
            self.dropped += 1;
            return None;
        }
        Some(self.known.entry(key).or_insert_with(|| Known {
            id: SessionId::random().to_string().into(),
            inferences: 0,
            threads: Vec::new(),
            was_described: false,
            first_ns: at_ns,
        }))
    }

    pub fn session(&mut self, session: &OrtSession) -> Option<SessionRow> {
        let version = self.versions.get(&session.pid).cloned();
        let known = self.known((session.pid, session.session_id), session.at_ns)?;
        known.was_described = true;
        let fields = &session.fields;
        // Releases differ in the fields they write, and some fields are empty.
        let text = |name: &str| fields.text(name).filter(|text| !text.is_empty()).map(str::to_owned);
        let model = text("modelFileName").or_else(|| text("modelGraphName")).or_else(|| text("loadedFrom"));
        Some(SessionRow {
            timestamp_ns: session.at_ns,
            session_id: Text::clone(&known.id),
            pid: Some(u64::from(session.pid)),
            model_name: model.unwrap_or_else(|| unnamed(session.pid, session.session_id)).into(),
            execution_providers: text("executionProviderIds").unwrap_or_default().into(),
            ort_version: text("runtimeVersion").map(Text::from).or(version),
            options: Some(fields.to_json().to_string().into()),
        })
    }

    pub fn inference(&mut self, inference: &Inference) -> Option<InferenceRow> {
        let known = self.known((inference.pid, inference.session_id), inference.start_ns)?;
        let sequence = known.inferences;
        known.inferences += 1;
        let stream = match known.threads.iter().position(|tid| *tid == inference.tid) {
            Some(stream) => stream,
            None if known.threads.len() < MAX_STREAMS => {
                known.threads.push(inference.tid);
                known.threads.len() - 1
            }
            None => MAX_STREAMS,
        };
        Some(InferenceRow {
            timestamp_ns: inference.start_ns,
            planned_ns: inference.start_ns,
            session_id: Text::clone(&known.id),
            sequence,
            stream: stream as u64,
            phase: if sequence == 0 { "first".into() } else { "steady".into() },
            copy_in_ns: 0,
            run_ns: inference.end_ns.saturating_sub(inference.start_ns),
            copy_out_ns: 0,
            batch_size: None,
            queue_depth: None,
            token: None,
            ok: true,
        })
    }

    /// Only instrumented builds of ONNX Runtime write these events.
    pub fn operator(&mut self, operator: &OrtOperator) -> Option<OperatorRow> {
        let start_ns = operator.end_ns.saturating_sub(operator.duration_ns);
        let row = self.operator_row(operator.pid, operator.tid, start_ns)?;
        let name: Text = operator.operator.as_str().into();
        Some(OperatorRow { duration_ns: operator.duration_ns, op_type: Text::clone(&name), name, ..row })
    }

    fn operator_row(&mut self, pid: u32, tid: u32, at_ns: u64) -> Option<OperatorRow> {
        let session = self.latest.get(&pid).copied().unwrap_or(0);
        let known = self.known((pid, session), at_ns)?;
        Some(OperatorRow {
            timestamp_ns: at_ns,
            session_id: Text::clone(&known.id),
            // Its run has not ended yet, so it is the next one to be counted.
            run: Some(known.inferences),
            kind: "operator".into(),
            thread: u64::from(tid),
            ..OperatorRow::default()
        })
    }

    /// Takes every event of ONNX Runtime, for facts that later rows need, and for QNN's profile.
    pub fn event(&mut self, row: &OrtRow) -> Option<OperatorRow> {
        match row.event {
            OrtEvent::EvaluationStart => {
                if let Some(session) = row.fields.unsigned("sessionId")
                    && (self.latest.len() < MAX_SESSIONS || self.latest.contains_key(&row.pid))
                {
                    self.latest.insert(row.pid, session);
                }
            }
            OrtEvent::ProcessInfo => {
                if let Some(version) = row.fields.text("runtimeVersion")
                    && self.versions.len() < MAX_SESSIONS
                {
                    self.versions.insert(row.pid, version.into());
                }
            }
            OrtEvent::QnnProfiling => return self.qnn(row),
            _ => {}
        }
        None
    }

    /// One line of QNN's profile. Nodes are in cycles, the other parts of a call in microseconds.
    fn qnn(&mut self, row: &OrtRow) -> Option<OperatorRow> {
        let value = row.fields.unsigned("Value")?;
        let unit = row.fields.text("Unit of Measurement").unwrap_or_default();
        let message = row.fields.text("Message").unwrap_or_default();
        let identifier = row.fields.text("Event Identifier").unwrap_or_default();
        let is_node =
            row.fields.text("Event Level").is_some_and(|level| level.eq_ignore_ascii_case("SUB-EVENT"));
        let (duration_ns, cycles) = match unit.to_ascii_uppercase().as_str() {
            "US" => (value.saturating_mul(1000), None),
            "CYCLES" => (0, Some(value)),
            _ => return None,
        };
        self.has_cycles_only |= cycles.is_some();
        let shown = if identifier.is_empty() { message } else { identifier };
        let base = self.operator_row(row.pid, row.tid, row.at_ns.saturating_sub(duration_ns))?;
        Some(OperatorRow {
            duration_ns,
            cycles,
            kind: if is_node && cycles.is_some() { "operator".into() } else { "other".into() },
            name: shown.into(),
            op_type: message.into(),
            execution_provider: "QNNExecutionProvider".into(),
            device: "NPU".into(),
            ..base
        })
    }

    /// Rows for sessions that ran but have no creation event in the trace.
    pub fn undescribed(&self) -> Vec<SessionRow> {
        let mut rows: Vec<SessionRow> = self
            .known
            .iter()
            .filter(|(_, known)| !known.was_described)
            .map(|(&(pid, session), known)| SessionRow {
                timestamp_ns: known.first_ns,
                session_id: Text::clone(&known.id),
                pid: Some(u64::from(pid)),
                model_name: unnamed(pid, session).into(),
                execution_providers: Text::default(),
                ort_version: self.versions.get(&pid).cloned(),
                options: None,
            })
            .collect();
        rows.sort_by_key(|row| (row.timestamp_ns, Text::clone(&row.model_name)));
        rows
    }
}

fn unnamed(pid: u32, session: u64) -> String {
    format!("session {session} of process {pid}")
}

/// The row of a power event of a device.
pub fn power_row(row: &DeviceRow) -> KernelEventRow {
    KernelEventRow {
        timestamp_ns: row.at_ns,
        kind: "power".into(),
        processor: Some(u64::from(row.cpu)),
        pid: None,
        tid: None,
        duration_ns: None,
        value: None,
        detail: Some(format!("{} {} {}", row.provider, row.name, row.fields.to_json()).into()),
    }
}
