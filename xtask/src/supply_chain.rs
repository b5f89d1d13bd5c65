//! Checks every dependency with `cargo deny`. Licences and sources are also checked by `cargo xtask deps`, which needs no
//! tool; only this step finds two versions of one crate, and versions with known vulnerabilities.

use std::env;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::cargo_tools::{self, DENY};
use crate::environment::Environment;
use crate::process::capture;
use crate::summary::{Counts, Outcome};

pub(crate) fn check(environment: &Environment) -> Result<Outcome> {
    cargo_tools::build(environment, &DENY)?;
    let workspace = &environment.workspace;
    let deny = |what: &[&str]| {
        let mut command = workspace.cargo();
        // Offline: a test fetches nothing by itself.
        command.args(["deny", "--offline", "--workspace", "check", "--hide-inclusion-graph"]).args(what);
        capture(&mut command).context("a dependency breaks the rules of deny.toml")
    };
    deny(&["licenses", "bans", "sources"])?;
    if !has_advisories() {
        let why =
            "known vulnerabilities: their database is a git repository, which `cargo deny fetch` downloads";
        return Ok(Outcome::Listed(Counts { passed: 1, failed: 0, skipped: 1 }, vec![why.to_owned()]));
    }
    deny(&["advisories"])?;
    Ok(Outcome::Tests(Counts { passed: 2, failed: 0, skipped: 0 }))
}

/// Whether the database of vulnerabilities was fetched, to where cargo-deny keeps it.
fn has_advisories() -> bool {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")));
    let entries = home.and_then(|home| home.join("advisory-dbs").read_dir().ok());
    entries.is_some_and(|mut entries| entries.next().is_some())
}
