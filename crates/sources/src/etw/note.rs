//! What a session does without, or had to do, while the rest of it goes on.

use thiserror::Error;

use super::api::Code;

/// One sentence each; none of them ends the session.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EtwNote {
    /// A part that was asked for.
    #[error("{what} was refused by Windows ({code})")]
    Refused { what: String, code: Code },
    #[error("the provider {name} was refused by Windows ({code})")]
    ProviderRefused { name: &'static str, code: Code },
    #[error("this Windows does not know the provider {name} ({code}); the rest is recorded without it")]
    ProviderUnknown { name: &'static str, code: Code },
    /// Counters of the processor that do not come, and why.
    #[error("{0}")]
    Counters(String),
    #[error(
        "the session '{name}' runs, but nothing arrives from it; in a container kernel events are not handed out"
    )]
    NothingArrives { name: String },
    #[error(
        "events came faster than they were read and some are lost; fewer classes of events help, and `ortscope etl start` \
         writes them to a file without reading them"
    )]
    TooSlow,
    #[error(
        "more than {most} events came in a second; beyond that only starts, ends and images are taken, the others are counted \
         as lost"
    )]
    TooMany { most: u32 },
    #[error("events were lost: the session now has up to {buffers} buffers")]
    MoreBuffers { buffers: u32 },
    #[error("a session '{name}' was left behind by a process that ended; it was closed")]
    LeftBehind { name: String },
}

impl EtwNote {
    pub(super) fn refused(what: impl Into<String>, code: Code) -> Self {
        Self::Refused { what: what.into(), code }
    }
}
