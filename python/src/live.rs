//! The live view of this process's recording: counts and recent latencies per session, in bounded memory.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use ortscope_analyze::percentiles;
use ortscope_core::batch::Batch;
use ortscope_core::pipeline::{FlushError, Sink, SinkError};
use ortscope_core::schema::{
    AnnotationRow, InferenceRow, OperatorKind, OperatorRow, Phase, ProcessSampleRow, SessionRow, TableId,
    Text,
};
use serde_json::{Value, json};

/// Latencies kept per session, the newest: percentiles are of these.
const RECENT: usize = 100_000;
/// Maximum number of sessions and kinds of marks; further ones are counted together.
const MAX_SESSIONS: usize = 4096;
const MAX_KINDS: usize = 256;
/// Marks that are kept word for word, the newest.
const MAX_MARKS: usize = 1000;
/// A report names these.
const PERCENTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p99_9", 0.999)];

#[derive(Debug, Default)]
struct Kept {
    sessions: HashMap<Text, Session>,
    inferences: u64,
    positions: u64,
    beyond: u64,
    marks: VecDeque<(u64, Text, Text)>,
    mark_counts: BTreeMap<String, u64>,
    operators: BTreeMap<String, (u64, u64)>,
    process: Option<ProcessSampleRow>,
    peak_working_set_bytes: u64,
}

#[derive(Debug, Default)]
struct Session {
    note: Option<SessionRow>,
    count: u64,
    errors: u64,
    profiled: u64,
    samples: u64,
    sum_ns: u64,
    min_ns: Option<u64>,
    max_ns: u64,
    first_ns: Option<u64>,
    last_ns: u64,
    recent: VecDeque<u64>,
}

/// Shared by the sink and its readers.
#[derive(Debug, Clone, Default)]
pub struct Live(Arc<Mutex<Kept>>);

impl Live {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Positions that have arrived, and with each all that was read up to it.
    pub fn positions(&self) -> u64 {
        self.lock().positions
    }

    pub fn document(&self) -> Value {
        let kept = self.lock();
        let mut sessions: Vec<&Session> = kept.sessions.values().collect();
        sessions.sort_by_key(|session| session.note.as_ref().map(|note| note.timestamp_ns));
        let operators: Vec<Value> = kept
            .operators
            .iter()
            .map(|(name, (count, total))| json!({"op_type": name, "count": count, "total_ms": *total as f64 / 1e6}))
            .collect();
        let marks: Vec<Value> = kept
            .marks
            .iter()
            .map(|(at, kind, text)| json!({"timestamp_ns": at, "kind": &**kind, "text": &**text}))
            .collect();
        json!({
            "inferences": kept.inferences,
            "inferences_of_further_sessions": kept.beyond,
            "sessions": sessions.iter().map(|session| session.document()).collect::<Vec<_>>(),
            "operators": operators,
            "marks": marks,
            "mark_counts": kept.mark_counts,
            "process": {
                "working_set_bytes": kept.process.as_ref().map(|row| row.working_set_bytes),
                "peak_working_set_bytes": kept.peak_working_set_bytes,
                "cpu_time_ns": kept.process.as_ref().map(|row| row.cpu_time_ns),
                "thread_count": kept.process.as_ref().and_then(|row| row.thread_count),
            },
        })
    }
}

impl Session {
    fn add(&mut self, row: &InferenceRow) {
        self.count += 1;
        self.first_ns.get_or_insert(row.timestamp_ns);
        self.last_ns = self.last_ns.max(row.timestamp_ns + row.run_ns);
        if !row.ok {
            self.errors += 1;
            return;
        }
        self.samples += row.batch_size.unwrap_or(1).max(1);
        if row.phase == Phase::Profiled {
            // The profiler makes a run slower: it is in no figure of latency.
            self.profiled += 1;
            return;
        }
        self.sum_ns = self.sum_ns.saturating_add(row.run_ns);
        self.min_ns = Some(self.min_ns.map_or(row.run_ns, |least| least.min(row.run_ns)));
        self.max_ns = self.max_ns.max(row.run_ns);
        if self.recent.len() >= RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(row.run_ns);
    }

