//! The Python package: one wheel, built as `pip install .` builds it, and its tests on one Python or on all there are.
//!
//! The wheel is made with cargo's dev profile, so that it shares its dependencies with everything else that is tested.

pub(crate) mod wine;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::environment::Environment;
use crate::process::{self, Tee, Unavailable, capture, find_program, tee};
use crate::summary::{Counts, Outcome};

/// The Pythons that one wheel serves, and the oldest ONNX Runtime that each of them can install.
const VERSIONS: [(&str, &str); 7] = [
    ("3.8", "1.15.1"),
    ("3.9", "1.15.1"),
    ("3.10", "1.15.1"),
    ("3.11", "1.15.1"),
    ("3.12", "1.17.0"),
    ("3.13", "1.20.0"),
    ("3.14", "1.24.1"),
];
/// What the tests use beside the wheel; the interpreter's own version decides which of each.
const NEEDED: &[&str] = &["pytest", "numpy"];

/// Builds the wheel; gives its path.
pub(crate) fn build_wheel(environment: &Environment) -> Result<PathBuf> {
    let dir = environment.dir.join("wheels");
    if dir.exists() {
        fs::remove_dir_all(&dir).with_context(|| format!("cannot empty {}", dir.display()))?;
    }
    process::step("wheel", || {
        let mut pip = environment.pip("wheel");
        pip.args(["--no-deps", "--no-build-isolation", "--wheel-dir"])
            .arg(&dir)
            .arg(&environment.workspace.root);
        pip.env("ORTSCOPE_WHEEL_PROFILE", "dev").env("CARGO_TARGET_DIR", &environment.workspace.target);
        // maturin and cargo are found where this task's own are.
        pip.env("PATH", path_with(&environment.python())?);
        capture(&mut pip)
    })?;
    let mut wheels = fs::read_dir(&dir)?.filter_map(|entry| Some(entry.ok()?.path()));
    wheels.find(|path| path.extension().is_some_and(|ending| ending == "whl")).context("pip made no wheel")
}

/// Puts the package as it is now into the environment, for its own tests and for those of the program.
pub(crate) fn install(environment: &Environment) -> Result<Outcome> {
    let wheel = build_wheel(environment)?;
    capture(environment.pip("install").args(["--force-reinstall", "--no-deps"]).arg(&wheel))?;
    Ok(Outcome::Passed)
}

/// The tests with the environment's own Python and ONNX Runtime, of the package that [`install`] put there.
pub(crate) fn test(environment: &Environment) -> Result<Outcome> {
    run_tests(environment, &environment.python(), &[])
}

/// What a user does who has a clone: one `pip install .` into an empty environment, then what README and documents show.
pub(crate) fn test_clone(environment: &Environment) -> Result<Outcome> {
    let with = make_venv(&environment.python(), &environment.scratch("python-clone")?)?;
    process::step("pip install .", || {
        let mut pip = pip_install(&with);
        pip.arg(".").current_dir(&environment.workspace.root);
        // The only difference to a user's: what the tests have compiled already is used again.
        pip.env("ORTSCOPE_WHEEL_PROFILE", "dev").env("CARGO_TARGET_DIR", &environment.workspace.target);
        capture(&mut pip)
    })?;
    capture(pip_install(&with).arg("onnxruntime").args(NEEDED))
        .context(Unavailable("onnxruntime cannot be installed".to_owned()))?;
    run_tests(environment, &with, &["test_snippets.py", "test_examples.py", "test_package.py"])
}

/// The tests with every Python that can be found, each with the oldest and the newest ONNX Runtime it can install.
pub(crate) fn test_versions(environment: &Environment) -> Result<Outcome> {
    let wheel = build_wheel(environment)?;
    let mut total = Counts::default();
    let mut table = vec![format!("{:<9}{:<14}result", "Python", "ONNX Runtime")];
    for (version, oldest) in VERSIONS {
        let Some(python) = interpreter(version) else {
            table.push(format!("{version:<9}{:<14}not installed here", "–"));
            continue;
        };
        for runtime in [format!("onnxruntime=={oldest}"), "onnxruntime".to_owned()] {
            let (installed, result) = test_pair(environment, &python, &wheel, &runtime);
            // One pair that cannot be tried does not keep the others from being tried.
            let said = match &result {
                Ok(Counts { passed, failed, skipped }) => {
                    format!("{passed} passed, {failed} failed, {skipped} skipped")
                }
                Err(error) => format!("{error:#}"),
            };
            match result {
                Ok(counts) => total.add(counts),
                Err(error) if error.is::<Unavailable>() => {
                    total.add(Counts { skipped: 1, ..Counts::default() });
                }
                Err(_) => total.add(Counts { failed: 1, ..Counts::default() }),
            }
            table.push(format!("{version:<9}{installed:<14}{said}"));
            eprintln!("{}", table[table.len() - 1]);
        }
    }
    table.iter().for_each(|line| eprintln!("{line}"));
    Ok(Outcome::Tests(total))
}

