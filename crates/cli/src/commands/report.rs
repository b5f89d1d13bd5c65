//! `ortscope report`: what a recording says, in the form asked for.

use std::path::Path;

use ortscope_render::TextOptions;
use ortscope_result::{Limit, ReportInput, ReportModel, ReportOptions};
use ortscope_store::Recording;

use crate::args::{GlobalArgs, ReportArgs, ReportFormat};
use crate::exit::{Exit, Failure, FailureKind};
use crate::recording::{open_store, run_document};
use crate::terminal::{self, Terminal};
use crate::values;

pub fn run(args: &ReportArgs, global: &GlobalArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let format = format(args, terminal)?;
    let limits = args.limit.iter().map(|text| limit(text)).collect::<Result<Vec<_>, _>>()?;
    let recording = Recording::open(&open_store(global)?.resolve(&args.run)?)?;
    let run_document = run_document(&recording)?;
    let input = ReportInput {
        recording: recording.manifest().info(),
        run_document,
        condition: recording.condition().sentences(),
    };
    let model = ReportModel::build(&recording, &input, &ReportOptions::default())
        .map_err(|error| Failure::new(FailureKind::DataLost, error.to_string()))?;
    let text = match format {
        ReportFormat::Text => {
            let color = terminal.color && args.output.is_none();
            ortscope_render::text(
                &model,
                &TextOptions { color, timeline: args.timeline, ..TextOptions::default() },
            )
        }
        ReportFormat::Html => ortscope_render::html(&model),
        ReportFormat::Md => ortscope_render::markdown(&model),
        ReportFormat::Json => serde_json::to_string_pretty(&model).map_err(Failure::internal)? + "\n",
        ReportFormat::Junit => ortscope_render::junit(&model, &limits),
        ReportFormat::Csv => ortscope_render::csv(&model),
    };
    match &args.output {
        Some(path) => write(path, &text, args.force)?,
        None => terminal::print_data(&text),
    }
    Ok(if recording.condition().damaged.is_empty() { Exit::Ok } else { Exit::DataLost })
}

fn format(args: &ReportArgs, terminal: &Terminal) -> Result<ReportFormat, Failure> {
    if let Some(format) = args.format {
        return Ok(format);
    }
    if terminal.json {
        return Ok(ReportFormat::Json);
    }
    let Some(path) = &args.output else {
        return Ok(ReportFormat::Text);
    };
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
    match ending.as_deref() {
        Some("html" | "htm") => Ok(ReportFormat::Html),
        Some("md" | "markdown") => Ok(ReportFormat::Md),
        Some("json") => Ok(ReportFormat::Json),
        Some("xml") => Ok(ReportFormat::Junit),
        Some("csv") => Ok(ReportFormat::Csv),
        Some("txt") => Ok(ReportFormat::Text),
        _ => Err(Failure::usage(format!(
            "'{}' does not say which form the report should have",
            path.display()
        ))
        .with_hint("give --format text, html, md, json, junit or csv")),
    }
}

fn limit(text: &str) -> Result<Limit, Failure> {
    let (metric, most) = values::key_value(text, "a limit").map_err(Failure::usage)?;
    match most.parse::<f64>() {
        Ok(at_most) if at_most.is_finite() => Ok(Limit { metric, at_most }),
        _ => Err(Failure::usage(format!("the limit '{text}' needs a number, like latency.inference.p50=5"))),
    }
}

/// Written beside and then renamed: a report that could not be finished leaves the old one.
fn write(path: &Path, text: &str, force: bool) -> Result<(), Failure> {
    if path.exists() && !force {
        return Err(
            Failure::usage(format!("'{}' is there already", path.display())).with_hint("--force replaces it")
        );
    }
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    std::io::Write::write_all(&mut file, text.as_bytes())?;
    file.persist(path).map_err(|error| Failure::from(error.error))?;
    Ok(())
}
