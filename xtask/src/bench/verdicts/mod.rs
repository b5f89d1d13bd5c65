//! How often verdicts are right where the truth is known: simulated latencies, and on this machine a model against itself, a
//! slowdown and leaks of known size ([`machine`]). Peers get the same latencies.

mod machine;

use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use self::machine::{Counts, Tally};
use super::answer::answer_of;
use super::{Figure, Goal, Report, Setting};
use crate::process::seconds;
use crate::run;

/// Trials per row and seed; five seeds.
const TRIALS: u32 = 1000;
const TRIALS_QUICK: u32 = 100;
/// On the real machine.
const COUNTS: Counts = Counts { gates: 10, slower: 10, leaks: 10, sound: 50 };
const COUNTS_QUICK: Counts = Counts { gates: 1, slower: 1, leaks: 2, sound: 4 };

pub(crate) fn run(setting: &Setting<'_>) -> Result<Report> {
    let programs = run::build_both(&setting.environment.workspace)?;
    let phase = |name: &str, more: &[String]| -> Result<Value> {
        let mut command = Command::new(&programs.benchmarks);
        command.args(["verdicts", "--phase", name]).args(more);
        answer_of(&mut command)
    };
    let timed = |name: &str, trials: u32| -> Result<Value> {
        let started = std::time::Instant::now();
        let answer = phase(name, &["--trials".into(), trials.to_string()])?;
        eprintln!("  {name} … {}", seconds(started.elapsed()));
        Ok(answer)
    };
    let trials = if setting.quick { TRIALS_QUICK } else { TRIALS };
    let table = timed("table", trials)?;
    // Blocks of 500 runs cost five times as much.
    let family = timed("family", trials.div_ceil(5))?;
    let coverage = timed("coverage", trials.div_ceil(2))?;
    let seen =
        machine::measure(setting, &programs.ortscope, if setting.quick { &COUNTS_QUICK } else { &COUNTS })?;

    let rows = list(&table, "rows")?;
    let pick = |wanted: &dyn Fn(&Value) -> bool, key: &str, end: &str| -> Vec<f64> {
        rows.iter().filter(|row| wanted(row)).filter_map(|row| row[key][end].as_f64()).collect()
    };
    let is = |drifts: bool, effect: f64| {
        move |row: &Value| {
            row["drifts"] == drifts && row["effect"].as_f64().is_some_and(|of| (of - effect).abs() < 1e-9)
        }
    };
    let most = |values: Vec<f64>| values.into_iter().reduce(f64::max).unwrap_or(f64::NAN);
    let least = |values: Vec<f64>| values.into_iter().reduce(f64::min).unwrap_or(f64::NAN);
    let covered = list(&coverage, "rows")?
        .iter()
        .flat_map(|row| [row["p50"]["min"].as_f64(), row["p99"]["min"].as_f64()])
        .flatten()
        .collect();
    let figures = vec![
        Figure::new(
            "false_alarm_max",
            most(pick(&is(false, 0.0), "regression", "max")),
            Goal::AtMost(0.05),
            "regressions said / comparisons of a thing with itself; worst of three behaviours and five seeds",
        ),
        Figure::new(
            "detection_5pct_min",
            least(pick(&is(false, 0.05), "regression", "min")),
            Goal::AtLeast(0.95),
            "regressions said / comparisons with a thing that is 5 % slower; worst of three behaviours and five seeds",
        ),
        Figure::new(
            "drift_false_alarm",
            most(pick(&is(true, 0.0), "regression", "max")),
            Goal::AtMost(0.0),
            "regressions said / comparisons of a thing with itself on a machine that gets slower; worst of two and five",
        ),
        Figure::new(
            "coverage_min",
            least(covered),
            Goal::AtLeast(0.88),
            "95 % intervals of p50 and p99 that hold the truth / series of 20,000 runs; worst of three behaviours, five seeds",
        ),
        Figure::new(
            "at_margin_max",
            most(pick(&is(false, 0.02), "regression", "max")),
            Goal::Shown,
            "regressions said / comparisons with a thing that is slower by exactly the margin; 0.046 by design",
        ),
        Figure::new(
            "family_false_alarm_max",
            most(numbers(&family, "false_alarm_max")?),
            Goal::AtMost(0.05),
            "any regression said of p50, p90 and p99 together / comparisons of a thing with itself",
        ),
        Figure::new(
            "family_detection_5pct_min",
            least(numbers(&family, "detection_5pct_min")?),
            Goal::Shown,
            "the same with a thing that is 5 % slower",
        ),
        Figure::new(
            "aa_gate_regressions",
            seen.gates.said as f64,
            Goal::AtMost(0.0),
            "regressions said by gates of a real model against itself, on this machine",
        ),
        Figure::new(
            "slowdown_10pct_found_share",
            seen.slower.share(),
            Goal::AtLeast(1.0),
            "regressions said / comparisons of a real model with itself where each run of B takes 10 % longer, on this machine",
        ),
        Figure::new(
            "leaks_found_share",
            seen.leaks.share(),
            Goal::AtLeast(1.0),
            "leaks said / soaks of 200,000 inferences that lose 100 bytes of the heap each",
        ),
        Figure::new(
            "arena_leaks_found_share",
            seen.arena_leaks.share(),
            Goal::AtLeast(1.0),
            "the same where the bytes are lost in ONNX Runtime's arena",
        ),
        Figure::new(
            "leaks_imagined",
            seen.sound.said as f64,
            Goal::AtMost(0.0),
            "soaks of four models that lose nothing and were not acquitted",
        ),
        Figure::new(
            "mann_whitney_false_alarm_max",
            most(pick(&is(false, 0.0), "mann_whitney", "max")),
            Goal::Shown,
            "peer: Mann-Whitney, p < 0.05, on 1000 raw latencies of one process each",
        ),
        Figure::new(
            "mean_5pct_detection_min",
            least(pick(&is(false, 0.05), "mean_above_5_percent", "min")),
            Goal::Shown,
            "peer: 'mean more than 5 % higher' on the same, of a thing that is 5 % slower",
        ),
    ];
    let mut notes = vec![
        format!(
            "{trials} trials a row and seed, five seeds; log-normal latencies of 3 %, 1 % outliers, 1 % between \
             processes; blocks of 100 runs, looks after 6, 10 and 20 rounds, margin 2 % of p50; figures are means over \
             seeds"
        ),
        "row | true change | ours: regression, pass, inconclusive, rounds | Mann-Whitney raw, interleaved raw | mean > 5 %"
            .into(),
    ];
    notes.extend(rows.iter().map(describe));
    notes.extend(list(&coverage, "rows")?.iter().map(|row| {
        format!(
            "coverage, {}: p50 {} (worst seed {}), p99 {} (worst seed {}), p99 stated in {}",
            text(&row["row"]),
            share(&row["p50"]["mean"]),
            share(&row["p50"]["min"]),
            share(&row["p99"]["mean"]),
            share(&row["p99"]["min"]),
            share(&row["p99"]["stated_min"]),
        )
    }));
    notes.push(format!("coverage: {} series a row and seed", coverage["series_per_seed"]));
    let of = |Tally { said, of }: Tally| format!("{said} of {of}");
    notes.push(format!(
        "on this machine: {} gates of a model against itself said regression, {} slowdowns of 10 % were found, {} leaks of \
         100 bytes per inference in the heap and {} in the arena; {} sound models were accused",
        of(seen.gates),
        of(seen.slower),
        of(seen.leaks),
        of(seen.arena_leaks),
        of(seen.sound)
    ));
    notes.extend(seen.notes);
    Ok(Report {
        figures,
        peers: json!({
            "mann_whitney": {"version": "own, normal approximation with ties and continuity", "level": 0.05},
            "mean": {"rule": "mean of B more than 5 % above mean of A"},
            "table": table,
        }),
        notes,
    })
}

fn describe(row: &Value) -> String {
    let mean = |key: &str| share(&row[key]["mean"]);
    format!(
        "{} | {:+.0} % | {}, {}, {}, {:.1} | {}, {} | {}",
        text(&row["row"]),
        row["effect"].as_f64().unwrap_or(f64::NAN) * 100.0,
        mean("regression"),
        mean("pass"),
        mean("inconclusive"),
        row["rounds"]["mean"].as_f64().unwrap_or(f64::NAN),
        mean("mann_whitney"),
        mean("mann_whitney_interleaved"),
        mean("mean_above_5_percent"),
    )
}

fn share(value: &Value) -> String {
    format!("{:.3}", value.as_f64().unwrap_or(f64::NAN))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

fn list<'a>(value: &'a Value, key: &str) -> Result<&'a Vec<Value>> {
    value[key].as_array().with_context(|| format!("no {key} in {value}"))
}

fn numbers(value: &Value, key: &str) -> Result<Vec<f64>> {
    Ok(list(value, "rows")?.iter().filter_map(|row| row[key].as_f64()).collect())
}
