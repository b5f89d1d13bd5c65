//! The baseline of a gate: files of another commit, in a checkout of their own that is gone afterwards.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::exit::{Failure, FailureKind};
use crate::terminal::{self, Terminal};

/// A checkout of a git ref, built if that was asked for.
#[derive(Debug)]
pub struct Checkout {
    /// Where the present directory lies in it.
    directory: PathBuf,
    root: tempfile::TempDir,
    pub commit: String,
}

impl Checkout {
    pub fn new(reference: &str, build: Option<&str>, terminal: &Terminal) -> Result<Self, Failure> {
        if reference.is_empty() || reference.starts_with('-') {
            return Err(Failure::usage(format!("'{reference}' is not a git ref")));
        }
        let commit =
            git(&["rev-parse", "--verify", "--quiet", &format!("{reference}^{{commit}}")]).map_err(|_| {
                Failure::new(
                    FailureKind::NotComparable,
                    format!("there is no baseline: git knows no '{reference}' here"),
                )
                .with_hint("in CI, check out with the history: actions/checkout with fetch-depth: 0")
            })?;
        let prefix = git(&["rev-parse", "--show-prefix"])?;
        let root = tempfile::Builder::new().prefix("ortscope-baseline-").tempdir()?;
        let tree = root.path().join("tree");
        git(&["worktree", "add", "--detach", "--force", &tree.display().to_string(), &commit])?;
        let checkout = Self { directory: tree.join(prefix), root, commit };
        if let Some(command) = build {
            checkout.build(command, terminal)?;
        }
        Ok(checkout)
    }

    fn build(&self, command: &str, terminal: &Terminal) -> Result<(), Failure> {
        if !terminal.quiet {
            terminal::print_error(&format!("building the baseline: {command}"));
        }
        let (program, flag) = if std::env::consts::OS == "windows" { ("cmd", "/C") } else { ("sh", "-c") };
        // What it prints is for people; stdout is for data.
        let output = Command::new(program).args([flag, command]).current_dir(&self.directory).output()?;
        if output.status.success() {
            return Ok(());
        }
        let printed = String::from_utf8_lossy(&output.stderr);
        let last = printed.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it printed nothing");
        Err(Failure::new(
            FailureKind::NotComparable,
            format!("there is no baseline: '{command}' ended with {}: {last}", output.status),
        ))
    }

    /// The file of the baseline that stands where `path` stands here.
    pub fn file(&self, path: &Path) -> Result<PathBuf, Failure> {
        let file = self.directory.join(path);
        if path.is_relative() && file.is_file() {
            return Ok(file);
        }
        let short: String = self.commit.chars().take(10).collect();
        Err(Failure::new(
            FailureKind::NotComparable,
            format!("there is no baseline: commit {short} has no '{}'", path.display()),
        )
        .with_hint("name another with gate.models.baseline, or make it there with gate.baseline_build"))
    }
}

impl Drop for Checkout {
    fn drop(&mut self) {
        // The directory goes in any case; git only forgets it.
        let tree = self.root.path().join("tree").display().to_string();
        if let Err(failure) = git(&["worktree", "remove", "--force", &tree]) {
            tracing::warn!(%failure, "git still lists the checkout of the baseline: git worktree prune");
        }
    }
}

fn git(arguments: &[&str]) -> Result<String, Failure> {
    let output = Command::new("git").args(arguments).output().map_err(|error| {
        Failure::new(
            FailureKind::NotComparable,
            format!("there is no baseline: git cannot be started: {error}"),
        )
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let printed = String::from_utf8_lossy(&output.stderr);
    let line = printed.lines().next().unwrap_or("no reason given");
    Err(Failure::new(
        FailureKind::NotComparable,
        format!("there is no baseline: git {}: {line}", arguments.join(" ")),
    ))
}
