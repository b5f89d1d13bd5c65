//! BPF without a compiler: programs are assembled for the running kernel, loaded by bpf(2) and read through shared
//! memory. `trace` delivers events, `snapshot` the state of all threads in one call.

mod asm;
mod call;
mod events;
mod file_io;
mod layout;
mod namespace;
mod program;
mod record;
mod ring;
mod snapshot;
mod trace;

pub use snapshot::ThreadSnapshot;
pub use trace::BpfTrace;
