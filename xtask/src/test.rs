//! `cargo xtask test`: everything a change must pass, on a machine that has only Rust and Python 3.
//!
//! Tests find what this task prepared through variables (see [`prepare`]). A test that cannot run because something is
//! missing appends a line `name: reason` to the file named by `ORTSCOPE_TEST_SKIPS`; it is counted as skipped instead of
//! passed, and listed with its reason at the end.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail, ensure};

use crate::arguments::Arguments;
use crate::environment::{Environment, TO_TEST, TO_TEST_IF_POSSIBLE, Workspace};
use crate::process::{Tee, Unavailable, seconds, succeed, tee};
use crate::runtimes::{self, Platform};
use crate::summary::{Counts, Outcome, Summary};
use crate::{
    api, cargo_tools, debian, deps, models, python, run, supply_chain, threads, trust, web, windows,
};

/// What a nextest run without a single test ends with.
const NEXTEST_NO_TESTS: i32 = 4;

pub(crate) fn main(mut arguments: Arguments) -> Result<ExitCode> {
    let started = Instant::now();
    let full = arguments.flag("--full");
    if arguments.flag("--python") {
        arguments.finish()?;
        return python_only(full, started);
    }
    let workspace = Workspace::find()?;
    let mut summary = Summary::default();
    if arguments.flag("--prepare") {
        arguments.finish()?;
        prepare(&mut summary);
        // Tests of `record` run Python programs with the package.
        summary.step("wheel", || python::install(&Environment::open(Workspace::find()?, TO_TEST, false)?));
        return Ok(summary.finish(started));
    }
    let filter = arguments.rest();

    let variables = prepare(&mut summary);
    // Before anything compiles: the program embeds what this builds.
    summary.step("dashboard", || {
        web::build(&workspace)?;
        web::test(&workspace)
    });
    summary.step("format", || formatted(&workspace));
    summary.step("lints", || {
        let clippy = ["clippy", "--workspace", "--all-targets", "--keep-going", "--", "-D", "warnings"];
        passed(workspace.cargo().args(clippy))
    });
    summary.step("arrows", || match deps::check(&workspace)?.as_slice() {
        [] => Ok(Outcome::Passed),
        [only] => bail!("{only}"),
        [first, others @ ..] => bail!("{first} (and {} more)", others.len()),
    });
    summary.step("wheel", || {
        let environment = Environment::open(Workspace::find()?, TO_TEST, false)?;
        python::install(&environment)
    });
    summary.step("tests", || {
        let skips = Skips::new(&workspace)?;
        let mut tests = test_command(&workspace, &["nextest", "run"], &filter);
        skips.tell(&mut tests);
        tests.envs(variables);
        run_tests(&mut tests, &skips)
    });
    summary.step("documentation tests", || {
        let (status, lines) = tee(workspace.cargo().args(["test", "--workspace", "--doc"]), Tee::Stdout)?;
        counted(status, cargo_test_counts(&lines))
    });
    summary.step("dashboard in a browser", || {
        let program = run::build_program(&workspace)?;
        let environment = Environment::open(Workspace::find()?, TO_TEST, false)?;
        web::end_to_end(&environment, &program)
    });
    summary.step("api", || api::check(&run::build_program(&workspace)?, full));
    python_steps(&mut summary, full);
    summary.step("trust", trust::step);
    summary.step("supply chain", || {
        supply_chain::check(&Environment::open(Workspace::find()?, TO_TEST, false)?)
    });
    summary.step("windows check", || windows::check(&workspace, false));
    if full {
        summary.step("loom", || threads::loom(&workspace));
        summary.step("thread sanitizer", || threads::sanitizer(&workspace));
        summary.step("windows tests", || {
            let mut environment = Environment::open(Workspace::find()?, TO_TEST, false)?;
            windows::test(&mut environment, &filter)
        });
        summary.step("program under wine", || {
            let mut environment = Environment::open(Workspace::find()?, TO_TEST, false)?;
            windows::program(&mut environment)
        });
        summary.step("python under wine", || {
            let environment = Environment::open(Workspace::find()?, TO_TEST, false)?;
            python::wine::test(&environment)
        });
    }

    Ok(summary.finish(started))
}

