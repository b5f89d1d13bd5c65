//! `ortscope etl cut` and `ortscope etl convert`: a part of a trace as a trace, or in the format of another tool.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use ortscope_core::units;
use ortscope_etl::{Cut, CutError, Selection};
use ortscope_export::{ExportOptions, Format};
use ortscope_import::etl_text::{Form, losses_json};
use ortscope_import::open_etl;
use ortscope_store::{Recording, Store};
use serde_json::json;
use tempfile::{Builder, TempPath};

use super::{WriteFailure, bad_selection, finish, selection, unreadable, write_events};
use crate::args::{EtlConvertArgs, EtlCutArgs, EtlFormat};
use crate::commands::import;
use crate::exit::{Exit, Failure};
use crate::terminal::{self, Terminal, print_json};

pub fn cut(args: &EtlCutArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let (output, selection) = (&args.output, selection(&args.selection, None));
    let (partial, out) = create(output, &args.file, args.force)?;
    let (out, cut) = write_cut(&args.file, &selection, !args.strict, out)?;
    let bytes = out.metadata()?.len();
    partial.persist(output).map_err(|error| not_written(output, error))?;
    if terminal.json {
        print_json(&json!({
            "schema": "ortscope.etl.cut/1", "file": output.display().to_string(), "bytes": bytes,
            "read": cut.read, "kept": cut.kept, "context": cut.context, "dropped": cut.dropped,
            "without_process": cut.without_process, "losses": losses_json(&cut.losses),
        }))?;
    } else {
        let (size, kept) = (units::bytes(bytes as f64), units::count(cut.kept));
        let (read, context) = (units::count(cut.read), units::count(cut.context));
        let output = output.display();
        terminal::print_data(&format!(
            "{output}  {size}: {kept} of {read} records kept, {context} more that they need\n"
        ));
        if cut.without_process > 0 {
            let records = units::count(cut.without_process);
            terminal::print_data(&format!("{records} records of no known process left out\n"));
        }
    }
    Ok(finish(&cut.losses, terminal))
}

fn write_cut(
    path: &Path,
    selection: &Selection,
    keep_context: bool,
    out: File,
) -> Result<(File, Cut), Failure> {
    let file = open_etl(path)?;
    let mut filter = selection.filter(&file.header().clock).map_err(|error| bad_selection(&error))?;
    filter.keep_context = keep_context;
    let (out, cut) = file.cut(&filter, BufWriter::new(out)).map_err(|error| match error {
        CutError::Read(error) => unreadable(&error),
        error @ CutError::Write(_) => Failure::internal(error),
    })?;
    let out = out.into_inner().map_err(|error| Failure::from(error.into_error()))?;
    Ok((out, cut))
}

pub fn run(args: &EtlConvertArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let format = match args.format {
        Some(format) => format,
        None => format_of(&args.output)?,
    };
    match format {
        EtlFormat::Csv => events(args, Form::Csv, terminal),
        EtlFormat::Json => events(args, Form::JsonDocument, terminal),
        EtlFormat::Jsonl => events(args, Form::JsonLines, terminal),
        EtlFormat::Parquet => recording(args, Some(Format::Parquet), terminal),
        EtlFormat::Chrome => recording(args, Some(Format::Chrome), terminal),
        EtlFormat::Perfetto => recording(args, Some(Format::Perfetto), terminal),
        EtlFormat::Recording => recording(args, None, terminal),
    }
}

fn format_of(output: &Path) -> Result<EtlFormat, Failure> {
    let name = output.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    if [".trace.json", ".chrome.json"].iter().any(|ending| name.ends_with(ending)) {
        return Ok(EtlFormat::Chrome);
    }
    let ending = output.extension().and_then(|ending| ending.to_str()).unwrap_or("").to_lowercase();
    match ending.as_str() {
        "csv" => Ok(EtlFormat::Csv),
        "json" => Ok(EtlFormat::Json),
        "jsonl" | "ndjson" => Ok(EtlFormat::Jsonl),
        "parquet" => Ok(EtlFormat::Parquet),
        "pftrace" => Ok(EtlFormat::Perfetto),
        other => Err(Failure::usage(format!("'.{other}' is no format that events are written in"))
            .with_hint("name one with --format: csv, json, jsonl, parquet, chrome, perfetto or recording")),
    }
}