/// One Python with one ONNX Runtime, in an environment of their own: which version it is, and what came of it.
fn test_pair(
    environment: &Environment,
    python: &Path,
    wheel: &Path,
    runtime: &str,
) -> (String, Result<Counts>) {
    let ready = environment.scratch("python").and_then(|venv| prepare(python, &venv, wheel, runtime));
    let with = match ready {
        Ok(with) => with,
        Err(error) => return (runtime.to_owned(), Err(error)),
    };
    let ask = "import onnxruntime; print(onnxruntime.__version__)";
    let installed = capture(Command::new(&with).args(["-c", ask]))
        .map_or_else(|_| runtime.to_owned(), |version| version.trim().to_owned());
    let counts = run_tests(environment, &with, &[]).and_then(|outcome| match outcome {
        Outcome::Listed(counts, _) => Ok(counts),
        _ => bail!("pytest counted nothing"),
    });
    (installed, counts)
}

/// An empty environment in `dir`; gives its interpreter.
pub(crate) fn make_venv(python: &Path, dir: &Path) -> Result<PathBuf> {
    capture(Command::new(python).args(["-m", "venv"]).arg(dir))?;
    Ok(dir.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" }))
}

fn pip_install(python: &Path) -> Command {
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet"]);
    pip
}

fn prepare(python: &Path, venv: &Path, wheel: &Path, runtime: &str) -> Result<PathBuf> {
    let with = make_venv(python, venv)?;
    let mut pip = pip_install(&with);
    // Wheels of ONNX Runtime before 1.19 were made for numpy 1.
    let numpy = if runtime.contains("==1.15") || runtime.contains("==1.17") { "numpy<2" } else { "numpy" };
    pip.args([runtime, numpy, "pytest"]).arg(wheel);
    capture(&mut pip).context(Unavailable(format!("{runtime} cannot be installed")))?;
    Ok(with)
}

/// A Python by its version: by its usual name, or where pyenv keeps it.
fn interpreter(version: &str) -> Option<PathBuf> {
    let works = |python: &PathBuf| {
        let ask = "import sys; print('%d.%d' % sys.version_info[:2])";
        capture(Command::new(python).args(["-c", ask])).is_ok_and(|said| said.trim() == version)
    };
    let root = std::env::var_os("PYENV_ROOT")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".pyenv")));
    let pyenv = root.and_then(|root| {
        let found = fs::read_dir(root.join("versions")).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
        let is_it = |path: &PathBuf| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&format!("{version}.")))
        };
        found.filter(is_it).map(|path| path.join("bin").join("python")).find(works)
    });
    pyenv.or_else(|| find_program(&format!("python{version}")).filter(works))
}

/// All tests, or those of some files.
fn run_tests(environment: &Environment, python: &Path, files: &[&str]) -> Result<Outcome> {
    let tests = environment.workspace.root.join("python").join("tests");
    let mut pytest = Command::new(python);
    pytest
        .args(["-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider"])
        .args(if files.is_empty() {
            vec![tests]
        } else {
            files.iter().map(|file| tests.join(file)).collect()
        })
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env_remove("ORTSCOPE_BINARY")
        // Not the sources: what is tested is what was installed.
        .env_remove("PYTHONPATH");
    let (status, lines) = tee(&mut pytest, Tee::Stdout)?;
    match counts(&lines) {
        Some(counts) if status.success() == (counts.failed == 0) => {
            Ok(Outcome::Listed(counts, reasons(&lines)))
        }
        _ => bail!("pytest could not run ({status}); it needs {}", NEEDED.join(" and ")),
    }
}

/// Reads `3 failed, 60 passed, 2 skipped, 1 error in 12.34s`.
fn counts(lines: &[String]) -> Option<Counts> {
    let line = lines.iter().rev().find(|line| line.contains(" in ") && line.contains("passed"))?;
    let mut counts = Counts::default();
    for part in line.trim_matches('=').split(" in ").next()?.split(", ") {
        let (number, what) = part.trim().split_once(' ')?;
        let number: u64 = number.parse().ok()?;
        match what {
            "passed" | "xpassed" => counts.passed += number,
            "skipped" | "xfailed" | "deselected" => counts.skipped += number,
            "failed" | "error" | "errors" => counts.failed += number,
            _ => {}
        }
    }
    Some(counts)
}

/// Reads `SKIPPED [2] python/tests/test_x.py:7: reason`, a line for each place in the tests.
fn reasons(lines: &[String]) -> Vec<String> {
    lines
        .iter()
        .filter_map(|line| line.strip_prefix("SKIPPED [")?.split_once("] "))
        .map(|(_, rest)| rest.to_owned())
        .collect()
}

/// The path with an interpreter's directory in front.
pub(crate) fn path_with(python: &Path) -> Result<std::ffi::OsString> {
    let before = std::env::var_os("PATH").unwrap_or_default();
    let own = python.parent().map(Path::to_owned).into_iter();
    Ok(std::env::join_paths(own.chain(std::env::split_paths(&before)))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_pytest_is_read() {
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        let text = "....s\n60 passed, 2 skipped, 1 warning in 12.34s";
        assert_eq!(counts(&lines(text)), Some(Counts { passed: 60, failed: 0, skipped: 2 }));
        let text = "=== 3 failed, 60 passed, 1 error in 2.0s ===";
        assert_eq!(counts(&lines(text)), Some(Counts { passed: 60, failed: 4, skipped: 0 }));
        assert_eq!(counts(&lines("no tests ran in 0.01s")), None);
        let text = "SKIPPED [2] tests/test_a.py:7: no fork here\n60 passed, 2 skipped in 1.0s";
        assert_eq!(reasons(&lines(text)), ["tests/test_a.py:7: no fork here"]);
    }
}
