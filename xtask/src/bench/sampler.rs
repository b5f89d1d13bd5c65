//! What watching 104 processes with 300 threads costs: psutil and each way of ours on the same processes in the same run,
//! and how exact the event-driven one is.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::answer::{answer_of, number};
use super::{Figure, Goal, Report, Setting, median};
use crate::process::{capture, seconds};
use crate::run;

/// Rounds; every way is measured once in each.
const ROUNDS: usize = 5;
const ROUNDS_QUICK: usize = 1;
const SECONDS: f64 = 4.0;

/// The watched processes; they end when this is dropped.
struct Workload {
    child: Child,
    input: Option<ChildStdin>,
    pid: String,
}

impl Workload {
    fn start(setting: &Setting<'_>, processes: Option<u32>) -> Result<Self> {
        let mut command = setting.environment.script("sampler_workload.py");
        if let Some(processes) = processes {
            command.args(["--processes", &processes.to_string()]);
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take();
        let output = child.stdout.take().context("no output")?;
        let mut pid = String::new();
        BufReader::new(output).read_line(&mut pid)?;
        let pid = pid.trim().to_owned();
        if pid.is_empty() {
            bail!("the watched processes could not be started");
        }
        // All of them have to settle.
        std::thread::sleep(std::time::Duration::from_secs(2));
        Ok(Self { child, input, pid })
    }
}

impl Drop for Workload {
    fn drop(&mut self) {
        // The end of its input is the sign to end.
        if let Some(mut input) = self.input.take() {
            input.flush().ok();
        }
        self.child.wait().ok();
    }
}

/// A way of watching at a rate, and what every round said of it.
struct Way {
    name: &'static str,
    hertz: f64,
    answers: Vec<Value>,
}

impl Way {
    fn new(name: &'static str, hertz: f64) -> Self {
        Self { name, hertz, answers: Vec::new() }
    }

    fn median(&self, key: &str) -> Result<f64> {
        let numbers: Result<Vec<f64>> = self.answers.iter().map(|value| number(value, key)).collect();
        median(&numbers?).with_context(|| format!("{} was not measured", self.name))
    }
}

fn of<'a>(ways: &'a [Way], name: &str, hertz: f64) -> Result<&'a Way> {
    ways.iter().find(|way| way.name == name && way.hertz == hertz).context("no such way")
}

struct Measured {
    ways: Vec<Way>,
    /// psutil and the event-driven way with a thousand processes.
    thousand: [Value; 2],
    duty: Value,
    short_lived: Value,
    storm: Value,
}

fn measure(setting: &Setting<'_>) -> Result<Measured> {
    let program = run::build_benchmarks(&setting.environment.workspace)?;
    let sysinfo = build_sysinfo_peer(setting)?;
    let mut ways = vec![
        Way::new("psutil", 10.0),
        Way::new("psutil", 100.0),
        Way::new("psutil", 1000.0),
        Way::new("sysinfo", 10.0),
        Way::new("sysinfo", 100.0),
        Way::new("sysinfo", 1000.0),
        Way::new("empty", 100.0),
        Way::new("unprivileged", 10.0),
        Way::new("unprivileged", 100.0),
        Way::new("unprivileged", 1000.0),
        Way::new("snapshot", 10.0),
        Way::new("snapshot", 100.0),
        Way::new("snapshot", 1000.0),
        Way::new("events", 20.0),
        Way::new("perf-ring", 20.0),
    ];
    let one = |way: &str, hertz: f64, workload: &Workload| match way {
        "psutil" => psutil_at(setting, &workload.pid, hertz),
        "sysinfo" => {
            let mut command = Command::new(&sysinfo);
            answer_of(command.args([&hertz.to_string(), &SECONDS.to_string(), &workload.pid]))
        }
        way => ours(&program, way, hertz, SECONDS, &workload.pid),
    };
    let workload = Workload::start(setting, None)?;
    for round in 0..if setting.quick { ROUNDS_QUICK } else { ROUNDS } {
        let started = std::time::Instant::now();
        for way in &mut ways {
            way.answers.push(one(way.name, way.hertz, &workload)?);
        }
        eprintln!("  round {} … {}", round + 1, seconds(started.elapsed()));
    }
    drop(workload);
    let workload = Workload::start(setting, Some(1000))?;
    let thousand = [one("psutil", 100.0, &workload)?, one("events", 20.0, &workload)?];
    drop(workload);
    Ok(Measured {
        ways,
        thousand,
        duty: ours(&program, "duty", 20.0, 3.0, "1")?,
        short_lived: ours(&program, "short-lived", 20.0, 1.0, "1")?,
        storm: ours(&program, "storm", 20.0, 2.0, "1")?,
    })
}

