//! The data sources of requests: `live`, and recordings by id.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ortscope_core::clock::{WallAnchor, now_ns};
use ortscope_core::filter::Filter;
use ortscope_core::live::LiveView;
use ortscope_core::schema::{SessionRow, TableId, Text};
use ortscope_core::tables::{ReadError, Scan, Tables};
use ortscope_result::{ReportInput, ReportModel, ReportOptions};
use ortscope_store::{FORMAT, Manifest, Recording, Store};
use schemars::JsonSchema;
use serde::Serialize;

use super::{Cache, CacheKey, Newest, Ranged, Recent, Snapshot};
use crate::error::ApiError;
use crate::params::{Params, shown};

/// Maximum number of open recordings.
const MAX_OPEN: usize = 8;
/// A recording that is being written is reopened after this time.
const GROWS_EVERY: Duration = Duration::from_secs(2);
/// Default range of a live source.
const LIVE_RANGE_NS: u64 = 60_000_000_000;
const RUN_DOCUMENT: &str = "run.json";
const MAX_ID: usize = 128;

/// Cached reports. A dashboard requests one range at a time, for six panels.
pub type Reports = Cache<ReportModel, 12>;

/// The parts of the live source, provided by the program.
#[derive(Debug, Clone)]
pub struct Live {
    pub view: LiveView,
    pub recent: Recent,
    pub control: Arc<dyn LiveControl>,
    /// Start of the observation: the origin of `t_ms`.
    pub started: WallAnchor,
    /// Facts about the machine.
    pub machine: BTreeMap<String, String>,
}

/// State of the sampling.
#[derive(Debug, Clone, Default)]
pub struct LiveState {
    pub paused: bool,
    pub asked_hertz: f64,
    pub rate_hertz: f64,
    pub recording: Option<RecordingState>,
    /// CPU use of the sampling as a ratio of one core.
    pub cost_cpu_ratio: Option<f64>,
    pub cost_memory_bytes: Option<u64>,
    pub late_ticks: Option<u64>,
    pub skipped_ticks: Option<u64>,
}

/// The recording that is being written.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct RecordingState {
    pub id: String,
    pub started_unix_ms: u64,
    pub rows: u64,
}

/// Control of the pipeline. Errors are sentences for the user.
pub trait LiveControl: Send + Sync + std::fmt::Debug {
    fn state(&self) -> LiveState;
    fn pause(&self, paused: bool) -> Result<(), String>;
    fn set_rate_hertz(&self, hertz: f64) -> Result<(), String>;
    fn start_recording(&self, name: Option<&str>) -> Result<(), String>;
    fn stop_recording(&self) -> Result<(), String>;
}

/// A source at one point in time.
#[derive(Debug, Clone)]
pub struct Source {
    pub id: String,
    pub inner: Inner,
    /// `t_ms` = 0, monotonic.
    pub origin_ns: u64,
    /// Time of the first and of the last data.
    pub first_ns: u64,
    pub last_ns: u64,
    pub generation: u64,
}

#[derive(Debug, Clone)]
pub enum Inner {
    Live { live: Live, rows: Arc<Snapshot> },
    Recording(Arc<Recording>),
}

impl Source {
    pub fn tables(&self) -> &dyn Tables {
        match &self.inner {
            Inner::Live { rows, .. } => &**rows,
            Inner::Recording(recording) => &**recording,
        }
    }

    pub fn live(&self) -> Option<&Live> {
        match &self.inner {
            Inner::Live { live, .. } => Some(live),
            Inner::Recording(_) => None,
        }
    }

    pub fn growing(&self) -> bool {
        match &self.inner {
            Inner::Live { .. } => true,
            Inner::Recording(recording) => recording.condition().being_written,
        }
    }

    pub fn ms(&self, time_ns: u64) -> f64 {
        (time_ns as i128 - i128::from(self.origin_ns)) as f64 / 1e6
    }

    pub fn ns(&self, ms: f64) -> u64 {
        let nanos = (ms * 1e6).round() as i128 + i128::from(self.origin_ns);
        u64::try_from(nanos.max(0)).unwrap_or(u64::MAX)
    }

