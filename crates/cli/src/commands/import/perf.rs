//! A file of Linux's `perf record`.

use ortscope_decode::perf_data::{self, PerfRow};

use super::batches::Batches;
use super::frame::{Frame, Told};
use crate::args::{GlobalArgs, ImportArgs};
use crate::exit::{Exit, Failure};
use crate::terminal::Terminal;
use ortscope_core::units;

/// The file is read at once: its parts lie anywhere in it.
const MAX_BYTES: u64 = 4 << 30;

pub fn run(args: &ImportArgs, global: &GlobalArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let size = fs_err::metadata(&args.file)?.len();
    if size > MAX_BYTES {
        let message = format!(
            "'{}' has {}, more than can be read at once",
            args.file.display(),
            units::bytes(size as f64)
        );
        return Err(Failure::usage(message).with_hint("record a shorter time, or with a lower rate"));
    }
    let bytes = fs_err::read(&args.file)?;
    // Once without keeping anything: a file that cannot be read leaves nothing behind.
    let read = |keep: &mut dyn FnMut(PerfRow), started: u64| {
        perf_data::read(&bytes, started, keep).map_err(|error| super::unknown(&args.file, &error.to_string()))
    };
    read(&mut |_| {}, 0)?;
    let mut frame = Frame::begin(args, global)?;
    let mut batches = Batches::new(&frame.writer);
    let mut keep = |row: PerfRow| match row {
        PerfRow::Kernel(row) => batches.push(&row),
        PerfRow::Process(row) => batches.push(&row),
    };
    let outcome = read(&mut keep, frame.started)?;
    batches.finish()?;
    frame.notes(["a file of perf record; its times count from the import".to_owned()])?;
    frame.unavailable(
        "names of functions",
        "the file holds addresses; symbols are not looked up",
        Some("'perf script' names them on the machine that recorded"),
    )?;
    frame.lost("perf", "records", outcome.lost)?;
    frame.lost("import", "unreadable records", outcome.unreadable)?;
    if outcome.lost > 0 {
        frame.warn(format!("the kernel lost {} while it recorded", units::counted(outcome.lost, "record")));
    }
    if outcome.unreadable > 0 {
        let records = units::counted(outcome.unreadable, "record");
        frame.warn(format!("{records} could not be read and were left out"));
    }
    if outcome.is_cut {
        frame.incomplete();
        frame.warn("the file ends before its records do: the end is missing");
    }
    let document = serde_json::json!({
        "schema": "ortscope.import.perf/1",
        "records": outcome.records, "samples": outcome.samples, "switches": outcome.switches,
        "processes": outcome.processes, "mappings": outcome.mappings, "other": outcome.other,
        "lost": outcome.lost, "unreadable": outcome.unreadable, "truncated": outcome.is_cut,
    });
    let line = format!(
        "{}: {}, {}, {}",
        units::counted(outcome.records, "record"),
        units::counted(outcome.samples, "sample"),
        units::counted(outcome.switches, "context switch"),
        units::counted(outcome.mappings, "mapped file"),
    );
    let span_ns = Some(outcome.span_ns.map_or(0, |(first, last)| last - first));
    frame.finish(Told { document, line, next: "runs show", span_ns }, terminal)
}