pub(crate) fn run(setting: &Setting<'_>) -> Result<Report> {
    if !cfg!(target_os = "linux") {
        bail!("the ways that are compared here are Linux's");
    }
    let measured = measure(setting)?;
    let figures = figures(&measured)?;
    let Measured { ways, thousand, duty, short_lived, storm } = measured;
    let mut notes = vec![
        "watched: 100 processes that wake twice a second and 4 busy ones, 300 threads; medians of rounds".to_owned(),
        "CPU time per sample, percent of a core, rate that was reached; peers and ours give CPU use and memory of \
         each process, snapshot and events CPU use of every thread of the machine"
            .to_owned(),
    ];
    notes.extend(
        ways.iter().map(|way| format!("{} at {} Hz: {}", way.name, way.hertz, short_list(&way.answers))),
    );
    let [psutil, events] = &thousand;
    notes.push(format!("1000 processes, psutil: {psutil}"));
    notes.push(format!("1000 processes, events: {events}"));
    notes.push(format!("duty: {duty}"));
    notes.push(format!("short-lived: {short_lived}"));
    notes.push(format!("storm: {storm}"));
    let peer = |name: &str, hertz: f64, version: &str| -> Result<Value> {
        let way = of(&ways, name, hertz)?;
        let version = way.answers.first().map_or(Value::Null, |first| first[version].clone());
        Ok(json!({"version": version, "answers": way.answers}))
    };
    let peers = json!({
        "psutil": peer("psutil", 100.0, "psutil")?,
        "sysinfo": peer("sysinfo", 100.0, "sysinfo")?,
    });
    Ok(Report { figures, peers, notes })
}

fn figures(measured: &Measured) -> Result<Vec<Figure>> {
    let Measured { ways, thousand: [psutil_thousand, events_thousand], duty, short_lived, storm } = measured;
    let get = |name: &str, hertz: f64, key: &str| of(ways, name, hertz)?.median(key);
    let per_sample = "us_per_sample";
    let psutil = get("psutil", 100.0, per_sample)?;
    // What one second of watching costs, as psutil would need it for a hundred samples.
    let core_percent_of = |us_per_sample: f64| us_per_sample * 100.0 / 1e4;
    let events = get("events", 20.0, "core_percent")?;
    Ok(vec![
        Figure::new(
            "ratio_psutil_events",
            core_percent_of(psutil) / events,
            Goal::AtLeast(300.0),
            "CPU time of psutil at 100 Hz / ours for every context switch of the machine, exact CPU use of each thread per millisecond, ten times a second the memory of processes that ran and whose memory may have changed; ring drained at 20 Hz",
        ),
        Figure::new(
            "ratio_psutil_events_1000_processes",
            core_percent_of(number(psutil_thousand, per_sample)?) / number(events_thousand, "core_percent")?,
            Goal::AtLeast(1000.0),
            "the same with 1000 processes (psutil's time per sample as if it could be taken 100 times a second)",
        ),
        Figure::new(
            "ratio_psutil_snapshot",
            psutil / get("snapshot", 100.0, per_sample)?,
            Goal::AtLeast(100.0),
            "CPU time per sample of psutil / of one snapshot of all threads of the machine (those that ran since the one before are copied), both at 100 Hz",
        ),
        Figure::new(
            "ratio_psutil_unprivileged",
            psutil / get("unprivileged", 100.0, per_sample)?,
            Goal::AtLeast(25.0),
            "the same / of CPU time and memory of the same processes without any rights, through our whole pipeline",
        ),
        Figure::new(
            "ratio_sysinfo_events",
            core_percent_of(get("sysinfo", 100.0, per_sample)?) / events,
            Goal::Shown,
            "CPU time of the sysinfo crate at 100 Hz / ours event-driven",
        ),
        Figure::new(
            "ratio_sysinfo_unprivileged",
            get("sysinfo", 100.0, per_sample)? / get("unprivileged", 100.0, per_sample)?,
            Goal::Shown,
            "CPU time per sample of the sysinfo crate / ours without any rights, both at 100 Hz",
        ),
        Figure::new(
            "core_percent_100hz",
            events,
            Goal::AtMost(0.5),
            "percent of a core for 100 values a second of every process, event-driven, ring drained at 20 Hz",
        ),
        Figure::new(
            "snapshot_core_percent_100hz",
            get("snapshot", 100.0, "core_percent")?,
            Goal::Shown,
            "percent of a core for 100 snapshots a second",
        ),
        Figure::new(
            "unprivileged_core_percent_100hz",
            get("unprivileged", 100.0, "core_percent")?,
            Goal::AtMost(2.0),
            "percent of a core at 100 Hz without rights",
        ),
        Figure::new(
            "snapshot_core_percent_1000hz",
            get("snapshot", 1000.0, "core_percent")?,
            Goal::AtMost(5.0),
            "percent of a core for 1000 snapshots a second",
        ),
        Figure::new(
            "duty_rms_pp_10ms",
            number(duty, "rms_pp")?,
            Goal::AtMost(0.1),
            "error of 10 ms windows of a 37 % duty cycle of 1 ms bursts, in percentage points, against the kernel's own account",
        ),
        Figure::new(
            "duty_bias_percent",
            number(duty, "bias_percent")?,
            Goal::Shown,
            "mean error of the same",
        ),
        Figure::new(
            "duty_rms_pp_polled",
            number(duty, "polled_rms_pp")?,
            Goal::Shown,
            "error of the same windows by reading the process's CPU clock 100 times a second",
        ),
        Figure::new(
            "short_lived_seen",
            number(short_lived, "seen")?,
            Goal::AtLeast(500.0),
            "of 500 processes that live milliseconds, seen to start and to end",
        ),
        Figure::new(
            "short_lived_polled",
            number(short_lived, "polled_at_100_hz")?,
            Goal::Shown,
            "of these, seen by looking 100 times a second",
        ),
        Figure::new(
            "storm_lost",
            number(storm, "lost")? + number(storm, "recursion_misses")?,
            Goal::AtMost(0.0),
            "events lost in a storm of context switches of two processes",
        ),
        Figure::new(
            "storm_switches_per_s",
            number(storm, "switches_per_s")?,
            Goal::AtLeast(100_000.0),
            "switches a second in it",
        ),
        Figure::new(
            "added_ns_per_switch",
            number(storm, "added_ns_per_switch")?,
            Goal::Shown,
            "what watching adds to one context switch of the watched processes",
        ),
        Figure::new(
            "event_age_ms_p99",
            get("events", 20.0, "oldest_event_ms_p99")?,
            Goal::Shown,
            "age of the oldest event of a drain, 99 of 100 drains; the ring is drained every 50 ms",
        ),
        Figure::new(
            "monitor_memory_mb_10hz",
            get("unprivileged", 10.0, "memory_mb")?,
            Goal::AtMost(10.0),
            "anonymous and shared memory of the watching process at the end of watching at 10 Hz, rings included",
        ),
        Figure::new(
            "monitor_memory_mb",
            get("unprivileged", 100.0, "memory_mb")?.max(get("events", 20.0, "memory_mb")?),
            Goal::AtMost(20.0),
            "the same at 100 Hz, the larger of event-driven and without rights",
        ),
        Figure::new(
            "monitor_memory_mb_1000hz",
            get("unprivileged", 1000.0, "memory_mb")?.max(get("snapshot", 1000.0, "memory_mb")?),
            Goal::AtMost(50.0),
            "the same at 1000 Hz",
        ),
    ])
}

