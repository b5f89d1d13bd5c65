//! Text, CSV and JSON about the events of an ETL file, for `ortscope etl`.

mod dump;
mod info;
mod stats;

use std::ops::ControlFlow;

use ortscope_core::units;
use ortscope_etl::payload::SchemaStore;
use ortscope_etl::{EtlError, EtlFile, Losses};
use serde_json::{Map, Value, json};

pub use dump::{Form, WriteEventsError, write_events};
pub use info::TraceInfo;
pub use stats::TraceStats;

/// The schemas of a whole file. Metadata may come after the events that need it.
pub fn schemas(file: &EtlFile) -> Result<SchemaStore, EtlError> {
    let mut store = SchemaStore::new();
    file.ordered(|record| {
        store.learn(record);
        ControlFlow::Continue(())
    })?;
    Ok(store)
}

/// Events that the session lost and data that could not be read, one sentence each.
pub fn loss_sentences(losses: &Losses) -> Vec<String> {
    let mut sentences = Vec::new();
    let mut say = |count: u64, text: &str| {
        if count > 0 {
            sentences.push(format!("{} {text}", units::count(count)));
        }
    };
    say(losses.events_lost, "events lost by the session: it had no free buffer");
    say(losses.buffers_lost, "buffers lost by the session: the disk was too slow");
    say(losses.buffers_marked_events_lost, "buffers are marked: events were lost before them");
    say(losses.buffers_marked_buffer_lost, "buffers are marked: a buffer was lost before them");
    say(losses.buffers_marked_corrupt, "buffers were backed up damaged");
    say(losses.real_time_events_lost, "events lost on their way to a real-time consumer");
    say(losses.real_time_buffers_lost, "buffers lost on their way to a real-time consumer");
    say(losses.real_time_files_lost, "backup files of a real-time consumer lost");
    for (reason, skipped) in losses.damage.iter() {
        let at = if skipped.bytes > 0 {
            format!(
                ", {} from byte {} on",
                units::bytes(skipped.bytes as f64),
                units::count(skipped.first_offset)
            )
        } else {
            String::new()
        };
        sentences.push(format!("{}× {reason}{at}", units::count(skipped.count)));
    }
    sentences
}

/// The losses as JSON.
pub fn losses_json(losses: &Losses) -> Value {
    let damage: Map<String, Value> = losses
        .damage
        .iter()
        .map(|(reason, skipped)| {
            let value = json!({
                "count": skipped.count, "bytes": skipped.bytes, "first_offset": skipped.first_offset,
                "meaning": reason.to_string(), "loses_records": reason.loses_records(),
            });
            (reason.name().to_owned(), value)
        })
        .collect();
    json!({
        "events_lost": losses.events_lost,
        "buffers_lost": losses.buffers_lost,
        "buffers_marked_events_lost": losses.buffers_marked_events_lost,
        "buffers_marked_buffer_lost": losses.buffers_marked_buffer_lost,
        "buffers_marked_corrupt": losses.buffers_marked_corrupt,
        "real_time_events_lost": losses.real_time_events_lost,
        "real_time_buffers_lost": losses.real_time_buffers_lost,
        "real_time_files_lost": losses.real_time_files_lost,
        "damage": damage,
    })
}
