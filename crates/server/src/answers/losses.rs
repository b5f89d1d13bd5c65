//! What was lost, what has no value and why, and what watching costs.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use super::{Answer, about, optional};
use crate::app::{App, Asked};
use crate::data::Source;
use crate::error::ApiError;

/// What watching and serving cost now.
pub fn own_cost(app: &App, source: &Source) -> Value {
    let (server_cpu, server_memory) = app.own.cost();
    let state = source.live().map(|live| live.control.state());
    let state = state.as_ref();
    json!({
        "cpu_percent": optional(state.and_then(|state| state.cost_cpu_ratio).map(|ratio| ratio * 100.0)),
        "memory_bytes": state.and_then(|state| state.cost_memory_bytes),
        "server_cpu_percent": optional(server_cpu),
        "server_memory_bytes": server_memory,
        "rate_hertz": optional(state.map(|state| state.rate_hertz)),
        "asked_hertz": optional(state.map(|state| state.asked_hertz)),
        "late_ticks": state.and_then(|state| state.late_ticks),
        "skipped_ticks": state.and_then(|state| state.skipped_ticks),
    })
}

pub fn losses(app: &App, asked: &Asked) -> Result<Answer, ApiError> {
    let source = app.sources.of(&asked.params)?;
    let range = source.range(&asked.params)?;
    let model = source.report(&app.reports, range, None)?;
    let mut answer = about(&source, range);
    let (losses, memory) = match source.live() {
        // The rows of the report are of its range; losses count from the beginning.
        Some(live) => {
            let losses: Vec<Value> = live.recent.newest(|newest| {
                let each = newest.lost.iter();
                each.map(|((place, kind), count)| json!({ "place": place, "kind": kind, "count": count }))
                    .collect()
            });
            let of_memory = live.view.losses().all().into_iter().filter(|(_, count, _)| *count > 0);
            let memory = of_memory
                .map(|(kind, count, meaning)| json!({ "kind": kind, "count": count, "meaning": meaning }))
                .collect();
            (losses, memory)
        }
        None => (model.losses.iter().map(|loss| json!(loss)).collect(), Vec::new()),
    };
    let total: u64 = losses.iter().filter_map(|loss| loss["count"].as_u64()).fold(0, u64::saturating_add);
    answer.insert("total".into(), total.into());
    answer.insert("losses".into(), losses.into());
    answer.insert("memory".into(), memory.into());
    answer.insert("unavailable".into(), json!(model.unavailable));
    answer.insert("left_out".into(), json!(model.left_out));
    let condition = if source.live().is_some() { Vec::new() } else { model.header.condition.clone() };
    answer.insert("condition".into(), json!(condition));
    answer.insert("own_cost".into(), own_cost(app, &source));
    let counters = &app.groups.counters;
    answer.insert(
        "clients".into(),
        json!({
            "websockets": counters.connected.load(Ordering::Relaxed),
            "frames_sent": counters.sent.load(Ordering::Relaxed),
            "frames_dropped": counters.dropped.load(Ordering::Relaxed),
        }),
    );
    Answer::json(&answer)
}
