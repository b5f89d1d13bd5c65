//! `docs/BENCHMARKS.md`: one section per benchmark between markers, so that each can be measured again on its own.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use super::Report;

const HEADING: &str = "# Benchmarks\n\n\
    Measured by `cargo xtask bench --all --write`, ours and the peer in the same run. The sections are generated; what \
    stands between them is not.\n";

pub(super) fn write(root: &Path, name: &str, report: &Report, machine: &Value, quick: bool) -> Result<()> {
    let path = root.join("docs").join("BENCHMARKS.md");
    let before = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => HEADING.to_owned(),
        Err(error) => return Err(error).context("cannot read docs/BENCHMARKS.md"),
    };
    let section = section(name, report, machine, quick);
    fs::write(&path, replace_section(&before, name, &section)).context("cannot write docs/BENCHMARKS.md")
}

fn section(name: &str, report: &Report, machine: &Value, quick: bool) -> String {
    let mut text = format!("## {name}\n\n");
    if quick {
        text += "A quick run: fewer rounds than usual.\n\n";
    }
    text += "| figure | measured | to reach | | meaning |\n|---|---:|---|---|---|\n";
    for figure in &report.figures {
        let (shown, goal) = (figure.shown(), figure.goal.describe());
        text +=
            &format!("| `{}` | {shown} | {goal} | {} | {} |\n", figure.key, figure.verdict(), figure.meaning);
    }
    text.push('\n');
    for note in &report.notes {
        text += &format!("- {note}\n");
    }
    text + "\nMachine: " + &describe(machine) + "\n"
}

fn describe(machine: &Value) -> String {
    let facts = machine.as_object().into_iter().flatten();
    let fact = |(key, value): (&String, &Value)| {
        format!("{key} {}", value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    };
    facts.map(fact).collect::<Vec<_>>().join(" · ")
}

/// Puts a section between its markers; a new one goes to the end.
fn replace_section(document: &str, name: &str, section: &str) -> String {
    let (open, close) = (format!("<!-- bench:{name} -->\n"), format!("<!-- /bench:{name} -->\n"));
    let section = format!("{open}{section}{close}");
    let start = document.find(&open);
    let end = document.find(&close).map(|at| at + close.len());
    match start.zip(end) {
        Some((start, end)) if start < end => format!("{}{section}{}", &document[..start], &document[end..]),
        _ => format!("{}\n\n{section}", document.trim_end()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_added_once_and_then_replaced_in_place() {
        let first = replace_section("# Title\n", "a", "one\n");
        let second = replace_section(&first, "b", "two\n") + "\nwritten by hand\n";
        let third = replace_section(&second, "a", "three\n");
        assert_eq!(first, "# Title\n\n<!-- bench:a -->\none\n<!-- /bench:a -->\n");
        assert_eq!(third, second.replace("one", "three"));
    }
}
