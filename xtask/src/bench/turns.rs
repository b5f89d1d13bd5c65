//! Programs that take turns on one processor: each runs for a slice of a tenth of a second while the others are stopped.
//!
//! The speed of a machine that others use too changes from second to second by more than what is to be found. Programs
//! that run one after the other meet different machines; these meet the same one. A stop falls into one inference of a
//! slice, which a median does not see.

use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, bail};

const SLICE: Duration = Duration::from_millis(100);

struct Running {
    child: Child,
    output: JoinHandle<std::io::Result<String>>,
    is_over: bool,
}

/// What each program prints, in their order. `first` is the one that has the first turn.
pub(crate) fn take_turns(commands: Vec<Command>, first: usize) -> Result<Vec<String>> {
    let mut running = Vec::new();
    for command in commands {
        match start(command) {
            Ok(started) => running.push(started),
            Err(error) => {
                running.iter_mut().for_each(end);
                return Err(error);
            }
        }
    }
    let outcome = alternate(&mut running, first);
    if outcome.is_err() {
        running.iter_mut().for_each(end);
    }
    outcome?;
    let mut outputs = Vec::new();
    for mut program in running {
        let status = program.child.wait()?;
        let output = program.output.join().ok().context("the reader of its output ended")??;
        if !status.success() {
            bail!("a program that was compared ended with {status}");
        }
        outputs.push(output);
    }
    Ok(outputs)
}

fn start(mut command: Command) -> Result<Running> {
    own_group(&mut command);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
    let mut stdout = child.stdout.take().context("no output")?;
    let output = std::thread::Builder::new().name("output".into()).spawn(move || {
        let mut text = String::new();
        stdout.read_to_string(&mut text)?;
        Ok(text)
    })?;
    Ok(Running { child, output, is_over: false })
}

/// Until all have ended. The last one is alone at its end.
fn alternate(running: &mut [Running], first: usize) -> Result<()> {
    let count = running.len();
    for (index, program) in running.iter().enumerate() {
        if index != first % count {
            signal(program, "STOP");
        }
    }
    let mut turn = first % count;
    loop {
        std::thread::sleep(SLICE);
        for program in running.iter_mut() {
            program.is_over = program.is_over || program.child.try_wait()?.is_some();
        }
        let next = (1..=count).map(|step| (turn + step) % count).find(|index| !running[*index].is_over);
        let Some(next) = next else { return Ok(()) };
        if next != turn {
            signal(&running[turn], "STOP");
            signal(&running[next], "CONT");
            turn = next;
        }
    }
}

fn end(program: &mut Running) {
    signal(program, "KILL");
    program.child.kill().ok();
    program.child.wait().ok();
}

/// To a program and everything it started.
#[cfg(unix)]
fn signal(program: &Running, name: &str) {
    if !program.is_over {
        let group = format!("-{}", program.child.id());
        Command::new("kill").args(["-s", name, "--", &group]).stderr(Stdio::null()).status().ok();
    }
}

#[cfg(unix)]
fn own_group(command: &mut Command) {
    use std::os::unix::process::CommandExt as _;
    command.process_group(0);
}

/// Where programs cannot be stopped they share the processor as the system sees fit.
#[cfg(not(unix))]
fn signal(_program: &Running, _name: &str) {}

#[cfg(not(unix))]
fn own_group(_command: &mut Command) {}
