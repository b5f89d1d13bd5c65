//! `ortscope export`: a recording for other tools.

use ortscope_core::filter::Filter;
use ortscope_core::schema::TableId;
use ortscope_export::{ExportError, ExportInfo, ExportOptions, Format};
use ortscope_store::{Damage, Recording};

use crate::args::{ExportArgs, GlobalArgs};
use crate::exit::{Exit, Failure};
use crate::recording::open_store;
use crate::terminal::{self, DIM, Terminal, WARN};
use crate::units;

pub fn run(args: &ExportArgs, global: &GlobalArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let options = options(args)?;
    let recording = Recording::open(&open_store(global)?.resolve(&args.run)?)?;
    let info = ExportInfo::from_manifest(recording.manifest());
    let report = ortscope_export::export(&recording, &info, &options, &args.output)?;
    if terminal.json {
        let mut document = serde_json::to_value(&report).map_err(Failure::internal)?;
        document["schema"] = "ortscope.export.files/1".into();
        let text = serde_json::to_string_pretty(&document).map_err(Failure::internal)?;
        terminal::print_data(&(text + "\n"));
    } else {
        for file in &report.files {
            let rows = units::counted(file.rows, "row");
            let line = format!("{}  {rows}  {}\n", file.path.display(), units::bytes(file.bytes as f64));
            terminal::print_data(&line);
        }
    }
    if !terminal.quiet {
        for note in &report.notes {
            terminal::print_error(&format!("{} {note}", terminal.paint(DIM, "note:")));
        }
    }
    let damaged = recording.condition().damaged.iter().map(Damage::sentence);
    let damaged: Vec<String> = damaged.chain(report.damaged.iter().cloned()).collect();
    for sentence in &damaged {
        terminal::print_error(&format!("{} {sentence}", terminal.paint(WARN, "warning:")));
    }
    Ok(if damaged.is_empty() { Exit::Ok } else { Exit::DataLost })
}

fn options(args: &ExportArgs) -> Result<ExportOptions, Failure> {
    let format = match &args.format {
        Some(name) => Format::from_name(name)?,
        None => Format::by_extension(&args.output)?,
    };
    let filter = args.filter.as_deref().map(Filter::parse).transpose().map_err(|error| {
        let failure = Failure::usage(error.to_string());
        match error.hint() {
            Some(hint) => failure.with_hint(hint),
            None => failure,
        }
    })?;
    let mut tables = Vec::new();
    for name in &args.table {
        tables.push(TableId::by_name(name).ok_or_else(|| {
            let known: Vec<&str> = TableId::ALL.iter().map(|table| table.def().name).collect();
            Failure::usage(format!("there is no table '{name}'"))
                .with_hint(format!("tables: {}", known.join(", ")))
        })?);
    }
    Ok(ExportOptions {
        format,
        filter,
        every_tick: args.every_tick,
        gzip: args.gzip,
        records: args.records,
        tables: (!tables.is_empty()).then_some(tables),
        overwrite: args.force,
        host: host_name(),
    })
}

/// What this machine calls itself; each system has one of these.
fn host_name() -> String {
    let variables = ["COMPUTERNAME", "HOSTNAME"].iter().filter_map(|name| std::env::var(name).ok());
    let files = ["/proc/sys/kernel/hostname", "/etc/hostname"];
    let files = files.iter().filter_map(|path| std::fs::read_to_string(path).ok());
    let name = variables.chain(files).map(|name| name.trim().to_owned()).find(|name| !name.is_empty());
    name.unwrap_or_else(|| "unknown".to_owned())
}

fn denied(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem)
}

impl From<ExportError> for Failure {
    fn from(error: ExportError) -> Self {
        let exit = match &error {
            ExportError::Usage { .. } => Exit::Usage,
            ExportError::Read(_) => Exit::DataLost,
            ExportError::Io(source) if denied(source) => Exit::Permission,
            _ => Exit::Internal,
        };
        let failure = Self::new(exit, error.to_string());
        match error.hint() {
            Some(hint) => failure.with_hint(hint),
            None => failure,
        }
    }
}
