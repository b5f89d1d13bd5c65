//! A thread that works for 1 ms of every 2.7 ms: its share per 10 ms, from events, compared with its own CPU clock.

use std::thread;
use std::time::{Duration, Instant};

use ortscope_core::clock::now_ns;
use ortscope_core::kernel::threads::{Limits, Threads};
use ortscope_sources::kernel::BackendChoice;
use rustix::time::{ClockId, clock_gettime};

use crate::support::{by, drain_while, open, snapshot};

const BURST: Duration = Duration::from_millis(1);
const PAUSE: Duration = Duration::from_micros(1703);
const WINDOW_NS: u64 = 10_000_000;

fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Its thread id, and timestamps of (monotonic, CPU time) around every burst.
fn work() -> (u32, Vec<(u64, u64)>) {
    let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    // Real-time priority avoids preemption within a burst, which the timestamps would not show. It is optional.
    std::process::Command::new("chrt").args(["-f", "-p", "50", &tid.to_string()]).status().ok();
    let mut stamps = Vec::with_capacity(4000);
    let deadline = Instant::now() + Duration::from_secs(2);
    while Instant::now() < deadline {
        stamps.push((now_ns(), cpu_ns()));
        let begin = Instant::now();
        while begin.elapsed() < BURST {}
        stamps.push((now_ns(), cpu_ns()));
        thread::sleep(PAUSE);
    }
    (tid, stamps)
}

/// CPU time up to a moment, from the timestamps; exact unless the thread was preempted within a burst.
fn reference_at(stamps: &[(u64, u64)], at_ns: u64) -> f64 {
    let after = stamps.partition_point(|stamp| stamp.0 <= at_ns).clamp(1, stamps.len() - 1);
    let ((begin_ns, begin_cpu), (end_ns, end_cpu)) = (stamps[after - 1], stamps[after]);
    // Within a burst, which begins at every second timestamp, it runs continuously; in a pause only briefly at both
    // ends.
    let is_burst = !after.is_multiple_of(2);
    let inside = (at_ns.saturating_sub(begin_ns)) as f64 / (end_ns - begin_ns).max(1) as f64;
    let share = if is_burst { inside } else { 0.5 };
    begin_cpu as f64 + share.clamp(0.0, 1.0) * (end_cpu - begin_cpu) as f64
}

#[test]
fn a_duty_cycle_is_exact_in_every_window() {
    let Some(mut trace) = open(&by(BackendChoice::Bpf)) else { return };
    let Some(mut snapshot) = snapshot() else { return };
    let (mut states, mut threads) = (Vec::new(), Threads::new(Limits::default()));
    let at_ns = snapshot.take(&mut states).unwrap();
    threads.resync(&states, at_ns);
    let worker = thread::Builder::new().name("duty".to_owned()).spawn(work).unwrap();
    let (events, stats) = drain_while(&mut trace, || worker.is_finished());
    let (tid, stamps) = worker.join().unwrap();
    events.iter().for_each(|event| threads.apply(event));

    let account = threads.threads().find(|thread| thread.thread.tid == tid).unwrap();
    assert!(account.start_ns.is_some());
    // Guarantee of the events: the sum up to the thread's end is the kernel's own account, which is not less than the
    // thread's own reading.
    let own_ns = stamps.last().unwrap().1;
    assert!(account.seen_run_ns() >= own_ns, "{} of {own_ns}", account.seen_run_ns());
    assert!(account.seen_run_ns() < own_ns + 5_000_000, "{} of {own_ns}", account.seen_run_ns());

    let (first, last) = (stamps[0].0, stamps.last().unwrap().0);
    let windows = (last - first) / WINDOW_NS;
    let mut errors = Vec::new();
    for window in 0..windows {
        let (from_ns, to_ns) = (first + window * WINDOW_NS, first + (window + 1) * WINDOW_NS);
        let truth = reference_at(&stamps, to_ns) - reference_at(&stamps, from_ns);
        let seen = threads.cpu_ns(account.key, from_ns, to_ns) as f64;
        errors.push((seen - truth) / WINDOW_NS as f64 * 100.0);
    }
    let rms = (errors.iter().map(|error| error * error).sum::<f64>() / errors.len() as f64).sqrt();
    let worst = errors.iter().fold(0.0f64, |worst, error| worst.max(error.abs()));
    let share = own_ns as f64 / (last - first) as f64 * 100.0;
    println!(
        "{share:.2} % over {windows} windows of 10 ms: RMS error {rms:.3} percentage points, worst {worst:.3}"
    );
    println!("{stats:?} {:?}", threads.counts());
    // Windows with a preemption within a burst have no exact reference; most have one.
    errors.sort_by(|one, other| one.abs().total_cmp(&other.abs()));
    let median = errors[errors.len() / 2].abs();
    assert!(median <= 0.1, "median error {median}");
}
