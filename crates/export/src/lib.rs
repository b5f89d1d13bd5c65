//! Recordings for people and for other tools.
//!
//! [`export`] writes a recording, or what a filter leaves of it, as JSON, JSON lines, CSV, Parquet, SQLite, a trace or metrics.
//! Every format streams: no more than a few batches are in memory, whatever the size of the recording. [`wire`] has the
//! records of the API.

mod csv;
mod error;
mod etl;
mod fleet;
mod info;
mod json;
mod jsonl;
pub mod metrics;
mod options;
mod parquet;
mod place;
mod protobuf;
pub mod push;
mod run;
mod source;
mod sqlite;
mod target;
mod tensorboard;
mod text;
mod trace;
pub mod wire;

pub use error::ExportError;
pub use info::SCHEMA;
pub use options::{ExportOptions, Format};
pub use run::{ExportReport, export, export_to};
pub use target::ExportedFile;
pub use trace::{LiveTrace, LiveTraceState, TraceHandle};
