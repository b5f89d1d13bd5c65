//! What can be wrong with BTF, or missing from it.

use thiserror::Error;

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BtfError {
    #[error("not BTF: {0}")]
    NotBtf(&'static str),
    #[error("this kernel's BTF has no {kind} {name}")]
    NoSuchType { kind: &'static str, name: String },
    #[error("{holder} has no member {member} in this kernel")]
    NoSuchMember { holder: String, member: String },
    /// Types that refer to each other in a circle, or far deeper than any compiler's.
    #[error("the types of {0} are nested without end")]
    TooDeep(String),
}