    /// Wall time of `t_ms` = 0. Imported data may have a clock without a known relation to wall time.
    pub fn origin_unix_ms(&self) -> Option<f64> {
        let started = match &self.inner {
            Inner::Recording(recording) => recording.manifest().started,
            Inner::Live { live, .. } => live.started,
        };
        let is_known = started.unix_ns > 0 && self.origin_ns == started.monotonic_ns;
        is_known.then_some(started.unix_ns as f64 / 1e6)
    }

    /// All sessions by id.
    pub fn sessions(&self) -> Result<BTreeMap<Text, SessionRow>, ReadError> {
        match &self.inner {
            Inner::Live { live, .. } => Ok(live.recent.newest(|newest| newest.sessions.clone())),
            Inner::Recording(recording) => {
                let mut newest = Newest::default();
                for batch in recording.scan(TableId::Sessions, &Scan::all()) {
                    newest.take(&batch?);
                }
                Ok(newest.sessions)
            }
        }
    }

    pub fn manifest(&self) -> Manifest {
        match &self.inner {
            Inner::Recording(recording) => recording.manifest().clone(),
            Inner::Live { live, .. } => Manifest {
                format: FORMAT,
                id: "live".into(),
                name: None,
                tags: Vec::new(),
                ortscope_version: env!("CARGO_PKG_VERSION").into(),
                origin: "live".into(),
                subject: "this machine".into(),
                command: None,
                started: live.started,
                boot_id: None,
                host: None,
                fingerprint: live.machine.clone(),
                session_ids: Vec::new(),
                channels: Vec::new(),
                documents: BTreeMap::new(),
                end: None,
                encryption: None,
            },
        }
    }

    pub fn condition(&self) -> Vec<String> {
        match &self.inner {
            Inner::Recording(recording) => recording.condition().sentences(),
            Inner::Live { .. } => Vec::new(),
        }
    }

    fn report_input(&self) -> ReportInput {
        let run_document = match &self.inner {
            Inner::Recording(recording) => {
                let bytes = recording.document(RUN_DOCUMENT).ok().flatten();
                bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok())
            }
            Inner::Live { .. } => None,
        };
        ReportInput { recording: self.manifest().info(), run_document, condition: self.condition() }
    }

    /// The requested range, clipped to the available data; the end is exclusive.
    pub fn range(&self, params: &Params) -> Result<(u64, u64), ApiError> {
        let (from, to) = (params.number("from_ms")?, params.number("to_ms")?);
        let end = self.last_ns.saturating_add(1);
        let usual_from = if self.live().is_some() {
            end.saturating_sub(LIVE_RANGE_NS).max(self.first_ns)
        } else {
            self.first_ns
        };
        let from_ns = from.map_or(usual_from, |ms| self.ns(ms).clamp(self.first_ns, end));
        let to_ns = to.map_or(end, |ms| self.ns(ms).clamp(self.first_ns, end));
        if from.zip(to).is_some_and(|(from, to)| from >= to) {
            return Err(ApiError::contradiction("from_ms", "is not before 'to_ms'"));
        }
        Ok((from_ns, to_ns.max(from_ns)))
    }

    /// Origin of the times in a filter.
    pub fn filter_start_ns(&self) -> u64 {
        Filter::start_ns(self.manifest().started.monotonic_ns, self.tables())
    }

    pub fn report(
        &self,
        reports: &Reports,
        (from_ns, to_ns): (u64, u64),
        filter: Option<&Filter>,
    ) -> Result<Arc<ReportModel>, ApiError> {
        let whole = from_ns <= self.first_ns && to_ns > self.last_ns;
        let (from_ns, to_ns) = if whole && self.live().is_none() { (0, u64::MAX) } else { (from_ns, to_ns) };
        let key = CacheKey {
            source: self.id.clone(),
            generation: self.generation,
            from_ns,
            to_ns,
            filter: filter.map(ToString::to_string),
        };
        reports.get(key, || {
            let start_ns = self.filter_start_ns();
            let part = Ranged { inner: self.tables(), from_ns, to_ns, filter, start_ns };
            let options = ReportOptions {
                max_latencies: 2_000_000,
                max_latencies_together: 4_000_000,
                ..ReportOptions::default()
            };
            Ok(ReportModel::build(&part, &self.report_input(), &options)?)
        })
    }
}

#[derive(Debug)]
struct Open {
    recording: Arc<Recording>,
    id: String,
    since: Instant,
}

/// The sources of a server.
#[derive(Debug)]
pub struct Sources {
    store: Store,
    live: Option<Live>,
    /// Recordings that the user named at the start, including packed files and other directories.
    named: Vec<(String, PathBuf)>,
    open: Mutex<Vec<Open>>,
    began: Instant,
}

