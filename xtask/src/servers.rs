//! Servers and engines of other projects, which the tests of `cargo xtask test --full` ask whether what we gave them is what
//! was recorded. Where they cannot be had, those tests say so and are skipped.

use std::process::Command;

use anyhow::Result;

use crate::environment::{Environment, Workspace};
use crate::process::{self, capture, find_program};
use crate::summary::Outcome;

/// Programs, by the names of Debian's packages.
const PROGRAMS: &[&str] = &["prometheus", "victoria-metrics"];
/// ClickHouse as a library; with 180 MB too much for every test.
const PACKAGES: &[&str] = &["chdb>=3"];

/// Installs what is missing, as far as that is possible here.
pub(crate) fn prepare() -> Result<Outcome> {
    let mut missing: Vec<String> = Vec::new();
    for program in PROGRAMS {
        if find_program(program).is_none() && !install(program) {
            missing.push(format!("{program} is not installed; Debian has a package of that name"));
        }
    }
    if let Err(error) = Environment::open(Workspace::find()?, PACKAGES, false) {
        missing.push(format!("{}: {error:#}", PACKAGES.join(", ")));
    }
    Ok(if missing.is_empty() { Outcome::Passed } else { Outcome::Skipped(missing.join("; ")) })
}

/// On Debian, as root. The package's own service is not wanted, only its program.
pub(crate) fn install(package: &str) -> bool {
    let Some(apt) = find_program("apt-get") else { return false };
    let mut install = Command::new(apt);
    install.args(["install", "--yes", "--no-install-recommends", package]);
    install.env("DEBIAN_FRONTEND", "noninteractive").env("RUNLEVEL", "1");
    process::step(package, || capture(&mut install)).is_ok()
}
