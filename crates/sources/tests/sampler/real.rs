//! The process sampler on the real machine, through the whole pipeline.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ortscope_core::pipeline::{Pipeline, RunningPipeline};
use ortscope_core::schema::{
    DeviceSampleRow, ProcessRow, ProcessSampleRow, SystemSampleRow, ThreadSampleRow,
};
use ortscope_sources::sampler::{OwnCostHandle, Rates, Targets};
use ortscope_sources::{ProcessSampler, SamplerOptions};

use super::world::Collect;

/// A child process that waits until its input ends.
struct Waiting(Child);

impl Waiting {
    fn start() -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this test"));
        command.args(["--exact", "--ignored", "real::child_that_waits"]);
        Self(command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("a child"))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Not a test: the child of the others.
#[test]
#[ignore = "it is started by other tests"]
fn child_that_waits() {
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

fn start(options: SamplerOptions) -> (RunningPipeline, Collect, OwnCostHandle) {
    let sampler = ProcessSampler::with_options(options).expect("options");
    let (collect, cost) = (Collect::default(), sampler.own_cost());
    let running = Pipeline::default().source(sampler).sink(collect.clone()).start().expect("threads");
    (running, collect, cost)
}

fn eventually(mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(60), "timed out");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_child_is_watched_until_it_exits() {
    let mut child = Waiting::start();
    let pid = u64::from(child.0.id());
    let (running, collect, cost) = start(SamplerOptions::of_pids(vec![child.0.id()], 100.0));
    eventually(|| collect.rows_so_far::<ProcessSampleRow>().len() > 3);
    drop(child.0.stdin.take());
    // The run ends with the child, without being stopped.
    let report = running.join();
    let seen = collect.into_seen(report, cost.get());
    let rows = seen.rows::<ProcessSampleRow>();
    assert!(rows.iter().all(|row| row.pid == pid && row.process_start == rows[0].process_start));
    assert!(rows.windows(2).all(|pair| pair[0].cpu_time_ns <= pair[1].cpu_time_ns), "totals never decrease");
    assert!(rows.iter().all(|row| row.working_set_bytes > 100_000), "{:?}", rows[0]);
    let events = seen.rows::<ProcessRow>();
    let exited = events.last().unwrap();
    assert_eq!((&*exited.event, exited.exit_code), ("exited", Some(0)));
    assert!(rows.iter().all(|row| row.timestamp_ns <= exited.timestamp_ns));
    let created = events[0].create_time_unix_ns.unwrap();
    assert!(created > 1_600_000_000_000_000_000, "{created}");
    assert!(seen.report.source_errors.is_empty(), "{:?}", seen.report);
}

#[test]
fn the_whole_machine_is_watched_with_a_later_child() {
    let rates = Rates { details_hertz: Some(10.0), environment_hertz: 10.0, ..Rates::default() };
    let threads = cfg!(any(target_os = "linux", windows));
    let (running, collect, cost) = start(SamplerOptions { rates, threads, ..SamplerOptions::default() });
    eventually(|| !collect.rows_so_far::<SystemSampleRow>().is_empty());
    let child = Waiting::start();
    let pid = u64::from(child.0.id());
    eventually(|| collect.rows_so_far::<ProcessSampleRow>().iter().any(|row| row.pid == pid));
    drop(child);
    let is_end = |row: &ProcessRow| row.pid == pid && &*row.event == "exited";
    eventually(|| collect.rows_so_far::<ProcessRow>().iter().any(is_end));
    eventually(|| cost.get().cpu_ratio.is_some() && cost.get().ticks > 10);
    running.control().stop();
    let report = running.join();
    let seen = collect.into_seen(report, cost.get());
    assert!(seen.report.source_errors.is_empty(), "{:?}", seen.report);
    let own = u64::from(std::process::id());
    assert!(seen.rows::<ProcessSampleRow>().iter().any(|row| row.pid == own));
    assert_eq!(seen.rows::<ThreadSampleRow>().iter().any(|row| row.pid == own), threads);
    assert!(seen.rows::<SystemSampleRow>().iter().all(|row| row.memory_total_bytes > Some(0)));
    let of_ortscope = |row: &DeviceSampleRow| &*row.device == "ortscope" && &*row.metric == "own_cpu_ratio";
    assert!(seen.rows::<DeviceSampleRow>().iter().any(of_ortscope));
    assert!(seen.cost.ticks > 10 && seen.cost.memory_bytes > Some(100_000), "{:?}", seen.cost);
}

/// Prints the cost of sampling: `cargo test -p ortscope-sources --test sampler -- --ignored --nocapture sampling_cost`.
#[test]
#[ignore = "a measurement, not a test"]
fn sampling_cost() {
    let idle: Vec<Waiting> = (0..104).map(|_| Waiting::start()).collect();
    std::thread::sleep(Duration::from_millis(500));
    for hertz in [10.0, 50.0, 100.0, 1000.0] {
        let slow = 10f64.min(hertz);
        let options = SamplerOptions {
            targets: Targets::of_pids(idle.iter().map(|child| child.0.id()).collect()),
            rates: Rates { cpu_hertz: hertz, memory_hertz: hertz, io_hertz: Some(slow), ..Rates::default() },
            system: false,
            overhead_limit_percent: 100.0,
            ..SamplerOptions::default()
        };
        let (running, _, cost) = start(options);
        std::thread::sleep(Duration::from_millis(2200));
        running.control().stop();
        running.join();
        let cost = cost.get();
        let micros = cost.cpu_ratio.unwrap_or_default() * 1e6 / hertz;
        println!("{hertz} Hz: {micros:.1} µs per tick of {} processes, {cost:?}", idle.len());
    }
}
