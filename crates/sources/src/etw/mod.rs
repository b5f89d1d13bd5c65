//! Live sessions of Event Tracing for Windows.
//!
//! Configuring, starting, reading and stopping sessions, and the meaning of each failure, are tested on every system:
//! the Windows functions are behind the trait [`EtwApi`], which tests replace. Only its implementation is in `windows/`.

mod api;
mod consumer;
mod counters;
mod error;
mod flags;
mod raw;
mod samples;
mod session;
mod settings;
mod source;
mod trace;

pub use api::{
    Code, Control, EtwApi, InformationClass, Request, SessionHandle, SessionStatus, TraceHandle, codes,
};
pub use consumer::{Consumer, ConsumerCounts, RateLimit};
pub use counters::counters;
pub use error::{EtwError, EtwNote};
pub use flags::{KernelFlags, UnknownFlag};
pub use ortscope_decode::etw::ProcessFilter;
pub use raw::{RawItem, RawRecord};
pub use samples::EtwSamples;
pub use session::{LiveSession, SessionLosses, close_orphans, start_to_file, stop};
pub use settings::{Provider, Settings, providers};
pub use source::{EtwRows, EtwSource};
pub use trace::EtwTrace;
