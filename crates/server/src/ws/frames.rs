//! The frames of the WebSocket in both directions, and the encoder of metrics frames.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use ortscope_core::clock::now_ns;
use ortscope_core::schema::{InferenceRow, TableId, Text};
use ortscope_core::tables::Scan;
use ortscope_export::wire::{SystemRecord, end_to_end_ns};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::answers::Timed;
use crate::answers::control::ControlState;
use crate::answers::current::{
    self, CoreLoad, DeviceValue, EnergyNow, MemoryNow, SessionFigures, SessionNow,
};
use crate::answers::losses::OwnCost;
use crate::answers::processes::{ProcessFigures, live_processes};
use crate::app::App;
use crate::clients::{Key, Topic};
use crate::data::{Newest, Source};
use crate::error::ApiError;

/// Maximum number of inferences in a frame.
const MAX_EVENTS: usize = 500;
const MAX_PROCESSES: usize = 50;
/// Percentiles over ten seconds need not be computed more often.
const SESSIONS_EVERY: Duration = Duration::from_millis(80);

/// A frame from the client, at most 16 KiB of JSON. The first one must be `subscribe` (with a `ticket` if there is no
/// cookie) within 10 s. A later `subscribe` replaces the earlier one.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
pub enum ClientFrame {
    Subscribe {
        /// Default "live". A recording yields one frame, and then only pings.
        source: Option<String>,
        topics: BTreeSet<Topic>,
        /// 0.2 to 60.
        rate_hertz: f64,
        ticket: Option<String>,
    },
    Ping {
        id: Option<u64>,
    },
}

/// A frame from the server.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum ServerFrame {
    Hello(HelloFrame),
    Metrics(Box<MetricsFrame>),
    /// Sent before a metrics frame to a client that was too slow: number of frames it has missed since it connected.
    Dropped {
        dropped: u64,
    },
    Pong {
        id: Option<u64>,
    },
    Error {
        error: ApiError,
    },
}

/// Confirms a subscription.
#[derive(Debug, Serialize, JsonSchema)]
pub struct HelloFrame {
    pub source: String,
    pub topics: BTreeSet<Topic>,
    pub rate_hertz: f64,
    pub origin_unix_ms: Option<f64>,
}

/// Sent at every tick, with the subscribed topics.
#[derive(Debug, Serialize, JsonSchema)]
pub struct MetricsFrame {
    pub source: String,
    /// Grows by one per tick of this rate; gaps are dropped frames.
    pub sequence: u64,
    /// When the frame was built.
    pub at_ms: f64,
    /// Time of the newest sample in it; at_ms - newest_ms is its age.
    pub newest_ms: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<SystemTopic>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sessions: Option<Vec<SessionNow>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub devices: Option<DevicesTopic>,
    /// The 50 busiest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processes: Option<Vec<ProcessFigures>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<EventsTopic>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub losses: Option<LossesTopic>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct SystemTopic {
    pub system: Option<Timed<SystemRecord>>,
    pub cores: Vec<CoreLoad>,
    pub memory: MemoryNow,
    pub control: Option<ControlState>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct DevicesTopic {
    pub devices: Vec<DeviceValue>,
    pub energy: EnergyNow,
}

/// Inferences since the previous frame, newest last. Older ones beyond the limit of 500 are counted.
#[derive(Debug, Serialize, JsonSchema)]
pub struct EventsTopic {
    pub session_id: Vec<Text>,
    pub t_ms: Vec<f64>,
    pub run_ms: Vec<f64>,
    pub end_to_end_ms: Vec<f64>,
    pub ok: Vec<bool>,
    pub not_sent: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct LossesTopic {
    pub lost: u64,
    pub own_cost: OwnCost,
}

/// Builds the frames of one group, one after the other.
#[derive(Debug)]
pub struct Encoder {
    key: Key,
    /// Inferences up to this time were sent.
    events_to_ns: Option<u64>,
    sessions: Option<(Instant, SessionFigures)>,
    sent_recording: bool,
}

impl Encoder {
    pub fn new(key: Key) -> Self {
        Self { key, events_to_ns: None, sessions: None, sent_recording: false }
    }

    fn has(&self, topic: Topic) -> bool {
        self.key.topics.contains(&topic)
    }

