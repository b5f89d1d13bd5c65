//! What the events of a trace mean, for other tools: the trace becomes a recording, and the recording what is asked for.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use ortscope_etl::CutError;
use ortscope_export::{ExportOptions, Format};
use ortscope_store::{Recording, Store};
use serde_json::json;

use super::selection::filter;
use super::{open, print_json, unreadable};
use crate::args::EtlConvertArgs;
use crate::commands::import::{Imported, import_trace};
use crate::exit::{Exit, Failure};
use crate::terminal::{self, Terminal, WARN};
use ortscope_core::units;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    Parquet,
    Chrome,
    Perfetto,
    Recording,
}

pub fn run(args: &EtlConvertArgs, target: Target, terminal: &Terminal) -> Result<Exit, Failure> {
    if args.event.is_some() {
        return Err(Failure::usage("events are not chosen by name here: what they mean depends on others")
            .with_hint("leave out --event, or write csv, json or jsonl"));
    }
    if args.output.exists() && (target == Target::Recording || !args.force) {
        let hint =
            if target == Target::Recording { "give another name to -o" } else { "--force replaces it" };
        return Err(Failure::usage(format!("'{}' exists", args.output.display())).with_hint(hint));
    }
    let directory = match args.output.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory,
        _ => Path::new("."),
    };
    // Beside the target, so that the recording can be moved to its place; it goes with everything in it.
    let place = tempfile::Builder::new().prefix(".ortscope-").tempdir_in(directory).map_err(|error| {
        Failure::usage(format!("nothing can be written to '{}': {error}", directory.display()))
    })?;
    let part = selected(args, place.path())?;
    let store = Store::open(place.path().join("runs"));
    let Imported { finished, warnings, exit, .. } =
        import_trace(&store, part.as_deref().unwrap_or(&args.file), None, terminal)?;
    let (files, rows, notes) = match target {
        Target::Recording => {
            std::fs::rename(&finished.directory, &args.output)?;
            (vec![(args.output.clone(), finished.bytes)], finished.rows.values().sum(), Vec::new())
        }
        Target::Parquet | Target::Chrome | Target::Perfetto => {
            let recording = Recording::open(&finished.directory)?;
            let format = match target {
                Target::Parquet => Format::Parquet,
                Target::Perfetto => Format::Perfetto,
                _ => Format::Chrome,
            };
            let options = ExportOptions { overwrite: args.force, ..ExportOptions::new(format) };
            let info = recording.manifest().info();
            let report = ortscope_export::export(&recording, &info, &options, &args.output)?;
            let files: Vec<(PathBuf, u64)> =
                report.files.into_iter().map(|file| (file.path, file.bytes)).collect();
            (files, report.rows, report.notes)
        }
    };
    if terminal.json {
        let files: Vec<_> = files
            .iter()
            .map(|(path, bytes)| json!({"file": path.display().to_string(), "bytes": bytes}))
            .collect();
        print_json(&json!({
            "schema": "ortscope.etl.convert/1", "files": files, "rows": rows, "notes": notes,
            "warnings": warnings,
        }))?;
    } else {
        for (path, bytes) in &files {
            terminal::print_data(&format!("{}  {}\n", path.display(), units::bytes(*bytes as f64)));
        }
        terminal::print_data(&format!("{}\n", units::counted(rows, "row")));
    }
    for sentence in &warnings {
        terminal::print_error(&format!("{} {sentence}", terminal.paint(WARN, "warning:")));
    }
    Ok(exit)
}

/// The part of the trace that was asked for, as a trace of its own; `None` for all of it.
fn selected(args: &EtlConvertArgs, place: &Path) -> Result<Option<PathBuf>, Failure> {
    let selection = &args.selection;
    let is_all = selection.from.is_none()
        && selection.to.is_none()
        && selection.pid.is_empty()
        && selection.provider.is_empty();
    if is_all {
        return Ok(None);
    }
    let file = open(&args.file)?;
    let filter = filter(selection, &file.header().clock)?;
    let path = place.join(args.file.file_name().unwrap_or_default());
    let (mut out, _) =
        file.cut(&filter, BufWriter::new(File::create(&path)?)).map_err(|error| match error {
            CutError::Read(error) => unreadable(&error),
            error @ CutError::Write(_) => Failure::internal(error),
        })?;
    out.flush()?;
    Ok(Some(path))
}
