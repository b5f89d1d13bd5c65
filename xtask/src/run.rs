//! `cargo xtask run`: from a fresh clone to a profile of a real model.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::arguments::{Arguments, UsageError};
use crate::environment::{Environment, TO_GENERATE, TO_RUN, Workspace};
use crate::{models, process, web};

/// How long the model is measured when nothing was said about it.
const FIRST_LOOK: &str = "15s";

pub(crate) fn main(mut arguments: Arguments) -> Result<ExitCode> {
    let refresh = arguments.flag("--refresh");
    let program_arguments = arguments.trailing();
    let model = arguments.word();
    if let Err(UsageError(problem)) = arguments.finish() {
        return Err(UsageError(format!("{problem}; ortscope's own options go after `--`")).into());
    }

    // The dashboard is built while Python's packages and the model are fetched: it must be there before the program that
    // embeds it.
    let dashboard = std::thread::Builder::new()
        .name("dashboard".to_owned())
        .spawn(|| web::build_if_possible(&Workspace::find()?))
        .context("cannot start a thread")?;
    let known = models::known(model.as_deref().unwrap_or(models::DEFAULT));
    let generated = known.is_some_and(|model| model.is_generated());
    let requirements = if generated { TO_GENERATE } else { TO_RUN };
    let environment = Environment::open(Workspace::find()?, requirements, refresh)?;
    let model = match (model, known) {
        (Some(path), _) if Path::new(&path).exists() => PathBuf::from(path),
        (_, Some(known)) => models::fetch(&environment, known)?,
        (Some(path), None) => bail!(
            "there is no file {path}\nhint: or name a model this task can fetch: {}",
            models::names().join(", ")
        ),
        (None, None) => bail!("the default model {} is not in the table", models::DEFAULT),
    };
    dashboard.join().map_err(|_| anyhow::anyhow!("building the dashboard panicked"))??;
    let program = build_program(&environment.workspace)?;
    let library = environment.newest_runtime()?;
    environment.write_test_variables()?;
    let mut command = Command::new(program);
    command.arg("run").arg(model).arg("--ort-library").arg(library);
    if program_arguments.is_empty() {
        // A noisy machine would measure for a minute: too long for a first look.
        command.args(["--duration", FIRST_LOOK]);
    }
    command.args(program_arguments);
    // The program may run for long: others need the environment meanwhile.
    drop(environment);
    process::replace(command)
}

/// Builds the command-line program and returns its path.
pub(crate) fn build_program(workspace: &Workspace) -> Result<PathBuf> {
    build(workspace, "ortscope-cli", "ortscope")
}

/// Builds the program that runs the phases of benchmarks, which is never shipped, and returns its path.
pub(crate) fn build_benchmarks(workspace: &Workspace) -> Result<PathBuf> {
    build(workspace, "ortscope-bench", "ortscope-bench")
}

/// The shipped program, and the one that runs phases of benchmarks.
#[derive(Debug)]
pub(crate) struct Programs {
    pub(crate) ortscope: PathBuf,
    pub(crate) benchmarks: PathBuf,
}

pub(crate) fn build_both(workspace: &Workspace) -> Result<Programs> {
    Ok(Programs { ortscope: build_program(workspace)?, benchmarks: build_benchmarks(workspace)? })
}

/// Asks cargo for the path, because the user's configuration may choose another target or profile directory.
fn build(workspace: &Workspace, package: &str, name: &str) -> Result<PathBuf> {
    let started = std::time::Instant::now();
    let output = workspace
        .cargo()
        .args(["build", "--package", package, "--message-format=json-render-diagnostics"])
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    if !output.status.success() {
        bail!("{name} does not build ({})", output.status);
    }
    let program = String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["target"]["name"] == name)
        .find_map(|message| message["executable"].as_str().map(PathBuf::from));
    eprintln!("  build {name} … {}", process::seconds(started.elapsed()));
    program.with_context(|| format!("cargo built no program named {name}"))
}
