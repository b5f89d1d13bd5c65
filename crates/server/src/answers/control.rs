//! The live source's sampling and recording.

use axum::http::StatusCode;
use ortscope_core::rate_control::check_hertz;
use serde_json::{Value, json};

use super::{Answer, number};
use crate::app::{App, Asked};
use crate::data::{Live, LiveState};
use crate::error::ApiError;

pub fn state_json(state: &LiveState) -> Value {
    json!({
        "paused": state.paused,
        "asked_hertz": number(state.asked_hertz),
        "rate_hertz": number(state.rate_hertz),
        "recording": state.recording.as_ref().map(|recording| json!({
            "id": recording.id,
            "started_unix_ms": recording.started_unix_ms,
            "rows": recording.rows,
        })),
    })
}

fn live(app: &App) -> Result<&Live, ApiError> {
    app.sources.live().ok_or_else(|| {
        ApiError::conflict("this server only shows recordings: there is nothing to control")
            .hint("`ortscope serve` without a recording watches the machine")
    })
}

fn answer(live: &Live) -> Result<Answer, ApiError> {
    Answer::json(&state_json(&live.control.state()))
}

fn changed(app: &App, change: impl FnOnce(&Live) -> Result<(), String>) -> Result<Answer, ApiError> {
    let live = live(app)?;
    change(live).map_err(ApiError::conflict)?;
    answer(live)
}

pub fn state(app: &App, _: &Asked) -> Result<Answer, ApiError> {
    answer(live(app)?)
}

pub fn pause(app: &App, _: &Asked) -> Result<Answer, ApiError> {
    changed(app, |live| live.control.pause(true))
}

pub fn resume(app: &App, _: &Asked) -> Result<Answer, ApiError> {
    changed(app, |live| live.control.pause(false))
}

fn bad(sentence: impl Into<String>) -> ApiError {
    ApiError::new(StatusCode::BAD_REQUEST, "bad_body", sentence)
}

pub fn rate(app: &App, asked: &Asked) -> Result<Answer, ApiError> {
    let hertz = asked.body.get("hertz").and_then(Value::as_f64).unwrap_or_default();
    let hertz = check_hertz("hertz", hertz).map_err(|error| bad(error.to_string()))?;
    changed(app, |live| live.control.set_rate_hertz(hertz))
}

pub fn record_start(app: &App, asked: &Asked) -> Result<Answer, ApiError> {
    let name = asked.body.get("name").and_then(Value::as_str);
    changed(app, |live| live.control.start_recording(name))
}

pub fn record_stop(app: &App, _: &Asked) -> Result<Answer, ApiError> {
    changed(app, |live| live.control.stop_recording())
}
