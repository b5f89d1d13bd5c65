//! One rectangle in full.

use std::collections::BTreeMap;

use ortscope_core::schema::{InferenceRow, KernelEventRow, OperatorKind, OperatorRow, TableId};
use ortscope_core::tables::Scan;
use ortscope_export::wire::{InferenceContext, Sensors, inference_record, operation_record};
use serde_json::{Value, json};

use super::super::{Answer, number, with_time};
use super::dependencies;
use super::lanes::LaneKey;
use super::records::reasons;
use crate::app::{App, Asked};
use crate::data::Source;
use crate::error::ApiError;

pub fn event(app: &App, asked: &Asked) -> Result<Answer, ApiError> {
    let source = app.sources.of(&asked.params)?;
    let lane = asked.params.text("lane").unwrap_or_default();
    let key =
        LaneKey::parse(lane).ok_or_else(|| ApiError::bad_parameter("lane", "is not the id of a lane"))?;
    let offset = asked.params.whole("id")?.unwrap_or_default();
    let at_ns = source.origin_ns.saturating_add_signed(offset);
    let scan = Scan { from_ns: Some(at_ns), to_ns: Some(at_ns.saturating_add(1)), ..Scan::all() };
    let found = match &key {
        LaneKey::Inferences { session, stream } => {
            let is_it = |row: &InferenceRow| row.session_id == *session && row.stream == *stream;
            first(&source, TableId::Inferences, &scan, is_it)?
                .map(|row| inference(&source, &row))
                .transpose()?
        }
        LaneKey::Runs { session } => {
            let is_it = |row: &OperatorRow| {
                row.session_id == *session && !row.kind.known().is_some_and(OperatorKind::is_work)
            };
            first(&source, TableId::Operators, &scan, is_it)?
                .map(|row| operation(&source, &row))
                .transpose()?
        }
        LaneKey::Operators { session, provider, thread } => {
            let is_it = |row: &OperatorRow| {
                row.session_id == *session && row.execution_provider == *provider && row.thread == *thread
            };
            first(&source, TableId::Operators, &scan, is_it)?
                .map(|row| operation(&source, &row))
                .transpose()?
        }
        LaneKey::Kernel { pid, tid } => {
            let is_it = |row: &KernelEventRow| row.tid == Some(*tid) && row.pid.unwrap_or(0) == *pid;
            first(&source, TableId::KernelEvents, &scan, is_it)?.map(|row| kernel(&source, &row))
        }
    };
    let Some(Value::Object(mut answer)) = found else {
        return Err(ApiError::not_found("there is no such event in this lane"));
    };
    answer.insert("source".into(), source.id.into());
    answer.insert("lane".into(), lane.into());
    for kind in ["operation", "inference", "kernel", "dependencies"] {
        answer.entry(kind).or_insert(Value::Null);
    }
    Answer::json(&answer)
}

fn first<R: ortscope_core::schema::Row>(
    source: &Source,
    table: TableId,
    scan: &Scan,
    is_it: impl Fn(&R) -> bool,
) -> Result<Option<R>, ApiError> {
    for batch in source.tables().scan(table, scan) {
        if let Some(row) = batch?.rows::<R>().find(|row| is_it(row)) {
            return Ok(Some(row));
        }
    }
    Ok(None)
}

fn ms(nanos: u64) -> Value {
    number(nanos as f64 / 1e6)
}

fn inference(source: &Source, row: &InferenceRow) -> Result<Value, ApiError> {
    let sessions = super::super::hello::sessions(source.tables())?;
    let sensors = Sensors::default();
    let reasons = reasons(source)?;
    let context = InferenceContext {
        model_name: sessions.get(&row.session_id).map(|session| &*session.model_name),
        figures: None,
        sensors: &sensors,
        flops: None,
        padding_ratio: None,
        reasons: &reasons,
    };
    let details = BTreeMap::from([
        ("phase", json!(row.phase)),
        ("sequence", row.sequence.into()),
        ("stream", row.stream.into()),
        ("copy_in_ms", ms(row.copy_in_ns)),
        ("run_ms", ms(row.run_ns)),
        ("copy_out_ms", ms(row.copy_out_ns)),
        ("token", row.token.into()),
        ("ok", json!(if row.ok { "yes" } else { "failed" })),
    ]);
    let record = with_time(&inference_record(row, &context), source.ms(row.timestamp_ns));
    Ok(json!({
        "inference": record,
        "details": details,
        "unavailable": { "dependencies": "an inference has none" },
    }))
}

fn operation(source: &Source, row: &OperatorRow) -> Result<Value, ApiError> {
    let details = BTreeMap::from([
        ("kind", json!(row.kind)),
        ("node_index", row.node_index.into()),
        ("thread", row.thread.into()),
        ("depth", row.depth.into()),
        ("flops", row.flops.into()),
        ("output_bytes", row.output_bytes.into()),
        ("activation_bytes", row.activation_bytes.into()),
        ("parameter_bytes", row.parameter_bytes.into()),
        ("memory_in_use_bytes", row.memory_in_use_bytes.into()),
        ("memory_delta_bytes", row.memory_delta_bytes.into()),
        ("arena_bytes", row.arena_bytes.into()),
        ("pool_run_ms", row.pool_run_ns.map_or(Value::Null, ms)),
        ("pool_wait_ms", row.pool_wait_ns.map_or(Value::Null, ms)),
        ("input_types", json!(row.input_types)),
        ("output_types", json!(row.output_types)),
    ]);
    let record = with_time(&operation_record(row, &reasons(source)?), source.ms(row.timestamp_ns));
    Ok(match dependencies::of(source, row)? {
        Ok(found) => json!({
            "operation": record,
            "details": details,
            "dependencies": found,
            "unavailable": {},
        }),
        Err(why) => json!({
            "operation": record,
            "details": details,
            "unavailable": { "dependencies": why },
        }),
    })
}

fn kernel(source: &Source, row: &KernelEventRow) -> Value {
    json!({
        "kernel": {
            "t_ms": number(source.ms(row.timestamp_ns)),
            "kind": row.kind,
            "processor": row.processor,
            "pid": row.pid,
            "tid": row.tid,
            "duration_ms": row.duration_ns.map_or(Value::Null, ms),
            "value": row.value,
            "detail": row.detail,
        },
        "details": {},
        "unavailable": { "dependencies": "a kernel event has none" },
    })
}
