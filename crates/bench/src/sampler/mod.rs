//! Measures the cost and the accuracy of each way to observe processes. For `cargo xtask bench sampler`. Each way runs in its
//! own process, so that CPU time and memory belong to it alone.

mod storm;

use std::collections::HashSet;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use ortscope_core::batch::Batch;
use ortscope_core::clock::now_ns;
use ortscope_core::kernel::KernelEvent;
use ortscope_core::kernel::threads::{Limits, Threads};
use ortscope_core::pipeline::{FlushError, Pipeline, Sink, SinkError};
use ortscope_sources::kernel::{BackendChoice, TraceOptions};
use ortscope_sources::sampler::{ProcessSampler, SamplerOptions, Targets};
use ortscope_sources::{KernelTrace, ThreadSnapshot, UsageWatch, own_usage};
use serde_json::{Value, json};

/// Interval between two drains of the rings.
const DRAIN: Duration = Duration::from_millis(50);
const WINDOW: Duration = Duration::from_millis(1);
const MEMORY_EVERY: Duration = Duration::from_millis(100);

#[derive(Debug, Clone, clap::Args)]
pub struct SamplerArgs {
    #[arg(long, value_enum)]
    phase: Phase,
    #[arg(long, default_value_t = 100.0)]
    hertz: f64,
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Its descendants are observed
    #[arg(long, default_value_t = 1)]
    parent: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Phase {
    Empty,
    Unprivileged,
    Snapshot,
    Events,
    PerfRing,
    Duty,
    ShortLived,
    Storm,
    /// Helper process of the storm
    StormRunner,
    /// Helper process of the storm
    StormPartner,
    /// Helper process of the duty and short-lived phases
    Burst,
}

pub fn run(args: &SamplerArgs) -> Result<Value> {
    let mut document = match args.phase {
        Phase::Empty => paced(args, || 0)?,
        Phase::Unprivileged => unprivileged(args)?,
        Phase::Snapshot => snapshot(args)?,
        Phase::Events => events(args, BackendChoice::Bpf)?,
        Phase::PerfRing => events(args, BackendChoice::PerfRing)?,
        Phase::Duty => duty(args)?,
        Phase::ShortLived => short_lived()?,
        Phase::Storm => storm::run(args)?,
        Phase::StormRunner => return storm::runner(args.seconds),
        Phase::StormPartner => {
            storm::partner()?;
            return Ok(Value::Null);
        }
        Phase::Burst => return Ok(json!(burst(args.seconds))),
    };
    if let Some(peak) = own_usage().ok().and_then(|usage| usage.peak_working_set_bytes) {
        document["peak_resident_mb"] = json!(peak as f64 / 1e6);
    }
    // The memory of rings is not part of the process's resident memory.
    if let Some(memory_mb) = document["memory_mb"].as_f64() {
        document["memory_mb"] = json!(memory_mb + document["ring_mb"].as_f64().unwrap_or(0.0));
    }
    Ok(document)
}

/// Current anonymous and shared memory of this process, without the pages of the program file, which are shared and can be
/// dropped. Call it while sampling runs: its memory is freed afterwards.
fn own_memory_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let of = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok()).unwrap_or(0) * 1024
    };
    of("RssAnon:") + of("RssShmem:")
}

fn cpu_ns() -> u64 {
    own_usage().map_or(0, |usage| usage.cpu_time_ns)
}

