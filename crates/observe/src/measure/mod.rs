//! Measuring a model: the plan, the worker process that runs it, and the supervisor that watches, stops and collects.
//!
//! ```text
//! supervisor ── plan (JSON on stdin) ──► worker process: ONNX Runtime, the model, the loop
//!     ▲  └─ control page: stop ─────────────┤
//!     └── pipeline ◄── channel rings ◄──────┘ one record per inference, messages for the rest
//! ```
//! A provider that aborts ends only the worker; the report is still made.

pub mod collect;
pub mod plan;
mod provider_failures;
pub mod supervisor;

/// Where ONNX Runtime writes profiles and graphs: on a disk, since they may be large.
pub fn profile_directory() -> std::io::Result<PrivateDirectory> {
    tempfile::Builder::new().prefix("ortscope-profile-").tempdir().map(PrivateDirectory)
}

/// A directory that only this user can read, removed on drop; overwritten first if the user asked for that.
#[derive(Debug)]
pub struct PrivateDirectory(tempfile::TempDir);

impl PrivateDirectory {
    pub fn path(&self) -> &std::path::Path {
        self.0.path()
    }
}

impl Drop for PrivateDirectory {
    fn drop(&mut self) {
        ortscope_channel::disk::overwrite_temporary(self.0.path());
    }
}

/// A private directory, removed after the measurement. It is in memory if the system has such a place and only one worker
/// uses it (containers often have only 64 MB there): the system would write a ring on a disk back again and again.
pub fn channel_directory(together: bool) -> std::io::Result<PrivateDirectory> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("ortscope-");
    let memory = std::path::Path::new("/dev/shm");
    if !together
        && memory.is_dir()
        && let Ok(directory) = builder.tempdir_in(memory)
    {
        return Ok(PrivateDirectory(directory));
    }
    builder.tempdir().map(PrivateDirectory)
}
