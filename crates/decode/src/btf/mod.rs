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
mod error;
mod member;
#[cfg(test)]
mod tests;

pub use blob::{Btf, Kind, TypeId};
pub use error::BtfError;
pub use member::Member;
