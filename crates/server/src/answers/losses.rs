//! `/losses`: lost records, missing values with their reasons, and the cost of observing.

use std::sync::atomic::Ordering;

use ortscope_result::{LossReport, UnavailableReport};
use schemars::JsonSchema;
use serde::Serialize;

use super::About;
use crate::app::{App, Asked};
use crate::data::Source;
use crate::error::ApiError;

/// Losses, missing values with their reasons, and the cost of observing.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Losses {
    #[serde(flatten)]
    pub about: About,
    pub total: u64,
    pub losses: Vec<LossReport>,
    /// Live only: data that did not fit into the server's memory.
    pub memory: Vec<MemoryLoss>,
    pub unavailable: Vec<UnavailableReport>,
    /// Entries that a limit excluded from the lists of reports, in words.
    pub left_out: Vec<String>,
    pub condition: Vec<String>,
    pub own_cost: OwnCost,
    pub clients: Clients,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct MemoryLoss {
    pub kind: &'static str,
    pub count: u64,
    pub meaning: &'static str,
}

/// WebSocket clients of this server.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Clients {
    pub websockets: u64,
    pub frames_sent: u64,
    pub frames_dropped: u64,
}

/// The cost of observing.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct OwnCost {
    /// CPU use of the sampling alone; 100 = one core.
    pub cpu_percent: Option<f64>,
    pub memory_bytes: Option<u64>,
    /// CPU use of the whole server process.
    pub server_cpu_percent: Option<f64>,
    pub server_memory_bytes: Option<u64>,
    /// Effective sampling rate.
    pub rate_hertz: Option<f64>,
    /// Requested sampling rate.
    pub asked_hertz: Option<f64>,
    pub late_ticks: Option<u64>,
    pub skipped_ticks: Option<u64>,
}

impl OwnCost {
    pub fn now(app: &App, source: &Source) -> Self {
        let (server_cpu_percent, server_memory_bytes) = app.own.cost();
        let state = source.live().map(|live| live.control.state());
        let state = state.as_ref();
        Self {
            cpu_percent: state.and_then(|state| state.cost_cpu_ratio).map(|ratio| ratio * 100.0),
            memory_bytes: state.and_then(|state| state.cost_memory_bytes),
            server_cpu_percent,
            server_memory_bytes,
            rate_hertz: state.map(|state| state.rate_hertz),
            asked_hertz: state.map(|state| state.asked_hertz),
            late_ticks: state.and_then(|state| state.late_ticks),
            skipped_ticks: state.and_then(|state| state.skipped_ticks),
        }
    }
}

pub fn losses(app: &App, asked: &Asked) -> Result<Losses, ApiError> {
    let source = app.sources.of(&asked.params)?;
    let range = source.range(&asked.params)?;
    let model = source.report(&app.reports, range, None)?;
    let (losses, memory) = match source.live() {
        // A report covers its range; losses are counted from the start of the observation.
        Some(live) => {
            let of_memory = live.view.losses().all().into_iter().filter(|(_, count, _)| *count > 0);
            let memory =
                of_memory.map(|(kind, count, meaning)| MemoryLoss { kind, count, meaning }).collect();
            (live.recent.newest(|newest| newest.losses()), memory)
        }
        None => (model.losses.clone(), Vec::new()),
    };
    let counters = &app.groups.counters;
    Ok(Losses {
        about: About::new(&source, range),
        total: losses.iter().fold(0, |sum, loss| sum.saturating_add(loss.count)),
        losses,
        memory,
        unavailable: model.unavailable.clone(),
        left_out: model.left_out.clone(),
        condition: if source.live().is_some() { Vec::new() } else { model.header.condition.clone() },
        own_cost: OwnCost::now(app, &source),
        clients: Clients {
            websockets: counters.connected.load(Ordering::Relaxed),
            frames_sent: counters.sent.load(Ordering::Relaxed),
            frames_dropped: counters.dropped.load(Ordering::Relaxed),
        },
    })
}
