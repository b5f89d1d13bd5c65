//! Control of sampling and recording.

use axum::http::StatusCode;
use ortscope_core::rate_control::check_hertz;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::app::{App, Asked};
use crate::data::{Live, RecordingState};
use crate::error::ApiError;

/// Sampling and recording state of the live source. All control routes answer with the new state.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ControlState {
    pub paused: bool,
    /// Requested sampling rate.
    pub asked_hertz: f64,
    /// Effective sampling rate, which the limit of the own cost may lower.
    pub rate_hertz: f64,
    pub recording: Option<RecordingState>,
}

impl ControlState {
    pub fn of(live: &Live) -> Self {
        let state = live.control.state();
        Self {
            paused: state.paused,
            asked_hertz: state.asked_hertz,
            rate_hertz: state.rate_hertz,
            recording: state.recording,
        }
    }
}

fn live(app: &App) -> Result<&Live, ApiError> {
    app.sources.live().ok_or_else(|| {
        ApiError::conflict("this server only shows recordings and has nothing to control")
            .hint("start `ortscope serve` without a recording to observe the machine")
    })
}

fn changed(app: &App, change: impl FnOnce(&Live) -> Result<(), String>) -> Result<ControlState, ApiError> {
    let live = live(app)?;
    change(live).map_err(ApiError::conflict)?;
    Ok(ControlState::of(live))
}

pub fn state(app: &App, _: &Asked) -> Result<ControlState, ApiError> {
    live(app).map(ControlState::of)
}

pub fn pause(app: &App, _: &Asked) -> Result<ControlState, ApiError> {
    changed(app, |live| live.control.pause(true))
}

pub fn resume(app: &App, _: &Asked) -> Result<ControlState, ApiError> {
    changed(app, |live| live.control.pause(false))
}

fn bad(sentence: impl Into<String>) -> ApiError {
    ApiError::new(StatusCode::BAD_REQUEST, "bad_body", sentence)
}

pub fn rate(app: &App, asked: &Asked) -> Result<ControlState, ApiError> {
    let hertz = asked.body.get("hertz").and_then(Value::as_f64).unwrap_or_default();
    let hertz = check_hertz("hertz", hertz).map_err(|error| bad(error.to_string()))?;
    changed(app, |live| live.control.set_rate_hertz(hertz))
}

pub fn record_start(app: &App, asked: &Asked) -> Result<ControlState, ApiError> {
    let name = asked.body.get("name").and_then(Value::as_str);
    changed(app, |live| live.control.start_recording(name))
}

pub fn record_stop(app: &App, _: &Asked) -> Result<ControlState, ApiError> {
    changed(app, |live| live.control.stop_recording())
}
