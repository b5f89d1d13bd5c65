//! BTF errors.

use thiserror::Error;

/// Why a lookup failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BtfError {
    #[error("not BTF: {0}")]
    NotBtf(&'static str),
    #[error("this kernel's BTF has no {kind} {name}")]
    NoSuchType { kind: &'static str, name: String },
    #[error("{holder} has no member {member} in this kernel")]
    NoSuchMember { holder: String, member: String },
    /// Types that refer to each other in a cycle, or are nested far deeper than real ones.
    #[error("the types of {0} are nested too deeply")]
    TooDeep(String),
}
