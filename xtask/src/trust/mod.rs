//! `cargo xtask trust`: breaks ortscope on purpose and tells what it cost. What is promised, and the last figures of the
//! long form, stand in `docs/RELIABILITY.md`.
//!
//! The short form takes a few minutes; `--full` takes hours, of which a quarter is a real recording (`--soak` runs that
//! alone, for as long as it says). Faults are chosen by seeds: what fails names its seed, and `--seed` begins there.

mod figures;
mod load;
mod soak;

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::arguments::{Arguments, UsageError};
use crate::bench::{self, Setting};
use crate::environment::{Environment, TO_GENERATE, Workspace};
use crate::process::{capture, seconds, succeed};
use crate::run;
use crate::summary::Outcome;
use figures::{Figures, broken, listed};

/// How much of everything.
struct Form {
    seeds: u64,
    kills: u32,
    load: Duration,
    /// Of virtual time.
    day: Duration,
    soak: Option<Duration>,
}

const SHORT: Form =
    Form { seeds: 300, kills: 24, load: Duration::from_secs(5), day: Duration::from_secs(1800), soak: None };
const FULL: Form = Form {
    seeds: 10_000,
    kills: 1000,
    load: Duration::from_secs(60),
    day: Duration::from_secs(86_400),
    soak: Some(Duration::from_secs(1200)),
};

pub(crate) fn main(mut arguments: Arguments) -> Result<ExitCode> {
    let (full, as_json) = (arguments.flag("--full"), arguments.flag("--json"));
    let seed = match arguments.value("--seed")? {
        Some(text) => text.parse().map_err(|_| UsageError(format!("`{text}` is no seed: give a number")))?,
        None => 0,
    };
    let soak = arguments.value("--soak")?.map(|text| duration(&text)).transpose()?;
    let only = arguments.value("--only")?;
    arguments.finish()?;
    let form = if full { FULL } else { SHORT };
    let parts: Vec<&str> = match (&only, soak, full) {
        (Some(part), ..) => vec![part.as_str()],
        (None, Some(_), false) => vec!["soak"],
        (None, _, true) => PARTS.to_vec(),
        (None, None, false) => PARTS.iter().copied().filter(|part| *part != "soak").collect(),
    };
    if let Some(unknown) = parts.iter().find(|part| !PARTS.contains(part)) {
        return Err(UsageError(format!("`{unknown}` is no part: {}", PARTS.join(", "))).into());
    }
    let started = Instant::now();
    let mut found = Figures::default();
    for part in &parts {
        let began = Instant::now();
        found.add(one(part, &form, soak, seed).with_context(|| format!("part {part}"))?);
        eprintln!("  {part} … {}", seconds(began.elapsed()));
    }
    if as_json {
        let Figures { values, missing } = &found;
        let task =
            json!({"task": "trust", "seed": seed, "full": full, "figures": values, "unavailable": missing});
        println!("{task}");
    } else {
        let width = found.values.keys().chain(found.missing.keys()).map(String::len).max().unwrap_or(0);
        for (name, value) in &found.values {
            println!("  {name:width$}  {:>14}  {}", shown(*value), figures::goal(name));
        }
        for (name, why) in &found.missing {
            println!("  {name:width$}  {:>14}  {}", "–", why);
        }
        println!("  total {}", seconds(started.elapsed()));
    }
    let broken = broken(&found, &parts);
    if !broken.is_empty() {
        bail!("promises that did not hold: {}", listed(&broken));
    }
    Ok(ExitCode::SUCCESS)
}

const PARTS: &[&str] = &["disks", "kills", "load", "day", "soak"];

fn one(part: &str, form: &Form, soak: Option<Duration>, seed: u64) -> Result<Figures> {
    let workspace = Workspace::find()?;
    if part == "disks" {
        return disks(&workspace, seed, form.seeds);
    }
    let mut environment = Environment::open(workspace, TO_GENERATE, false)?;
    environment.release();
    match part {
        "kills" => kills(&environment, form.kills, seed),
        "load" => load::run(&environment, form.load),
        "day" => day(&environment, form.day),
        _ => soak::run(&environment, soak.or(form.soak).unwrap_or(Duration::from_secs(1200))),
    }
}

/// The step of `cargo xtask test`: what is not among the tests. Disks, time, devices and clients are.
pub(crate) fn step() -> Result<Outcome> {
    if let Some(why) = not_here(std::env::consts::OS) {
        return Ok(Outcome::Skipped(why));
    }
    let form = Form { load: Duration::from_secs(3), ..SHORT };
    let parts = ["kills", "load"];
    let mut found = Figures::default();
    for part in parts {
        found.add(one(part, &form, None, 0).with_context(|| format!("part {part}"))?);
    }
    eprintln!("disks, clocks, devices, exporters and clients that do not read are among the tests");
    let mut broken = broken(&found, &parts);
    // How long something takes on a machine with other work is no reason to fail.
    broken.retain(|broken| !figures::is_of_time(broken.name));
    match broken.as_slice() {
        [] => Ok(Outcome::Passed),
        broken => bail!("promises that did not hold: {}", listed(broken)),
    }
}

