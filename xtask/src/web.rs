//! The dashboard in `web/`: built before the program that embeds it, tested alone and in a real browser.
//!
//! Node is the only thing that is needed and not fetched. Without it the program is built all the same and shows a page
//! that says how to build the dashboard; tests of it are skipped with the reason.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::SystemTime;

use anyhow::{Context, Result, anyhow, bail};

use crate::arguments::Arguments;
use crate::environment::{Environment, TO_TEST, Workspace};
use crate::process::{self, Tee, Unavailable, capture, find_program, tee};
use crate::summary::{Counts, Outcome};
use crate::{debian, models, run};

/// The oldest Node that Vite runs on.
const OLDEST_NODE: (u32, u32) = (20, 19);
/// What the page is made of: a change of any of these makes `dist` stale.
const SOURCES: &[&str] =
    &["src", "public", "tools", "index.html", "package.json", "package-lock.json", "vite.config.ts"];
/// Names of browsers that the end-to-end tests can drive, as distributions have them.
const BROWSERS: &[&str] = &["chromium", "chromium-browser", "google-chrome", "chrome"];

/// `cargo xtask screenshots`: the pictures of the README and the documentation, of a real run.
pub(crate) fn screenshots(arguments: Arguments) -> Result<ExitCode> {
    arguments.finish()?;
    let workspace = Workspace::find()?;
    build(&workspace)?;
    let program = run::build_program(&workspace)?;
    let environment = Environment::open(workspace, TO_TEST, false)?;
    let mut npm = browser_tests(&environment, &program, "screenshots")?;
    process::succeed(&mut npm)?;
    Ok(ExitCode::SUCCESS)
}

/// Brings `web/dist` up to date; does nothing when it is.
pub(crate) fn build(workspace: &Workspace) -> Result<()> {
    let web = workspace.root.join("web");
    let dist = web.join("dist").join("index.html");
    let newest = SOURCES.iter().filter_map(|name| newest_change(&web.join(name))).max();
    if modified(&dist).is_some_and(|built| newest.is_some_and(|newest| built >= newest)) {
        return Ok(());
    }
    install(&web)?;
    process::step("dashboard", || capture(npm(&web)?.args(["run", "build"])))?;
    Ok(())
}

/// As [`build`], but a machine without Node goes on without the dashboard, and says so.
pub(crate) fn build_if_possible(workspace: &Workspace) -> Result<()> {
    match build(workspace) {
        Err(error) if error.is::<Unavailable>() => {
            eprintln!("the dashboard is left out: {error:#}");
            Ok(())
        }
        other => other,
    }
}

/// Type check and tests of the page's logic.
pub(crate) fn test(workspace: &Workspace) -> Result<Outcome> {
    let web = workspace.root.join("web");
    install(&web)?;
    counted(npm(&web)?.args(["run", "--silent", "test"]))
}

/// The page in a real browser, against the real program and a real model.
pub(crate) fn end_to_end(environment: &Environment, program: &Path) -> Result<Outcome> {
    counted(&mut browser_tests(environment, program, "e2e")?)
}

fn browser_tests(environment: &Environment, program: &Path, script: &str) -> Result<Command> {
    let web = environment.workspace.root.join("web");
    install(&web)?;
    let model = models::known(models::DEFAULT).context("the default model is not in the table")?;
    models::fetch(environment, model)?;
    let mut command = npm(&web)?;
    command.args(["run", "--silent", script]);
    command.env("ORTSCOPE_BINARY", program);
    command.env("ORTSCOPE_TEST_ORT", environment.newest_runtime()?);
    command.env("ORTSCOPE_TEST_MODELS", environment.models_dir());
    command.env("ORTSCOPE_TEST_PYTHON", environment.python());
    command.env("ORTSCOPE_TEST_BROWSER", browser()?);
    Ok(command)
}

/// A browser of the Chromium family; on Debian, as root, it is installed.
fn browser() -> Result<PathBuf> {
    let named = std::env::var_os("ORTSCOPE_TEST_BROWSER").map(PathBuf::from);
    let found = named.or_else(|| BROWSERS.iter().find_map(|name| find_program(name)));
    found
        .or_else(|| debian::find_or_install("chromium", "chromium"))
        .ok_or_else(|| unavailable("no Chromium was found: install it, or name one in ORTSCOPE_TEST_BROWSER"))
}