/// `--python`: the steps of the Python package alone.
fn python_only(full: bool, started: Instant) -> Result<ExitCode> {
    let mut summary = Summary::default();
    summary.step("wheel", || {
        let environment = Environment::open(Workspace::find()?, TO_TEST, false)?;
        python::install(&environment)
    });
    python_steps(&mut summary, full);
    Ok(summary.finish(started))
}

fn python_steps(summary: &mut Summary, full: bool) {
    let mut step = |name: &str, work: fn(&Environment) -> Result<Outcome>| {
        summary.step(name, || work(&Environment::open(Workspace::find()?, TO_TEST, false)?));
    };
    step("python tests", python::test);
    if full {
        step("python from a clone", python::test_clone);
        step("python versions", python::test_versions);
    }
}

/// Variables in which tests look for what was set up.
pub(crate) type Variables = Vec<(&'static str, PathBuf)>;

/// Sets up what the tests need; everything that cannot be had is reported with its reason, and the rest goes on.
pub(crate) fn prepare(summary: &mut Summary) -> Variables {
    let mut opened = None;
    summary.step("environment", || {
        let environment = Environment::open(Workspace::find()?, TO_TEST, false)?;
        eprintln!("onnxruntime {}", environment.version_of("onnxruntime"));
        opened = Some(environment);
        Ok(Outcome::Passed)
    });
    let Some(mut environment) = opened else { return Vec::new() };
    summary.step("optional packages", || {
        all_or_reasons(TO_TEST_IF_POSSIBLE.iter().map(|packages| {
            let name = packages.requirements[0];
            (name, environment.install_optional(packages).map(|()| PathBuf::new()))
        }))
    });
    summary.step("models", || fetch_models(&environment));
    summary.step("older runtimes", || fetch_runtimes(&environment));
    summary.step("provider plug-ins", || {
        let plugins = [&runtimes::QNN, &runtimes::OPENVINO, &runtimes::OPENVINO_INSIDE].into_iter();
        all_or_reasons(plugins.map(|plugin| (plugin.name, runtimes::fetch_plugin(&environment, plugin))))
    });
    summary.step("other programs", || {
        let servers = debian::SERVERS.iter();
        let servers = servers.map(|package| (package.name, debian::unpack(&environment, package)));
        let missing =
            || Unavailable("it is not on the path, and only root can install linux-perf".to_owned());
        let perf = || debian::find_or_install("perf", "linux-perf").ok_or_else(|| anyhow!(missing()));
        all_or_reasons(servers.chain(std::iter::once_with(|| ("perf", perf()))))
    });
    summary.step("cargo tools", || {
        let nextest = &cargo_tools::NEXTEST;
        all_or_reasons([(nextest.name, cargo_tools::build(&environment, nextest))].into_iter())
    });
    summary.step("list for tests without a task", || {
        environment.write_test_variables().map(|()| Outcome::Passed)
    });
    environment.test_variables()
}

/// Fetches every model; one that cannot be had is named and the rest goes on.
pub(crate) fn fetch_models(environment: &Environment) -> Result<Outcome> {
    let started = Instant::now();
    let fetched = models::all().iter().map(|model| (model.name, models::fetch(environment, model)));
    let outcome = all_or_reasons(fetched)?;
    eprintln!("{} models … {}", models::all().len(), seconds(started.elapsed()));
    Ok(outcome)
}

fn fetch_runtimes(environment: &Environment) -> Result<Outcome> {
    let platform = Platform::host()?;
    let dir = environment.runtimes_dir();
    let versions = std::iter::once(&runtimes::OLDEST).chain(runtimes::MATRIX);
    all_or_reasons(versions.map(|version| (*version, runtimes::fetch(environment, version, platform, &dir))))
}

/// Passed when everything could be had; skipped when some of it could not be reached; an error when it is broken.
fn all_or_reasons<'a>(fetched: impl Iterator<Item = (&'a str, Result<PathBuf>)>) -> Result<Outcome> {
    let (mut broken, mut unreachable) = (Vec::new(), Vec::new());
    for (name, result) in fetched {
        match result {
            Ok(_) => {}
            Err(error) if error.is::<Unavailable>() => unreachable.push(format!("{name}: {error:#}")),
            Err(error) => broken.push(format!("{name}: {error:#}")),
        }
    }
    if !broken.is_empty() {
        broken.append(&mut unreachable);
        bail!("{}", broken.join("; "));
    }
    Ok(if unreachable.is_empty() { Outcome::Passed } else { Outcome::Skipped(unreachable.join("; ")) })
}

