//! `ortscope etl`: traces of Windows, read on any system, and the sessions that write them.

mod convert;
mod cut;
mod dump;
mod info;
mod meaning;
mod naming;
mod selection;
mod sessions;
mod stats;
mod wpr;

use std::path::Path;

use ortscope_etl::payload::SchemaStore;
use ortscope_etl::{EtlError, EtlFile, Losses};
use serde_json::{Map, Value, json};

use crate::args::{EtlAction, EtlArgs};
use crate::exit::{Exit, Failure, FailureKind};
use crate::terminal::{self, Terminal, WARN};
use ortscope_core::units;

pub fn run(args: &EtlArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    match &args.action {
        EtlAction::Info(args) => info::run(&args.file, terminal),
        EtlAction::Stats(args) => stats::run(&args.file, terminal),
        EtlAction::Dump(args) => dump::run(args, terminal),
        EtlAction::Cut(args) => cut::run(args, terminal),
        EtlAction::Convert(args) => convert::run(args, terminal),
        EtlAction::Start(args) => sessions::start(args, terminal),
        EtlAction::Stop(args) => match (&args.output, args.wpr) {
            (Some(output), true) => wpr::stop(output, args.force, terminal),
            _ => sessions::stop(&args.name, terminal),
        },
        EtlAction::List => sessions::list(terminal),
        EtlAction::Counters => sessions::counters(terminal),
    }
}

pub(super) fn open(path: &Path) -> Result<EtlFile, Failure> {
    EtlFile::open(path).map_err(|error| match error {
        EtlError::Io(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Failure::usage(format!("there is no file '{}'", path.display()))
        }
        EtlError::Io(error) => Failure::usage(format!("'{}' cannot be read: {error}", path.display())),
        error @ EtlError::NotEtl(_) => Failure::usage(format!("'{}' is {error}", path.display())),
        error => Failure::new(FailureKind::DataLost, format!("'{}': {error}", path.display())),
    })
}

/// The schemas that the whole file holds: metadata may come after the events that need it.
fn schemas(file: &EtlFile) -> Result<SchemaStore, Failure> {
    let mut store = SchemaStore::new();
    file.ordered(|record| {
        store.learn(record);
        std::ops::ControlFlow::Continue(())
    })
    .map_err(|error| unreadable(&error))?;
    Ok(store)
}

pub(super) fn unreadable(error: &EtlError) -> Failure {
    Failure::new(FailureKind::DataLost, error.to_string())
}

/// What the session lost and what could not be read, one sentence each.
pub(super) fn loss_sentences(losses: &Losses) -> Vec<String> {
    let mut sentences = Vec::new();
    let mut say = |count: u64, text: &str| {
        if count > 0 {
            sentences.push(format!("{} {text}", units::count(count)));
        }
    };
    say(losses.events_lost, "events lost by the session: it had no free buffer");
    say(losses.buffers_lost, "buffers lost by the session: the disk was too slow");
    say(losses.buffers_marked_events_lost, "buffers say that events were lost before them");
    say(losses.buffers_marked_buffer_lost, "buffers say that a buffer was lost before them");
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

pub(super) fn losses_json(losses: &Losses) -> Value {
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

/// Warns of what is missing. The exit code says whether this reader had to leave records out; what the session itself
/// lost is the trace's, and no failure of reading it.
fn finish(losses: &Losses, terminal: &Terminal) -> Exit {
    for sentence in loss_sentences(losses) {
        terminal::print_error(&format!("{} {sentence}", terminal.paint(WARN, "warning:")));
    }
    if losses.damage.loses_records() { Exit::DataLost } else { Exit::Ok }
}

fn print_json(document: &Value) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(document).map_err(Failure::internal)?;
    terminal::print_data(&(text + "\n"));
    Ok(())
}