/// Installs the exact packages of the lock file, unless they are there.
fn install(web: &Path) -> Result<()> {
    let lock = web.join("package-lock.json");
    // npm writes this file last, so that an interrupted installation is not taken for a whole one.
    let installed = modified(&web.join("node_modules").join(".package-lock.json"));
    if installed.is_some() && installed >= modified(&lock) {
        return Ok(());
    }
    process::step("npm ci", || {
        capture(npm(web)?.args(["ci", "--no-audit", "--no-fund"])).map_err(|error| {
            let offline = ["ENOTFOUND", "EAI_AGAIN", "ETIMEDOUT", "ECONNREFUSED", "ECONNRESET"];
            if offline.iter().any(|sign| error.to_string().contains(sign)) {
                return error.context(Unavailable("the registry of npm cannot be reached".to_owned()));
            }
            error
        })
    })?;
    Ok(())
}

fn npm(web: &Path) -> Result<Command> {
    let (Some(node), Some(npm)) = (find_program("node"), find_program("npm")) else {
        return Err(unavailable("Node and npm were not found: install Node 20.19 or newer from nodejs.org"));
    };
    let version = capture(Command::new(node).arg("--version"))?;
    let known = parse_version(&version).with_context(|| format!("node --version printed {version:?}"))?;
    if known < OLDEST_NODE {
        return Err(unavailable(&format!("Node {} is too old: 20.19 or newer is needed", version.trim())));
    }
    let mut command = Command::new(npm);
    command.current_dir(web).env("npm_config_update_notifier", "false");
    Ok(command)
}

fn unavailable(reason: &str) -> anyhow::Error {
    anyhow!(Unavailable(reason.to_owned()))
}

/// `v20.19.1` as (20, 19).
fn parse_version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.trim().strip_prefix('v')?.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
}

/// The latest change of a file, or of anything in a directory. A deleted file changes its directory.
fn newest_change(path: &Path) -> Option<SystemTime> {
    let own = modified(path);
    let Ok(entries) = fs::read_dir(path) else {
        return own;
    };
    entries.filter_map(|entry| newest_change(&entry.ok()?.path())).chain(own).max()
}

/// Runs vitest and counts.
fn counted(command: &mut Command) -> Result<Outcome> {
    let (status, lines) = tee(command.env("NO_COLOR", "1"), Tee::Stdout)?;
    match vitest_counts(&lines) {
        Some(counts) if status.success() == (counts.failed == 0) => Ok(Outcome::Tests(counts)),
        _ if status.success() => Ok(Outcome::Passed),
        _ => bail!("the tests of the dashboard failed ({status})"),
    }
}

/// Reads `      Tests  1 failed | 35 passed | 2 skipped (38)`.
fn vitest_counts(lines: &[String]) -> Option<Counts> {
    let line = lines.iter().rev().find_map(|line| line.trim_start().strip_prefix("Tests "))?;
    let mut counts = Counts::default();
    let (results, _) = line.rsplit_once('(')?;
    for part in results.split('|') {
        let mut words = part.split_whitespace();
        let number: u64 = words.next()?.parse().ok()?;
        match words.next()? {
            "passed" => counts.passed += number,
            "failed" => counts.failed += number,
            _ => counts.skipped += number,
        }
    }
    Some(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_of_vitest_are_read() {
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        let mixed = " Test Files  1 failed | 5 passed (6)\n      Tests  1 failed | 33 passed | 2 skipped (36)\n   Start at  12:52:51";
        assert_eq!(vitest_counts(&lines(mixed)), Some(Counts { passed: 33, failed: 1, skipped: 2 }));
        let good = "      Tests  35 passed (35)";
        assert_eq!(vitest_counts(&lines(good)), Some(Counts { passed: 35, failed: 0, skipped: 0 }));
        assert_eq!(vitest_counts(&lines("error TS2304")), None);
    }

    #[test]
    fn versions_of_node_are_read() {
        assert_eq!(parse_version("v20.19.1\n"), Some((20, 19)));
        assert_eq!(parse_version("nonsense"), None);
        assert!(parse_version("v20.9.0") < Some(OLDEST_NODE));
    }
}
