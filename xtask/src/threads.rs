//! What threads can do to each other: the models of the rings by loom, and the tests of what threads share under
//! ThreadSanitizer.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::environment::Workspace;
use crate::process::{Tee, capture, tee};
use crate::summary::Outcome;
use crate::test::{cargo_test_counts, counted};

/// The models of the rings, in a workspace of their own: `--cfg loom` changes what is compiled.
pub(crate) fn loom(workspace: &Workspace) -> Result<Outcome> {
    let mut cargo = workspace.cargo();
    cargo.current_dir(workspace.root.join("crates/channel/loom")).env_remove("CARGO_TARGET_DIR");
    capture(cargo.env("RUSTFLAGS", "--cfg loom").args(["test", "--release"]))?;
    Ok(Outcome::Passed)
}

const SANITIZED: &str = "x86_64-unknown-linux-gnu";

/// The crates whose threads share memory, with a standard library that is watched too: without it every lock of that library
/// would look like none. A race that is seen ends its program with an error.
pub(crate) fn sanitizer(workspace: &Workspace) -> Result<Outcome> {
    let about = capture(Command::new("rustc").arg("-vV").current_dir(&workspace.root))?;
    let host = about.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc names no host")?;
    if host != SANITIZED {
        return Ok(Outcome::Skipped(format!("ThreadSanitizer is used on {SANITIZED}, this is {host}")));
    }
    let sysroot = capture(Command::new("rustc").args(["--print", "sysroot"]).current_dir(&workspace.root))?;
    let source = Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library/std/Cargo.toml");
    if !source.is_file() {
        let why = "the source of the standard library is not there (`rustup component add rust-src`)";
        return Ok(Outcome::Skipped(why.to_owned()));
    }
    let mut cargo = workspace.cargo();
    // The stable compiler knows the sanitizer; only the flag's name is not settled.
    cargo.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", "-Zsanitizer=thread");
    cargo.args(["test", "-Zbuild-std", "--target", SANITIZED, "--lib", "--tests"]);
    cargo.args(["-p", "ortscope-core", "-p", "ortscope-channel", "--no-fail-fast", "--target-dir"]);
    cargo.arg(workspace.target.join("sanitized"));
    let (status, lines) = tee(&mut cargo, Tee::Stdout)?;
    counted(status, cargo_test_counts(&lines))
}
