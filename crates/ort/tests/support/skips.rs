//! Finds what tests need and this repository does not contain: ONNX Runtime, models, Python packages, other programs.
//!
//! `cargo xtask run` and `cargo xtask test` set these up in `<target>/ortscope-env` and list them in `test.env` there, so a
//! plain `cargo nextest run` finds them too. A variable of the same name in the environment takes precedence.
//!
//! A test that lacks something fails with a hint. Only when `ORTSCOPE_TEST_SKIPS` names a file, as `cargo xtask test` does,
//! is it skipped instead and added to that file, which the task counts and prints.

#![allow(dead_code, reason = "every test program uses another part")]
#![allow(clippy::allow_attributes, reason = "`expect` would fail where everything is used")]

use std::env;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Notes that the running test cannot run on this machine: it lacks rights, hardware or an operating system feature.
#[expect(clippy::print_stderr, reason = "a skipped test must be visible")]
pub fn skipped(why: &str) {
    let name = std::thread::current().name().unwrap_or("a test").to_owned();
    eprintln!("skipped: {name}: {why}");
    if let Some(path) = env::var_os("ORTSCOPE_TEST_SKIPS") {
        let file = fs::OpenOptions::new().create(true).append(true).open(path);
        // One write per line, so that lines of concurrent tests do not mix.
        if let Ok(mut file) = file {
            file.write_all(format!("{name}: {why}\n").as_bytes()).ok();
        }
    }
}

/// Skips or fails the running test because something was not set up that `cargo xtask test` sets up.
#[track_caller]
pub fn not_set_up(why: &str) {
    assert!(
        env::var_os("ORTSCOPE_TEST_SKIPS").is_some(),
        "{why}\nhint: `cargo xtask test --prepare` sets up what the tests need; \
         with ORTSCOPE_TEST_SKIPS=FILE tests that lack something are skipped and listed in FILE"
    );
    skipped(why);
}

/// The path in a variable such as `ORTSCOPE_TEST_ORT`.
#[track_caller]
pub fn variable(name: &str) -> Option<PathBuf> {
    let from_environment = env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let value = from_environment.or_else(|| set_up(&env::current_exe().ok()?, name));
    if value.is_none() {
        not_set_up(&format!("{name} is not set, and no ortscope-env/test.env near this program has it"));
    }
    value
}

/// The value of a variable in the `test.env` of the target directory that a test program was built in.
pub fn set_up(test_program: &Path, name: &str) -> Option<PathBuf> {
    let list = test_program.ancestors().map(|dir| dir.join("ortscope-env").join("test.env"));
    let text = list.into_iter().find_map(|file| fs::read_to_string(file).ok())?;
    let (_, value) = text.lines().filter_map(|line| line.split_once('=')).find(|(key, _)| *key == name)?;
    Some(PathBuf::from(value)).filter(|path| path.exists())
}

/// One of the test models, by its name without `.onnx`.
#[track_caller]
pub fn model(name: &str) -> Option<PathBuf> {
    let path = variable("ORTSCOPE_TEST_MODELS")?.join(format!("{name}.onnx"));
    if !path.is_file() {
        not_set_up(&format!("there is no model {}", path.display()));
        return None;
    }
    Some(path)
}

/// The Python of the tests, if it can import these modules.
#[track_caller]
pub fn python_with(modules: &[&str]) -> Option<PathBuf> {
    let python = variable("ORTSCOPE_TEST_PYTHON")?;
    let import = format!("import {}", modules.join(", "));
    let output = Command::new(&python).args(["-c", &import]).stdin(Stdio::null()).output();
    let problem = match output {
        Ok(output) if output.status.success() => return Some(python),
        Ok(output) => String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default().to_owned(),
        Err(error) => error.to_string(),
    };
    not_set_up(&format!("{} cannot `{import}`: {problem}", python.display()));
    None
}

/// A program of another project, such as `prometheus`: on the path, or where `cargo xtask test` unpacked it.
#[track_caller]
pub fn program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file());
    if found.is_some() {
        return found;
    }
    let file = variable("ORTSCOPE_TEST_PROGRAMS")?.join(name);
    if !file.is_file() {
        not_set_up(&format!("there is no {name} on the path or in {}", file.display()));
        return None;
    }
    Some(file)
}