/// Calls `turn` at the requested rate and adds up the returned row counts.
fn paced(args: &SamplerArgs, mut turn: impl FnMut() -> u64) -> Result<Value> {
    let period = Duration::from_secs_f64(1.0 / args.hertz);
    // The first turns open files and grow buffers.
    for _ in 0..3 {
        turn();
    }
    let (begin, cpu) = (Instant::now(), cpu_ns());
    let (mut due, mut samples, mut rows) = (begin, 0u64, 0u64);
    while begin.elapsed().as_secs_f64() < args.seconds {
        rows += turn();
        samples += 1;
        due += period;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    Ok(cost(begin, cpu, samples, rows))
}

fn cost(begin: Instant, cpu: u64, samples: u64, rows: u64) -> Value {
    let (seconds, used) = (begin.elapsed().as_secs_f64(), (cpu_ns() - cpu) as f64);
    json!({
        "us_per_sample": used / 1e3 / samples.max(1) as f64,
        "core_percent": used / 1e7 / seconds,
        "achieved_hertz": samples as f64 / seconds,
        "samples": samples,
        "rows": rows,
        "memory_mb": own_memory_bytes() as f64 / 1e6,
    })
}

/// Counts rows and discards them.
#[derive(Debug, Clone, Default)]
struct Counter(std::sync::Arc<std::sync::atomic::AtomicU64>);

impl Sink for Counter {
    fn name(&self) -> &str {
        "counter"
    }

    fn consume(&mut self, batch: &Batch) -> Result<(), SinkError> {
        if batch.table() == ortscope_core::schema::TableId::ProcessSamples {
            self.0.fetch_add(batch.len() as u64, std::sync::atomic::Ordering::Relaxed);
        }
        Ok(())
    }

    fn flush(&mut self, _deadline: Instant) -> Result<(), FlushError> {
        Ok(())
    }
}

/// The sampler as `attach` uses it, through the whole pipeline: CPU time and memory of every process, without privileges.
fn unprivileged(args: &SamplerArgs) -> Result<Value> {
    let mut options = SamplerOptions {
        targets: Targets { children_of: vec![args.parent], ..Targets::default() },
        system: false,
        ..SamplerOptions::default()
    };
    options.rates.cpu_hertz = args.hertz;
    options.rates.memory_hertz = args.hertz;
    (options.rates.io_hertz, options.rates.details_hertz, options.rates.network_hertz) = (None, None, None);
    options.rates.discovery_hertz = 1.0;
    // The rate must not adapt: the cost at this rate is the result.
    options.overhead_limit_percent = 100.0;
    let sampler = ProcessSampler::with_options(options)?;
    let handle = sampler.own_cost();
    let counter = Counter::default();
    let running = Pipeline::default().source(sampler).sink(counter.clone()).start()?;
    std::thread::sleep(Duration::from_millis(500));
    let (begin, cpu, before) = (Instant::now(), cpu_ns(), handle.get().ticks);
    std::thread::sleep(Duration::from_secs_f64(args.seconds));
    let ticks = handle.get().ticks.saturating_sub(before);
    let rows = counter.0.load(std::sync::atomic::Ordering::Relaxed);
    let mut document = cost(begin, cpu, (args.hertz * args.seconds) as u64, rows);
    document["ticks"] = json!(ticks);
    running.control().stop();
    running.join();
    Ok(document)
}

/// Reads all threads of the machine in one call and decodes those that ran since the previous call.
fn snapshot(args: &SamplerArgs) -> Result<Value> {
    let mut snapshot = ThreadSnapshot::open()?;
    let (mut changed, mut run_ns) = (0, 0u64);
    let mut document = paced(args, || {
        snapshot.refresh().ok();
        changed += snapshot.changed().len();
        let threads = snapshot.threads();
        run_ns = snapshot.changed().iter().fold(run_ns, |sum, number| {
            sum.wrapping_add(threads.get(*number as usize).map_or(0, |thread| thread.run_ns))
        });
        threads.len() as u64
    })?;
    document["threads"] = json!(snapshot.threads().len());
    document["changed"] = json!(changed);
    document["check"] = json!(run_ns);
    Ok(document)
}

/// Collects context switches, starts and exits of the whole machine: the exact CPU use of every thread per millisecond, and
/// ten times a second the memory of processes whose memory may have changed. The rings are drained 20 times a second.
fn events(args: &SamplerArgs, backend: BackendChoice) -> Result<Value> {
    let options = TraceOptions { backend, ..TraceOptions::default() };
    let mut watch = UsageWatch::open(&options, WINDOW, MEMORY_EVERY)?;
    let mut latencies: Vec<u64> = Vec::new();
    let (mut used_ns, mut pages) = (0, 0u64);
    let pace = SamplerArgs { hertz: 1.0 / DRAIN.as_secs_f64(), ..args.clone() };
    let mut document = paced(&pace, || {
        let mut windows = 0;
        let oldest_ns = watch.drain(
            &mut |window| {
                windows += 1;
                used_ns += window.used_ns;
            },
            &mut |memory| pages = pages.wrapping_add(memory.resident_bytes),
        );
        latencies.extend(oldest_ns.map(|oldest_ns| now_ns().saturating_sub(oldest_ns)));
        windows
    })?;
    latencies.sort_unstable();
    let latency_ms = |share: f64| {
        let index = (latencies.len() as f64 * share) as usize;
        latencies.get(index.min(latencies.len().saturating_sub(1))).map_or(0.0, |nanos| *nanos as f64 / 1e6)
    };
    let counts = watch.counts();
    document["events"] = json!(counts.events);
    document["lost"] = json!(counts.lost);
    document["recursion_misses"] = json!(counts.recursion_misses);
    document["ring_mb"] = json!(watch.ring_bytes() as f64 / 1e6);
    document["chain_breaks"] = json!(counts.chain_breaks);
    document["memory_reads"] = json!(counts.memory_reads);
    document["oldest_event_ms_p50"] = json!(latency_ms(0.5));
    document["oldest_event_ms_p99"] = json!(latency_ms(0.99));
    // Uses every value, so that no computation can be skipped.
    document["check"] = json!(used_ns ^ pages);
    Ok(document)
}

/// The process that the duty phase observes: bursts of 1 ms, 37 % of the time. Returns the ground truth: the time and its own
/// CPU time at the beginning of every burst.
fn burst(seconds: f64) -> Vec<(u64, u64)> {
    let begin = now_ns();
    let end = begin + (seconds * 1e9) as u64;
    let period = (1e6 / 0.37) as u64;
    let pause = period - 1_000_000;
    let mut next = begin;
    let mut stamps: Vec<(u64, u64)> = Vec::new();
    let mut clock = ortscope_sources::thread_cpu_clock();
    while now_ns() < end {
        // The clock is read before and after the CPU time, to detect a preemption in between.
        let before = now_ns();
        let used = clock();
        let after = now_ns();
        if let Some(used) = used.filter(|_| after - before < STAMP_NS) {
            stamps.push((before.midpoint(after), used));
        }
        let until = now_ns() + 1_000_000;
        while now_ns() < until {
            std::hint::spin_loop();
        }
        // Bursts missed during a stall of the machine are skipped: back to back they would be one long slice.
        let now = now_ns();
        next = (next + period).max(now + pause);
        std::thread::sleep(Duration::from_nanos(next - now));
    }
    stamps
}

/// A stamp that took longer was interrupted and is not exact.
const STAMP_NS: u64 = 3_000;

/// Measures how exactly events report the CPU use of a process, in windows of 10 ms between its own stamps.
fn duty(args: &SamplerArgs) -> Result<Value> {
    let mut trace = KernelTrace::open(&TraceOptions::default())?;
    let mut threads = Threads::new(Limits { horizon_ns: 600_000_000_000, ..Limits::default() });
    let child = Command::new(std::env::current_exe()?)
        .args(["sampler", "--phase", "burst", "--seconds", &args.seconds.to_string()])
        .stdout(std::process::Stdio::piped())
        .spawn()?;
    let pid = child.id();
    let begin = Instant::now();
    let mut samples: Vec<(u64, u64)> = Vec::new();
    while begin.elapsed().as_secs_f64() < args.seconds + 0.2 {
        trace.drain(&mut |event| threads.apply(&event));
        // Also polls a hundred times a second, for comparison.
        for _ in 0..5 {
            if let Ok(usage) = ortscope_sources::process_usage(pid) {
                samples.push((now_ns(), usage.cpu_time_ns));
            }
            std::thread::sleep(DRAIN / 5);
        }
    }
    let output = child.wait_with_output()?;
    trace.drain(&mut |event| threads.apply(&event));
    let ended = || threads.ended_processes().find(|process| process.pid == pid);
    let process = threads.process(pid).or_else(ended).context("the bursts were not seen")?;
    let stamps: Vec<(u64, u64)> = serde_json::from_slice(&output.stdout)?;
    let polled = |at_ns: u64| {
        let after = samples.partition_point(|(at, _)| *at <= at_ns);
        after.checked_sub(1).and_then(|before| samples.get(before)).map(|(_, used)| *used)
    };
    let (mut of_events, mut of_polls) = (Errors::default(), Errors::default());
    let mut first = 0;
    for (index, (to_ns, to_used)) in stamps.iter().enumerate() {
        let Some((from_ns, from_used)) = stamps.get(first) else { break };
        if to_ns - from_ns < 10_000_000 {
            continue;
        }
        let truth = to_used.saturating_sub(*from_used) as f64;
        let length = (to_ns - from_ns) as f64;
        of_events.add(threads.process_cpu_ns(process, *from_ns, *to_ns) as f64, truth, length);
        if let (Some(from), Some(to)) = (polled(*from_ns), polled(*to_ns)) {
            of_polls.add(to.saturating_sub(from) as f64, truth, length);
        }
        first = index;
    }
    Ok(json!({
        "windows": of_events.count, "rms_pp": of_events.rms(), "bias_percent": of_events.bias(),
        "polled_rms_pp": of_polls.rms(), "polled_bias_percent": of_polls.bias(), "stamps": stamps.len(),
    }))
}

/// Differences between reported and true CPU use, in percentage points of a core.
#[derive(Debug, Default)]
struct Errors {
    count: u64,
    squares: f64,
    reported: f64,
    truth: f64,
}

impl Errors {
    fn add(&mut self, reported: f64, truth: f64, length: f64) {
        let error = (reported - truth) / length * 100.0;
        self.count += 1;
        self.squares += error * error;
        self.reported += reported;
        self.truth += truth;
    }

    fn rms(&self) -> f64 {
        (self.squares / self.count.max(1) as f64).sqrt()
    }

    fn bias(&self) -> f64 {
        (self.reported / self.truth - 1.0) * 100.0
    }
}

/// Starts 500 processes that live a few milliseconds and counts those that were seen.
fn short_lived() -> Result<Value> {
    const PROCESSES: usize = 500;
    let mut trace = KernelTrace::open(&TraceOptions::default())?;
    let program = std::env::current_exe()?;
    let (mut started, mut ended) = (HashSet::new(), HashSet::new());
    let mut pids = HashSet::new();
    let mut polled = HashSet::new();
    let mut look = |event: KernelEvent| match event {
        KernelEvent::Start(start) if start.is_process() => {
            started.insert(start.thread.pid);
        }
        KernelEvent::Exit(exit) => {
            ended.insert(exit.thread.pid);
        }
        _ => {}
    };
    let mut next_poll = Instant::now();
    for number in 0..PROCESSES {
        let mut child = Command::new(&program)
            .args(["sampler", "--phase", "burst", "--seconds", "0.002"])
            .stdout(std::process::Stdio::null())
            .spawn()?;
        pids.insert(child.id());
        // Also polls a hundred times a second, for comparison.
        if Instant::now() >= next_poll {
            next_poll += Duration::from_millis(10);
            polled
                .extend(ortscope_sources::processes().unwrap_or_default().iter().map(|process| process.pid));
        }
        child.wait()?;
        if number % 20 == 0 {
            trace.drain(&mut look);
        }
    }
    std::thread::sleep(Duration::from_millis(100));
    let stats = trace.drain(&mut look);
    let seen = pids.iter().filter(|pid| started.contains(pid) && ended.contains(pid)).count();
    Ok(json!({
        "processes": PROCESSES, "seen": seen, "polled_at_100_hz": pids.intersection(&polled).count(), "lost": stats.lost,
    }))
}
