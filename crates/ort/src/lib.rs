//! ONNX Runtime 1.15 to 1.31 in one binary: find the library, load it, create sessions, run them.
//!
//! `OrtApi` is one append-only table of function pointers, so a single program can serve every version as long as it
//! never reads a slot that the loaded library does not have: calling one jumps to garbage. [`gates`] lists since
//! which version each slot exists, and every access in this crate goes through the macros of `api`, which check it.
//!
//! Libraries are never unloaded: providers have their own threads and destructors, and unloading under them crashes.

#[macro_use]
mod api;
#[macro_use]
mod handle;
mod binding;
pub mod decoder;
mod device;
mod element;
mod environment;
pub mod ep;
mod error;
pub mod external_data;
pub mod gates;
pub mod inputs;
mod logging;
mod os;
mod plain;
mod runtime;
pub mod search;
mod session;
mod session_info;
mod session_setup;
mod signature;
mod text;
mod value;

pub use binding::{Binding, RunTimes};
pub use device::{DeviceKind, EpDevice};
pub use environment::Environment;
pub use error::{ErrorCode, OrtError};
pub use logging::MAX_LOG_LINES;
pub use ortscope_core::message::essence;
pub use ortscope_core::session::{
    Fallback, FallbackPolicy, LogLevel, LogLine, Optimization, ProviderRequest, SessionOptions,
};
pub use os::PROFILE_CLOCK_IS_MONOTONIC;
pub use plain::PlainRunner;
pub use runtime::{MINIMUM_VERSION, NEWEST_MINOR, OLDEST_MINOR, Runtime};
pub use session::Session;
pub use session_info::{AssignedNode, AssignedSubgraph, ModelMetadata};
pub use value::{OrtValue, TensorInfo};
