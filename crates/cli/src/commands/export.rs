//! `ortscope export`: a recording for other tools.

use ortscope_core::filter::Filter;
use ortscope_core::schema::TableId;
use ortscope_export::push::{Protocol, push_recording};
use ortscope_export::{ExportOptions, Format};
use ortscope_store::{Damage, Recording};

use crate::args::{ExportArgs, GlobalArgs};
use crate::exit::{Exit, Failure};
use crate::push;
use crate::recording::open_store;
use crate::terminal::{self, DIM, Terminal, WARN};
use ortscope_core::units;

pub fn run(args: &ExportArgs, global: &GlobalArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    if let Some(url) = &args.url {
        return push(url, args, global, terminal);
    }
    if let Some(name) = args.format.as_deref().filter(|name| Protocol::from_name(name).is_some()) {
        let message = format!("{name} pushes to an address, and none was given");
        return Err(
            Failure::usage(message).with_hint("--url http://127.0.0.1:9090/api/v1/write, for example")
        );
    }
    let Some(output) = &args.output else {
        return Err(
            Failure::usage("nothing says where to").with_hint("-o names a file, --url an address to push to")
        );
    };
    let format = match &args.format {
        Some(name) => Format::from_name(name)?,
        None => Format::by_extension(output)?,
    };
    let mut options = options(args, format)?;
    let recording = Recording::open(&open_store(global)?.resolve(&args.run)?)?;
    options.host = push::host(&args.push, Some(&recording));
    let info = recording.manifest().info();
    let report = ortscope_export::export(&recording, &info, &options, output)?;
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

/// Sends the recording as metrics, and with OTLP also as traces.
fn push(url: &str, args: &ExportArgs, global: &GlobalArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let name = args.format.as_deref().unwrap_or_default();
    let Some(protocol) = Protocol::from_name(name) else {
        let message = if name.is_empty() {
            "nothing says how to push".to_owned()
        } else {
            format!("'{name}' is written to a file, not pushed")
        };
        return Err(
            Failure::usage(message).with_hint("--to remote-write or --to otlp; for the others, -o PATH")
        );
    };
    let mut push = push::options(url, protocol, &args.push, global)?;
    // Which format it is does not matter: rows are chosen in the same way.
    let options = options(args, Format::Prometheus)?;
    let recording = Recording::open(&open_store(global)?.resolve(&args.run)?)?;
    push.host = push::host(&args.push, Some(&recording));
    let info = recording.manifest().info();
    let report = push_recording(&recording, &info, &options, &push)?;
    if terminal.json {
        let mut document = serde_json::to_value(&report).map_err(Failure::internal)?;
        document["schema"] = "ortscope.export.push/1".into();
        let text = serde_json::to_string_pretty(&document).map_err(Failure::internal)?;
        terminal::print_data(&(text + "\n"));
    } else {
        let what = if protocol == Protocol::Otlp { "value or span" } else { "value" };
        let what = if protocol == Protocol::Otlp && report.delivered != 1 {
            format!("{} values and spans", units::count(report.delivered))
        } else {
            units::counted(report.delivered, what)
        };
        let line = format!(
            "{}  {what} of {}  {}\n",
            push.destination.shown(),
            units::counted(report.rows, "row"),
            units::bytes(report.bytes as f64)
        );
        terminal::print_data(&line);
    }
    if !terminal.quiet {
        for note in &report.notes {
            terminal::print_error(&format!("{} {note}", terminal.paint(DIM, "note:")));
        }
    }
    let mut lost: Vec<String> = recording.condition().damaged.iter().map(Damage::sentence).collect();
    lost.extend(report.damaged.iter().cloned());
    if report.refused > 0 {
        let why = report.refused_why.as_deref().unwrap_or("it did not say why");
        lost.push(format!("{} were refused: {why}", units::counted(report.refused, "value")));
    }
    if report.dropped > 0 {
        lost.push(format!(
            "{} found no room in the queue and are lost",
            units::counted(report.dropped, "value")
        ));
    }
    for sentence in &lost {
        terminal::print_error(&format!("{} {sentence}", terminal.paint(WARN, "warning:")));
    }
    Ok(if lost.is_empty() { Exit::Ok } else { Exit::DataLost })
}

fn options(args: &ExportArgs, format: Format) -> Result<ExportOptions, Failure> {
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
        filter,
        every_tick: args.every_tick,
        gzip: args.gzip,
        records: args.records,
        tables: (!tables.is_empty()).then_some(tables),
        overwrite: args.force,
        ..ExportOptions::new(format)
    })
}
