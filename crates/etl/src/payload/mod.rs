//! What is inside events: kernel layouts, TraceLogging, EventSource manifests, embedded TDH metadata, stacks.
//!
//! Nothing here allocates per event. Values borrow from the payload and text is decoded when it is looked at; a
//! [`Visitor`] is shown every field.

pub mod builtin;
mod cursor;
pub mod event_source;
pub mod kernel;
mod naming;
mod scalar;
mod schema;
pub mod stacks;
mod store;
pub mod tdh;
mod text;
pub mod trace_logging;
mod value;
mod xml;

pub use cursor::{Cursor, Short};
pub use naming::EventName;
pub use scalar::{InType, Scalar, Show};
pub use schema::{Followed, Schema, ValueMap};
pub use store::{Decoded, SchemaSource, SchemaStore, StoreLosses};
pub use text::{NarrowText, WideText};
pub use value::{Array, Nest, Sid, SystemTime, Value, Visitor};

use crate::Guid;

/// Why a payload was not decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PayloadError {
    #[error("the event is not of the kernel; decode it with a SchemaStore")]
    NotKernel,
    #[error("no layout is known for kernel event {hook:#06x} (version {version})")]
    UnknownHook { hook: u16, version: u16 },
    #[error("no layout is known for classic event {class} type {kind} (version {version})")]
    UnknownClass { class: Guid, kind: u8, version: u16 },
    #[error("version {version} of {name} is not known (newest known: {newest}) and its payload does not fit")]
    UnknownVersion { name: &'static str, version: u16, newest: u16 },
    #[error("the payload of {name} (version {version}) ends inside the field at byte {at}")]
    TooShort { name: &'static str, version: u16, at: usize },
}
