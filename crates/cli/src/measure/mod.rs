//! Measuring a model: the plan, the worker process that runs it, and the supervisor that watches, stops and collects.
//!
//! ```text
//! supervisor ── plan (JSON on stdin) ──► worker process: ONNX Runtime, the model, the loop
//!     ▲  └─ control page: stop ─────────────┤
//!     └── pipeline ◄── channel rings ◄──────┘ one record per inference, messages for the rest
//! ```
//! A provider that aborts takes the worker with it, never the report.

pub mod collect;
pub mod interrupt;
pub mod plan;
pub mod progress;
pub mod protocol;
pub mod sensors;
pub mod supervise;

/// Where ONNX Runtime writes profiles and graphs: on a disk, since they may be large.
pub fn profile_directory() -> std::io::Result<tempfile::TempDir> {
    tempfile::Builder::new().prefix("ortscope-profile-").tempdir()
}

/// A directory private to this user, gone with the measurement. In memory where the system has such a place and one
/// worker alone uses it (containers often have only 64 MB there): a ring on a disk would be written out again and again.
pub fn channel_directory(together: bool) -> std::io::Result<tempfile::TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("ortscope-");
    let memory = std::path::Path::new("/dev/shm");
    if !together
        && memory.is_dir()
        && let Ok(directory) = builder.tempdir_in(memory)
    {
        return Ok(directory);
    }
    builder.tempdir()
}
