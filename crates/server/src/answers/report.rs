//! Panels that show parts of the report for the requested range: latency, operators, findings, the machine.

use std::collections::BTreeMap;
use std::sync::Arc;

use ortscope_core::filter::Filter;
use ortscope_result::{
    AnnotationReport, FindingReport, OperatorReport, OperatorSection, OtherSessions, Provenance, ReportModel,
    SessionReport, SourceCheck,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::About;
use super::current::{DeviceValue, device_values};
use crate::app::{App, Asked};
use crate::data::{Newest, Source};
use crate::error::ApiError;

/// Latency of each session in the range, with the same figures as a report of that range.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Latency {
    #[serde(flatten)]
    pub about: About,
    pub sessions: Vec<SessionReport>,
    /// Sessions beyond the limit of 32.
    pub other_sessions: OtherSessions,
    /// Sources that could explain slow inferences.
    pub explanation_sources: Vec<SourceCheck>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Operators {
    #[serde(flatten)]
    pub about: About,
    pub sessions: Vec<SessionOperators>,
}

/// The profiled runs of one session, with the results of the profiling pass.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SessionOperators {
    #[serde(flatten)]
    pub report: OperatorReport,
    /// Null for recordings without a profiling pass.
    pub insight: Option<OperatorSection>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Findings {
    #[serde(flatten)]
    pub about: About,
    /// Most severe first.
    pub findings: Vec<FindingReport>,
    pub annotations: Vec<AnnotationReport>,
}

/// The machine and the software.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SystemInfo {
    pub source: String,
    /// Facts in words: cpu_model, logical_cpus, os, governor, …
    pub machine: BTreeMap<String, String>,
    pub ort_versions: Vec<String>,
    pub execution_providers: Vec<String>,
    pub ortscope_version: &'static str,
    /// The version that made the recording.
    pub recorded_by: String,
    pub command: Option<String>,
    pub started_utc: Option<String>,
    pub duration_seconds: f64,
    /// Why the recording ended, in words.
    pub ended: String,
    pub complete: bool,
    pub provenance: Vec<Provenance>,
    pub devices: Vec<DeviceValue>,
}

/// A source, the requested range and the report of that range.
type Reported = (Source, (u64, u64), Arc<ReportModel>);

fn model(app: &App, asked: &Asked, filter: Option<&Filter>) -> Result<Reported, ApiError> {
    let source = app.sources.of(&asked.params)?;
    let range = source.range(&asked.params)?;
    let model = source.report(&app.reports, range, filter)?;
    Ok((source, range, model))
}

/// Whether a session is the requested one; all are if none was requested.
fn is_requested(asked: &Asked, session_id: &str) -> bool {
    asked.params.text("session").is_none_or(|session| session == session_id)
}

pub fn latency(app: &App, asked: &Asked) -> Result<Latency, ApiError> {
    let (source, range, model) = model(app, asked, None)?;
    let sessions = model.sessions.iter().filter(|session| is_requested(asked, &session.session_id));
    Ok(Latency {
        about: About::new(&source, range),
        sessions: sessions.cloned().collect(),
        other_sessions: model.other_sessions,
        explanation_sources: model.explanation_sources.clone(),
    })
}

pub fn operators(app: &App, asked: &Asked) -> Result<Operators, ApiError> {
    let filter =
        asked.params.text("filter").filter(|text| !text.trim().is_empty()).map(Filter::parse).transpose()?;
    let (source, range, model) = model(app, asked, filter.as_ref())?;
    let sessions = model.operators.iter().filter(|session| is_requested(asked, &session.session_id));
    let without_timeline = |session: &OperatorReport| SessionOperators {
        insight: model.operator_section(&session.session_id).cloned(),
        report: OperatorReport {
            timeline: None,
            timeline_unknown: Some("GET /timeline has it at every zoom level".to_owned()),
            ..session.clone()
        },
    };
    Ok(Operators { about: About::new(&source, range), sessions: sessions.map(without_timeline).collect() })
}

pub fn findings(app: &App, asked: &Asked) -> Result<Findings, ApiError> {
    let (source, range, model) = model(app, asked, None)?;
    Ok(Findings {
        about: About::new(&source, range),
        findings: model.findings.clone(),
        annotations: model.annotations.clone(),
    })
}

pub fn system(app: &App, asked: &Asked) -> Result<SystemInfo, ApiError> {
    let (source, _, model) = model(app, asked, None)?;
    let header = model.header.clone();
    let is_live = source.live().is_some();
    let devices = match source.live() {
        Some(live) => live.recent.newest(|newest| device_values(&source, newest, source.last_ns)),
        None => device_values(&source, &Newest::at(source.tables(), source.last_ns)?, source.last_ns),
    };
    Ok(SystemInfo {
        machine: header.machine,
        ort_versions: header.ort_versions,
        execution_providers: header.execution_providers,
        ortscope_version: env!("CARGO_PKG_VERSION"),
        recorded_by: header.ortscope_version,
        command: header.command,
        started_utc: (header.started_unix_ns > 0).then_some(header.started_utc),
        duration_seconds: if is_live { source.ms(source.last_ns) / 1e3 } else { header.duration_seconds },
        ended: if is_live { "still running".to_owned() } else { header.ended },
        complete: is_live || header.complete,
        provenance: model.provenance.clone(),
        devices,
        source: source.id,
    })
}
