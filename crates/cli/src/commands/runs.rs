//! `ortscope runs`: the recordings that are kept.

use std::time::Duration;

use ortscope_store::{Entry, PackOptions, Recording, Retention, Store};
use serde::Serialize;

use super::runs_trend;
use crate::args::{GlobalArgs, RunsAction, RunsArgs};
use crate::exit::{Exit, Failure};
use crate::recording::open_store;
use crate::terminal::{self, BAD, BOLD, DIM, Terminal, WARN};
use crate::values;
use ortscope_core::units;

pub fn run(args: &RunsArgs, global: &GlobalArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let store = open_store(global)?;
    match &args.action {
        RunsAction::List { matching, most } => list(&store, matching.as_deref(), *most, terminal),
        RunsAction::Show { run } => show(&store, run, terminal),
        RunsAction::Tag { run, add, remove, name } => {
            if add.is_empty() && remove.is_empty() && name.is_none() {
                return Err(Failure::usage("nothing to change: give a tag, --remove TAG or --name NAME"));
            }
            if let Some(name) = name {
                store.rename(run, name)?;
            }
            let tags = store.tag(run, add, remove)?;
            print(terminal, &serde_json::json!({"schema": "ortscope.runs.tag/1", "tags": tags}), || {
                vec![format!("tags: {}", if tags.is_empty() { "none".into() } else { tags.join(", ") })]
            })
        }
        RunsAction::Trend { matching, metric } => {
            runs_trend::run(&store, matching.as_deref(), metric, terminal)
        }
        RunsAction::Remove { run } => {
            let path = store.resolve(run)?;
            store.remove(run)?;
            print(terminal, &serde_json::json!({"schema": "ortscope.runs.remove/1", "removed": path}), || {
                vec![format!("removed {}", path.display())]
            })
        }
        RunsAction::Prune { older_than, max_size, all, dry_run } => {
            prune(&store, older_than.as_deref(), max_size.as_deref(), *all, *dry_run, terminal)
        }
        RunsAction::Repair { run } => repair(&store, run, terminal),
        RunsAction::Pack { run, output, no_redact, decrypt } => {
            let recording = store.resolve(run)?;
            let id = recording.file_name().map_or_else(|| "run".into(), |name| name.to_string_lossy());
            let output = output.clone().unwrap_or_else(|| format!("{id}.ortscope").into());
            let options = PackOptions { redact: !no_redact, decrypt: *decrypt };
            let report = ortscope_store::pack(&recording, &output, options)?;
            print(terminal, &report, || {
                let mut lines = vec![format!("{}  {}", output.display(), units::bytes(report.bytes as f64))];
                lines.extend(report.removed.iter().map(|what| format!("  removed: {what}")));
                lines
            })
        }
    }
}

/// Leaves those with the text in id, name, subject or tags.
pub fn keep_matching(entries: &mut Vec<Entry>, matching: Option<&str>) {
    if let Some(text) = matching.map(str::to_lowercase) {
        entries.retain(|entry| {
            let tags = entry.tags.join(" ");
            let all = [entry.id.as_str(), entry.name.as_deref().unwrap_or(""), &entry.subject, &tags];
            all.iter().any(|part| part.to_lowercase().contains(&text))
        });
    }
}

/// Prints a value as JSON or as the lines made from it.
pub fn print(
    terminal: &Terminal,
    value: &impl Serialize,
    lines: impl FnOnce() -> Vec<String>,
) -> Result<Exit, Failure> {
    let text = if terminal.json {
        serde_json::to_string_pretty(value).map_err(Failure::internal)?
    } else {
        lines().join("\n")
    };
    terminal::print_data(&(text + "\n"));
    Ok(Exit::Ok)
}

#[derive(Debug, Serialize)]
struct ListDocument<'a> {
    schema: &'static str,
    store: std::path::PathBuf,
    runs: &'a [Entry],
}

fn list(store: &Store, matching: Option<&str>, most: usize, terminal: &Terminal) -> Result<Exit, Failure> {
    let mut entries = store.list()?;
    keep_matching(&mut entries, matching);
    let hidden = entries.len().saturating_sub(most);
    entries.truncate(most);
    let document =
        ListDocument { schema: "ortscope.runs.list/1", store: store.root().to_owned(), runs: &entries };
    print(terminal, &document, || {
        if entries.is_empty() {
            return vec![format!("no recordings in {}", store.root().display())];
        }
        let width = entries.iter().map(|entry| entry.id.len()).max().unwrap_or(0);
        let mut lines: Vec<String> = entries.iter().map(|entry| line(entry, width, terminal)).collect();
        if hidden > 0 {
            lines.push(terminal.paint(DIM, &format!("and {hidden} older ones: -n shows more")));
        }
        lines
    })
}

