//! `ortscope etl cut`: a part of a trace as a trace.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use ortscope_etl::CutError;
use serde_json::json;

use super::selection::filter;
use super::{finish, losses_json, open, print_json, unreadable};
use crate::args::EtlCutArgs;
use crate::exit::{Exit, Failure};
use crate::terminal::{self, Terminal};
use ortscope_core::units;

pub fn run(args: &EtlCutArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let file = open(&args.file)?;
    let mut filter = filter(&args.selection, &file.header().clock)?;
    filter.keep_context = !args.strict;
    let (partial, out) = create(&args.output, &args.file, args.force)?;
    let (mut out, cut) = file.cut(&filter, BufWriter::new(out)).map_err(|error| match error {
        CutError::Read(error) => unreadable(&error),
        error @ CutError::Write(_) => Failure::internal(format!("'{}': {error}", args.output.display())),
    })?;
    std::io::Write::flush(&mut out)?;
    let bytes = out.get_ref().metadata()?.len();
    partial
        .persist(&args.output)
        .map_err(|error| Failure::internal(format!("'{}': {error}", args.output.display())))?;
    if terminal.json {
        print_json(&json!({
            "schema": "ortscope.etl.cut/1", "file": args.output.display().to_string(), "bytes": bytes,
            "read": cut.read, "kept": cut.kept, "context": cut.context, "dropped": cut.dropped,
            "without_process": cut.without_process, "losses": losses_json(&cut.losses),
        }))?;
    } else {
        terminal::print_data(&format!(
            "{}  {}: {} of {} records kept, {} more that they need\n",
            args.output.display(),
            units::bytes(bytes as f64),
            units::count(cut.kept),
            units::count(cut.read),
            units::count(cut.context)
        ));
        if cut.without_process > 0 {
            terminal::print_data(&format!(
                "{} records of no known process left out\n",
                units::count(cut.without_process)
            ));
        }
    }
    Ok(finish(&cut.losses, terminal))
}

/// A file beside the wanted one, which takes its name when it is complete.
pub fn create(output: &Path, input: &Path, force: bool) -> Result<(tempfile::TempPath, File), Failure> {
    if output.exists() {
        let is_input = same_file(output, input);
        if is_input {
            return Err(Failure::usage("the output is the input itself").with_hint("give another name to -o"));
        }
        if !force {
            return Err(
                Failure::usage(format!("'{}' exists", output.display())).with_hint("--force replaces it")
            );
        }
    }
    let directory = match output.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory,
        _ => Path::new("."),
    };
    let partial = tempfile::Builder::new().prefix(".ortscope-").tempfile_in(directory).map_err(|error| {
        Failure::usage(format!("nothing can be written to '{}': {error}", directory.display()))
    })?;
    let (file, path) = partial.into_parts();
    Ok((path, file))
}

fn same_file(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}
