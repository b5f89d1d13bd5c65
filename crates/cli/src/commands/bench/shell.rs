//! `--ab "CMD A" "CMD B"`: whole commands, compared by their wall time. A block is one execution.

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ortscope_analyze::verdict::Metric;

use crate::exit::{Failure, FailureKind};
use ortscope_observe::interrupt::Interrupt;
use ortscope_observe::recording::keep_secrets_from;
use ortscope_result::comparison::Block;

/// How often a running command is looked at. Its end is seen by waiting, so this does not blur the time.
const PERIOD: Duration = Duration::from_millis(20);
/// Kept of what a command prints to stderr.
const STDERR_BYTES: usize = 4096;

/// Runs the command once through the shell; `None` when the user interrupted it.
pub fn measure(command: &str, interrupt: &Interrupt) -> Result<Option<Block>, Failure> {
    let begin = Instant::now();
    let mut child = shell(command)
        .spawn()
        .map_err(|error| Failure::model(format!("the shell for '{command}' cannot be started: {error}")))?;
    let mut pipe = child.stderr.take();
    let printed = std::thread::Builder::new().name("command-stderr".into()).spawn(move || {
        let mut kept = Vec::new();
        let mut chunk = [0; 1024];
        while let Some(Ok(read @ 1..)) = pipe.as_mut().map(|pipe| pipe.read(&mut chunk)) {
            kept.extend_from_slice(&chunk[..read]);
            let excess = kept.len().saturating_sub(STDERR_BYTES);
            kept.drain(..excess);
        }
        String::from_utf8_lossy(&kept).into_owned()
    })?;
    let waiter = std::thread::Builder::new().name("command-end".into());
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    let pid = child.id();
    waiter.spawn(move || {
        let status = child.wait();
        sender.send((status, begin.elapsed())).ok();
    })?;
    let (status, elapsed) = loop {
        match receiver.recv_timeout(PERIOD) {
            Ok((status, elapsed)) => break (status?, elapsed),
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) if interrupt.insisted() => {
                return Err(Failure::new(
                    FailureKind::Interrupted,
                    format!("process {pid} was left running"),
                ));
            }
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {}
            Err(error) => return Err(Failure::internal(error)),
        }
    };
    // The terminal sends Ctrl-C to the command as well: such an end is no failure of it.
    if interrupt.requested() {
        return Ok(None);
    }
    if !status.success() {
        let printed = printed.join().unwrap_or_default();
        let last = printed.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        let words = if last.is_empty() { String::new() } else { format!("; its last words: {last}") };
        return Err(Failure::model(format!("'{command}' ended with {status}{words}")));
    }
    let mut block = Block { runs: 1, ..Block::default() };
    block.figures.insert(Metric::Time.name(), elapsed.as_secs_f64() * 1e3);
    Ok(Some(block))
}

fn shell(command: &str) -> Command {
    let (program, flag) = if std::env::consts::OS == "windows" { ("cmd", "/C") } else { ("sh", "-c") };
    let mut shell = Command::new(program);
    keep_secrets_from(&mut shell);
    shell.args([flag, command]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    shell
}