fn line(entry: &Entry, width: usize, terminal: &Terminal) -> String {
    // Of one whose key is missing nobody knows how it ended.
    let is_locked = entry.encrypted && entry.problem.is_some();
    let state = match (entry.damaged, entry.finished || is_locked) {
        (true, _) => terminal.paint(BAD, "damaged"),
        (false, false) => terminal.paint(WARN, "cut off"),
        (false, true) => String::new(),
    };
    let mut parts = vec![
        format!("{:width$}", entry.id),
        format!("{:>9}", units::bytes(entry.bytes as f64)),
        format!("{:>8}", entry.duration_ns.map_or_else(String::new, |ns| units::duration(ns as f64 / 1e9))),
        entry.subject.clone(),
    ];
    parts.extend(entry.name.as_ref().map(|name| terminal.paint(BOLD, name)));
    parts.extend((!entry.tags.is_empty()).then(|| format!("[{}]", entry.tags.join(", "))));
    parts.extend((entry.encrypted && !is_locked).then(|| terminal.paint(DIM, "encrypted")));
    parts.extend(
        entry.problem.as_ref().filter(|_| is_locked).map(|_| terminal.paint(DIM, "(its key is not here)")),
    );
    parts.push(state);
    parts.join("  ").trim_end().to_owned()
}

fn show(store: &Store, run: &str, terminal: &Terminal) -> Result<Exit, Failure> {
    let recording = Recording::open(&store.resolve(run)?)?;
    let (manifest, condition) = (recording.manifest(), recording.condition());
    let tables = recording.tables();
    let document = serde_json::json!({
        "schema": "ortscope.runs.show/1", "manifest": manifest, "condition": condition, "tables": tables,
        "bytes": recording.bytes_on_disk(), "encrypted": manifest.encryption.is_some(),
    });
    print(terminal, &document, || {
        let mut lines = vec![format!("{}  {}", terminal.paint(BOLD, &manifest.id), manifest.subject)];
        let mut fact = |label: &str, text: &str| lines.push(format!("{label:<12}{text}"));
        if let Some(name) = &manifest.name {
            fact("name", name);
        }
        if !manifest.tags.is_empty() {
            fact("tags", &manifest.tags.join(", "));
        }
        fact("made by", &format!("ortscope {} ({})", manifest.ortscope_version, manifest.origin));
        if let Some(command) = &manifest.command {
            fact("command", command);
        }
        if let Some(seal) = &manifest.encryption {
            fact("encrypted", &format!("with the key {}", seal.key_id()));
        }
        fact("size", &units::bytes(recording.bytes_on_disk() as f64));
        let machine: Vec<String> =
            manifest.fingerprint.iter().map(|(key, value)| format!("{key} {value}")).collect();
        fact("machine", &machine.join(", "));
        for sentence in condition.sentences() {
            lines.push(terminal.paint(WARN, &format!("{:<12}{sentence}", "condition")));
        }
        for table in &tables {
            let span = table.to_ns.saturating_sub(table.from_ns) as f64 / 1e9;
            lines.push(format!(
                "  {:<20}{:>12} rows  {:>10}  {}",
                table.table.def().name,
                units::count(table.rows),
                units::bytes(table.bytes as f64),
                units::duration(span)
            ));
        }
        lines
    })?;
    if condition.damaged.is_empty() {
        return Ok(Exit::Ok);
    }
    terminal.warn(&condition.sentences());
    Ok(Exit::DataLost)
}

fn prune(
    store: &Store,
    older_than: Option<&str>,
    max_size: Option<&str>,
    all: bool,
    dry_run: bool,
    terminal: &Terminal,
) -> Result<Exit, Failure> {
    if older_than.is_none() && max_size.is_none() {
        return Err(Failure::usage("nothing to prune by: give --older-than 30d, --max-size 5GB, or both"));
    }
    let max_age = older_than.map(values::age_seconds).transpose().map_err(Failure::usage)?;
    let retention = Retention {
        max_age: max_age.map(Duration::from_secs_f64),
        max_total_bytes: max_size.map(values::size_bytes).transpose().map_err(Failure::usage)?,
        keep_tagged: !all,
    };
    let pruned = store.prune(&retention, dry_run)?;
    let document =
        serde_json::json!({"schema": "ortscope.runs.prune/1", "dry_run": dry_run, "pruned": pruned});
    print(terminal, &document, || {
        let verb = if dry_run { "would remove" } else { "removed" };
        let bytes: u64 = pruned.iter().map(|pruned| pruned.bytes).sum();
        let mut lines: Vec<String> = pruned
            .iter()
            .map(|pruned| format!("{verb} {}  {}", pruned.id, units::bytes(pruned.bytes as f64)))
            .collect();
        let runs = units::counted(pruned.len() as u64, "recording");
        lines.push(format!("{verb} {runs}, {}", units::bytes(bytes as f64)));
        lines
    })
}

fn repair(store: &Store, run: &str, terminal: &Terminal) -> Result<Exit, Failure> {
    let path = store.resolve(run)?;
    let report = ortscope_store::repair(&path)?;
    print(terminal, &report, || report.sentences())
}
