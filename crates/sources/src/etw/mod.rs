//! Live sessions of Event Tracing for Windows.
//!
//! What a session is asked for, how it is started, read and stopped, and what each failure means is the same on every
//! system and tested on every system: the functions of Windows stand behind one table, [`EtwApi`], which tests replace.
//! Only the table itself is in `windows/`.

mod api;
mod consumer;
mod counters;
mod error;
mod flags;
mod note;
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
pub use error::EtwError;
pub use flags::{KernelFlags, UnknownFlag};
pub use note::EtwNote;
pub use ortscope_decode::etw::ProcessFilter;
pub use raw::{RawItem, RawRecord};
pub use samples::EtwSamples;
pub use session::{LiveSession, SessionLosses, close_orphans, start_to_file, stop};
pub use settings::{Provider, Settings, providers};
pub use source::{EtwRows, EtwSource};
pub use trace::EtwTrace;
