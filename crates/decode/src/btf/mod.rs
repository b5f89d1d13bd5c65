//! BTF: the type information that Linux carries about itself (`/sys/kernel/btf/vmlinux`), as bytes in and offsets out.
//!
//! Programs that read kernel structures are assembled for the kernel that runs; this reader answers where a member of
//! a structure stands there, which number a function or a tracepoint has and what an enumerator is worth. Nothing is
//! copied: names are compared in place, so that opening the 5 MB of a usual kernel takes a few milliseconds.
//!
//! The reader is tolerant: a kind of type that it does not know ends the list of types (what comes before stays
//! usable and [`Btf::is_complete`] says so), a wrong offset makes one answer an error. It never panics and every walk
//! is bounded, also through types that contain themselves.

mod blob;
mod error;
mod member;
#[cfg(test)]
mod tests;

pub use blob::{Btf, Kind, TypeId};
pub use error::BtfError;
pub use member::Member;
