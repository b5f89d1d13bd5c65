//! `/hello` and `/sources`: who the client is and which data sources exist.

use std::collections::BTreeMap;

use ortscope_core::schema::{SessionRow, TableId, Text};
use schemars::JsonSchema;
use serde::Serialize;

use crate::app::{App, Asked};
use crate::clients::{MAX_HERTZ, MIN_HERTZ};
use crate::data::Source;
use crate::error::ApiError;
use crate::security::Role;

/// The first answer a client asks for: who it is and which sources exist.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Hello {
    pub ortscope_version: &'static str,
    /// Role of this cookie or token.
    pub role: Role,
    /// Name of the token, never the token itself. "login-link" for the page that `serve` opened.
    pub identity: String,
    pub sources: Vec<SourceInfo>,
    /// The source to show first.
    pub default_source: String,
    /// False if the server only shows recordings; every control route then answers 409.
    pub has_live: bool,
    /// Range of rates that /ws/metrics accepts.
    pub rate_min_hertz: f64,
    pub rate_max_hertz: f64,
    /// Whether the connection uses TLS.
    pub secure: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct SourceList {
    pub sources: Vec<SourceInfo>,
}

/// A session of ONNX Runtime.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SessionInfo {
    pub session_id: String,
    pub model_name: String,
    /// The model name, plus the differing parameter in a sweep.
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

    /// A session without a row in the table of sessions: only its inferences are known.
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

/// A data source: the live machine or a recording.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SourceInfo {
    /// "live", or the id of a recording: the value of the query parameter `source`.
    pub id: String,
    pub kind: SourceKind,
    /// For headings: name or subject of the recording, "this machine" for live.
    pub title: String,
    pub subject: String,
    /// How the data was recorded: live, run, record, attach or import.
    pub origin: String,
    /// Wall time of t_ms = 0 in milliseconds since 1970; null if unknown (imported data).
    pub origin_unix_ms: Option<f64>,
    /// Time of the first data.
    pub from_ms: f64,
    /// Time of the last data; now for live.
    pub to_ms: f64,
    /// Whether data is still being added.
    pub growing: bool,
    pub sessions: Vec<SessionInfo>,
    /// Sentences about damage or loss; empty if there is none.
    pub condition: Vec<String>,
    /// Number of rows by table, without empty tables. Live: rows received so far.
    pub rows: BTreeMap<&'static str, u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SourceKind {
    Live,
    Recording,
}

pub fn source_info(source: &Source) -> Result<SourceInfo, ApiError> {
    let manifest = source.manifest();
    let tables = source.tables();
    let rows = match source.live() {
        Some(live) => live.recent.seen(),
        None => TableId::ALL.iter().map(|table| (table.def().name, tables.row_count(*table))).collect(),
    };
    Ok(SourceInfo {
        id: source.id.clone(),
        kind: if source.live().is_some() { SourceKind::Live } else { SourceKind::Recording },
        title: manifest.name.clone().unwrap_or_else(|| manifest.subject.clone()),
        subject: manifest.subject,
        origin: manifest.origin,
        origin_unix_ms: source.origin_unix_ms(),
        from_ms: source.ms(source.first_ns),
        to_ms: source.ms(source.last_ns),
        growing: source.growing(),
        sessions: source.sessions()?.values().map(SessionInfo::of).collect(),
        condition: source.condition(),
        rows: rows.into_iter().filter(|(_, rows)| *rows > 0).collect(),
    })
}

fn all_sources(app: &App) -> Result<Vec<SourceInfo>, ApiError> {
    app.sources.ids().iter().map(|id| source_info(&app.sources.get(id)?)).collect()
}

pub fn hello(app: &App, asked: &Asked) -> Result<Hello, ApiError> {
    let identity = asked.identity.as_ref().ok_or_else(|| ApiError::internal("a request without identity"))?;
    Ok(Hello {
        ortscope_version: env!("CARGO_PKG_VERSION"),
        role: identity.role,
        identity: identity.name.clone(),
        sources: all_sources(app)?,
        default_source: app.sources.default_id().to_owned(),
        has_live: app.sources.live().is_some(),
        rate_min_hertz: MIN_HERTZ,
        rate_max_hertz: MAX_HERTZ,
        secure: app.secure,
    })
}

pub fn sources(app: &App, _: &Asked) -> Result<SourceList, ApiError> {
    Ok(SourceList { sources: all_sources(app)? })
}
