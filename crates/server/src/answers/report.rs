//! Panels that show what a report says: latency, operators, findings, the machine. Made of the range that is asked for.

use std::sync::Arc;

use ortscope_core::filter::Filter;
use ortscope_result::ReportModel;
use serde_json::{Value, json};

use super::current::device_values;
use super::{Answer, about};
use crate::app::{App, Asked};
use crate::data::{Newest, Source};
use crate::error::ApiError;

/// A source, the range of it that was asked for, and what a report says about that.
type Reported = (Source, (u64, u64), Arc<ReportModel>);

fn model(app: &App, asked: &Asked, filter: Option<&Filter>) -> Result<Reported, ApiError> {
    let source = app.sources.of(&asked.params)?;
    let range = source.range(&asked.params)?;
    let model = source.report(&app.reports, range, filter)?;
    Ok((source, range, model))
}

/// Only the session that is asked for.
fn of_session(list: Vec<Value>, session: Option<&str>) -> Vec<Value> {
    let is_it = |entry: &Value| session.is_none_or(|session| entry["session_id"] == session);
    list.into_iter().filter(is_it).collect()
}

fn values<T: serde::Serialize>(list: &[T]) -> Result<Vec<Value>, ApiError> {
    list.iter().map(|entry| serde_json::to_value(entry).map_err(ApiError::internal)).collect()
}

pub fn latency(app: &App, asked: &Asked) -> Result<Answer, ApiError> {
    let (source, range, model) = model(app, asked, None)?;
    let mut answer = about(&source, range);
    answer
        .insert("sessions".into(), of_session(values(&model.sessions)?, asked.params.text("session")).into());
    answer.insert("other_sessions".into(), json!(model.other_sessions));
    answer.insert("explanation_sources".into(), json!(model.explanation_sources));
    Answer::json(&answer)
}

pub fn operators(app: &App, asked: &Asked) -> Result<Answer, ApiError> {
    let filter =
        asked.params.text("filter").filter(|text| !text.trim().is_empty()).map(Filter::parse).transpose()?;
    let (source, range, model) = model(app, asked, filter.as_ref())?;
    let mut sessions = of_session(values(&model.operators)?, asked.params.text("session"));
    for session in &mut sessions {
        if let Value::Object(fields) = session {
            // /timeline has it, at every zoom.
            fields.remove("timeline");
            fields.remove("timeline_unknown");
        }
    }
    let mut answer = about(&source, range);
    answer.insert("sessions".into(), sessions.into());
    Answer::json(&answer)
}

pub fn findings(app: &App, asked: &Asked) -> Result<Answer, ApiError> {
    let (source, range, model) = model(app, asked, None)?;
    let mut answer = about(&source, range);
    answer.insert("findings".into(), json!(model.findings));
    answer.insert("annotations".into(), json!(model.annotations));
    Answer::json(&answer)
}

pub fn system(app: &App, asked: &Asked) -> Result<Answer, ApiError> {
    let source = app.sources.of(&asked.params)?;
    let range = source.range(&asked.params)?;
    let model = source.report(&app.reports, range, None)?;
    let header = &model.header;
    let devices = match source.live() {
        Some(live) => live.recent.newest(|newest| device_values(&source, newest, source.last_ns)),
        None => device_values(&source, &Newest::at(source.tables(), source.last_ns)?, source.last_ns),
    };
    Answer::json(&json!({
        "source": source.id,
        "machine": header.machine,
        "ort_versions": header.ort_versions,
        "execution_providers": header.execution_providers,
        "ortscope_version": env!("CARGO_PKG_VERSION"),
        "recorded_by": header.ortscope_version,
        "command": header.command,
        "started_utc": (header.started_unix_ns > 0).then_some(&header.started_utc),
        "duration_seconds": if source.live().is_some() { source.ms(source.last_ns) / 1e3 } else { header.duration_seconds },
        "ended": if source.live().is_some() { "it goes on" } else { header.ended.as_str() },
        "complete": source.live().is_some() || header.complete,
        "provenance": model.provenance,
        "devices": devices,
    }))
}
