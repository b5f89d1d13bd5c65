//! What a failure of a live session means, and what to do about it.

use thiserror::Error;

use super::api::{Code, codes};
use crate::kernel::TraceError;

/// Every message says what to do.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EtwError {
    #[error("{what} needs {missing}\n  hint: {hint}")]
    AccessDenied { what: String, missing: &'static str, hint: &'static str },
    #[error(
        "a session named '{name}' runs already\n  hint: `ortscope etl stop {name}` ends it, `--session {name}` reads it without \
         touching it, another name starts one beside it"
    )]
    NameTaken { name: String },
    #[error(
        "Windows has no room for another session ({sessions} run now; 64 are possible, 8 of them with kernel events)\n  hint: \
         `ortscope etl list` shows them, `ortscope etl stop NAME` ends one"
    )]
    NoRoom { sessions: String },
    #[error("there is no session named '{name}'\n  hint: `ortscope etl list` shows those that run")]
    NoSuchSession { name: String },
    #[error(
        "the session '{name}' does not use the performance counter as its clock\n  hint: start it with \"Performance counter\" \
         (logman: -ct perf), or let ortscope start one of its own"
    )]
    OtherClock { name: String },
    #[error(
        "this system imitates Windows and has no event tracing ({why})\n  hint: this is not a question of rights; on Windows itself \
         it works"
    )]
    NotSupported { why: String },
    #[error("this Windows has no {what} ({code})\n  hint: Windows 10 version 1909 or newer has it")]
    TooOld { what: &'static str, code: Code },
    #[error("{what} failed with {code}\n  hint: `net helpmsg {number}` prints what Windows says about it", number = code.0)]
    System { what: String, code: Code },
}

const AS_ADMINISTRATOR: &str =
    "start the terminal by \"Run as administrator\"; without it processes are still sampled";
const SERVICE_AS_ADMINISTRATOR: &str = "this is a service: let it run as LocalSystem, or its account be an administrator; \
                                        without it processes are still sampled";
const AS_LOG_USER: &str =
    "an administrator adds you: net localgroup \"Performance Log Users\" NAME /add; then sign in again";
const SERVICE_AS_LOG_USER: &str = "this is a service: an administrator adds its account: net localgroup \"Performance Log Users\" ACCOUNT /add; then \
     start it again";

/// Who is refused, and what would help.
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
    /// Of starting a session.
    pub(super) fn of_start(
        name: &str,
        with_kernel: bool,
        code: Code,
        sessions: Option<usize>,
        who: Who,
    ) -> Self {
        match code {
            codes::ACCESS_DENIED if with_kernel => Self::AccessDenied {
                what: format!("the session '{name}' with kernel events"),
                missing: "the rights of an administrator",
                hint: who.as_administrator(),
            },
            codes::ACCESS_DENIED => Self::AccessDenied {
                what: format!("the session '{name}'"),
                missing: "membership in \"Performance Log Users\" or Administrators",
                hint: who.as_log_user(),
            },
            codes::ALREADY_EXISTS => Self::NameTaken { name: name.to_owned() },
            codes::NO_SYSTEM_RESOURCES => {
                let sessions =
                    sessions.map_or_else(|| "an unknown number".to_owned(), |count| count.to_string());
                Self::NoRoom { sessions }
            }
            code => Self::of("StartTrace", code),
        }
    }

    /// Of switching kernel events on in a session that was started.
    pub(super) fn of_kernel(code: Code, who: Who) -> Self {
        match code {
            codes::ACCESS_DENIED | codes::PRIVILEGE_NOT_HELD => Self::AccessDenied {
                what: "switching on kernel events".to_owned(),
                missing: "the rights of an administrator and SeSystemProfilePrivilege",
                hint: who.as_administrator(),
            },
            code => Self::of("TraceSetInformation", code),
        }
    }

    /// Of reading a session.
    pub(super) fn of_open(name: &str, code: Code, who: Who) -> Self {
        match code {
            codes::ACCESS_DENIED => Self::AccessDenied {
                what: format!("reading the session '{name}'"),
                missing: "the rights of an administrator or of \"Performance Log Users\"",
                hint: who.as_administrator(),
            },
            codes::OTHER_CLOCK => Self::OtherClock { name: name.to_owned() },
            codes::INSTANCE_NOT_FOUND => Self::NoSuchSession { name: name.to_owned() },
            code => Self::of("OpenTrace", code),
        }
    }

    /// Of a system whose answers mean nothing.
    pub(super) fn of_imitation(what: &str, code: Code) -> Self {
        let why = match code {
            codes::SUCCESS => format!("{what} does nothing"),
            code => format!("{what} answered {code}"),
        };
        Self::NotSupported { why }
    }

    pub(super) fn of(what: &'static str, code: Code) -> Self {
        match code {
            codes::CALL_NOT_IMPLEMENTED | codes::PROC_NOT_FOUND => Self::TooOld { what, code },
            code => Self::System { what: what.to_owned(), code },
        }
    }

    pub fn is_permission(&self) -> bool {
        matches!(self, Self::AccessDenied { .. })
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
