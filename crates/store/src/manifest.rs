//! What a recording says about itself: `manifest.json`, readable by people and by every later version.

use std::collections::BTreeMap;

use ortscope_core::clock::WallAnchor;
use serde::{Deserialize, Serialize};

/// Version of the recording's layout. Older ones are opened through upgraders, newer ones are refused.
pub const FORMAT: u32 = 1;

/// The head of a recording.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    pub format: u32,
    /// Unique, e.g. `2026-11-15-7f3a9c2e`; the name of the directory.
    pub id: String,
    /// The user's own name for it.
    pub name: Option<String>,
    pub tags: Vec<String>,
    pub ortscope_version: String,
    /// What made it: run, record, attach, import.
    pub origin: String,
    /// What was recorded, for lists: model names or a program.
    pub subject: String,
    /// The command that made it, redacted.
    pub command: Option<String>,
    /// Monotonic and wall time when it began.
    pub started: WallAnchor,
    /// The machine's boot, so that two recordings of one boot can be laid on one time line.
    pub boot_id: Option<String>,
    /// Facts that decide whether two recordings can be compared: cpu_model, logical_cpus, governor, os, ort_version …
    pub fingerprint: BTreeMap<String, String>,
    /// `session_ids[n]` names session number n of the channel in this recording, for recovery from its rings.
    pub session_ids: Vec<String>,
    pub end: Option<RecordingEnd>,
}

/// Written when a recording ended in order. A recording without it was cut off, or is still being written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordingEnd {
    pub ended: WallAnchor,
    /// Rows by table name.
    pub rows: BTreeMap<String, u64>,
    /// Why it ended, for people.
    pub reason: String,
}