fn formatted(workspace: &Workspace) -> Result<Outcome> {
    let check = ["fmt", "--all", "--", "--check", "--files-with-diff"];
    succeed(workspace.cargo().args(check)).context("some files are not formatted: run `cargo fmt --all`")?;
    // Behind cfg_select! there are the files of platforms, which `cargo fmt` does not find.
    let files: Vec<String> = deps::sources(&workspace.root)?.into_iter().map(|(name, _)| name).collect();
    // Windows takes 32 kB of arguments.
    for files in files.chunks(200) {
        let mut rustfmt = Command::new("rustfmt");
        rustfmt.current_dir(&workspace.root).args(["--edition", "2024", "--check", "--files-with-diff"]);
        let status = rustfmt.args(files).status().context("cannot start rustfmt")?;
        ensure!(status.success(), "some files of platforms are not formatted: `rustfmt --edition 2024 FILE`");
    }
    Ok(Outcome::Passed)
}

fn passed(command: &mut Command) -> Result<Outcome> {
    succeed(command).map(|()| Outcome::Passed)
}

/// The command that runs the tests: nextest, else `cargo test`.
pub(crate) fn test_command(workspace: &Workspace, nextest: &[&str], filter: &[String]) -> Command {
    let mut command = workspace.cargo();
    let chosen = filter.iter().any(|word| word.starts_with("-p") || word.starts_with("--package"));
    let all_packages: &[&str] = if chosen { &[] } else { &["--workspace"] };
    if has_nextest(workspace) {
        command.args(nextest).args(all_packages).env("NEXTEST_STATUS_LEVEL", "slow");
    } else {
        eprintln!("there is no cargo-nextest: the tests run with `cargo test`, one program after the other");
        command.arg("test").args(all_packages).args(["--no-fail-fast", "--lib", "--bins", "--tests"]);
    }
    command.args(filter);
    let corpus = workspace.root.join("../shared/data");
    if std::env::var_os("ORTSCOPE_CORPUS").is_none() && corpus.is_dir() {
        command.env("ORTSCOPE_CORPUS", corpus);
    }
    command
}

pub(crate) fn has_nextest(workspace: &Workspace) -> bool {
    cargo_tools::find(workspace, &cargo_tools::NEXTEST).is_some()
}

/// Runs a test command, made by nextest or by cargo, and counts.
pub(crate) fn run_tests(tests: &mut Command, skips: &Skips) -> Result<Outcome> {
    let nextest = tests.get_args().any(|argument| argument == "nextest");
    let (status, lines) = tee(tests, if nextest { Tee::Stderr } else { Tee::Stdout })?;
    if nextest && status.code() == Some(NEXTEST_NO_TESTS) {
        bail!("no test matches the filter");
    }
    let counts = if nextest { nextest_counts(&lines) } else { cargo_test_counts(&lines) };
    let reasons = skips.read();
    let skipped = reasons.len() as u64;
    let outcome = counted(status, counts)?;
    let Outcome::Tests(counts) = outcome else { return Ok(outcome) };
    let passed = counts.passed.saturating_sub(skipped);
    Ok(Outcome::Listed(Counts { passed, skipped: counts.skipped + skipped, ..counts }, reasons))
}

/// A run that failed without a failing test (it did not compile, say) is a failure all the same.
pub(crate) fn counted(status: ExitStatus, counts: Option<Counts>) -> Result<Outcome> {
    match counts {
        Some(counts) if status.success() == (counts.failed == 0) => Ok(Outcome::Tests(counts)),
        Some(counts) => bail!("{status}, but {} tests failed", counts.failed),
        None if status.success() => Ok(Outcome::Tests(Counts::default())),
        None => bail!("the tests could not run ({status})"),
    }
}

