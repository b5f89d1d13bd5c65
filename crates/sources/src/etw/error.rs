//! Errors and warnings of live sessions, with hints.

use thiserror::Error;

use super::api::{Code, codes};
use crate::kernel::TraceError;

/// Every message has a hint.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EtwError {
    #[error("{what} needs {missing}\n  hint: {hint}")]
    AccessDenied { what: String, missing: &'static str, hint: &'static str },
    #[error(
        "a session named '{name}' is already running\n  hint: `ortscope etl stop {name}` ends it, `--session {name}` attaches \
         to it without changing it, and a different name starts another one"
    )]
    NameTaken { name: String },
    #[error(
        "Windows allows no further session ({sessions} are running; the limits are 64 in total and 8 with kernel events)\n  hint: \
         `ortscope etl list` shows them, `ortscope etl stop NAME` ends one"
    )]
    TooManySessions { sessions: String },
    #[error("no session is named '{name}'\n  hint: `ortscope etl list` shows the running sessions")]
    NoSuchSession { name: String },
    #[error(
        "the session '{name}' does not use the performance counter as its clock\n  hint: start it with \"Performance counter\" \
         (logman: -ct perf), or let ortscope start its own"
    )]
    OtherClock { name: String },
    #[error(
        "this system emulates Windows without event tracing ({why})\n  hint: privileges do not help; it works on Windows \
         itself"
    )]
    NotSupported { why: String },
    #[error(
        "this version of Windows lacks {what} ({code})\n  hint: requires Windows 10 version 1909 or newer"
    )]
    TooOld { what: &'static str, code: Code },
    #[error("{what} failed with {code}\n  hint: `net helpmsg {number}` prints the description", number = code.0)]
    System { what: String, code: Code },
}

const AS_ADMINISTRATOR: &str =
    "start the terminal with \"Run as administrator\"; processes are still sampled without it";
const SERVICE_AS_ADMINISTRATOR: &str = "this is a service: run it as LocalSystem or with an administrator's account; \
                                        processes are still sampled without it";
const AS_LOG_USER: &str =
    "ask an administrator to run: net localgroup \"Performance Log Users\" NAME /add; then sign in again";
const SERVICE_AS_LOG_USER: &str = "this is a service: ask an administrator to run: net localgroup \"Performance Log \
                                   Users\" ACCOUNT /add; then restart it";

/// Who was denied access, for the hint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Who {
    pub is_service: bool,
}

impl Who {
    fn as_administrator(self) -> &'static str {
        if self.is_service { SERVICE_AS_ADMINISTRATOR } else { AS_ADMINISTRATOR }
    }

    fn as_log_user(self) -> &'static str {
        if self.is_service { SERVICE_AS_LOG_USER } else { AS_LOG_USER }
    }
}

impl EtwError {
    /// An error of starting a session.
    pub(super) fn start_failed(
        name: &str,
        with_kernel: bool,
        code: Code,
        sessions: Option<usize>,
        who: Who,
    ) -> Self {
        match code {
            codes::ACCESS_DENIED if with_kernel => Self::AccessDenied {
                what: format!("the session '{name}' with kernel events"),
                missing: "administrator rights",
                hint: who.as_administrator(),
            },
            codes::ACCESS_DENIED => Self::AccessDenied {
                what: format!("the session '{name}'"),
                missing: "membership in \"Performance Log Users\" or \"Administrators\"",
                hint: who.as_log_user(),
            },
            codes::ALREADY_EXISTS => Self::NameTaken { name: name.to_owned() },
            codes::NO_SYSTEM_RESOURCES => {
                let sessions =
                    sessions.map_or_else(|| "an unknown number".to_owned(), |count| count.to_string());
                Self::TooManySessions { sessions }
            }
            code => Self::call_failed("StartTrace", code),
        }
    }

    /// An error of enabling kernel events in a started session.
    pub(super) fn kernel_flags_failed(code: Code, who: Who) -> Self {
        match code {
            codes::ACCESS_DENIED | codes::PRIVILEGE_NOT_HELD => Self::AccessDenied {
                what: "enabling kernel events".to_owned(),
                missing: "administrator rights and SeSystemProfilePrivilege",
                hint: who.as_administrator(),
            },
            code => Self::call_failed("TraceSetInformation", code),
        }
    }

    /// An error of reading a session.
    pub(super) fn open_failed(name: &str, code: Code, who: Who) -> Self {
        match code {
            codes::ACCESS_DENIED => Self::AccessDenied {
                what: format!("reading the session '{name}'"),
                missing: "administrator rights or membership in \"Performance Log Users\"",
                hint: who.as_administrator(),
            },
            codes::OTHER_CLOCK => Self::OtherClock { name: name.to_owned() },
            codes::INSTANCE_NOT_FOUND => Self::NoSuchSession { name: name.to_owned() },
            code => Self::call_failed("OpenTrace", code),
        }
    }

    /// An error of an emulation, whose codes mean nothing.
    pub(super) fn emulated(what: &str, code: Code) -> Self {
        let why = match code {
            codes::SUCCESS => format!("{what} has no effect"),
            code => format!("{what} returned {code}"),
        };
        Self::NotSupported { why }
    }

    pub(super) fn call_failed(what: &'static str, code: Code) -> Self {
        match code {
            codes::CALL_NOT_IMPLEMENTED | codes::PROC_NOT_FOUND => Self::TooOld { what, code },
            code => Self::System { what: what.to_owned(), code },
        }
    }

    pub fn is_permission(&self) -> bool {
        matches!(self, Self::AccessDenied { .. })
    }
}

/// One sentence each; none of them ends the session.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EtwNote {
    /// A requested part.
    #[error("Windows refused {what} ({code})")]
    Refused { what: String, code: Code },
    #[error("Windows refused the provider {name} ({code})")]
    ProviderRefused { name: &'static str, code: Code },
    #[error("Windows does not know the provider {name} ({code}); everything else is recorded")]
    ProviderUnknown { name: &'static str, code: Code },
    /// Processor counters that are not recorded, and why.
    #[error("{0}")]
    Counters(String),
    #[error(
        "the session '{name}' is running, but no events arrive; kernel events are not delivered in containers"
    )]
    NothingArrives { name: String },
    #[error(
        "some events were lost because they arrived faster than they were read; record fewer event classes, or write them to a \
         file with `ortscope etl start`"
    )]
    TooSlow,
    #[error(
        "more than {max} events arrived in one second; beyond that only starts, ends and images are recorded, and the others are \
         counted as lost"
    )]
    TooMany { max: u32 },
    #[error("events were lost: the session now has up to {buffers} buffers")]
    MoreBuffers { buffers: u32 },
    #[error("the session '{name}' of a process that has exited was closed")]
    LeftBehind { name: String },
}

impl EtwNote {
    pub(super) fn refused(what: impl Into<String>, code: Code) -> Self {
        Self::Refused { what: what.into(), code }
    }
}

impl From<EtwError> for TraceError {
    fn from(error: EtwError) -> Self {
        match error {
            EtwError::AccessDenied { what, missing, hint } => {
                Self::Permission { what, missing: missing.to_owned(), hint: hint.to_owned() }
            }
            other => Self::Session(other),
        }
    }
}