/// The peer is a program of its own, built when it is needed.
fn build_sysinfo_peer(setting: &Setting<'_>) -> Result<PathBuf> {
    let workspace = &setting.environment.workspace;
    let target = workspace.target.join("sysinfo-peer");
    let manifest = workspace.tool("sysinfo_peer").join("Cargo.toml");
    let mut command = workspace.cargo();
    command.args(["build", "--quiet", "--release", "--locked", "--manifest-path"]).arg(manifest);
    capture(command.arg("--target-dir").arg(&target))?;
    Ok(target.join("release/sysinfo_peer"))
}

/// CPU time per sample and percent of a core of each round.
fn short_list(answers: &[Value]) -> String {
    let shown = |answer: &Value| {
        let of = |key: &str| answer[key].as_f64().unwrap_or(f64::NAN);
        format!("{:.1} µs, {:.3} %, {:.0} Hz", of("us_per_sample"), of("core_percent"), of("achieved_hertz"))
    };
    answers.iter().map(shown).collect::<Vec<_>>().join("; ")
}

fn psutil_at(setting: &Setting<'_>, parent: &str, hertz: f64) -> Result<Value> {
    let mut command = setting.environment.script("psutil_peer.py");
    command.args(["--hertz", &hertz.to_string(), "--seconds", &SECONDS.to_string(), "--parent", parent]);
    answer_of(&mut command)
}

fn ours(program: &Path, phase: &str, hertz: f64, seconds: f64, parent: &str) -> Result<Value> {
    let mut command = Command::new(program);
    command.args(["sampler", "--phase", phase, "--hertz", &hertz.to_string()]);
    command.args(["--seconds", &seconds.to_string(), "--parent", parent]);
    answer_of(&mut command).with_context(|| format!("phase {phase}"))
}
