//! A file of Linux's `perf record`.

use std::time::Duration;

use ortscope_core::clock::now_nanos;
use ortscope_core::schema::{AnnotationRow, LossRow, UnavailabilityRow};
use ortscope_decode::perf_data::{self, PerfRow};
use ortscope_store::NewRecording;

use super::batches::Batches;
use crate::args::{GlobalArgs, ImportArgs};
use crate::exit::{Exit, Failure};
use crate::recording::{append, open_store};
use crate::terminal::{self, Terminal, WARN};
use crate::units;

/// The file is read at once: its parts lie anywhere in it.
const MOST_BYTES: u64 = 4 << 30;

pub fn run(args: &ImportArgs, global: &GlobalArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let size = fs_err::metadata(&args.file)?.len();
    if size > MOST_BYTES {
        let message = format!(
            "'{}' has {}, more than can be read at once",
            args.file.display(),
            units::bytes(size as f64)
        );
        return Err(Failure::usage(message).with_hint("record a shorter time, or with a lower rate"));
    }
    let bytes = fs_err::read(&args.file)?;
    let name = args.file.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let started = now_nanos();
    // Once without keeping anything: a file that cannot be read leaves nothing behind.
    perf_data::read(&bytes, started, &mut |_| {})
        .map_err(|error| super::unknown(&args.file, &error.to_string()))?;
    let writer = open_store(global)?.begin(NewRecording {
        origin: "import".into(),
        subject: name,
        name: args.name.clone(),
        ortscope_version: env!("CARGO_PKG_VERSION").into(),
        ..NewRecording::default()
    })?;
    let mut batches = Batches::new(&writer);
    let outcome = perf_data::read(&bytes, started, &mut |row| match row {
        PerfRow::Kernel(row) => batches.push(&row),
        PerfRow::Process(row) => batches.push(&row),
    })
    .map_err(|error| super::unknown(&args.file, &error.to_string()))?;
    batches.finish()?;
    let note = "a file of perf record; its times count from the import";
    append(&writer, [AnnotationRow { timestamp_ns: started, kind: "note".into(), text: note.into() }])?;
    let reason = "the file holds addresses; symbols are not looked up";
    append(
        &writer,
        [UnavailabilityRow {
            from_ns: started,
            to_ns: None,
            track: "names of functions".into(),
            reason: reason.into(),
            hint: Some("'perf script' names them on the machine that recorded".into()),
        }],
    )?;
    let lost = outcome.lost + outcome.unreadable;
    let losses = [("perf", "records", outcome.lost), ("import", "unreadable records", outcome.unreadable)];
    let losses = losses.into_iter().filter(|(_, _, count)| *count > 0);
    append(
        &writer,
        losses.map(|(place, kind, count)| LossRow {
            timestamp_ns: started,
            place: place.into(),
            kind: kind.into(),
            count,
        }),
    )?;
    let span = outcome.span_ns.map_or(0, |(first, last)| last - first);
    let finished = writer.finish_after("imported", Duration::from_nanos(span))?;
    if terminal.json {
        let document = serde_json::json!({
            "schema": "ortscope.import.perf/1", "id": finished.id, "directory": finished.directory,
            "records": outcome.records, "samples": outcome.samples, "switches": outcome.switches,
            "processes": outcome.processes, "mappings": outcome.mappings, "other": outcome.other,
            "lost": outcome.lost, "unreadable": outcome.unreadable, "truncated": outcome.is_cut,
        });
        let text = serde_json::to_string_pretty(&document).map_err(Failure::internal)?;
        terminal::print_data(&(text + "\n"));
    } else {
        terminal::print_data(&format!(
            "{}  {}: {}, {}, {}\nortscope runs show {}\n",
            finished.id,
            units::counted(outcome.records, "record"),
            units::counted(outcome.samples, "sample"),
            units::counted(outcome.switches, "context switch"),
            units::counted(outcome.mappings, "mapped file"),
            finished.id
        ));
    }
    let warn = |sentence: String| {
        terminal::print_error(&format!("{} {sentence}", terminal.paint(WARN, "warning:")));
    };
    if outcome.lost > 0 {
        warn(format!("the kernel lost {} while it recorded", units::counted(outcome.lost, "record")));
    }
    if outcome.unreadable > 0 {
        warn(format!("{} could not be read and were left out", units::counted(outcome.unreadable, "record")));
    }
    if outcome.is_cut {
        warn("the file ends before its records do: the end is missing".to_owned());
    }
    Ok(if lost > 0 || outcome.is_cut { Exit::DataLost } else { Exit::Ok })
}
