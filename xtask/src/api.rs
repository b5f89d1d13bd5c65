//! The API of the real program against its own OpenAPI document: schemathesis makes requests, good and bad ones, and
//! checks every answer.

use std::path::Path;

use anyhow::{Result, bail};

use crate::environment::{Environment, Workspace};
use crate::models;
use crate::process::{Tee, tee};
use crate::summary::Outcome;

const NEEDED: &[&str] = &["onnxruntime>=1.20", "numpy", "onnx>=1.17", "schemathesis>=4.32,<5"];
/// Cases that there must be, and examples of each operation. What every change runs ends after [`QUICK_SECONDS`], wherever
/// it is then: a slow machine has fewer cases, not a failure.
const QUICK: (u32, u32) = (100, 3);
const QUICK_SECONDS: &str = "40";
const FULL: (u32, u32) = (10_000, 300);
/// The last phase follows links from answer to answer without an end of its own.
const FULL_SECONDS: &str = "600";
/// Small, and its recording has operators.
const MODEL: &str = "identity";

pub(crate) fn check(program: &Path, full: bool) -> Result<Outcome> {
    let mut environment = match Environment::open(Workspace::find()?, NEEDED, false) {
        Ok(environment) => environment,
        Err(error) => return Ok(Outcome::Skipped(format!("schemathesis cannot be installed: {error:#}"))),
    };
    let (cases, examples) = if full { FULL } else { QUICK };
    let mut command = environment.script("api_check.py");
    command.arg("--program").arg(program);
    command.args(["--cases", &cases.to_string(), "--examples", &examples.to_string()]);
    if full {
        command.args(["--most-seconds", FULL_SECONDS]);
    } else {
        command.args(["--phases", "coverage,fuzzing", "--most-seconds", QUICK_SECONDS]);
    }
    if let Some(model) = models::known(MODEL) {
        command.arg("--model").arg(models::fetch(&environment, model)?);
        command.arg("--ort-library").arg(environment.newest_runtime()?);
    }
    environment.release();
    let (status, lines) = tee(&mut command, Tee::Stdout)?;
    let last = lines.iter().rev().find(|line| line.contains(" cases, "));
    if !status.success() {
        bail!("{}", last.map_or("schemathesis could not run", String::as_str));
    }
    Ok(Outcome::Passed)
}
