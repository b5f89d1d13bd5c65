//! Two processes that wake each other as fast as they can: nothing is lost, or the loss is counted exactly.

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ortscope_core::kernel::KernelEvent;
use ortscope_core::kernel::threads::{Limits, Threads};
use ortscope_sources::kernel::{BackendChoice, TraceOptions};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::support::{by, drain_while, open};

/// Sends one byte to `cat` and back, on one processor, for a while; returns the number of round trips.
fn ping_pong(how_long: Duration) -> u64 {
    let mut cat = Command::new("/bin/cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut one = CpuSet::new();
    one.set(0);
    let pid = rustix::process::Pid::from_raw(cat.id() as i32);
    sched_setaffinity(None, &one).and_then(|()| sched_setaffinity(pid, &one)).unwrap();
    let (mut to, mut from) = (cat.stdin.take().unwrap(), cat.stdout.take().unwrap());
    let (mut rounds, mut byte) = (0, [b'x']);
    let deadline = Instant::now() + how_long;
    while Instant::now() < deadline {
        to.write_all(&byte).unwrap();
        from.read_exact(&mut byte).unwrap();
        rounds += 1;
    }
    drop(to);
    cat.wait().unwrap();
    rounds
}

/// Context switches since boot according to the kernel.
fn machine_switches() -> u64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    stat.lines().find_map(|line| line.strip_prefix("ctxt ")?.parse().ok()).unwrap_or(0)
}

fn storm(options: &TraceOptions) -> Option<(Vec<KernelEvent>, u64, u64)> {
    let mut trace = open(options)?;
    trace.drain(&mut |_| ());
    let before = machine_switches();
    let work = || ping_pong(Duration::from_secs(1));
    let work = thread::Builder::new().name("storm".to_owned()).spawn(work).unwrap();
    let (events, stats) = drain_while(&mut trace, || work.is_finished());
    let rounds = work.join().unwrap();
    let counted = machine_switches() - before;
    println!("{:?}: {rounds} rounds in 1 s, {counted} switches by /proc/stat, {stats:?}", trace.backend());
    Some((events, stats.lost, rounds))
}

fn chain_breaks(events: &[KernelEvent]) -> u64 {
    let mut threads = Threads::new(Limits::default());
    let begin = Instant::now();
    events.iter().for_each(|event| threads.apply(event));
    let each = begin.elapsed().as_nanos() as f64 / events.len().max(1) as f64;
    println!("{:?}, {each:.0} ns per event", threads.counts());
    threads.counts().chain_breaks
}

fn switches(events: &[KernelEvent]) -> u64 {
    events.iter().filter(|event| matches!(event, KernelEvent::Switch(_))).count() as u64
}

#[test]
fn a_storm_is_observed_completely() {
    let Some((events, lost, rounds)) = storm(&by(BackendChoice::Bpf)) else { return };
    // Every round trip has two switches.
    assert!(switches(&events) + lost >= 2 * rounds, "{} and {lost} lost of {rounds}", switches(&events));
    let breaks = chain_breaks(&events);
    // The machine's first process has threads whose switches the tracepoint does not report.
    assert!(lost > 0 || breaks * 200 <= events.len() as u64, "{breaks} breaks of {} events", events.len());
}

#[test]
fn a_small_ring_counts_its_losses_exactly() {
    let options = TraceOptions { ring_bytes_per_cpu: 4096, ..by(BackendChoice::Bpf) };
    let Some((events, lost, rounds)) = storm(&options) else { return };
    assert!(lost > 0, "256 slots at 20 drains per second");
    // Nothing disappears uncounted: observed and lost switches together are all of them.
    assert!(switches(&events) + lost >= 2 * rounds, "{} and {lost} lost of {rounds}", switches(&events));
    assert!(chain_breaks(&events) > 0, "the chain shows the losses too");
}

#[test]
fn a_storm_by_perf_rings() {
    let Some((events, lost, rounds)) = storm(&by(BackendChoice::PerfRing)) else { return };
    // Both halves of a switch are records, and both can be lost.
    assert!(switches(&events) + lost >= 2 * rounds, "{} and {lost} lost of {rounds}", switches(&events));
    chain_breaks(&events);
}
