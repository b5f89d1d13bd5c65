//! A trace for Perfetto that grows while something is watched (`--perfetto`).

use std::path::{Path, PathBuf};

use ortscope_export::{LiveTrace, LiveTraceState};
use serde::Serialize;

use crate::exit::Failure;
use ortscope_core::units;

/// What became of it, for the document.
#[derive(Debug, Serialize)]
pub struct TraceDocument {
    pub path: PathBuf,
    /// Rows that it draws.
    pub rows: u64,
    pub bytes: u64,
    /// Rows that came when it had its full size.
    pub left_out: u64,
}

impl TraceDocument {
    pub fn new(state: &LiveTraceState) -> Self {
        let LiveTraceState { path, rows, bytes, left_out, .. } = state;
        Self { path: path.clone(), rows: *rows, bytes: *bytes, left_out: *left_out }
    }

    pub fn line(&self) -> String {
        let rows = units::counted(self.rows, "row");
        format!("trace  {}  {rows}  {}", self.path.display(), units::bytes(self.bytes as f64))
    }
}

/// What is wrong with the place is said before a program is started.
pub fn place(path: &Path) -> Result<PathBuf, Failure> {
    if path.exists() {
        return Err(Failure::usage(format!("{} exists already", path.display()))
            .with_hint("choose another name, or remove it first"));
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    if let Some(parent) = parent.filter(|parent| !parent.is_dir()) {
        return Err(Failure::usage(format!("there is no directory {}", parent.display()))
            .with_hint("make it first, or choose another place for --perfetto"));
    }
    // Whether it can be written is known only by writing.
    drop(start(path, "")?);
    fs_err::remove_file(path)?;
    Ok(path.to_owned())
}

pub fn start(path: &Path, subject: &str) -> Result<LiveTrace, Failure> {
    Ok(LiveTrace::create(path, subject, LiveTrace::MAX_BYTES)?)
}