/// Reads `Summary [ 1.2s] 12 tests run: 9 passed (1 slow), 1 failed, 2 timed out, 3 skipped`.
fn nextest_counts(lines: &[String]) -> Option<Counts> {
    let line = lines.iter().rev().find(|line| line.trim_start().starts_with("Summary ["))?;
    let (_, results) = line.split_once("run:")?;
    let mut counts = Counts::default();
    for part in results.split(", ") {
        let mut words = part.split_whitespace();
        let Some(number) = words.next().and_then(|number| number.parse::<u64>().ok()) else {
            continue;
        };
        match words.next() {
            Some("passed") => counts.passed += number,
            Some("skipped") => counts.skipped += number,
            Some("failed" | "timed" | "exec") => counts.failed += number,
            // Inside brackets: `(2 slow, 1 leaky)` are among the passed.
            _ => {}
        }
    }
    Some(counts)
}

/// Adds up `test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in …`.
pub(crate) fn cargo_test_counts(lines: &[String]) -> Option<Counts> {
    let results = lines.iter().filter_map(|line| line.trim_start().strip_prefix("test result: "));
    let mut total = None;
    for result in results {
        let counts = total.get_or_insert_with(Counts::default);
        let (_, numbers) = result.split_once(". ")?;
        for part in numbers.split("; ") {
            let Some((number, what)) = part.split_once(' ') else {
                continue;
            };
            let Ok(number) = number.parse::<u64>() else {
                continue;
            };
            match what {
                "passed" => counts.passed += number,
                "failed" => counts.failed += number,
                "ignored" | "filtered out" => counts.skipped += number,
                _ => {}
            }
        }
    }
    total
}

/// The file in which tests note that they could not run.
#[derive(Debug)]
pub(crate) struct Skips(PathBuf);

impl Skips {
    pub(crate) fn new(workspace: &Workspace) -> Result<Self> {
        let path = workspace.environment_dir().join("skips.txt");
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
        }
        fs::write(&path, "").with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn tell(&self, tests: &mut Command) {
        tests.env("ORTSCOPE_TEST_SKIPS", &self.0);
    }

    /// The tests that were skipped, with the reason of each.
    fn read(&self) -> Vec<String> {
        let text = fs::read_to_string(&self.0).unwrap_or_default();
        let mut lines: Vec<String> =
            text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect();
        lines.sort_unstable();
        lines.dedup();
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn nextest_summaries_are_read() {
        let text = "  PASS x\n     Summary [   1.204s] 12 tests run: 9 passed (2 slow, 1 leaky), 1 failed, 2 timed out, 3 skipped\nerror";
        assert_eq!(nextest_counts(&lines(text)), Some(Counts { passed: 9, failed: 3, skipped: 3 }));
        let one = "     Summary [   0.004s] 1 test run: 1 passed, 0 skipped";
        assert_eq!(nextest_counts(&lines(one)), Some(Counts { passed: 1, failed: 0, skipped: 0 }));
        assert_eq!(nextest_counts(&lines("error: could not compile")), None);
    }

    #[test]
    fn cargo_test_results_are_added_up() {
        let text = "test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.1s\n\
                    test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.1s";
        assert_eq!(cargo_test_counts(&lines(text)), Some(Counts { passed: 6, failed: 2, skipped: 3 }));
        assert_eq!(cargo_test_counts(&[]), None);
    }

    #[test]
    fn what_cannot_be_reached_is_skipped_and_what_is_broken_fails() {
        let unreachable = || Err(anyhow::anyhow!("no network").context(Unavailable("pip failed".to_owned())));
        let outcome = all_or_reasons([("a", Ok(PathBuf::new())), ("b", unreachable())].into_iter());
        assert!(matches!(outcome, Ok(Outcome::Skipped(why)) if why == "b: pip failed: no network"));
        let broken =
            all_or_reasons([("a", unreachable()), ("b", Err(anyhow::anyhow!("checksum")))].into_iter());
        assert!(broken.is_err());
    }
}
