//! `cargo xtask dist`: what a release has, built, checked and installed: wheels and an sdist in `<target>/dist`.
//!
//! Everything goes through the package's own build backend, as `pip install .` does. A wheel for Windows is made where
//! its cross compiler is; what cannot be made or tried here is named as skipped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

use crate::arguments::Arguments;
use crate::environment::{Environment, Workspace};
use crate::process::{self, capture, find_program, succeed};
use crate::summary::{Outcome, Summary};
use crate::{python, web, windows};

const NEEDED: &[&str] = &["maturin>=1.9,<2", "twine>=6"];
/// Runs in an environment that has only the wheel, ONNX Runtime and numpy.
const TRIAL: &str = r#"
import subprocess, sys, sysconfig, os, tempfile
os.environ["ORTSCOPE_STORE"] = tempfile.mkdtemp()
import numpy, ortscope
sys.path.insert(0, sys.argv[1])
import models
with ortscope.Monitor() as monitor:
    session = ortscope.MonitoredInferenceSession(models.identity(), providers=["CPUExecutionProvider"])
    for _ in range(100):
        session.run(None, {"x": numpy.ones((2, 4), dtype=numpy.float32)})
    assert monitor.summary().inferences == 100
program = os.path.join(sysconfig.get_path("scripts"), "ortscope")
said = subprocess.run([program, "--version"], stdout=subprocess.PIPE, check=True).stdout.decode()
assert ortscope.__version__ in said, said
name = program if os.path.exists(program) else program + ".exe"
assert b"The dashboard is not part of this build" not in open(name, "rb").read(), "the dashboard is missing"
"#;

/// What the build takes in beside the crates: with the dashboard as it was built, whoever installs the sdist needs no npm.
const IN_SDIST: &[&str] = &["web/dist/index.html", "python/backend/ortscope_build.py", "PKG-INFO"];
const MISSING_IN_SDIST: &str = r#"
import sys, tarfile
names = {name.partition("/")[2] for name in tarfile.open(sys.argv[1]).getnames()}
missing = [name for name in sys.argv[2:] if name not in names]
assert not missing, "the sdist has no " + ", ".join(missing)
"#;

pub(crate) fn main(mut arguments: Arguments) -> Result<ExitCode> {
    let quick = arguments.flag("--quick");
    let (no_sdist, no_windows) = (arguments.flag("--no-sdist"), arguments.flag("--no-windows"));
    arguments.finish()?;
    let environment = Environment::open(Workspace::find()?, NEEDED, false)?;
    // A release without the dashboard is no release: here Node is needed.
    web::build(&environment.workspace)?;
    let dist = environment.workspace.target.join("dist");
    if dist.exists() {
        fs::remove_dir_all(&dist).with_context(|| format!("cannot empty {}", dist.display()))?;
    }
    fs::create_dir_all(&dist)?;
    // Without `--quick` as users get it.
    let profile = if quick { "dev" } else { "release" };
    let mut summary = Summary::default();
    summary.step("wheel", || build(&environment, &dist, "build_wheel", profile, None));
    if !no_sdist {
        summary.step("sdist", || build(&environment, &dist, "build_sdist", profile, None));
    }
    if !no_windows {
        summary.step("wheel for Windows", || for_windows(&environment, &dist, profile));
    }
    summary.step("twine check", || {
        let mut twine = Command::new(environment.python());
        twine.args(["-m", "twine", "check", "--strict"]).args(files(&dist)?);
        succeed(&mut twine).map(|()| Outcome::Passed)
    });
    for file in files(&dist)? {
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        summary.step(&format!("install {name}"), || try_out(&environment, &file, &name));
    }
    summary.print_table();
    summary.print_totals();
    for file in files(&dist)? {
        println!("{} ({:.1} MB)", file.display(), fs::metadata(&file)?.len() as f64 / 1e6);
    }
    Ok(if summary.counts().failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn files(dist: &Path) -> Result<Vec<PathBuf>> {
    let mut files: Vec<PathBuf> = fs::read_dir(dist)?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.sort();
    Ok(files)
}

/// Calls the build backend as a front end does.
fn build(
    environment: &Environment,
    dist: &Path,
    hook: &str,
    profile: &str,
    target: Option<&[(&str, &str)]>,
) -> Result<Outcome> {
    let root = &environment.workspace.root;
    let mut backend = Command::new(environment.python());
    let code = "import sys; sys.path.insert(0, sys.argv[1]); import ortscope_build; \
                getattr(ortscope_build, sys.argv[2])(sys.argv[3])";
    backend.args(["-c", code]).arg(root.join("python").join("backend")).arg(hook).arg(dist);
    backend.current_dir(root).env("ORTSCOPE_WHEEL_PROFILE", profile);
    backend.env("CARGO_TARGET_DIR", &environment.workspace.target);
    // Otherwise maturin names the wheel for any Linux, which the registry refuses; so it is named for the C library it needs.
    backend.env("MATURIN_PEP517_ARGS", "--compatibility pypi");
    backend.env("PATH", python::path_with(&environment.python())?);
    backend.envs(target.unwrap_or_default().iter().copied());
    succeed(&mut backend)?;
    Ok(Outcome::Passed)
}

/// The wheel for Windows, by cross-compiling.
pub(crate) fn for_windows(environment: &Environment, dist: &Path, profile: &str) -> Result<Outcome> {
    if cfg!(windows) {
        return Ok(Outcome::Skipped("this is Windows: the wheel is its own".to_owned()));
    }
    let target = windows::wheel_environment(&environment.workspace)?;
    let target: Vec<(&str, &str)> = target.iter().map(|(name, value)| (*name, value.as_str())).collect();
    build(environment, dist, "build_wheel", profile, Some(&target))
}

/// Installs a file into an empty environment and uses it there.
fn try_out(environment: &Environment, file: &Path, name: &str) -> Result<Outcome> {
    if name.contains("win_amd64") && !cfg!(windows) {
        return python::wine::try_out(environment, file);
    }
    let venv = environment.scratch("dist")?;
    let with = python::make_venv(&environment.python(), &venv)?;
    let pip = |arguments: &[&str]| {
        let mut pip = Command::new(&with);
        pip.args(["-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet"])
            .args(arguments);
        pip.env("CARGO_TARGET_DIR", &environment.workspace.target).env("ORTSCOPE_WHEEL_PROFILE", "dev");
        pip
    };
    capture(&mut pip(&["onnxruntime", "numpy"])).context("ONNX Runtime cannot be installed")?;
    if name.ends_with(".tar.gz") {
        capture(Command::new(&with).args(["-c", MISSING_IN_SDIST]).arg(file).args(IN_SDIST))?;
        if find_program("cargo").is_none() {
            bail!("the sdist needs cargo on the path");
        }
    }
    process::step(name, || capture(pip(&[]).arg(file)))?;
    let mut trial = Command::new(&with);
    trial.args(["-c", TRIAL]).arg(environment.workspace.root.join("python").join("tests"));
    capture(trial.env_remove("PYTHONPATH").env_remove("ORTSCOPE_BINARY"))?;
    Ok(Outcome::Passed)
}
