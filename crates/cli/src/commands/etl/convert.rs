//! `ortscope etl convert`: events for other tools, one by one with their fields; what they mean is in [`meaning`].

use std::io::BufWriter;
use std::path::Path;

use serde_json::json;

use super::cut::create;
use super::dump::{Form, WriteFailure, write_events};
use super::selection::Selection;
use super::{finish, losses_json, meaning, open, print_json, schemas};
use crate::args::{EtlConvertArgs, EtlFormat};
use crate::exit::{Exit, Failure};
use crate::terminal::{self, Terminal};
use ortscope_core::units;

pub fn run(args: &EtlConvertArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let format = match args.format {
        Some(format) => format,
        None => format_of(&args.output)?,
    };
    let form = match format {
        EtlFormat::Csv => Form::Csv,
        EtlFormat::Json => Form::JsonDocument,
        EtlFormat::Jsonl => Form::JsonLines,
        EtlFormat::Parquet => return meaning::run(args, meaning::Target::Parquet, terminal),
        EtlFormat::Chrome => return meaning::run(args, meaning::Target::Chrome, terminal),
        EtlFormat::Perfetto => return meaning::run(args, meaning::Target::Perfetto, terminal),
        EtlFormat::Recording => return meaning::run(args, meaning::Target::Recording, terminal),
    };
    let file = open(&args.file)?;
    let store = schemas(&file)?;
    let selection = Selection::new(&args.selection, args.event.as_deref(), &file.header().clock)?;
    let (partial, out) = create(&args.output, &args.file, args.force)?;
    let mut out = BufWriter::with_capacity(1 << 16, out);
    let mut written = 0;
    let walk =
        write_events(&file, &store, &selection, None, form, &mut out, &mut written).map_err(|error| {
            match error {
                WriteFailure::Read(failure) => failure,
                WriteFailure::Write(error) => {
                    Failure::internal(format!("'{}': {error}", args.output.display()))
                }
            }
        })?;
    let bytes = out.get_ref().metadata()?.len();
    partial
        .persist(&args.output)
        .map_err(|error| Failure::internal(format!("'{}': {error}", args.output.display())))?;
    if terminal.json {
        print_json(&json!({
            "schema": "ortscope.etl.convert/1", "file": args.output.display().to_string(), "bytes": bytes,
            "events": written, "losses": losses_json(&walk.losses),
        }))?;
    } else {
        let events = units::counted(written, "event");
        terminal::print_data(&format!(
            "{}  {}: {events}\n",
            args.output.display(),
            units::bytes(bytes as f64)
        ));
    }
    Ok(finish(&walk.losses, terminal))
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
