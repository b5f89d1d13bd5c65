//! Which sources were recorded, and what the recording says about those that were not.

use ortscope_core::schema::TableId;

use super::super::reader::Reader;
use crate::{SourceCheck, UnavailableReport};
use ortscope_core::units;

/// A source, the table it fills, and words in the names of its metrics.
const SOURCES: [(&str, TableId, &[&str]); 5] = [
    ("kernel events", TableId::KernelEvents, &["kernel", "context_switch", "scheduling"]),
    ("operators", TableId::Operators, &["operator", "profile"]),
    ("memory readings", TableId::Memory, &["memory"]),
    ("process samples", TableId::ProcessSamples, &["process"]),
    ("system samples", TableId::SystemSamples, &["system"]),
];

pub(in crate::build) fn checks(reader: &Reader<'_>, unavailable: &[UnavailableReport]) -> Vec<SourceCheck> {
    SOURCES
        .iter()
        .map(|(source, table, words)| {
            let rows = reader.rows(*table);
            let sentence = match rows {
                0 => format!("{source} were not recorded: {}", reason(unavailable, words)),
                rows => format!("{source}: {}", units::counted(rows, "row")),
            };
            SourceCheck { source: (*source).into(), rows, sentence }
        })
        .collect()
}

fn reason(unavailable: &[UnavailableReport], words: &[&str]) -> String {
    let about = |entry: &&UnavailableReport| words.iter().any(|word| entry.metric.contains(word));
    match unavailable.iter().find(about) {
        Some(UnavailableReport { reason, hint: Some(hint), .. }) => format!("{reason}; {hint}"),
        Some(UnavailableReport { reason, .. }) => reason.clone(),
        None => "this recording has none and does not say why".to_owned(),
    }
}
