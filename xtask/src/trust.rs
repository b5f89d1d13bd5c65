//! `cargo xtask trust`: breaks ortscope on purpose and tells what it cost. What is promised, and the last figures of the
//! long form, stand in `docs/RELIABILITY.md`.
//!
//! The short form takes about a minute and a half; `--full` takes an hour. Faults are chosen by seeds: what fails names its
//! seed, and `--seed` begins there. `--soak` records for as long as it says and looks at the recorder's own memory.

mod soak;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::json;

use crate::arguments::{Arguments, UsageError};
use crate::bench::{self, Setting};
use crate::environment::{Environment, TO_BENCH, Workspace};
use crate::process::{find_program, seconds, succeed};
use crate::summary::Outcome;

pub(crate) const SEEDS: u64 = 500;
pub(crate) const SEEDS_FULL: u64 = 10_000;
const KILLS: u32 = 24;
const KILLS_FULL: u32 = 1000;

/// Figures by name, in the order of their names.
type Figures = BTreeMap<String, f64>;

pub(crate) fn main(mut arguments: Arguments) -> Result<ExitCode> {
    let (full, as_json) = (arguments.flag("--full"), arguments.flag("--json"));
    let seed = match arguments.value("--seed")? {
        Some(text) => text.parse().map_err(|_| UsageError(format!("`{text}` is no seed: give a number")))?,
        None => 0,
    };
    let soak = arguments.value("--soak")?.map(|text| duration(&text)).transpose()?;
    arguments.finish()?;
    let workspace = Workspace::find()?;
    let started = Instant::now();
    let mut figures = Figures::new();
    if let Some(time) = soak {
        let environment = Environment::open(workspace, TO_BENCH, false)?;
        figures.extend(soak::run(&environment, time)?);
    } else {
        figures.extend(disks(&workspace, seed, if full { SEEDS_FULL } else { SEEDS })?);
        let environment = Environment::open(workspace, TO_BENCH, false)?;
        let setting = Setting { environment: &environment, quick: !full };
        let trials = if full { KILLS_FULL } else { KILLS };
        let report = bench::trust::kill(&setting, trials, seed.wrapping_add(0x5eed))?;
        figures.extend(report.figures.iter().map(|figure| (figure.key.to_owned(), figure.value)));
        report.notes.iter().for_each(|note| eprintln!("  {note}"));
        if let Outcome::Skipped(why) = supply_chain(&environment.workspace)? {
            eprintln!("skipped: {why}");
        }
    }
    if as_json {
        println!("{}", json!({"task": "trust", "seed": seed, "full": full, "figures": figures}));
    } else {
        let width = figures.keys().map(String::len).max().unwrap_or(0);
        for (name, value) in &figures {
            println!("  {name:width$}  {value:>12}");
        }
        println!("  total {}", seconds(started.elapsed()));
    }
    let broken: Vec<&str> = broken(&figures);
    if !broken.is_empty() {
        bail!("promises that did not hold: {}", broken.join(", "));
    }
    Ok(ExitCode::SUCCESS)
}

/// Figures that must be zero, or within their bound.
fn broken(figures: &Figures) -> Vec<&'static str> {
    let most = [
        ("kill9_damaged", 0.0),
        ("kill9_max_lost_ms", 1000.0),
        ("inferences_lost", 0.0),
        ("bit_flips_not_found", 0.0),
    ];
    most.iter()
        .filter(|(name, most)| figures.get(*name).is_some_and(|value| value > most))
        .map(|(name, _)| *name)
        .collect()
}

/// The tests on disks that fail, with many seeds. A test that fails is an error here.
pub(crate) fn disks(workspace: &Workspace, seed: u64, seeds: u64) -> Result<BTreeMap<String, f64>> {
    let path = workspace.target.join("ortscope-env").join("trust-figures.txt");
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    std::fs::write(&path, "").with_context(|| format!("cannot write {}", path.display()))?;
    let mut tests = workspace.cargo();
    // Not with nextest: it ends a test after minutes, and the long form takes more.
    tests
        .args(["test", "--quiet", "-p", "ortscope-store", "--test", "trust"])
        .env("ORTSCOPE_TRUST_SEED", seed.to_string())
        .env("ORTSCOPE_TRUST_SEEDS", seeds.to_string())
        .env("ORTSCOPE_TRUST_FIGURES", &path);
    succeed(&mut tests).context("a promise did not hold; the output above names the seed")?;
    read_figures(&path)
}

fn read_figures(path: &Path) -> Result<Figures> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let figure =
        |line: &str| Some((line.split_once(' ')?.0.to_owned(), line.split_once(' ')?.1.parse().ok()?));
    Ok(text.lines().filter_map(figure).collect())
}

/// Licences, known defects and doubles among the dependencies, by `cargo deny`. It is an ordinary program that not every
/// machine has, and so is the database of known defects: what cannot be looked up is told, never passed over.
pub(crate) fn supply_chain(workspace: &Workspace) -> Result<Outcome> {
    if find_program("cargo-deny").is_none() {
        return Ok(Outcome::Skipped("cargo-deny is not installed: `cargo install cargo-deny`".into()));
    }
    let mut offline = workspace.cargo();
    succeed(offline.args(["deny", "--offline", "check", "licenses", "bans", "sources"]))?;
    let mut advisories = workspace.cargo();
    match succeed(advisories.args(["deny", "--offline", "check", "--disable-fetch", "advisories"])) {
        Ok(()) => Ok(Outcome::Passed),
        Err(_) => Ok(Outcome::Skipped(
            "no database of advisories here, or it names a dependency: run `cargo deny check advisories`"
                .into(),
        )),
    }
}

/// Reads `90s`, `20m`, `24h`.
fn duration(text: &str) -> Result<Duration, UsageError> {
    let problem = || UsageError(format!("`{text}` is no duration: say 90s, 20m or 24h"));
    let unit = text.chars().last().ok_or_else(problem)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        _ => return Err(problem()),
    };
    let number: u64 = text[..text.len() - 1].parse().map_err(|_| problem())?;
    let total =
        number.checked_mul(seconds).filter(|total| (1..=30 * 86_400).contains(total)).ok_or_else(problem)?;
    Ok(Duration::from_secs(total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit() {
        assert_eq!(duration("20m").expect("a duration"), Duration::from_secs(1200));
        assert_eq!(duration("24h").expect("a duration"), Duration::from_secs(86_400));
        for wrong in ["", "m", "20", "0s", "-1h", "1d", "99999999999999999999h"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_promise_that_did_not_hold_is_named() {
        let figures = Figures::from([("kill9_damaged".to_owned(), 1.0), ("inferences_lost".to_owned(), 0.0)]);
        assert_eq!(broken(&figures), ["kill9_damaged"]);
    }
}
