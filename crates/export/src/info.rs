//! What an export says about the recording it was made of.

use std::collections::BTreeMap;

use ortscope_core::recording::RecordingInfo;
use ortscope_core::schema::{TableDef, TableId};
use serde::Serialize;

use crate::options::ExportOptions;

/// Version of the names and the layout of exports. A field that changes its meaning or goes away changes it.
pub const SCHEMA: &str = "ortscope.export/1";

/// The head of every export: the recording, and what of it was chosen.
#[derive(Debug, Serialize)]
pub(crate) struct Head<'a> {
    #[serde(flatten)]
    info: &'a RecordingInfo,
    filter: Option<String>,
    every_tick: bool,
    /// Where times of a filter and of traces count from.
    start_ns: u64,
}

impl<'a> Head<'a> {
    pub(crate) fn new(info: &'a RecordingInfo, options: &ExportOptions, start_ns: u64) -> Self {
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
