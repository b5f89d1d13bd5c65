//! Cargo's subcommands that tests use: the installed ones, else built once into the environment.

use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::environment::{Environment, Workspace};
use crate::process::{self, Unavailable, capture, find_program};

/// A subcommand, and how it is built quickly.
#[derive(Debug)]
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    version: &'static str,
    options: &'static [&'static str],
}

/// Runs each test in a process of its own, many at a time.
pub(crate) const NEXTEST: Tool = Tool {
    name: "cargo-nextest",
    version: "^0.9",
    // It updates itself otherwise, and traces itself.
    options: &["--no-default-features"],
};

/// Checks what the dependencies are.
pub(crate) const DENY: Tool =
    Tool { name: "cargo-deny", version: "^0.20", options: &["--no-default-features"] };

/// Where a tool is: on the path, or where [`build`] has put it.
pub(crate) fn find(workspace: &Workspace, tool: &Tool) -> Option<PathBuf> {
    let built = || workspace.programs_dir().join(tool.name).with_extension(std::env::consts::EXE_EXTENSION);
    find_program(tool.name).or_else(|| Some(built()).filter(|path| path.is_file()))
}

/// Builds a tool that is missing, from the registry's sources and without optimization: it runs for seconds.
pub(crate) fn build(environment: &Environment, tool: &Tool) -> Result<PathBuf> {
    let workspace = &environment.workspace;
    if let Some(found) = find(workspace, tool) {
        return Ok(found);
    }
    process::step(&format!("build {}", tool.name), || {
        let mut cargo = process::cargo();
        cargo.args(["install", tool.name, "--locked", "--debug", "--no-track", "--version", tool.version]);
        cargo.args(tool.options).arg("--root").arg(&environment.dir);
        // Dependencies compiled for it are of no use to anything else.
        let products = environment.dir.join("tool-builds");
        cargo.env("CARGO_TARGET_DIR", &products).env("CARGO_PROFILE_DEV_DEBUG", "false");
        let built = capture(&mut cargo);
        std::fs::remove_dir_all(&products).ok();
        built
    })
    .with_context(|| Unavailable(format!("{} cannot be built", tool.name)))?;
    find(workspace, tool).with_context(|| format!("cargo installed no {}", tool.name))
}
