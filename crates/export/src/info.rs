//! What an export says about the recording it was made of.

use std::collections::BTreeMap;

use ortscope_core::clock::WallAnchor;
use ortscope_core::schema::{TableDef, TableId};
use ortscope_store::Manifest;
use serde::Serialize;

use crate::options::ExportOptions;

/// Version of the names and the layout of exports. A field that changes its meaning or goes away changes it.
pub const SCHEMA: &str = "ortscope.export/1";

/// The recording, as far as an export tells about it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExportInfo {
    pub id: String,
    pub name: Option<String>,
    pub tags: Vec<String>,
    /// Version of ortscope that recorded.
    pub ortscope_version: String,
    /// What made it: run, record, attach, import.
    pub origin: String,
    pub subject: String,
    /// The command that made it, redacted.
    pub command: Option<String>,
    /// Monotonic and wall time when it began; more such pairs are in the table `wall_anchors`.
    pub started: WallAnchor,
    /// `None` if it was cut off, or still goes on.
    pub ended: Option<WallAnchor>,
    pub boot_id: Option<String>,
    /// Facts about the machine and the software.
    pub fingerprint: BTreeMap<String, String>,
}

impl ExportInfo {
    pub fn from_manifest(manifest: &Manifest) -> Self {
        Self {
            id: manifest.id.clone(),
            name: manifest.name.clone(),
            tags: manifest.tags.clone(),
            ortscope_version: manifest.ortscope_version.clone(),
            origin: manifest.origin.clone(),
            subject: manifest.subject.clone(),
            command: manifest.command.clone(),
            started: manifest.started,
            ended: manifest.end.as_ref().map(|end| end.ended),
            boot_id: manifest.boot_id.clone(),
            fingerprint: manifest.fingerprint.clone(),
        }
    }
}

/// The head of every export: the recording, and what of it was chosen.
#[derive(Debug, Serialize)]
pub(crate) struct Head<'a> {
    #[serde(flatten)]
    info: &'a ExportInfo,
    filter: Option<String>,
    every_tick: bool,
    /// Where times of a filter and of traces count from.
    start_ns: u64,
}

impl<'a> Head<'a> {
    pub(crate) fn new(info: &'a ExportInfo, options: &ExportOptions, start_ns: u64) -> Self {
        let filter = options.filter.as_ref().map(ToString::to_string);
        Self { info, filter, every_tick: options.every_tick, start_ns }
    }

    /// Key and value of every field, as text or JSON.
    pub(crate) fn fields(&self) -> Vec<(String, String)> {
        let Ok(serde_json::Value::Object(fields)) = serde_json::to_value(self) else {
            return Vec::new();
        };
        let text = |value: serde_json::Value| match value {
            serde_json::Value::String(text) => text,
            other => other.to_string(),
        };
        fields.into_iter().map(|(key, value)| (key, text(value))).collect()
    }
}

/// The columns of tables by name, with types, units and documentation.
pub(crate) fn columns(tables: &[TableId]) -> BTreeMap<&'static str, &'static TableDef> {
    tables.iter().map(|table| (table.def().name, table.def())).collect()
}
