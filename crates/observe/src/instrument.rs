//! Instruments an unmodified program that is about to start, so that its inferences are recorded.
//!
//! Python finds our `sitecustomize`, which instruments onnxruntime when the program imports it. For native programs, a
//! library is preloaded that returns a wrapped table of ONNX Runtime's C API. Child processes inherit both.

use std::ffi::OsString;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ortscope_channel::{CHANNEL_VARIABLE, ChannelDirectory};

use crate::programs::Programs;

/// Python's module search path, for our `sitecustomize`.
const PYTHON_PATH: &str = "PYTHONPATH";
const PRELOAD: &str = "LD_PRELOAD";
const PROFILE_EVERY: &str = "ORTSCOPE_PROFILE_EVERY";
/// The library for native programs, in the directory of this program.
const PRELOAD_LIBRARY: &str = "libortscope_preload.so";
/// The package's directory with `sitecustomize`.
const INJECT: &str = "_inject";

/// Prints the package's location without importing it, and ignores the current directory.
const ASK_PACKAGE: &str = "import sys; sys.path[:] = [p for p in sys.path if p]; import importlib.util as u; \
                           s = u.find_spec('ortscope'); print(s.origin if s and s.origin else '')";
/// Maximum wait for an answer of Python.
const PATIENCE: Duration = Duration::from_secs(10);
/// Maximum length of a script's first line.
const FIRST_LINE: u64 = 512;

/// Prepares a command. The result has the reason for each part that could not be prepared.
pub fn instrument(command: &mut Command, words: &[String], profile_every: u32) -> Programs {
    let reader = ortscope_sources::own_usage().map(|usage| usage.identity);
    let home = reader
        .map_err(|error| error.to_string())
        .and_then(|reader| ChannelDirectory::create(reader).map_err(|error| error.to_string()));
    let home = match home {
        Ok(home) => home,
        Err(error) => {
            let mut programs = Programs::default();
            let hint = "there must be room in /dev/shm or among the temporary files";
            programs.no_inferences(format!("there is no place for the channel: {error}"), hint);
            return programs;
        }
    };
    command.env(CHANNEL_VARIABLE, home.path());
    if profile_every > 0 {
        command.env(PROFILE_EVERY, profile_every.to_string());
    } else {
        command.env_remove(PROFILE_EVERY);
    }
    let mut programs = Programs::of_home(home);
    let python = Python::of(words);
    match package(python.as_ref()) {
        Some(inject) => put_on_python_path(command, inject),
        None if python.is_some() => {
            programs.no_inferences(
                "the Python that runs here does not have the package 'ortscope'",
                "pip install ortscope, into the environment of that Python or of this program",
            );
        }
        None => {}
    }
    if python.as_ref().is_some_and(|python| python.is_isolated) {
        programs.no_inferences(
            "Python was started with -I, -E or -S and does not look at what ortscope gives it",
            "leave that option out",
        );
    }
    preload(command, python.is_some(), &mut programs);
    programs
}

fn put_on_python_path(command: &mut Command, inject: PathBuf) {
    let before = std::env::var_os(PYTHON_PATH).filter(|before| !before.is_empty()).unwrap_or_default();
    let parts = [inject].into_iter().chain(std::env::split_paths(&before));
    // Parts with a separator in them could not be in the path anyway.
    if let Ok(path) = std::env::join_paths(parts) {
        command.env(PYTHON_PATH, path);
    }
}

fn preload(command: &mut Command, is_python: bool, programs: &mut Programs) {
    if std::env::consts::OS != "linux" {
        if !is_python {
            programs.no_inferences(
                format!(
                    "inferences of native programs are not recorded on {}: its loader has no LD_PRELOAD, and a library \
                     could get into the program only by writing into its memory",
                    std::env::consts::OS
                ),
                "Python programs can; or measure the model by 'ortscope run'",
            );
        }
        return;
    }
    let adjacent = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.join(PRELOAD_LIBRARY)));
    let Some(library) = adjacent.filter(|path| path.is_file()) else {
        if !is_python {
            programs.no_inferences(
                format!(
                    "inferences of native programs are not recorded: {PRELOAD_LIBRARY} is not in the directory of ortscope"
                ),
                "cargo build -p ortscope-preload, or install ortscope again",
            );
        }
        return;
    };
    if library.to_string_lossy().contains([' ', ':']) {
        programs.no_inferences(
            format!("inferences of native programs are not recorded: the path of {PRELOAD_LIBRARY} has a space or a colon"),
            "install ortscope elsewhere",
        );
        return;
    }
    let mut libraries = OsString::from(library);
    if let Some(before) = std::env::var_os(PRELOAD).filter(|before| !before.is_empty()) {
        libraries.push(":");
        libraries.push(before);
    }
    command.env(PRELOAD, libraries);
}

/// The Python that a command starts.
#[derive(Debug, PartialEq, Eq)]
struct Python {
    program: PathBuf,
    /// It ignores its environment.
    is_isolated: bool,
}

