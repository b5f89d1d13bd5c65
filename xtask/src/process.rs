//! Running other programs: quietly with the output kept for failures, streaming, or in place of this one.

use std::env;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};

/// How much of a failing program's output is shown.
const SHOWN_OUTPUT_LINES: usize = 60;

/// A `cargo` that is the one that started this task.
pub(crate) fn cargo() -> Command {
    Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Finds a program on `PATH`; on Windows also as `.exe` and `.cmd` (npm is a script there, which `Command` only starts
/// under its full name).
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let names: Vec<String> = if cfg!(windows) {
        ["exe", "cmd", "bat"].iter().map(|extension| format!("{name}.{extension}")).collect()
    } else {
        vec![name.to_owned()]
    };
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .flat_map(|dir| names.iter().map(move |name| dir.join(name)))
        .find(|candidate| candidate.is_file())
}

/// Runs a program and returns its standard output. The output is shown only when it fails; the error then carries the
/// line that looks most like the cause.
pub(crate) fn capture(command: &mut Command) -> Result<String> {
    let shown = describe(command);
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot start `{shown}`"))?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(stdout);
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let all: Vec<&str> =
        stdout.lines().chain(stderr.lines()).filter(|line| !line.trim().is_empty()).collect();
    Err(anyhow!(CapturedFailure {
        summary: format!("`{shown}` failed ({}): {}", output.status, cause(&all)),
        output: all[all.len().saturating_sub(SHOWN_OUTPUT_LINES)..].join("\n"),
    }))
}

/// A captured program's failure: the display is one line, the output is there for whoever wants to show it.
#[derive(Debug)]
pub(crate) struct CapturedFailure {
    summary: String,
    output: String,
}

impl std::fmt::Display for CapturedFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.summary)
    }
}

impl std::error::Error for CapturedFailure {}

/// Something that this machine lacks or cannot reach: what needed it is skipped with this reason, not failed.
#[derive(Debug)]
pub(crate) struct Unavailable(pub(crate) String);

impl std::fmt::Display for Unavailable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Shows what a failing captured program printed, if that is what went wrong.
pub(crate) fn show_captured_output(error: &anyhow::Error) {
    let captured = error.chain().find_map(|cause| cause.downcast_ref::<CapturedFailure>());
    for line in captured.iter().flat_map(|failure| failure.output.lines()) {
        eprintln!("    | {line}");
    }
}

/// The line of a failing program's output that names the cause: the first that says "error", else the last.
fn cause<'a>(lines: &[&'a str]) -> &'a str {
    let says_error = |line: &&&str| {
        let line = line.trim_start().to_ascii_lowercase();
        line.starts_with("error") || line.starts_with("npm error") || line.contains("error:")
    };
    lines.iter().find(says_error).or(lines.last()).map_or("it printed nothing", |line| line.trim())
}

/// Runs a program with this one's input and output; an unsuccessful end is an error.
pub(crate) fn succeed(command: &mut Command) -> Result<()> {
    let shown = describe(command);
    let status = command.status().with_context(|| format!("cannot start `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}` failed ({status})");
    }
    Ok(())
}

/// The stream of a child that is read line by line and passed on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tee {
    Stdout,
    Stderr,
}

/// Runs a program, passes its lines on as they come and returns them with the exit status.
pub(crate) fn tee(command: &mut Command, stream: Tee) -> Result<(ExitStatus, Vec<String>)> {
    let shown = describe(command);
    match stream {
        Tee::Stdout => command.stdout(Stdio::piped()),
        Tee::Stderr => command.stderr(Stdio::piped()),
    };
    let mut child = command.spawn().with_context(|| format!("cannot start `{shown}`"))?;
    let mut lines = Vec::new();
    let mut collect = |reader: &mut dyn BufRead| -> Result<()> {
        let mut bytes = Vec::new();
        while reader.read_until(b'\n', &mut bytes)? > 0 {
            let line = String::from_utf8_lossy(&bytes).trim_end().to_owned();
            eprintln!("{line}");
            lines.push(line);
            bytes.clear();
        }
        Ok(())
    };
    let read = match (child.stdout.take(), child.stderr.take()) {
        (Some(pipe), _) => collect(&mut BufReader::new(pipe)),
        (_, Some(pipe)) => collect(&mut BufReader::new(pipe)),
        (None, None) => Ok(()),
    };
    let status = child.wait().with_context(|| format!("cannot wait for `{shown}`"))?;
    read.with_context(|| format!("cannot read the output of `{shown}`"))?;
    Ok((status, lines))
}

/// Runs a program in place of this one, so that signals and the exit code are its own.
#[cfg(unix)]
pub(crate) fn replace(mut command: Command) -> Result<std::process::ExitCode> {
    use std::os::unix::process::CommandExt;
    let shown = describe(&command);
    Err(command.exec()).with_context(|| format!("cannot start `{shown}`"))
}

/// Runs a program and passes its exit code on; there is no `exec` here.
#[cfg(not(unix))]
pub(crate) fn replace(mut command: Command) -> Result<std::process::ExitCode> {
    let shown = describe(&command);
    let status = command.status().with_context(|| format!("cannot start `{shown}`"))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    Ok(code.into())
}

/// One line of progress for one step: its name, then how long it took.
pub(crate) fn step<T>(name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let terminal = std::io::stderr().is_terminal();
    if terminal {
        eprint!("  {name} …");
        // Without a newline the name would stay in the buffer until the step is over.
        std::io::stderr().flush().context("cannot write to standard error")?;
    }
    let started = Instant::now();
    let result = work();
    let outcome = if result.is_ok() { seconds(started.elapsed()) } else { "failed".to_owned() };
    let lead = if terminal { "\r" } else { "" };
    eprintln!("{lead}  {name} … {outcome}");
    if let Err(error) = &result {
        show_captured_output(error);
    }
    result
}

pub(crate) fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

/// A command line as a person would type it, with the program's name only.
fn describe(command: &Command) -> String {
    let program = PathBuf::from(command.get_program());
    let name = program.file_name().unwrap_or(OsStr::new("?")).to_string_lossy().into_owned();
    let arguments = command.get_args().map(|argument| argument.to_string_lossy().into_owned());
    std::iter::once(name).chain(arguments).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_is_the_error_line_not_the_last() {
        let lines = ["Collecting x", "ERROR: No matching distribution found", "hint: look elsewhere"];
        assert_eq!(cause(&lines), "ERROR: No matching distribution found");
        assert_eq!(cause(&["only this"]), "only this");
        assert_eq!(cause(&[]), "it printed nothing");
    }

    #[test]
    fn a_program_that_does_not_exist_is_not_found() {
        assert!(find_program("a-program-nobody-has").is_none());
    }
}