impl Sources {
    /// Opens the named recordings, so that unreadable ones are reported at the start.
    pub fn new(
        store: Store,
        live: Option<Live>,
        paths: Vec<PathBuf>,
    ) -> Result<Self, ortscope_store::StoreError> {
        let mut named = Vec::new();
        let mut open = Vec::new();
        for path in paths {
            let recording = Arc::new(Recording::open(&path)?);
            let id = recording.manifest().id.clone();
            open.push(Open { recording, id: id.clone(), since: Instant::now() });
            named.push((id, path));
        }
        Ok(Self { store, live, named, open: Mutex::new(open), began: Instant::now() })
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    pub fn live(&self) -> Option<&Live> {
        self.live.as_ref()
    }

    pub fn default_id(&self) -> &str {
        match (self.named.first(), &self.live) {
            (Some((id, _)), _) => id,
            (None, _) => "live",
        }
    }

    /// The ids to offer first: live and the named recordings.
    pub fn ids(&self) -> Vec<String> {
        let live = self.live.iter().map(|_| "live".to_owned());
        live.chain(self.named.iter().map(|(id, _)| id.clone())).collect()
    }

    pub fn of(&self, params: &Params) -> Result<Source, ApiError> {
        self.get(params.text("source").unwrap_or(self.default_id()))
    }

    pub fn get(&self, id: &str) -> Result<Source, ApiError> {
        if id == "live" {
            let Some(live) = &self.live else {
                return Err(ApiError::not_found("this server has no live source")
                    .hint("start `ortscope serve` without a recording, or choose one as 'source'"));
            };
            let now = now_ns();
            let started = live.started.monotonic_ns;
            return Ok(Source {
                id: "live".into(),
                inner: Inner::Live { live: live.clone(), rows: Arc::new(live.recent.snapshot()) },
                origin_ns: started,
                first_ns: started,
                last_ns: now,
                // Reports of a live source are rebuilt at most once per second.
                generation: self.began.elapsed().as_secs(),
            });
        }
        let (recording, generation) = self.recording(id)?;
        let started = recording.manifest().started.monotonic_ns;
        let (first, last) = recording.time_range_ns().unwrap_or((started, started));
        // Imported data has its own time base, which filters use, too.
        let origin_ns = Filter::start_ns(started, &*recording);
        Ok(Source {
            id: recording.manifest().id.clone(),
            inner: Inner::Recording(recording),
            origin_ns,
            first_ns: first,
            last_ns: last,
            generation,
        })
    }

    /// The recording with this id. Requests cannot name paths.
    fn recording(&self, id: &str) -> Result<(Arc<Recording>, u64), ApiError> {
        let is_id = !id.is_empty()
            && id.len() <= MAX_ID
            && !id.starts_with('.')
            && id.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(letter));
        let unknown = || {
            ApiError::not_found(format!("there is no recording '{}'", shown(id)))
                .hint("GET /api/v1/recordings lists them")
        };
        let named = self.named.iter().find(|(other, _)| other == id).map(|(_, path)| path.clone());
        if !is_id && named.is_none() {
            return Err(unknown());
        }
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = open.iter().position(|other| other.id == id) {
            let entry = &open[index];
            let is_old = entry.recording.condition().being_written && entry.since.elapsed() > GROWS_EVERY;
            let is_there = named.is_some() || entry.recording.path().exists();
            if !is_old && is_there {
                let entry = open.remove(index);
                let generation = entry.since.duration_since(self.began).as_millis() as u64;
                let recording = Arc::clone(&entry.recording);
                open.push(entry);
                return Ok((recording, generation));
            }
            open.remove(index);
        }
        let path = named.unwrap_or_else(|| self.store.root().join(id));
        if !path.exists() {
            return Err(unknown());
        }
        let recording = Arc::new(Recording::open(&path)?);
        if open.len() >= MAX_OPEN {
            open.remove(0);
        }
        let since = Instant::now();
        open.push(Open { recording: Arc::clone(&recording), id: id.to_owned(), since });
        Ok((recording, since.duration_since(self.began).as_millis() as u64))
    }

    /// Drops a removed recording from the cache.
    pub fn forget(&self, id: &str) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).retain(|open| open.id != id);
    }
}
