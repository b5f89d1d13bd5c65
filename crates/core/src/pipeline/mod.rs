//! Source → bounded emitter → pump → sinks: the only way data moves.
//!
//! Queues are bounded in bytes. A live source never waits: rows that do not fit are dropped and counted. A source
//! that reads a file waits instead, because it can read the rest later. No sink can block the pump: each has its own
//! queue and chooses whether its oldest or newest batches are dropped when it is full. The optional [`Journal`]
//! stores every batch before the sinks receive it.

mod control;
mod emitter;
mod engine;
mod journal;
mod losses;
mod pump;
mod queue;

use std::time::Instant;

use serde::Serialize;

use crate::batch::Batch;
use crate::metric::Availability;

pub use control::Control;
pub use emitter::{Emitter, WhenFull};
pub use engine::{Limits, Pipeline, PipelineReport, RunningPipeline};
pub use journal::{Journal, JournalError};
pub use losses::LossCounter;
pub use queue::{ByteQueue, Overflow, PushOutcome};

/// How expensive a source is to run, for `doctor` and rate control.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CostClass {
    /// Nothing measurable.
    Free,
    /// Under 0.1 % of a core.
    Low,
    /// Up to 2 % of a core.
    Medium,
    /// May disturb the observed program.
    High,
}

/// Name, tracks and cost of a source.
#[derive(Debug, Clone, Serialize)]
pub struct SourceInfo {
    pub name: &'static str,
    /// Metric names or tables it fills.
    pub tracks: Vec<String>,
    pub cost: CostClass,
    pub when_full: WhenFull,
}

/// Something that observes. It runs on a thread of its own, named after it.
pub trait Source: Send {
    fn info(&self) -> &SourceInfo;

    /// Whether it can work here. Called once, before `run`.
    fn probe(&mut self) -> Availability;

    /// Observes until the data ends or `control` requests a stop. Rows go to `out`.
    fn run(&mut self, out: &mut Emitter, control: &Control) -> Result<(), SourceError>;
}

/// Stores or shows observations. Each sink runs on its own thread.
pub trait Sink: Send {
    fn name(&self) -> &str;

    /// Which batches are dropped when the queue of `queue_bytes` in front of this sink is full.
    fn overflow(&self) -> Overflow {
        Overflow::DropNewest
    }

    fn consume(&mut self, batch: &Batch) -> Result<(), SinkError>;

    /// Called once at the end; must return by the deadline.
    fn flush(&mut self, deadline: Instant) -> Result<(), FlushError>;
}

/// Why a source stopped early.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    #[error("{0}")]
    Failed(String),
    #[error("{what}: permission missing; {hint}")]
    Permission { what: String, hint: String },
    #[error("the source panicked: {0}")]
    Panicked(String),
}

/// Why a sink could not keep a batch.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    #[error("{0}")]
    Failed(String),
    #[error("the sink panicked: {0}")]
    Panicked(String),
}

/// Why a sink could not finish.
#[derive(Debug, thiserror::Error)]
pub enum FlushError {
    #[error("not finished in time; {left} rows are not kept")]
    Deadline { left: u64 },
    #[error("{0}")]
    Failed(String),
}
