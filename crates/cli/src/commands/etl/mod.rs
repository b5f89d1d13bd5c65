//! `ortscope etl`: Windows traces, read on any system, and the sessions that write them.

mod convert;
mod sessions;
mod wpr;

use std::io::{self, BufWriter};
use std::path::Path;

use ortscope_etl::{EtlError, EtlFile, Losses, Selection, SelectionError};
use ortscope_import::etl_text::{self, Form, TraceInfo, TraceStats, WriteEventsError};
use ortscope_import::open_etl;

use crate::args::{EtlAction, EtlArgs, EtlDumpArgs, EtlSelection};
use crate::exit::{Exit, Failure, FailureKind};
use crate::terminal::{self, Terminal, print_json};

pub fn run(args: &EtlArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    match &args.action {
        EtlAction::Info(args) => info(&args.file, terminal),
        EtlAction::Stats(args) => stats(&args.file, terminal),
        EtlAction::Dump(args) => dump(args, terminal),
        EtlAction::Cut(args) => convert::cut(args, terminal),
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

fn info(path: &Path, terminal: &Terminal) -> Result<Exit, Failure> {
    let file = open_etl(path)?;
    let info = TraceInfo::read(path, &file).map_err(|error| unreadable(&error))?;
    if terminal.json {
        print_json(&info.document())?;
    } else {
        terminal::print_data(&info.text());
    }
    Ok(finish(info.losses(), terminal))
}

fn stats(path: &Path, terminal: &Terminal) -> Result<Exit, Failure> {
    let file = open_etl(path)?;
    let store = etl_text::schemas(&file).map_err(|error| unreadable(&error))?;
    let stats = TraceStats::read(&file, &store).map_err(|error| unreadable(&error))?;
    if terminal.json {
        print_json(&stats.document(path, &store))?;
    } else {
        terminal::print_data(&stats.text());
    }
    Ok(finish(stats.losses(), terminal))
}

fn dump(args: &EtlDumpArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let file = open_etl(&args.file)?;
    let form = if terminal.json { Form::JsonDocument } else { Form::Text };
    let selection = selection(&args.selection, args.event.as_deref());
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    match write_events(&file, &selection, args.limit, form, &mut out) {
        Ok((_, losses)) => Ok(finish(&losses, terminal)),
        // `| head` has seen enough.
        Err(WriteFailure::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Exit::Ok),
        Err(WriteFailure::Write(error)) => Err(error.into()),
        Err(WriteFailure::Read(failure)) => Err(failure),
    }
}

/// Why events were not written: the trace or the output is at fault.
enum WriteFailure {
    Read(Failure),
    Write(io::Error),
}

/// Writes the selected events. Returns their number and the losses of the trace.
fn write_events(
    file: &EtlFile,
    selection: &Selection,
    limit: Option<u64>,
    form: Form,
    out: &mut dyn io::Write,
) -> Result<(u64, Losses), WriteFailure> {
    let read = |failure| WriteFailure::Read(failure);
    let selected = selection.matcher(&file.header().clock).map_err(|error| read(bad_selection(&error)))?;
    let store = etl_text::schemas(file).map_err(|error| read(unreadable(&error)))?;
    match etl_text::write_events(file, &store, &selected, limit, form, out) {
        Ok((written, walk)) => Ok((written, walk.losses)),
        Err(WriteEventsError::Read(error)) => Err(read(unreadable(&error))),
        Err(WriteEventsError::Write(error)) => Err(WriteFailure::Write(error)),
    }
}

fn selection(args: &EtlSelection, event: Option<&str>) -> Selection {
    Selection {
        from_seconds: args.from,
        to_seconds: args.to,
        processes: args.pid.clone(),
        providers: args.provider.clone(),
        event: event.map(str::to_owned),
    }
}

fn bad_selection(error: &SelectionError) -> Failure {
    let hint = match error {
        SelectionError::NotGuid(_) => "`ortscope etl stats` lists the GUIDs of a trace",
        _ => "--from and --to are seconds after the start of the trace",
    };
    Failure::usage(error.to_string()).with_hint(hint)
}

fn unreadable(error: &EtlError) -> Failure {
    Failure::new(FailureKind::DataLost, error.to_string())
}

/// Prints warnings about missing data. The exit code depends on records that could not be read; losses of the session that
/// wrote the trace are no error of the reader.
fn finish(losses: &Losses, terminal: &Terminal) -> Exit {
    terminal.warn(&etl_text::loss_sentences(losses));
    if losses.damage.loses_records() { Exit::DataLost } else { Exit::Ok }
}
