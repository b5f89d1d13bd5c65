//! A real storm: processes that run for milliseconds, and one with thousands of threads.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ortscope_core::pipeline::{Limits, Pipeline};
use ortscope_core::schema::{ProcessRow, ProcessSampleRow, ThreadSampleRow};
use ortscope_sources::{ProcessSampler, SamplerOptions};

use crate::world::{Collect, Seen};

/// Samples processes for a while, like the program.
fn sample(options: SamplerOptions, meanwhile: impl FnOnce(&Collect)) -> Seen {
    let sampler = ProcessSampler::with_options(options).unwrap();
    let (cost, collect) = (sampler.own_cost(), Collect::default());
    let limits = Limits { sink_bytes: 1 << 30, ..Limits::default() };
    let running =
        Pipeline::default().with_limits(limits).source(sampler).sink(collect.clone()).start().unwrap();
    meanwhile(&collect);
    running.control().stop();
    let report = running.join();
    assert_eq!((&report.source_errors, &report.sink_errors), (&Vec::new(), &Vec::new()));
    collect.into_seen(report, cost.get())
}

/// Waits until something is so; how long depends on the machine.
fn eventually(is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() && begin.elapsed() < Duration::from_secs(100) {
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Stops the child, whatever happens to the test.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[test]
fn short_lived_processes_neither_end_nor_delay_the_sampler() {
    let (stop, started) = (AtomicBool::new(false), AtomicU64::new(0));
    let own = u64::from(std::process::id());
    let samples_of_us = |rows: &[ProcessSampleRow]| rows.iter().filter(|row| row.pid == own).count();
    let seen = sample(SamplerOptions::default(), |collect| {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        let ended = Command::new("/bin/true").status().unwrap();
                        assert!(ended.success());
                        started.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            std::thread::sleep(Duration::from_secs(3));
            eventually(|| {
                started.load(Ordering::Relaxed) > 100 && samples_of_us(&collect.rows_so_far()) > 10
            });
            stop.store(true, Ordering::Relaxed);
        });
    });
    assert!(started.load(Ordering::Relaxed) > 100, "it was no storm");
    // Observed processes have one identity and at most one exit; the sampler continued to the last moment.
    let of_us = samples_of_us(&seen.rows::<ProcessSampleRow>());
    assert!(of_us > 10, "{of_us} samples of a process that was there all the time");
    let rows = seen.rows::<ProcessRow>();
    let mut ends: Vec<(u64, u64)> =
        rows.iter().filter(|row| &*row.event == "exited").map(|row| (row.pid, row.process_start)).collect();
    let count = ends.len();
    ends.sort_unstable();
    ends.dedup();
    assert_eq!(ends.len(), count, "no process exits twice");
    assert!(seen.report.losses.is_empty(), "{:?}", seen.report.losses);
}

const THREADS: usize = 10_000;
const VARIABLE: &str = "ORTSCOPE_TEST_THREADS";

/// Not a test: the process that the other one watches.
#[test]
#[ignore = "started by the other test, as a process with many threads"]
fn process_with_many_threads() {
    if std::env::var_os(VARIABLE).is_none() {
        return;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let mut made = 0;
    for number in 0..THREADS {
        let stop = Arc::clone(&stop);
        let wait = move || {
            while !stop.load(Ordering::Relaxed) {
                std::thread::park_timeout(Duration::from_secs(60));
            }
        };
        let builder = std::thread::Builder::new().name(format!("many-{number}")).stack_size(64 << 10);
        if builder.spawn(wait).is_err() {
            break;
        }
        made += 1;
    }
    // Read by the other process.
    println!("\nready {made}");
    std::thread::sleep(Duration::from_secs(200));
}

#[test]
fn ten_thousand_threads_are_all_observed() {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "storm::process_with_many_threads", "--ignored", "--nocapture", "--test-threads=1"])
        .env(VARIABLE, "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = Ends(command.spawn().unwrap());
    let stdout = BufReader::new(child.0.stdout.take().unwrap());
    let made =
        stdout.lines().map_while(Result::ok).find_map(|line| line.strip_prefix("ready ")?.parse().ok());
    let made: usize = made.unwrap_or(0);
    if made < THREADS {
        // A limit of the user, of a container (pids.max) or of memory.
        crate::skips::skipped(&format!("this machine allows a process {made} threads, not {THREADS}"));
        return;
    }
    let pid = child.0.id();
    let options = SamplerOptions { threads: true, ..SamplerOptions::of_pids(vec![pid], 10.0) };
    let has_all = |row: &ProcessSampleRow| row.thread_count.is_some_and(|count| count > THREADS as u64);
    let seen = sample(options, |collect| {
        eventually(|| {
            collect.rows_so_far::<ProcessSampleRow>().iter().any(has_all)
                && !collect.rows_so_far::<ThreadSampleRow>().is_empty()
        });
    });
    let rows = seen.rows::<ThreadSampleRow>();
    let first = rows.first().map(|row| row.timestamp_ns).expect("threads were seen");
    let of_first = rows.iter().filter(|row| row.timestamp_ns == first).count();
    // Including the thread that started them.
    assert!(of_first > THREADS, "{of_first} threads; lost: {:?}", seen.report.losses);
    let samples = seen.rows::<ProcessSampleRow>();
    assert!(samples.iter().any(has_all));
}
