//! The facts about a recording that are not rows: its name, its origin, the machine it was made on.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::clock::WallAnchor;

/// A recording, or a live observation that reads like one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RecordingInfo {
    pub id: String,
    /// The name the user gave it.
    pub name: Option<String>,
    pub tags: Vec<String>,
    /// The version of ortscope that recorded it.
    pub ortscope_version: String,
    /// The command that made it: run, record, attach or import.
    pub origin: String,
    /// The recorded model names or program.
    pub subject: String,
    /// The command line that made it, redacted.
    pub command: Option<String>,
    /// Monotonic and wall time at the start; the table `wall_anchors` has more such pairs.
    pub started: WallAnchor,
    /// Absent when the recording was cut off or is still being written.
    pub ended: Option<WallAnchor>,
    /// Why it ended; absent when `ended` is.
    pub end_reason: Option<String>,
    pub boot_id: Option<String>,
    /// Facts about the machine and the software that decide whether two recordings can be compared.
    pub fingerprint: BTreeMap<String, String>,
}
