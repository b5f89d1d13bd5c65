//! What a measurement says: one model of the results, shown as text or JSON.

pub mod devices;
pub mod document;
pub mod findings;
pub mod latency;
mod operators;
pub mod result;
pub mod serving;
pub mod slowest;
pub mod tables;
pub mod text;

pub use document::RunDocument;
pub use result::RunResult;
