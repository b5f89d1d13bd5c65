//! `ortscope import`: makes a recording of another tool's file.

use std::time::Duration;

use ortscope_core::pipeline::Pipeline;
use ortscope_core::units;
use ortscope_import::{Format, Import, ImportError, Summary};
use ortscope_observe::progress::Progress as _;
use ortscope_store::{Finished, NewRecording, Store};

use crate::args::{GlobalArgs, ImportArgs};
use crate::exit::{Exit, Failure};
use crate::progress::ProgressLine;
use crate::recording::open_store_to_record;
use crate::terminal::{self, Terminal};

/// The document that is kept with the recording.
const IMPORT_DOCUMENT: &str = "import.json";

pub fn run(args: &ImportArgs, global: &GlobalArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let import = ortscope_import::open(&args.file)?;
    // Without inferences or operators there is nothing to report.
    let next = if import.format() == Format::PerfData { "runs show" } else { "report" };
    let store = open_store_to_record(global, args.encryption.encrypt)?;
    let (finished, summary) = record(&store, import, args.name.clone(), terminal)?;
    let Summary { mut document, lines, warnings, is_incomplete, .. } = summary;
    if terminal.json {
        if document.get("rows").is_none() {
            document["rows"] = serde_json::json!(finished.rows);
        }
        document["id"] = finished.id.into();
        document["directory"] = finished.directory.display().to_string().into();
        document["notes"] = warnings.clone().into();
        terminal::print_json(&document)?;
    } else {
        let id = finished.id;
        terminal::print_data(&format!("{id}  {}\nortscope {next} {id}\n", lines.join("\n")));
    }
    terminal.warn(&warnings);
    Ok(if is_incomplete { Exit::DataLost } else { Exit::Ok })
}

/// Runs the pipeline from the file to a new recording. A file that cannot be imported leaves no recording behind.
pub fn record(
    store: &Store,
    import: Import,
    name: Option<String>,
    terminal: &Terminal,
) -> Result<(Finished, Summary), Failure> {
    let writer = store.begin(NewRecording {
        origin: "import".into(),
        subject: import.file_name(),
        name,
        ortscope_version: env!("CARGO_PKG_VERSION").into(),
        fingerprint: import.fingerprint(),
        ..NewRecording::default()
    })?;
    let (source, handle) = import.source(writer.started().monotonic_ns);
    let running = Pipeline::default().journal(writer.journal()).source(source).start()?;
    let mut progress = ProgressLine::start(terminal, "import");
    let result = handle.finish(|read| {
        let events = units::counted(read.done(), "event");
        progress.update(&|| match read.total() {
            Some(total) => {
                let share = units::percent(read.done() as f64 / total as f64);
                format!("{share} of {} events", units::count(total))
            }
            None => format!("first pass, {events}"),
        });
    });
    let report = running.join();
    progress.finish();
    let summary = match result {
        Ok(summary) => summary,
        Err(error) => {
            let finished = writer.finish("not imported")?;
            store.remove(&finished.id)?;
            // A panic has no other trace than the pipeline's report.
            let panic = report.source_errors.into_iter().map(|(_, why)| Failure::internal(why)).next();
            return Err(match (&error, panic) {
                (ImportError::Stopped, Some(panic)) => panic,
                _ => error.into(),
            });
        }
    };
    if let Some(error) = report.journal_error {
        return Err(Failure::internal(format!("the recording cannot be written: {error}")));
    }
    let document = serde_json::to_vec_pretty(&summary.document).map_err(Failure::internal)?;
    writer.write_document(IMPORT_DOCUMENT, &document)?;
    // The recording spans the time of the file's events, not the time it took to read them.
    let finished = match summary.span_ns {
        Some(span_ns) => writer.finish_after("imported", Duration::from_nanos(span_ns))?,
        None => writer.finish("imported")?,
    };
    Ok((finished, summary))
}
