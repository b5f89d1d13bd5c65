//! Asks a Python interpreter where its onnxruntime package is, without importing it.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::SearchRequest;
use super::places::Layout;

/// An interpreter that has not answered by then (a network drive, a hung site hook) is ended and skipped.
const TIMEOUT: Duration = Duration::from_secs(10);

/// `find_spec` only locates a top-level package. The current directory is removed from the path: a search must not
/// run code found there.
const SCRIPT: &str = "import sys; sys.path = [p for p in sys.path if p]; import importlib.util as u; \
                      s = u.find_spec('onnxruntime'); \
                      print(list(s.submodule_search_locations)[0] if s and s.submodule_search_locations else '')";

/// The interpreters worth asking: the named one, or the first `python3` and `python` on PATH.
pub(super) fn interpreters(request: &SearchRequest, layout: &Layout) -> Vec<PathBuf> {
    if let Some(python) = &request.python {
        return vec![python.clone()];
    }
    let names = if layout.windows { ["python3.exe", "python.exe"] } else { ["python3", "python"] };
    let path = request.environment.paths("PATH");
    // Windows puts a stub there that opens the Store instead of running Python.
    let is_stub = |directory: &PathBuf| layout.windows && directory.to_string_lossy().contains("WindowsApps");
    let on_path = |name: &str| {
        path.iter()
            .filter(|directory| !is_stub(directory))
            .map(|directory| directory.join(name))
            .find(|file| file.is_file())
    };
    names.iter().filter_map(|name| on_path(name)).collect()
}

/// The directory of the onnxruntime package, or why there is none.
pub(super) fn package_directory(interpreter: &Path) -> Result<PathBuf, String> {
    let child = Command::new(interpreter)
        .args(["-c", SCRIPT])
        .env("PYTHONSAFEPATH", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("cannot be started: {error}"))?;
    let answer = wait(child, TIMEOUT)?;
    match answer.trim() {
        "" => Err("has no onnxruntime package".to_owned()),
        directory => Ok(PathBuf::from(directory)),
    }
}

/// Waits a bounded time. The answer is one line, so that it fits the unread pipe.
fn wait(mut child: Child, timeout: Duration) -> Result<String, String> {
    let deadline = Instant::now() + timeout;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
            Ok(None) => {
                // It may have just ended by itself, which is as good.
                drop(child.kill());
                drop(child.wait());
                return Err(format!("did not answer within {} s", timeout.as_secs_f32()));
            }
            Err(error) => return Err(format!("cannot be waited for: {error}")),
        }
    };
    if !status.success() {
        return Err(format!("ended with {status}"));
    }
    let mut answer = String::new();
    match child.stdout.take().map(|mut stdout| stdout.read_to_string(&mut answer)) {
        Some(Ok(_)) => Ok(answer),
        _ => Err("its answer is not readable".to_owned()),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_hung_interpreter_is_killed() {
        let child = Command::new("sleep").arg("60").stdout(Stdio::piped()).spawn().expect("sleep starts");
        let started = Instant::now();
        let error = wait(child, Duration::from_millis(50)).expect_err("it hangs");
        assert!(error.contains("did not answer"), "{error}");
        assert!(started.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn an_invalid_interpreter_is_reported() {
        let error = package_directory(Path::new("/bin/false")).expect_err("no Python");
        assert!(error.contains("ended with"), "{error}");
        assert!(package_directory(Path::new("/nonexistent/python3")).is_err());
    }
}
