//! What others wrote: `cargo deny` over every dependency, where it is installed. Licences and sources are also checked by
//! `cargo xtask deps`, which needs nothing; what only this step knows are two versions of one crate, and known faults.

use std::env;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::environment::Workspace;
use crate::process::{capture, find_program};
use crate::summary::{Counts, Outcome};

pub(crate) fn check(workspace: &Workspace) -> Result<Outcome> {
    if find_program("cargo-deny").is_none() {
        let why = "cargo-deny is not installed (`cargo install cargo-deny`); the step of arrows has checked licences";
        return Ok(Outcome::Skipped(why.to_owned()));
    }
    let deny = |what: &[&str]| {
        let mut command = workspace.cargo();
        // Offline: a test fetches nothing by itself.
        command.args(["deny", "--offline", "--workspace", "check", "--hide-inclusion-graph"]).args(what);
        capture(&mut command).context("a dependency is not what it may be")
    };
    deny(&["licenses", "bans", "sources"])?;
    if !has_advisories() {
        eprintln!(
            "skipped: known faults, because there is no database of them; `cargo deny fetch` brings it"
        );
        return Ok(Outcome::Tests(Counts { passed: 1, failed: 0, skipped: 1 }));
    }
    deny(&["advisories"])?;
    Ok(Outcome::Tests(Counts { passed: 2, failed: 0, skipped: 0 }))
}

/// Whether the database of known faults was fetched, to where cargo-deny keeps it.
fn has_advisories() -> bool {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")));
    let entries = home.and_then(|home| home.join("advisory-dbs").read_dir().ok());
    entries.is_some_and(|mut entries| entries.next().is_some())
}
