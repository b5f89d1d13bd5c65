//! Recordings for people and for other tools.
//!
//! [`export`] writes a recording, or what a filter leaves of it, as JSON, JSON lines, CSV, Parquet, SQLite or a trace.
//! Every format streams: no more than a few batches are in memory, whatever the size of the recording. [`wire`] has the
//! records of the API, [`report`] what people read.

mod csv;
mod error;
mod info;
mod json;
mod jsonl;
mod options;
mod parquet;
pub mod report;
mod run;
mod source;
mod sqlite;
mod target;
mod text;
mod trace;
pub mod wire;

pub use error::ExportError;
pub use info::{ExportInfo, SCHEMA};
pub use options::{ExportOptions, Format};
pub use run::{ExportReport, export, export_to};
pub use target::ExportedFile;