    /// The next frame; `None` if there will be nothing new.
    pub fn encode(&mut self, app: &App, sequence: u64) -> Result<Option<String>, ApiError> {
        if self.sent_recording {
            return Ok(None);
        }
        let source = app.sources.get(&self.key.source)?;
        let mut frame = match source.live() {
            Some(live) => {
                self.gather_sessions(&source)?;
                let now_ns = now_ns();
                let figures = self.sessions.as_ref().map(|(_, figures)| figures);
                let mut frame =
                    live.recent.newest(|newest| self.frame(app, &source, newest, figures, now_ns));
                if self.has(Topic::Processes) {
                    frame.processes = Some(live_processes(live, now_ns, MAX_PROCESSES).0);
                }
                if self.has(Topic::Events) {
                    frame.events = Some(self.events(&source, now_ns)?);
                }
                frame
            }
            None => {
                self.sent_recording = !source.growing();
                let newest = Newest::at(source.tables(), source.last_ns)?;
                let window = (source.first_ns, source.last_ns.saturating_add(1));
                let figures = self
                    .has(Topic::Sessions)
                    .then(|| SessionFigures::gather(source.tables(), window))
                    .transpose()?;
                let frame = self.frame(app, &source, &newest, figures.as_ref(), source.last_ns);
                MetricsFrame { newest_ms: frame.at_ms, ..frame }
            }
        };
        frame.sequence = sequence;
        ServerFrame::Metrics(Box::new(frame)).to_json().map(Some)
    }

    /// A frame with the topics that depend on the newest readings alone. It is built while the sink waits, and serialized
    /// after that.
    fn frame(
        &self,
        app: &App,
        source: &Source,
        newest: &Newest,
        figures: Option<&SessionFigures>,
        now_ns: u64,
    ) -> MetricsFrame {
        MetricsFrame {
            source: source.id.clone(),
            sequence: 0,
            at_ms: source.ms(now_ns),
            newest_ms: source.ms(newest.newest_ns),
            system: self.has(Topic::System).then(|| SystemTopic {
                system: current::system(source, newest),
                cores: current::cores(newest),
                memory: MemoryNow::new(newest, now_ns),
                control: source.live().map(ControlState::of),
            }),
            sessions: figures.map(|figures| figures.shown(source, newest)),
            devices: self.has(Topic::Devices).then(|| DevicesTopic {
                devices: current::device_values(source, newest, now_ns),
                energy: EnergyNow::new(newest, &[], now_ns),
            }),
            processes: None,
            events: None,
            losses: self
                .has(Topic::Losses)
                .then(|| LossesTopic { lost: newest.lost_total(), own_cost: OwnCost::now(app, source) }),
        }
    }

    fn gather_sessions(&mut self, source: &Source) -> Result<(), ApiError> {
        let is_fresh = self.sessions.as_ref().is_some_and(|(made, _)| made.elapsed() < SESSIONS_EVERY);
        if self.has(Topic::Sessions) && !is_fresh {
            let window =
                (source.last_ns.saturating_sub(current::WINDOW_NS), source.last_ns.saturating_add(1));
            self.sessions = Some((Instant::now(), SessionFigures::gather(source.tables(), window)?));
        }
        Ok(())
    }

    /// Inferences since the previous frame.
    fn events(&mut self, source: &Source, now_ns: u64) -> Result<EventsTopic, ApiError> {
        let from_ns = self.events_to_ns.unwrap_or(now_ns.saturating_sub(1_000_000_000));
        let scan = Scan { from_ns: Some(from_ns), to_ns: Some(now_ns), ..Scan::all() };
        let mut rows: Vec<InferenceRow> = Vec::new();
        for batch in source.tables().scan(TableId::Inferences, &scan) {
            rows.extend(batch?.rows::<InferenceRow>());
        }
        rows.sort_by_key(|row| row.timestamp_ns);
        // An inference is reported when it ends, so its start may be before the time already sent. It is not sent twice.
        self.events_to_ns = Some(rows.last().map_or(from_ns, |row| row.timestamp_ns + 1));
        let not_sent = rows.len().saturating_sub(MAX_EVENTS);
        let rows = &rows[not_sent..];
        let ms = |nanos: u64| nanos as f64 / 1e6;
        Ok(EventsTopic {
            session_id: rows.iter().map(|row| Text::clone(&row.session_id)).collect(),
            t_ms: rows.iter().map(|row| source.ms(row.timestamp_ns)).collect(),
            run_ms: rows.iter().map(|row| ms(row.run_ns)).collect(),
            end_to_end_ms: rows.iter().map(|row| ms(end_to_end_ns(row))).collect(),
            ok: rows.iter().map(|row| row.ok).collect(),
            not_sent: not_sent as u64,
        })
    }
}

impl ServerFrame {
    pub fn to_json(&self) -> Result<String, ApiError> {
        serde_json::to_string(self).map_err(ApiError::internal)
    }
}
