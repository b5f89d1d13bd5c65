//! How fast traces of Windows are read, beside dissect.etl on the same files.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::answer::{answer_of, number};
use super::{Figure, Goal, Report, Setting, median};
use crate::process::seconds;
use crate::run;

/// Together they have compressed and plain buffers, kernel, TraceLogging, EventSource and manifest events, and stacks.
const TRACES: &[&str] =
    &["etwanalyzer_TraceLoggingTester.etl", "perfview_net.4.5.2.x64.etl", "perfview_diaghub.etl"];
const ROUNDS: usize = 5;
const ROUNDS_QUICK: usize = 1;
/// Over all files, so that a round takes some seconds.
const PASSES: u32 = 10;
/// CPU seconds of the peer for each file. Without a limit it takes minutes.
const PEER_SECONDS: &str = "1000";
const PEER_SECONDS_QUICK: &str = "5";

pub(crate) fn run(setting: &Setting<'_>) -> Result<Report> {
    let workspace = &setting.environment.workspace;
    let corpus = std::env::var_os("ORTSCOPE_CORPUS")
        .map_or_else(|| workspace.root.join("../shared/data"), PathBuf::from)
        .join("etl");
    let files: Vec<PathBuf> = TRACES.iter().map(|name| corpus.join(name)).collect();
    for file in &files {
        ensure!(file.is_file(), "there is no {}; set ORTSCOPE_CORPUS to the traces", file.display());
    }
    let program = run::build_benchmarks(workspace)?;
    let ours = |phase: &str| {
        let mut command = Command::new(&program);
        command.args(["etl", "--phase", phase, "--passes", &PASSES.to_string()]).args(&files);
        answer_of(&mut command)
    };
    let (mut walk, mut full) = (Vec::new(), Vec::new());
    let (mut last_walk, mut last_full) = (Value::Null, Value::Null);
    for round in 0..if setting.quick { ROUNDS_QUICK } else { ROUNDS } {
        let started = std::time::Instant::now();
        last_walk = ours("walk")?;
        last_full = ours("full")?;
        ensure!(
            last_walk["records"] == last_full["records"],
            "the two walks differ: {last_walk} {last_full}"
        );
        walk.push(number(&last_walk, "events_per_s")?);
        full.push(number(&last_full, "events_per_s")?);
        eprintln!("  round {} … {}", round + 1, seconds(started.elapsed()));
    }
    let peer = |mode: &str| {
        let mut command = setting.environment.script("dissect_peer.py");
        command.arg(mode).arg(if setting.quick { PEER_SECONDS_QUICK } else { PEER_SECONDS }).args(&files);
        answer_of(&mut command)
    };
    let started = std::time::Instant::now();
    let (their_walk, their_full) = (peer("walk")?, peer("full")?);
    eprintln!("  dissect.etl … {}", seconds(started.elapsed()));
    // Each file counts as long as it is, also when the peer read a part of it: its rate there, our counts.
    let rate = |answer: &Value| -> Result<f64> {
        let traces = answer["traces"].as_array().context("no traces")?;
        let (mut records, mut cpu) = (0.0, 0.0);
        for trace in traces {
            records += number(trace, "records")?;
            cpu += number(trace, "cpu_seconds")?;
        }
        Ok(records / cpu)
    };
    let middle = |values: &[f64]| median(values).unwrap_or(f64::NAN);
    let figures = vec![
        Figure::new(
            "events_per_s_walk",
            middle(&walk),
            Goal::Shown,
            "records per CPU second, headers only, in the order of time",
        ),
        Figure::new(
            "events_per_s_full",
            middle(&full),
            Goal::Shown,
            "records per CPU second with every field of every event visited and stacks attached",
        ),
        Figure::new(
            "ratio_dissect_full",
            middle(&full) / rate(&their_full)?,
            Goal::AtLeast(200.0),
            "the same / dissect.etl asking for all values of every event, which it knows of fewer events",
        ),
        Figure::new(
            "ratio_dissect_walk",
            middle(&walk) / rate(&their_walk)?,
            Goal::Shown,
            "headers only / dissect.etl reading headers only",
        ),
        Figure::new(
            "peak_memory_mb",
            number(&last_full, "peak_memory_mb")?,
            Goal::AtMost(64.0),
            "highest resident memory of the process that decodes all",
        ),
    ];
    let notes = vec![
        format!("traces: {}, {PASSES} passes in a round, medians of rounds", TRACES.join(", ")),
        format!("ours: walk {last_walk}, full {last_full}"),
        format!("dissect.etl: walk {their_walk}, full {their_full}"),
    ];
    Ok(Report { figures, peers: json!({"dissect.etl": {"walk": their_walk, "full": their_full}}), notes })
}
