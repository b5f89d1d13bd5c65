//! The recordings of the store: list, details, report, export, removal.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::StatusCode;
use ortscope_core::filter::Filter;
use ortscope_core::recording::RecordingInfo;
use ortscope_core::schema::TableId;
use ortscope_export::{ExportOptions, Format};
use ortscope_render::{self as render, TextOptions};
use ortscope_store::{Entry, Recording};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::runtime::Handle;
use tokio::sync::mpsc::{Sender, channel};
use tokio::time::timeout;

use super::hello::{SourceInfo, source_info};
use super::{Answer, page};
use crate::app::{App, Asked};
use crate::data::Source;
use crate::error::ApiError;
use crate::params::shown;

/// Bytes collected before they are sent.
const CHUNK: usize = 64 << 10;
/// Maximum number of chunks waiting for a slow reader.
const CHUNKS: usize = 8;
/// A download whose reader takes nothing for this long is aborted.
const READ_WITHIN: Duration = Duration::from_secs(60);

#[derive(Debug, Serialize, JsonSchema)]
pub struct RecordingList {
    pub recordings: Vec<RecordingEntry>,
    pub next: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct RecordingEntry {
    pub id: String,
    pub name: Option<String>,
    pub tags: Vec<String>,
    pub origin: String,
    pub subject: String,
    pub command: Option<String>,
    pub ortscope_version: String,
    pub started_unix_ms: f64,
    pub duration_ms: Option<f64>,
    /// Why it ended.
    pub reason: Option<String>,
    pub rows: Option<u64>,
    pub bytes: u64,
    pub finished: bool,
    pub being_written: bool,
    pub damaged: bool,
    pub problem: Option<String>,
    /// Without the key only id, size and time are known, and `problem` explains that.
    pub encrypted: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct RecordingDetail {
    pub recording: RecordingEntry,
    pub source: SourceInfo,
    pub tables: Vec<TableSize>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct TableSize {
    pub table: &'static str,
    pub rows: u64,
    pub bytes: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct RecordingRemoved {
    pub id: String,
    pub bytes: u64,
}

impl From<Entry> for RecordingEntry {
    fn from(entry: Entry) -> Self {
        Self {
            id: entry.id,
            name: entry.name,
            tags: entry.tags,
            origin: entry.origin,
            subject: entry.subject,
            command: entry.command,
            ortscope_version: entry.ortscope_version,
            started_unix_ms: entry.started_unix_ns as f64 / 1e6,
            duration_ms: entry.duration_ns.map(|nanos| nanos as f64 / 1e6),
            reason: entry.reason,
            rows: entry.rows,
            bytes: entry.bytes,
            finished: entry.finished,
            being_written: entry.being_written,
            damaged: entry.damaged,
            problem: entry.problem,
            encrypted: entry.encrypted,
        }
    }
}

impl From<&Recording> for RecordingEntry {
    fn from(recording: &Recording) -> Self {
        let (manifest, condition) = (recording.manifest().clone(), recording.condition());
        let lasted = |ended: u64| ended.saturating_sub(manifest.started.monotonic_ns) as f64 / 1e6;
        Self {
            started_unix_ms: manifest.started.unix_ns as f64 / 1e6,
            duration_ms: manifest.end.as_ref().map(|end| lasted(end.ended.monotonic_ns)),
            id: manifest.id,
            name: manifest.name,
            tags: manifest.tags,
            origin: manifest.origin,
            subject: manifest.subject,
            command: manifest.command,
            ortscope_version: manifest.ortscope_version,
            reason: manifest.end.map(|end| end.reason),
            rows: None,
            bytes: recording.bytes_on_disk(),
            finished: condition.finished,
            being_written: condition.being_written,
            damaged: !condition.is_whole(),
            problem: None,
            encrypted: manifest.encryption.is_some(),
        }
    }
}

pub fn list(app: &App, asked: &Asked) -> Result<RecordingList, ApiError> {
    let limit = asked.params.count("limit", 100)?;
    let (entries, next) = page(app.sources.store().list()?, limit, asked.params.text("cursor"))?;
    Ok(RecordingList { recordings: entries.into_iter().map(RecordingEntry::from).collect(), next })
}

/// The recording named in the path. `live` is not a recording.
fn recording(app: &App, asked: &Asked) -> Result<Source, ApiError> {
    let id = asked.id.as_deref().unwrap_or_default();
    if id == "live" {
        return Err(ApiError::not_found("'live' is not a recording")
            .hint("POST /api/v1/control/record/start makes one"));
    }
    app.sources.get(id)
}

pub fn show(app: &App, asked: &Asked) -> Result<RecordingDetail, ApiError> {
    let source = recording(app, asked)?;
    let crate::data::Inner::Recording(recording) = &source.inner else {
        return Err(ApiError::not_found("'live' is not a recording"));
    };
    let entry = app.sources.store().list()?.into_iter().find(|entry| entry.id == source.id);
    let tables = recording.tables();
    let size = |table: &ortscope_store::TableSummary| TableSize {
        table: table.table.def().name,
        rows: table.rows,
        bytes: table.bytes,
    };
    Ok(RecordingDetail {
        // A recording that was named by its path is not in the store's list.
        recording: entry.map_or_else(|| RecordingEntry::from(&**recording), RecordingEntry::from),
        source: source_info(&source)?,
        tables: tables.iter().map(size).collect(),
    })
}

pub fn remove(app: &App, asked: &Asked) -> Result<RecordingRemoved, ApiError> {
    let source = recording(app, asked)?;
    if source.growing() {
        return Err(ApiError::conflict("the recording is being written").hint("stop it first"));
    }
    let directory = app.sources.store().root().join(&source.id);
    if !directory.is_dir() {
        return Err(ApiError::conflict("only recordings of the store can be removed"));
    }
    let removed = app.sources.store().remove(&source.id)?;
    app.sources.forget(&source.id);
    Ok(RecordingRemoved { id: source.id, bytes: removed.bytes })
}

pub fn report(app: &App, asked: &Asked) -> Result<Answer, ApiError> {
    let source = recording(app, asked)?;
    let format = asked.params.text("format").unwrap_or("json");
    let model = source.report(&app.reports, (source.first_ns, source.last_ns.saturating_add(1)), None)?;
    let (text, content_type) = match format {
        "json" => return Answer::json(&*model),
        "html" => (render::html(&model), "text/html; charset=utf-8"),
        "text" => (render::text(&model, &TextOptions::default()), "text/plain; charset=utf-8"),
        "md" => (render::markdown(&model), "text/markdown; charset=utf-8"),
        "junit" => (render::junit(&model, &[]), "application/xml; charset=utf-8"),
        "csv" => (render::csv(&model), "text/csv; charset=utf-8"),
        other => {
            let problem = format!("is '{}'; it can be json, html, text, md, junit or csv", shown(other));
            return Err(ApiError::bad_parameter("format", problem));
        }
    };
    Ok(Answer::Text { text, content_type })
}

fn export_options(asked: &Asked) -> Result<ExportOptions, ApiError> {
    let params = &asked.params;
    let format = params.text("format").ok_or_else(|| ApiError::bad_parameter("format", "is missing"))?;
    let mut options = ExportOptions::new(Format::from_name(format)?);
    options.filter =
        params.text("filter").filter(|text| !text.trim().is_empty()).map(Filter::parse).transpose()?;
    options.every_tick = params.flag("every_tick");
    options.records = params.flag("records");
    options.gzip = params.flag("gzip");
    let tables: Vec<TableId> = params
        .all("table")
        .map(|name| {
            TableId::by_name(name).ok_or_else(|| {
                ApiError::bad_parameter("table", format!("is '{}', which is no table", shown(name)))
            })
        })
        .collect::<Result<_, _>>()?;
    if options.format.is_per_table() && tables.len() != 1 {
        return Err(ApiError::contradiction("table", "must name exactly one table for this format"));
    }
    options.tables = (!tables.is_empty()).then_some(tables);
    Ok(options)
}

/// Streams an export. Errors before the first chunk have a status; later ones close the connection.
pub fn export(app: &App, asked: &Asked) -> Result<Answer, ApiError> {
    let source = recording(app, asked)?;
    let options = export_options(asked)?;
    let busy = || {
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "busy", "too many downloads at once").retry_after(5)
    };
    let place = Arc::clone(&app.downloads).try_acquire_owned().map_err(|_| busy())?;
    let (sender, chunks) = channel(CHUNKS);
    let (begun, wait) = std::sync::mpsc::sync_channel::<Result<(), ApiError>>(1);
    let handle = Handle::current();
    let name =
        format!("{}.{}{}", source.id, options.format.extension(), if options.gzip { ".gz" } else { "" });
    let content_type = match (options.gzip, options.format) {
        (true, _) => "application/gzip",
        (_, Format::Json | Format::Chrome) => "application/json; charset=utf-8",
        (_, Format::JsonLines) => "application/x-ndjson; charset=utf-8",
        (_, Format::Csv) => "text/csv; charset=utf-8",
        (_, Format::Prometheus) => "text/plain; version=0.0.4; charset=utf-8",
        (_, Format::Sqlite) => "application/vnd.sqlite3",
        _ => "application/octet-stream",
    };
    let run = move || {
        let mut out =
            Chunks { sender, handle, buffer: Vec::with_capacity(CHUNK), begun: Some(begun.clone()) };
        let info = source.manifest().info();
        let result = write_export(&source, &info, &options, &mut out);
        match result.and_then(|()| {
            out.finish().map_err(|error| ApiError::internal(format!("a download ended: {error}")))
        }) {
            Ok(()) => {
                begun.try_send(Ok(())).ok();
            }
            Err(error) => {
                begun.try_send(Err(error)).ok();
                out.abort();
            }
        }
        drop(place);
    };
    std::thread::Builder::new().name("ortscope-export".into()).spawn(run).map_err(ApiError::internal)?;
    match wait.recv() {
        Ok(Ok(())) => Ok(Answer::Download { content_type, name, chunks }),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(ApiError::internal("an export ended without a result")),
    }
}

fn write_export(
    source: &Source,
    info: &RecordingInfo,
    options: &ExportOptions,
    out: &mut Chunks,
) -> Result<(), ApiError> {
    if !options.format.is_stream() {
        // Formats with random access are written to a private file and sent from there.
        let directory = tempfile::tempdir().map_err(ApiError::internal)?;
        let path = directory.path().join("export");
        ortscope_export::export(source.tables(), info, options, &path)?;
        let mut file = fs_err::File::open(&path).map_err(ApiError::internal)?;
        std::io::copy(&mut file, out).map_err(ApiError::internal)?;
        return Ok(());
    }
    ortscope_export::export_to(source.tables(), info, options, out)?;
    Ok(())
}

/// A writer that sends chunks to a reader, which may be slow.
struct Chunks {
    sender: Sender<Result<Bytes, std::io::Error>>,
    handle: Handle,
    buffer: Vec<u8>,
    /// Notified of the first chunk.
    begun: Option<std::sync::mpsc::SyncSender<Result<(), ApiError>>>,
}

impl Chunks {
    fn send(&mut self) -> std::io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        if let Some(begun) = self.begun.take() {
            begun.try_send(Ok(())).ok();
        }
        let chunk = Bytes::from(std::mem::replace(&mut self.buffer, Vec::with_capacity(CHUNK)));
        let sent = self.handle.block_on(async { timeout(READ_WITHIN, self.sender.send(Ok(chunk))).await });
        match sent {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => {
                Err(std::io::Error::new(std::io::ErrorKind::BrokenPipe, "the reader has disconnected"))
            }
            Err(_) => Err(std::io::Error::new(std::io::ErrorKind::TimedOut, "the reader reads nothing")),
        }
    }

    fn finish(&mut self) -> std::io::Result<()> {
        self.send()
    }

    /// Closes the connection without an end of the file.
    fn abort(&mut self) {
        let error = std::io::Error::other("the export could not be finished");
        self.sender.try_send(Err(error)).ok();
    }
}

impl Write for Chunks {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= CHUNK {
            self.send()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