impl Python {
    /// By its name anywhere in the command (`env X=1 python app.py`), or by the first line of a script.
    fn of(words: &[String]) -> Option<Self> {
        if let Some(at) = words.iter().position(|word| is_python(Path::new(word))) {
            return Some(Self {
                program: words[at].as_str().into(),
                is_isolated: is_isolated(&words[at + 1..]),
            });
        }
        let program = interpreter_of(&on_path(words.first()?)?)?;
        Some(Self { program, is_isolated: false })
    }
}

fn is_python(program: &Path) -> bool {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_suffix(".exe").unwrap_or(&name);
    name.strip_prefix("python").is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

/// Checks the options before the script.
fn is_isolated(options: &[String]) -> bool {
    let mut options = options.iter();
    while let Some(option) = options.next() {
        let Some(letters) = option.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
            return false;
        };
        match letters {
            "W" | "X" => drop(options.next()),
            _ if letters.starts_with(['c', 'm', 'W', 'X', '-']) => return false,
            _ if letters.contains(['I', 'E', 'S']) => return true,
            _ => {}
        }
    }
    false
}

/// Finds a program as the system does.
fn on_path(program: &str) -> Option<PathBuf> {
    if program.contains(std::path::is_separator) {
        return Some(program.into());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(program)).find(|path| path.is_file())
}

/// The Python that the first line of a script names.
fn interpreter_of(script: &Path) -> Option<PathBuf> {
    let mut line = Vec::new();
    std::fs::File::open(script).ok()?.take(FIRST_LINE).read_to_end(&mut line).ok()?;
    let line = line.split(|byte| *byte == b'\n').next()?.strip_prefix(b"#!")?;
    let line = std::str::from_utf8(line).ok()?;
    line.split_whitespace().find(|word| is_python(Path::new(word))).map(PathBuf::from)
}

/// The directory to put first in Python's path: from the package of the Python that runs, or of one next to this program or
/// on the path. One package serves every Python version.
fn package(running: Option<&Python>) -> Option<PathBuf> {
    let adjacent = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.to_owned()));
    let adjacent =
        adjacent.into_iter().flat_map(|directory| ["python3", "python"].map(|name| directory.join(name)));
    let adjacent = adjacent.filter(|path| path.is_file());
    let on_path = ["python3", "python"].into_iter().filter_map(on_path);
    let mut asked = Vec::new();
    for python in running.map(|python| python.program.clone()).into_iter().chain(adjacent).chain(on_path) {
        if asked.contains(&python) {
            continue;
        }
        if let Some(package) = ask(&python) {
            return Some(package);
        }
        asked.push(python);
    }
    None
}

/// Asks a Python for the package; only a complete one counts.
fn ask(python: &Path) -> Option<PathBuf> {
    let child = Command::new(python)
        .args(["-c", ASK_PACKAGE])
        .env_remove(CHANNEL_VARIABLE)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    let answer = answer_of(child)?;
    let package = Path::new(answer.trim()).parent()?;
    let entries = std::fs::read_dir(package).ok()?.flatten();
    let has_native =
        entries.into_iter().any(|entry| entry.file_name().to_string_lossy().starts_with("_native."));
    let inject = package.join(INJECT);
    (has_native && inject.join("sitecustomize.py").is_file()).then_some(inject)
}

/// Its output, if it ends in time.
fn answer_of(mut child: Child) -> Option<String> {
    let deadline = Instant::now() + PATIENCE;
    while child.try_wait().ok()?.is_none() {
        if Instant::now() >= deadline {
            child.kill().ok();
            child.wait().ok();
            return None;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let mut answer = String::new();
    child.stdout.take()?.take(1 << 16).read_to_string(&mut answer).ok()?;
    Some(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn finds_the_python_of_a_command() {
        let python = |text: &str| Python::of(&words(text)).map(|python| python.program);
        assert_eq!(python("python app.py"), Some("python".into()));
        assert_eq!(python("env X=1 /opt/bin/python3.11 app.py"), Some("/opt/bin/python3.11".into()));
        assert_eq!(python("C:/Python/python.exe app.py"), Some("C:/Python/python.exe".into()));
        assert_eq!(python("no-such-program-at-all pythonista"), None);
    }

    #[test]
    fn detects_a_python_that_ignores_its_environment() {
        let isolated = |text: &str| Python::of(&words(text)).is_some_and(|python| python.is_isolated);
        assert!(isolated("python -I app.py") && isolated("python -u -sE app.py"));
        assert!(isolated("python -W ignore -S app.py"));
        assert!(!isolated("python app.py -I") && !isolated("python -m module -E"));
        assert!(!isolated("python -u -X importtime app.py") && !isolated("python -c print() -I"));
    }

    #[test]
    fn reads_the_interpreter_of_a_script() {
        let directory = tempfile::tempdir().expect("a directory");
        let script = directory.path().join("tool");
        std::fs::write(&script, "#!/usr/bin/env python3\nimport os\n").expect("written");
        assert_eq!(interpreter_of(&script), Some("python3".into()));
        std::fs::write(&script, "#!/bin/sh\npython3 x\n").expect("written");
        assert_eq!(interpreter_of(&script), None);
    }
}
