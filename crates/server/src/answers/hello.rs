//! `/hello` and `/sources`: what is here.

use std::collections::BTreeMap;

use ortscope_core::schema::{SessionRow, TableId, Text};
use ortscope_core::tables::{Scan, Tables};
use serde::Serialize;
use serde_json::json;

use super::Answer;
use crate::app::{App, Asked};
use crate::data::Source;
use crate::error::ApiError;
use crate::ws::{MAX_HERTZ, MIN_HERTZ};

const MAX_SESSIONS: usize = 1000;

#[derive(Debug, Clone, Serialize)]
pub struct SessionInfo {
    pub session_id: String,
    pub model_name: String,
    pub title: String,
    pub pid: Option<u64>,
    pub execution_providers: Vec<String>,
    pub ort_version: Option<String>,
}

impl SessionInfo {
    pub fn of(row: &SessionRow) -> Self {
        Self {
            session_id: row.session_id.to_string(),
            model_name: row.model_name.to_string(),
            title: row.model_name.to_string(),
            pid: row.pid,
            execution_providers: row
                .execution_providers
                .split(',')
                .map(str::trim)
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
                .collect(),
            ort_version: row.ort_version.as_deref().map(str::to_owned),
        }
    }

    /// A session of which only inferences are known.
    pub fn unknown(session_id: &Text) -> Self {
        Self {
            session_id: session_id.to_string(),
            model_name: String::new(),
            title: format!("session {}", session_id.chars().take(8).collect::<String>()),
            pid: None,
            execution_providers: Vec::new(),
            ort_version: None,
        }
    }
}

#[derive(Debug, Serialize)]
pub struct SourceInfo {
    pub id: String,
    pub kind: &'static str,
    pub title: String,
    pub subject: String,
    pub origin: String,
    pub origin_unix_ms: Option<f64>,
    pub from_ms: f64,
    pub to_ms: f64,
    pub growing: bool,
    pub sessions: Vec<SessionInfo>,
    pub condition: Vec<String>,
    pub rows: BTreeMap<&'static str, u64>,
}

/// Sessions of a source, with what was told last about each.
pub fn sessions(tables: &dyn Tables) -> Result<BTreeMap<Text, SessionRow>, ApiError> {
    let mut sessions: BTreeMap<Text, SessionRow> = BTreeMap::new();
    for batch in tables.scan(TableId::Sessions, &Scan::all()) {
        for mut row in batch?.rows::<SessionRow>() {
            if let Some(before) = sessions.get(&row.session_id) {
                row.pid = row.pid.or(before.pid);
                row.ort_version = row.ort_version.or_else(|| before.ort_version.clone());
            } else if sessions.len() >= MAX_SESSIONS {
                continue;
            }
            sessions.insert(Text::clone(&row.session_id), row);
        }
    }
    Ok(sessions)
}

pub fn source_info(source: &Source) -> Result<SourceInfo, ApiError> {
    let manifest = source.manifest();
    let tables = source.tables();
    let rows = match source.live() {
        Some(live) => live.recent.seen(),
        None => TableId::ALL.iter().map(|table| (table.def().name, tables.row_count(*table))).collect(),
    };
    let sessions = match source.live() {
        Some(live) => live.recent.newest(|newest| newest.sessions.values().map(SessionInfo::of).collect()),
        None => sessions(tables)?.values().map(SessionInfo::of).collect(),
    };
    let started = &manifest.started;
    // Imported data may have a clock that nothing ties to the wall.
    let is_tied = started.unix_ns > 0 && source.origin_ns == started.monotonic_ns;
    Ok(SourceInfo {
        id: source.id.clone(),
        kind: if source.live().is_some() { "live" } else { "recording" },
        title: manifest.name.clone().unwrap_or_else(|| manifest.subject.clone()),
        subject: manifest.subject,
        origin: manifest.origin,
        origin_unix_ms: is_tied.then_some(started.unix_ns as f64 / 1e6),
        from_ms: source.ms(source.first_ns),
        to_ms: source.ms(source.last_ns),
        growing: source.growing(),
        sessions,
        condition: source.condition(),
        rows: rows.into_iter().filter(|(_, rows)| *rows > 0).collect(),
    })
}

fn all_sources(app: &App) -> Result<Vec<SourceInfo>, ApiError> {
    app.sources.ids().iter().map(|id| source_info(&app.sources.get(id)?)).collect()
}

pub fn hello(app: &App, asked: &Asked) -> Result<Answer, ApiError> {
    let identity = asked.identity.as_ref();
    Answer::json(&json!({
        "ortscope_version": env!("CARGO_PKG_VERSION"),
        "role": identity.map(|identity| identity.role),
        "identity": identity.map(|identity| &identity.name),
        "sources": all_sources(app)?,
        "default_source": app.sources.default_id(),
        "has_live": app.sources.live().is_some(),
        "rate_min_hertz": MIN_HERTZ,
        "rate_max_hertz": MAX_HERTZ,
        "secure": app.secure,
    }))
}

pub fn sources(app: &App, _: &Asked) -> Result<Answer, ApiError> {
    Answer::json(&json!({ "sources": all_sources(app)? }))
}