    fn document(&self) -> Value {
        let recent: Vec<u64> = self.recent.iter().copied().collect();
        let ps: Vec<f64> = PERCENTILES.iter().map(|(_, p)| *p).collect();
        let computed = if recent.is_empty() { Vec::new() } else { percentiles(&recent, &ps) };
        let ms = |nanos: u64| nanos as f64 / 1e6;
        let named: BTreeMap<&str, Option<f64>> = PERCENTILES
            .iter()
            .zip(&computed)
            .map(|((name, _), percentile)| (*name, percentile.value_ns.map(ms)))
            .collect();
        let timed = self.count - self.errors - self.profiled;
        let seconds = self.first_ns.map(|first| self.last_ns.saturating_sub(first) as f64 / 1e9);
        let note = self.note.as_ref();
        json!({
            "session_id": note.map(|note| note.session_id.to_string()),
            "model_name": note.map(|note| note.model_name.to_string()),
            "pid": note.and_then(|note| note.pid),
            "execution_providers": note.map(|note| note.execution_providers.to_string()),
            "ort_version": note.and_then(|note| note.ort_version.as_deref().map(str::to_owned)),
            "count": self.count,
            "errors": self.errors,
            "profiled": self.profiled,
            "samples": self.samples,
            "mean_ms": (timed > 0).then(|| ms(self.sum_ns) / timed as f64),
            "min_ms": self.min_ns.map(ms),
            "max_ms": (timed > 0).then(|| ms(self.max_ns)),
            "percentiles_ms": named,
            "per_second": seconds.filter(|seconds| *seconds > 0.0).map(|seconds| self.count as f64 / seconds),
        })
    }
}

impl Kept {
    fn session(&mut self, id: &Text) -> Option<&mut Session> {
        if !self.sessions.contains_key(id) {
            if self.sessions.len() >= MAX_SESSIONS {
                return None;
            }
            self.sessions.insert(Text::clone(id), Session::default());
        }
        self.sessions.get_mut(id)
    }

    fn mark(&mut self, row: AnnotationRow) {
        if self.mark_counts.len() < MAX_KINDS || self.mark_counts.contains_key(&*row.kind) {
            *self.mark_counts.entry(row.kind.to_string()).or_default() += 1;
        }
        if self.marks.len() >= MAX_MARKS {
            self.marks.pop_front();
        }
        self.marks.push_back((row.timestamp_ns, row.kind, row.text));
    }
}

impl Sink for Live {
    fn name(&self) -> &str {
        "live"
    }

    fn consume(&mut self, batch: &Batch) -> Result<(), SinkError> {
        let mut kept = self.lock();
        match batch.table() {
            TableId::Inferences => {
                for row in batch.rows::<InferenceRow>() {
                    kept.inferences += 1;
                    match kept.session(&row.session_id) {
                        Some(session) => session.add(&row),
                        None => kept.beyond += 1,
                    }
                }
            }
            TableId::Sessions => {
                for row in batch.rows::<SessionRow>() {
                    if let Some(session) = kept.session(&Text::clone(&row.session_id)) {
                        session.note = Some(row);
                    }
                }
            }
            TableId::Operators => {
                for row in batch.rows::<OperatorRow>().filter(|row| row.kind == OperatorKind::Operator) {
                    if kept.operators.len() < MAX_KINDS || kept.operators.contains_key(&*row.op_type) {
                        let of = kept.operators.entry(row.op_type.to_string()).or_default();
                        *of = (of.0 + 1, of.1 + row.duration_ns);
                    }
                }
            }
            TableId::ChannelPositions => kept.positions += batch.len() as u64,
            TableId::Annotations => batch.rows::<AnnotationRow>().for_each(|row| kept.mark(row)),
            TableId::ProcessSamples => {
                for row in batch.rows::<ProcessSampleRow>() {
                    kept.peak_working_set_bytes = kept.peak_working_set_bytes.max(row.working_set_bytes);
                    kept.process = Some(row);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn flush(&mut self, _deadline: Instant) -> Result<(), FlushError> {
        Ok(())
    }
}