/// Why the step cannot run on a system, if it cannot.
fn not_here(system: &str) -> Option<String> {
    let why = "processes to kill are found through /proc, and native programs are recorded on Linux only";
    (system != "linux").then(|| format!("this is {system}: {why}"))
}

/// The tests on disks that fail, with many seeds. A test that fails is an error here.
fn disks(workspace: &Workspace, seed: u64, seeds: u64) -> Result<Figures> {
    let directory = workspace.target.join("ortscope-env");
    std::fs::create_dir_all(&directory)?;
    let path = directory.join("trust-figures.txt");
    std::fs::write(&path, "").with_context(|| format!("cannot write {}", path.display()))?;
    let mut tests = workspace.cargo();
    // Not with nextest: it ends a test after minutes, and the long form takes more.
    tests
        .args(["test", "--quiet", "-p", "ortscope-store", "--test", "trust"])
        .env("ORTSCOPE_TRUST_SEED", seed.to_string())
        .env("ORTSCOPE_TRUST_SEEDS", seeds.to_string())
        .env("ORTSCOPE_TRUST_FIGURES", &path);
    succeed(&mut tests).context("a promise did not hold; the output above names the seed")?;
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let figure = |line: &str| {
        let (name, value) = line.split_once(' ')?;
        Some((name.to_owned(), value.parse().ok()?))
    };
    Ok(text.lines().filter_map(figure).collect())
}

fn kills(environment: &Environment, trials: u32, seed: u64) -> Result<Figures> {
    let setting = Setting { environment, quick: true };
    let report = bench::trust::kill(&setting, trials, seed.wrapping_add(bench::trust::SEED))?;
    report.notes.iter().for_each(|note| eprintln!("  {note}"));
    Ok(report.figures.iter().map(|figure| (figure.key.to_owned(), figure.value)).collect())
}

/// A recording at 100 Hz in virtual time: what recording it takes of memory and of the disk.
fn day(environment: &Environment, time: Duration) -> Result<Figures> {
    let benchmarks = run::build_benchmarks(&environment.workspace)?;
    let scratch = scratch(environment)?;
    let mut command = Command::new(benchmarks);
    command.args(["store", "--phase", "day", "--seconds", &time.as_secs().to_string()]);
    let answer = answer_of(command.arg("--directory").arg(scratch))?;
    let number = |key: &str| answer[key].as_f64().with_context(|| format!("no {key} in {answer}"));
    Ok(Figures::from([
        ("day_virtual_seconds", number("virtual_seconds")?),
        ("day_memory_mb", number("peak_bytes")? / 1e6),
        ("day_disk_mb", number("directory_bytes")? / 1e6),
        ("day_rows", number("logical_rows")?),
    ]))
}

/// A directory of the build for what a part writes.
fn scratch(environment: &Environment) -> Result<std::path::PathBuf> {
    let path = environment.dir.join("bench");
    std::fs::create_dir_all(&path)?;
    Ok(path)
}

/// Runs a benchmark phase and returns the document that it prints.
fn answer_of(command: &mut Command) -> Result<Value> {
    serde_json::from_str(&capture(command)?).context("the program printed no JSON")
}

/// Audits the only recording of a store.
fn audit(benchmarks: &Path, store: &Path) -> Result<Value> {
    let mut entries = std::fs::read_dir(store)?.filter_map(|entry| Some(entry.ok()?.path()));
    let recording = entries.find(|path| path.is_dir()).context("there is no recording")?;
    answer_of(Command::new(benchmarks).args(["trust", "--recording"]).arg(recording))
}

/// Reads `90s`, `20m`, `24h`.
fn duration(text: &str) -> Result<Duration, UsageError> {
    let problem = || UsageError(format!("`{text}` is no duration: say 90s, 20m or 24h"));
    let (number, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(problem)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return Err(problem()),
    };
    let number: u64 = number.parse().map_err(|_| problem())?;
    let total = number.checked_mul(seconds).filter(|total| (1..=30 * 86_400).contains(total));
    total.map(Duration::from_secs).ok_or_else(problem)
}

fn shown(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.4}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On other systems the step failed, where it only could not run.
    #[test]
    fn the_step_is_skipped_where_it_cannot_run() {
        assert_eq!(not_here("linux"), None);
        assert!(not_here("windows").is_some_and(|why| why.starts_with("this is windows: ")));
    }

    #[test]
    fn durations_have_a_unit() {
        assert_eq!(duration("20m").expect("a duration"), Duration::from_secs(1200));
        assert_eq!(duration("24h").expect("a duration"), Duration::from_secs(86_400));
        for wrong in ["", "m", "20", "0s", "-1h", "1d", "20ü", "99999999999999999999h"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
