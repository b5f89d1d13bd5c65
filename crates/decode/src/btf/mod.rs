//! BTF: the type information of the running Linux kernel (`/sys/kernel/btf/vmlinux`).
//!
//! Programs that read kernel structures are assembled for the running kernel; this parser finds offsets of structure
//! members, numbers of functions and tracepoints, and values of enumerators. Names are compared in place, so that
//! opening the typical 5 MB takes a few milliseconds.
//!
//! The parser is tolerant: an unknown kind of type ends the type list (earlier types remain usable, see
//! [`Btf::is_complete`]), and a wrong offset makes one lookup fail. It never panics, and every walk is bounded, even
//! through types that contain themselves.

mod blob;
mod member;
#[cfg(test)]
mod tests;

use thiserror::Error;

pub use self::blob::{Btf, Kind, TypeId};
pub use self::member::Member;

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
