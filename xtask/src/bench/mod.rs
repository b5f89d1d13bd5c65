//! `cargo xtask bench`: figures that compare ortscope with a peer, both measured in the same run on the same machine.
//!
//! A benchmark is a module with a function that returns a [`Report`]; the table [`BENCHES`] lists them. The last results
//! stand in `docs/BENCHMARKS.md`, written by `--write`.

mod answer;
mod document;
mod etl;
mod overhead;
mod profile_json;
mod python;
mod sampler;
mod serve;
mod store;
pub(crate) mod trust;
mod turns;
mod verdicts;

use std::process::ExitCode;

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use crate::arguments::{Arguments, UsageError};
use crate::environment::{Environment, TO_BENCH, Workspace};
use crate::process::capture;

struct Bench {
    name: &'static str,
    run: fn(&Setting<'_>) -> Result<Report>,
}

const BENCHES: &[Bench] = &[
    Bench { name: "etl", run: etl::run },
    Bench { name: "overhead", run: overhead::run },
    Bench { name: "profile-json", run: profile_json::run },
    Bench { name: "python", run: python::run },
    Bench { name: "sampler", run: sampler::run },
    Bench { name: "serve", run: serve::run },
    Bench { name: "store", run: store::run },
    Bench { name: "trust", run: trust::run },
    Bench { name: "verdicts", run: verdicts::run },
];

/// What a benchmark may use.
#[derive(Debug)]
pub(crate) struct Setting<'a> {
    pub(crate) environment: &'a Environment,
    /// Fewer rounds: for a look, not for publishing.
    pub(crate) quick: bool,
}

#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) figures: Vec<Figure>,
    /// What it was compared with: name, version, settings and its own numbers.
    pub(crate) peers: Value,
    /// Workload, backend, rounds, and what a reader must know to judge the figures.
    pub(crate) notes: Vec<String>,
}

/// One number: what over what, and what it is to reach.
#[derive(Debug)]
pub(crate) struct Figure {
    pub(crate) key: &'static str,
    pub(crate) value: f64,
    pub(crate) goal: Goal,
    pub(crate) meaning: &'static str,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Goal {
    AtMost(f64),
    AtLeast(f64),
    Between(f64, f64),
    /// Nothing to reach: the figure is for the reader.
    Shown,
}

impl Goal {
    fn is_reached(self, value: f64) -> bool {
        match self {
            Self::AtMost(most) => value <= most,
            Self::AtLeast(least) => value >= least,
            Self::Between(least, most) => (least..=most).contains(&value),
            Self::Shown => true,
        }
    }

    fn describe(self) -> String {
        match self {
            Self::AtMost(most) => format!("≤ {most}"),
            Self::AtLeast(least) => format!("≥ {least}"),
            Self::Between(least, most) => format!("{least} to {most}"),
            Self::Shown => "–".into(),
        }
    }
}

impl Figure {
    fn new(key: &'static str, value: f64, goal: Goal, meaning: &'static str) -> Self {
        Self { key, value, goal, meaning }
    }

    /// Three decimals for ratios, one for larger numbers.
    fn shown(&self) -> String {
        if self.value.abs() < 10.0 { format!("{:.3}", self.value) } else { format!("{:.1}", self.value) }
    }

    fn verdict(&self) -> &'static str {
        match self.goal {
            // A cost below nothing is noise, or a comparison of unlike things: no success.
            Goal::AtMost(_) if self.value < 0.0 => "below zero",
            Goal::Shown => "",
            goal if goal.is_reached(self.value) => "reached",
            _ => "missed",
        }
    }
}

pub(crate) fn main(mut arguments: Arguments) -> Result<ExitCode> {
    let (all, quick) = (arguments.flag("--all"), arguments.flag("--quick"));
    let (as_json, write) = (arguments.flag("--json"), arguments.flag("--write"));
    let named = arguments.word();
    arguments.finish()?;
    let chosen: Vec<&Bench> = match (&named, all) {
        (None, true) => BENCHES.iter().collect(),
        (Some(name), false) => BENCHES.iter().filter(|bench| bench.name == name).collect(),
        _ => Vec::new(),
    };
    if chosen.is_empty() {
        let known: Vec<&str> = BENCHES.iter().map(|bench| bench.name).collect();
        return Err(UsageError(format!("name a benchmark ({}) or give --all", known.join(", "))).into());
    }

    let mut environment = Environment::open(Workspace::find()?, TO_BENCH, false)?;
    overhead::fetch_models(&environment)?;
    environment.release();
    let machine = machine(&environment)?;
    let setting = Setting { environment: &environment, quick };
    for bench in chosen {
        let mut report = (bench.run)(&setting).with_context(|| format!("benchmark {}", bench.name))?;
        report.notes.extend(busy(&machine));
        if as_json {
            println!("{}", document(bench.name, &report, &machine));
        } else {
            print_table(bench.name, &report);
        }
        if write {
            document::write(&environment.workspace.root, bench.name, &report, &machine, quick)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn document(name: &str, report: &Report, machine: &Value) -> Value {
    let figures: Map<String, Value> =
        report.figures.iter().map(|figure| (figure.key.to_owned(), figure.value.into())).collect();
    json!({"bench": name, "figures": figures, "peers": report.peers, "notes": report.notes, "machine": machine})
}

fn print_table(name: &str, report: &Report) {
    println!("\n{name}");
    let width = report.figures.iter().map(|figure| figure.key.len()).max().unwrap_or(0);
    for figure in &report.figures {
        let goal = figure.goal.describe();
        println!(
            "  {:width$}  {:>9}  to reach {goal:12}  {:10}  {}",
            figure.key,
            figure.shown(),
            figure.verdict(),
            figure.meaning
        );
    }
    for note in &report.notes {
        println!("  {note}");
    }
}

/// What the figures depend on: processor, cores, memory, kernel, versions, date. No name and no path of the machine.
fn machine(environment: &Environment) -> Result<Value> {
    let answer =
        capture(&mut environment.script("machine_info.py")).context("cannot describe the machine")?;
    let mut machine: Value = serde_json::from_str(&answer).context("machine_info.py printed no JSON")?;
    let mut rustc = std::process::Command::new("rustc");
    let version = capture(rustc.arg("--version").current_dir(&environment.workspace.root))?;
    machine["rustc"] = version.trim().trim_start_matches("rustc ").into();
    machine["onnxruntime"] = environment.version_of("onnxruntime").into();
    Ok(machine)
}

/// Says so when others used the machine just before: such figures are not worth publishing.
fn busy(machine: &Value) -> Option<String> {
    let (load, cores) = (machine["load"].as_f64()?, machine["cores"].as_f64()?);
    (load > cores / 2.0)
        .then(|| format!("the machine was busy (load {load} on {cores} cores): measure again"))
}

/// A directory of the build for what a benchmark writes.
pub(crate) fn scratch(setting: &Setting<'_>) -> Result<std::path::PathBuf> {
    let path = setting.environment.dir.join("bench");
    std::fs::create_dir_all(&path)?;
    Ok(path)
}

/// The middle value; of an even number of values the mean of the two in the middle.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn goals_include_their_bounds() {
        assert!(Goal::AtMost(200.0).is_reached(200.0) && !Goal::AtMost(200.0).is_reached(200.1));
        assert!(Goal::Between(0.98, 1.02).is_reached(0.98) && !Goal::Between(0.98, 1.02).is_reached(1.03));
        assert!(!Goal::AtMost(200.0).is_reached(f64::NAN));
    }
}
