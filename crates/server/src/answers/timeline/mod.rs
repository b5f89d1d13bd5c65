//! `/timeline`: operators, inferences and kernel events over time, as rectangles for a width in pixels or as records.
//!
//! Rectangles are built while rows are read: events narrower than a pixel are merged with their neighbors in the same
//! row, so that an answer has at most 20,000 whatever the size of the recording. The view of a whole
//! recording is built once and kept; for a part of it the recording is read again, which finds rows by time.

mod event;
mod records;

use ortscope_core::filter::{Filter, MAX_BYTES};
use ortscope_core::schema::Text;
use ortscope_export::wire::Unavailable;
use schemars::JsonSchema;
use serde::Serialize;

pub use event::event;
use records::TimelineRecords;
pub use records::reasons;

use super::About;
use crate::app::{App, Asked};
use crate::data::Source;
use crate::error::ApiError;
use crate::params::Params;
use crate::timeline::{Lane, LaneKind, Rect, Tiles, Transition, Wanted};

/// With `width`: rectangles for drawing. Without: wire records in pages.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum TimelineAnswer {
    Tiles(TimelineTiles),
    Records(TimelineRecords),
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct TimelineTiles {
    #[serde(flatten)]
    pub about: About,
    pub lanes: Vec<TimelineLane>,
    /// Texts that rectangles refer to by index; the first one is empty.
    pub names: Vec<Text>,
    pub types: Vec<Text>,
    pub providers: Vec<Text>,
    /// Changes of the execution provider, at most 2,000.
    pub transitions: Vec<TimelineTransition>,
    pub transitions_not_listed: u64,
    /// Annotations, at most 500.
    pub marks: Vec<TimelineMark>,
    /// Number of events in the range that match the filter.
    pub events: u64,
    /// Number of rectangles in the answer.
    pub rectangles: u64,
    /// Number of events that share a rectangle with others.
    pub merged_events: u64,
    /// Number of lanes beyond the limit of 64; their events are only counted.
    pub hidden_lanes: u64,
    pub hidden_events: u64,
    /// Why a kind of lane is missing, e.g. "kernel": "no kernel events were recorded; …".
    pub unavailable: Unavailable,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct TimelineLane {
    /// The same at every zoom level.
    pub id: String,
    /// Text for users, e.g. "CPU · thread 4711".
    pub title: String,
    pub kind: LaneKind,
    pub session_id: Option<Text>,
    /// CPU, GPU, NPU, Mixed or null.
    pub provider: Option<Text>,
    pub execution_provider: Option<Text>,
    pub pid: Option<u64>,
    pub thread: Option<u64>,
    /// Number of rows: 1 + greatest depth.
    pub rows: u32,
    /// Share of the range in which something ran, 0 to 1.
    pub busy_ratio: f64,
    pub rects: TimelineRects,
}

/// Columns of equal length, ascending by `t_ms` within a row.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TimelineRects {
    pub t_ms: Vec<f64>,
    pub duration_ms: Vec<f64>,
    /// Time in which something ran: less than the duration for merged events with gaps.
    pub busy_ms: Vec<f64>,
    /// Row of the lane, from 0.
    pub row: Vec<u32>,
    /// Index into `names`; 0 if merged.
    pub name: Vec<u32>,
    /// Index into `types`: operator type, phase of an inference or kind of kernel event; the longest one if merged.
    #[serde(rename = "type")]
    pub kind: Vec<u32>,
    /// Index into `providers`.
    pub provider: Vec<u32>,
    /// Number of events in this rectangle.
    pub count: Vec<u64>,
    /// Id for GET /timeline/event; -1 if merged.
    pub id: Vec<i64>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct TimelineTransition {
    pub t_ms: f64,
    pub from_lane: String,
    pub to_lane: String,
    pub from_provider: Text,
    pub to_provider: Text,
    pub session_id: Text,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct TimelineMark {
    pub t_ms: f64,
    pub kind: Text,
    pub text: Text,
}

pub fn timeline(app: &App, asked: &Asked) -> Result<TimelineAnswer, ApiError> {
    let params = &asked.params;
    let source = app.sources.of(params)?;
    let range = source.range(params)?;
    let filter = filter(params)?;
    let session = params.text("session").map(str::to_owned);
    if params.text("width").is_none() {
        let records = records::records(&source, range, filter.as_ref(), session.as_deref(), params)?;
        return Ok(TimelineAnswer::Records(records));
    }
    for other in ["limit", "cursor"] {
        if params.text(other).is_some() {
            return Err(ApiError::contradiction(other, "is for records, and 'width' asks for rectangles"));
        }
    }
    let width = params.count("width", 1024)?;
    let wanted = Wanted { from_ns: range.0, to_ns: range.1, width, filter, session };
    let tiles = app.overviews.tiles(&source, &wanted)?;
    Ok(TimelineAnswer::Tiles(TimelineTiles::new(&source, range, tiles)))
}

/// The filter parameter combined with the single parameters.
fn filter(params: &Params) -> Result<Option<Filter>, ApiError> {
    let mut terms: Vec<String> = Vec::new();
    let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    if let Some(text) = params.text("filter").map(str::trim).filter(|text| !text.is_empty()) {
        terms.push(text.to_owned());
    }
    if let Some(op) = params.text("op") {
        terms.push(format!("op:{}", quoted(op)));
    }
    if let Some(provider) = params.text("provider") {
        terms.push(format!("prov:{}", quoted(provider)));
    }
    if let Some(least) = params.number("min_duration_ms")? {
        terms.push(format!("dur>={}ns", (least * 1e6).round() as u64));
    }
    let line = terms.join(" ");
    if line.len() > MAX_BYTES && terms.len() > 1 {
        return Err(ApiError::contradiction("filter", "is too long together with 'op' and 'provider'"));
    }
    Ok(if terms.is_empty() { None } else { Some(Filter::parse(&line)?) })
}

impl TimelineTiles {
    fn new(source: &Source, range: (u64, u64), tiles: Tiles) -> Self {
        let length_ms = range.1.saturating_sub(range.0) as f64 / 1e6;
        let mark = |(at_ns, kind, text)| TimelineMark { t_ms: source.ms(at_ns), kind, text };
        Self {
            about: About::new(source, range),
            events: tiles.events,
            rectangles: tiles.lanes.iter().map(|lane| lane.rects.len() as u64).sum(),
            merged_events: tiles.merged_events(),
            lanes: tiles.lanes.iter().map(|lane| TimelineLane::new(source, length_ms, lane)).collect(),
            names: tiles.names.into_list(),
            types: tiles.types.into_list(),
            providers: tiles.providers.into_list(),
            transitions: tiles
                .transitions
                .iter()
                .map(|transition| TimelineTransition::new(source, transition))
                .collect(),
            transitions_not_listed: tiles.transitions_not_listed,
            marks: tiles.marks.into_iter().map(mark).collect(),
            hidden_lanes: tiles.hidden_lanes,
            hidden_events: tiles.hidden_events,
            unavailable: tiles.unavailable,
        }
    }
}

impl TimelineLane {
    fn new(source: &Source, length_ms: f64, lane: &Lane) -> Self {
        let (key, rects) = (&lane.key, &lane.rects);
        let busy_ms: f64 =
            rects.iter().filter(|rect| rect.row == 0).map(|rect| rect.busy_ns as f64 / 1e6).sum();
        Self {
            id: key.id(),
            title: key.title(),
            kind: key.kind(),
            session_id: key.session_id().cloned(),
            provider: lane.device.clone().filter(|device| !device.is_empty()),
            execution_provider: key.execution_provider().cloned(),
            pid: key.pid(),
            thread: key.thread(),
            rows: 1 + rects.iter().map(|rect| rect.row).max().unwrap_or(0),
            busy_ratio: if length_ms > 0.0 { (busy_ms / length_ms).min(1.0) } else { 0.0 },
            rects: TimelineRects::new(source, rects),
        }
    }
}

impl TimelineRects {
    fn new(source: &Source, rects: &[Rect]) -> Self {
        fn column<T>(rects: &[Rect], of: impl Fn(&Rect) -> T) -> Vec<T> {
            rects.iter().map(of).collect()
        }
        let id = |rect: &Rect| {
            if rect.count == 1 { rect.from_ns as i64 - source.origin_ns as i64 } else { -1 }
        };
        Self {
            t_ms: column(rects, |rect| source.ms(rect.from_ns)),
            duration_ms: column(rects, |rect| (rect.to_ns - rect.from_ns) as f64 / 1e6),
            busy_ms: column(rects, |rect| rect.busy_ns as f64 / 1e6),
            row: column(rects, |rect| rect.row),
            name: column(rects, |rect| if rect.count == 1 { rect.name } else { 0 }),
            kind: column(rects, |rect| rect.kind),
            provider: column(rects, |rect| rect.provider),
            count: column(rects, |rect| rect.count),
            id: column(rects, id),
        }
    }
}

impl TimelineTransition {
    fn new(source: &Source, transition: &Transition) -> Self {
        let text = |text: Option<&Text>| text.cloned().unwrap_or_default();
        Self {
            t_ms: source.ms(transition.at_ns),
            from_lane: transition.from.id(),
            to_lane: transition.to.id(),
            from_provider: text(transition.from.execution_provider()),
            to_provider: text(transition.to.execution_provider()),
            session_id: text(transition.to.session_id()),
        }
    }
}