/// Writes single events with their fields.
fn events(args: &EtlConvertArgs, form: Form, terminal: &Terminal) -> Result<Exit, Failure> {
    let file = open_etl(&args.file)?;
    let selection = selection(&args.selection, args.event.as_deref());
    let (partial, out) = create(&args.output, &args.file, args.force)?;
    let mut out = BufWriter::with_capacity(1 << 16, out);
    let (written, losses) =
        write_events(&file, &selection, None, form, &mut out).map_err(|error| match error {
            WriteFailure::Read(failure) => failure,
            WriteFailure::Write(error) => not_written(&args.output, error),
        })?;
    let bytes = out.get_ref().metadata()?.len();
    partial.persist(&args.output).map_err(|error| not_written(&args.output, error))?;
    let output = args.output.display().to_string();
    if terminal.json {
        print_json(&json!({
            "schema": "ortscope.etl.convert/1", "file": output, "bytes": bytes,
            "events": written, "losses": losses_json(&losses),
        }))?;
    } else {
        let (size, events) = (units::bytes(bytes as f64), units::counted(written, "event"));
        terminal::print_data(&format!("{output}  {size}: {events}\n"));
    }
    Ok(finish(&losses, terminal))
}

/// Imports the trace into a temporary recording, which is then exported, or moved to the output if there is no format.
fn recording(args: &EtlConvertArgs, format: Option<Format>, terminal: &Terminal) -> Result<Exit, Failure> {
    if args.event.is_some() {
        return Err(Failure::usage(
            "this format does not select events by name: their meaning depends on others",
        )
        .with_hint("leave out --event, or write csv, json or jsonl"));
    }
    if args.output.exists() && (format.is_none() || !args.force) {
        let hint = if format.is_none() { "give another name to -o" } else { "--force replaces it" };
        return Err(Failure::usage(format!("'{}' exists", args.output.display())).with_hint(hint));
    }
    // Next to the output, so that a recording can be moved there. It is removed with everything that is left in it.
    let directory = directory_of(&args.output);
    let place = temporary().tempdir_in(directory).map_err(|error| not_writable(directory, &error))?;
    let selection = selection(&args.selection, None);
    let mut input = args.file.clone();
    if !selection.is_all() {
        input = place.path().join(args.file.file_name().unwrap_or_default());
        write_cut(&args.file, &selection, true, File::create(&input)?)?.0.flush()?;
    }
    let store = Store::open(place.path().join("runs"));
    let (finished, summary) = import::record(&store, ortscope_import::open(&input)?, None, terminal)?;
    let (files, rows, notes) = match format {
        None => {
            std::fs::rename(&finished.directory, &args.output)?;
            (vec![(args.output.clone(), finished.bytes)], finished.rows.values().sum(), Vec::new())
        }
        Some(format) => {
            let recording = Recording::open(&finished.directory)?;
            let options = ExportOptions { overwrite: args.force, ..ExportOptions::new(format) };
            let info = recording.manifest().info();
            let report = ortscope_export::export(&recording, &info, &options, &args.output)?;
            let files: Vec<(PathBuf, u64)> =
                report.files.into_iter().map(|file| (file.path, file.bytes)).collect();
            (files, report.rows, report.notes)
        }
    };
    if terminal.json {
        let file =
            |(path, bytes): &(PathBuf, u64)| json!({"file": path.display().to_string(), "bytes": bytes});
        print_json(&json!({
            "schema": "ortscope.etl.convert/1", "files": files.iter().map(file).collect::<Vec<_>>(),
            "rows": rows, "notes": notes, "warnings": summary.warnings,
        }))?;
    } else {
        for (path, bytes) in &files {
            terminal::print_data(&format!("{}  {}\n", path.display(), units::bytes(*bytes as f64)));
        }
        terminal::print_data(&format!("{}\n", units::counted(rows, "row")));
    }
    terminal.warn(&summary.warnings);
    Ok(if summary.is_incomplete { Exit::DataLost } else { Exit::Ok })
}

/// Creates a file next to the output, which takes the output's name when it is complete.
fn create(output: &Path, input: &Path, force: bool) -> Result<(TempPath, File), Failure> {
    if output.exists() {
        if is_same_file(output, input) {
            return Err(Failure::usage("the output is the input itself").with_hint("give another name to -o"));
        }
        if !force {
            return Err(
                Failure::usage(format!("'{}' exists", output.display())).with_hint("--force replaces it")
            );
        }
    }
    let directory = directory_of(output);
    let partial = temporary().tempfile_in(directory).map_err(|error| not_writable(directory, &error))?;
    let (file, path) = partial.into_parts();
    Ok((path, file))
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

fn temporary() -> Builder<'static, 'static> {
    let mut builder = Builder::new();
    builder.prefix(".ortscope-");
    builder
}

fn directory_of(output: &Path) -> &Path {
    output.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn not_writable(directory: &Path, error: &std::io::Error) -> Failure {
    Failure::usage(format!("nothing can be written to '{}': {error}", directory.display()))
}

fn not_written(output: &Path, error: impl std::fmt::Display) -> Failure {
    Failure::internal(format!("'{}': {error}", output.display()))
}
