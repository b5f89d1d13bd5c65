//! `/timeline`: operators, inferences and kernel events over time, as rectangles for a width in pixels or as records.
//!
//! Rectangles are made while rows are read: what is narrower than a pixel is put together with its neighbours in the same
//! row, so that an answer has at most [`tiles::MAX_RECTANGLES`] whatever the recording's size. The view of everything is
//! made once per recording and kept; a part of it is read from the recording, which finds rows by time.

mod dependencies;
mod event;
mod lanes;
mod overview;
mod records;
mod tiles;

use ortscope_core::filter::{Filter, MAX_BYTES};
use serde_json::{Value, json};

pub use event::event;
pub use overview::Overviews;
pub use records::reasons;
use tiles::{Tiles, Wanted};

use super::{Answer, about, number};
use crate::app::{App, Asked};
use crate::data::Source;
use crate::error::ApiError;
use crate::params::Params;

pub fn timeline(app: &App, asked: &Asked) -> Result<Answer, ApiError> {
    let params = &asked.params;
    let source = app.sources.of(params)?;
    let range = source.range(params)?;
    let filter = filter(params)?;
    let session = params.text("session").map(str::to_owned);
    if params.text("width").is_none() {
        return records::records(&source, range, filter.as_ref(), session.as_deref(), params);
    }
    for other in ["limit", "cursor"] {
        if params.text(other).is_some() {
            return Err(ApiError::contradiction(other, "is for records, and 'width' asks for rectangles"));
        }
    }
    let width = params.count("width", 1024)?;
    let wanted = Wanted { from_ns: range.0, to_ns: range.1, width, filter, session };
    let tiles = app.overviews.tiles(&source, &wanted)?;
    Answer::json(&tiles_json(&source, range, &tiles))
}

/// The filter line together with the single parameters.
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

fn tiles_json(source: &Source, range: (u64, u64), tiles: &Tiles) -> Value {
    let length_ms = (range.1.saturating_sub(range.0)) as f64 / 1e6;
    let lanes: Vec<Value> = tiles
        .lanes
        .iter()
        .map(|lane| {
            let rects = &lane.rects;
            let busy: f64 = rects.iter().filter(|rect| rect.row == 0).map(|rect| rect.busy_ns as f64 / 1e6).sum();
            json!({
                "id": lane.key.id(),
                "title": lane.key.title(),
                "kind": lane.key.kind(),
                "session_id": lane.key.session_id(),
                "provider": lane.device.as_ref().filter(|device| !device.is_empty()),
                "execution_provider": lane.key.execution_provider(),
                "pid": lane.key.pid(),
                "thread": lane.key.thread(),
                "rows": 1 + rects.iter().map(|rect| rect.row).max().unwrap_or(0),
                "busy_ratio": number(if length_ms > 0.0 { (busy / length_ms).min(1.0) } else { 0.0 }),
                "rects": {
                    "t_ms": rects.iter().map(|rect| number(source.ms(rect.from_ns))).collect::<Vec<_>>(),
                    "duration_ms": rects.iter().map(|rect| number((rect.to_ns - rect.from_ns) as f64 / 1e6)).collect::<Vec<_>>(),
                    "busy_ms": rects.iter().map(|rect| number(rect.busy_ns as f64 / 1e6)).collect::<Vec<_>>(),
                    "row": rects.iter().map(|rect| rect.row).collect::<Vec<_>>(),
                    "name": rects.iter().map(|rect| if rect.count == 1 { rect.name } else { 0 }).collect::<Vec<_>>(),
                    "type": rects.iter().map(|rect| rect.kind).collect::<Vec<_>>(),
                    "provider": rects.iter().map(|rect| rect.provider).collect::<Vec<_>>(),
                    "count": rects.iter().map(|rect| rect.count).collect::<Vec<_>>(),
                    "id": rects.iter().map(|rect| if rect.count == 1 { rect.from_ns as i64 - source.origin_ns as i64 } else { -1 }).collect::<Vec<_>>(),
                },
            })
        })
        .collect();
    let transitions: Vec<Value> = tiles
        .transitions
        .iter()
        .map(|transition| {
            json!({
                "t_ms": number(source.ms(transition.at_ns)),
                "from_lane": transition.from.id(),
                "to_lane": transition.to.id(),
                "from_provider": transition.from.execution_provider(),
                "to_provider": transition.to.execution_provider(),
                "session_id": transition.to.session_id(),
            })
        })
        .collect();
    let marks: Vec<Value> = tiles
        .marks
        .iter()
        .map(|(at, kind, text)| json!({ "t_ms": number(source.ms(*at)), "kind": kind, "text": text }))
        .collect();
    let mut answer = about(source, range);
    let rectangles: usize = tiles.lanes.iter().map(|lane| lane.rects.len()).sum();
    for (name, value) in [
        ("kind", json!("tiles")),
        ("lanes", lanes.into()),
        ("names", json!(tiles.names.list())),
        ("types", json!(tiles.types.list())),
        ("providers", json!(tiles.providers.list())),
        ("transitions", transitions.into()),
        ("transitions_not_listed", tiles.transitions_not_listed.into()),
        ("marks", marks.into()),
        ("events", tiles.events.into()),
        ("rectangles", rectangles.into()),
        ("merged_events", tiles.merged_events().into()),
        ("hidden_lanes", tiles.hidden_lanes.into()),
        ("hidden_events", tiles.hidden_events.into()),
        ("unavailable", json!(tiles.unavailable)),
    ] {
        answer.insert(name.into(), value);
    }
    Value::Object(answer)
}
