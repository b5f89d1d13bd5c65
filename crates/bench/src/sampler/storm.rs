//! Two processes on one processor that wake each other as fast as they can: measures the events lost, and the time that
//! tracing adds to each context switch.

use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use ortscope_core::clock::now_ns;
use ortscope_core::kernel::{KernelEvent, Usage};
use ortscope_sources::KernelTrace;
use ortscope_sources::kernel::TraceOptions;
use serde_json::{Value, json};

use super::SamplerArgs;

/// Alternating measurements without and with tracing.
const ROUNDS: usize = 5;
/// Shorter than elsewhere, because a storm fills the rings faster than ordinary work.
const DRAIN: Duration = Duration::from_millis(20);
const WINDOW_NS: u64 = 1_000_000;

/// Answers every byte with a byte until its input ends.
pub(super) fn partner() -> Result<()> {
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    let mut byte = [0u8; 1];
    while input.read(&mut byte)? == 1 {
        output.write_all(&byte)?;
        output.flush()?;
    }
    Ok(())
}

/// Starts a partner, exchanges bytes with it for some time and returns the exchanges per second.
pub(super) fn runner(seconds: f64) -> Result<Value> {
    let mut partner = Command::new(std::env::current_exe()?)
        .args(["sampler", "--phase", "storm-partner"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let (Some(mut to), Some(mut from)) = (partner.stdin.take(), partner.stdout.take()) else {
        bail!("the partner has no pipes");
    };
    let (mut byte, mut turns) = ([7u8; 1], 0u64);
    let begin = Instant::now();
    while begin.elapsed().as_secs_f64() < seconds {
        for _ in 0..64 {
            to.write_all(&byte)?;
            from.read_exact(&mut byte)?;
        }
        turns += 64;
    }
    let per_second = turns as f64 / begin.elapsed().as_secs_f64();
    drop(to);
    partner.wait()?;
    Ok(json!(per_second))
}

/// Pins both processes to one processor, so that every exchange is two switches; without `taskset` they are not pinned.
fn spawn_runner(seconds: f64) -> Result<Child> {
    let program = std::env::current_exe()?;
    let arguments = ["sampler", "--phase", "storm-runner", "--seconds", &seconds.to_string()];
    let mut pinned = Command::new("taskset");
    pinned.args(["-c", "0"]).arg(&program).args(arguments).stdout(Stdio::piped());
    match pinned.spawn() {
        Ok(child) => Ok(child),
        Err(_) => Ok(Command::new(&program).args(arguments).stdout(Stdio::piped()).spawn()?),
    }
}

fn turns_per_second(runner: Child) -> Result<f64> {
    let output = runner.wait_with_output()?;
    Ok(serde_json::from_slice(&output.stdout)?)
}

pub(super) fn run(args: &SamplerArgs) -> Result<Value> {
    let (mut bare, mut watched) = (Vec::new(), Vec::new());
    let (mut events, mut lost, mut recursion_misses, mut switches, mut chain_breaks) = (0, 0, 0, 0u64, 0);
    let (mut drained, mut passed) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..ROUNDS {
        bare.push(turns_per_second(spawn_runner(args.seconds)?)?);

        let mut trace = KernelTrace::open(&TraceOptions::default())?;
        let mut usage = Usage::new(WINDOW_NS, now_ns());
        let begin = Instant::now();
        let mut runner = spawn_runner(args.seconds)?;
        loop {
            let has_ended = runner.try_wait()?.is_some();
            let before = Instant::now();
            let stats = trace.drain(&mut |event| {
                switches += u64::from(matches!(event, KernelEvent::Switch(_)));
                usage.apply(&event);
            });
            drained += before.elapsed();
            events += stats.events;
            lost += stats.lost;
            recursion_misses += stats.recursion_misses;
            if has_ended {
                break;
            }
            std::thread::sleep(DRAIN);
        }
        passed += begin.elapsed();
        chain_breaks += usage.counts().chain_breaks;
        watched.push(turns_per_second(runner)?);
    }
    // The fastest of each side: other work on the machine only slows them down.
    let best = |turns: &[f64]| turns.iter().copied().fold(0.0, f64::max);
    // Each turn is two switches.
    let nanos_per_switch = |turns: f64| 1e9 / turns / 2.0;
    let seconds = passed.as_secs_f64();
    Ok(json!({
        "switches_per_s": switches as f64 / seconds, "events": events, "lost": lost,
        "recursion_misses": recursion_misses, "chain_breaks": chain_breaks,
        "drain_core_percent": drained.as_secs_f64() / seconds * 100.0,
        "bare_turns_per_s": bare, "watched_turns_per_s": watched,
        "added_ns_per_switch": nanos_per_switch(best(&watched)) - nanos_per_switch(best(&bare)),
        "bare_ns_per_switch": nanos_per_switch(best(&bare)),
    }))
}
