//! What watching 104 processes with 300 threads costs: psutil and each way of ours on the same processes in the same run,
//! and how exact the event-driven one is.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

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
    fn start(setting: &Setting<'_>) -> Result<Self> {
        let mut command = setting.environment.script("sampler_workload.py");
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

pub(crate) fn run(setting: &Setting<'_>) -> Result<Report> {
    if !cfg!(target_os = "linux") {
        bail!("the ways that are compared here are Linux's");
    }
    let program = run::build_program(&setting.environment.workspace)?;
    let workload = Workload::start(setting)?;
    let rounds = if setting.quick { ROUNDS_QUICK } else { ROUNDS };
    let mut psutil = Vec::new();
    let mut ways: Vec<(&str, f64, Vec<Value>)> = vec![
        ("empty", 100.0, Vec::new()),
        ("unprivileged", 10.0, Vec::new()),
        ("unprivileged", 100.0, Vec::new()),
        ("unprivileged", 1000.0, Vec::new()),
        ("snapshot", 100.0, Vec::new()),
        ("snapshot", 1000.0, Vec::new()),
        ("events", 20.0, Vec::new()),
        ("perf-ring", 20.0, Vec::new()),
    ];
    for round in 0..rounds {
        let started = std::time::Instant::now();
        psutil.push(psutil_at(setting, &workload.pid, 100.0)?);
        for (way, hertz, answers) in &mut ways {
            answers.push(ours(&program, way, *hertz, SECONDS, &workload.pid)?);
        }
        eprintln!("  round {} … {}", round + 1, seconds(started.elapsed()));
    }
    drop(workload);
    let duty = ours(&program, "duty", 20.0, 3.0, "1")?;
    let short = ours(&program, "short-lived", 20.0, 1.0, "1")?;
    let storm = ours(&program, "storm", 20.0, 3.0, "1")?;

    let best = |values: &[Value], key: &str| -> Result<f64> {
        let numbers: Result<Vec<f64>> = values.iter().map(|value| number(value, key)).collect();
        median(&numbers?).context("no round")
    };
    let of = |name: &str, hertz: f64, key: &str| -> Result<f64> {
        let found = ways.iter().find(|(way, at, _)| *way == name && *at == hertz).context("no such way")?;
        best(&found.2, key)
    };
    // What one second of watching costs, as psutil would need it for a hundred samples.
    let psutil_core = best(&psutil, "us_per_sample")? * 100.0 / 1e4;
    let figure = |key, value, goal, meaning| Figure { key, value, goal, meaning };
    let figures = vec![
        figure(
            "ratio_psutil_events",
            psutil_core / of("events", 20.0, "core_percent")?,
            Goal::AtLeast(300.0),
            "CPU time of psutil at 100 Hz / ours for every context switch of the machine, 1 ms per thread, ring drained at 20 Hz",
        ),
        figure(
            "ratio_psutil_snapshot",
            best(&psutil, "us_per_sample")? / of("snapshot", 100.0, "us_per_sample")?,
            Goal::AtLeast(100.0),
            "CPU time per sample of psutil / of one snapshot of all threads of the machine, both at 100 Hz",
        ),
        figure(
            "ratio_psutil_unprivileged",
            best(&psutil, "us_per_sample")? / of("unprivileged", 100.0, "us_per_sample")?,
            Goal::AtLeast(25.0),
            "the same / of CPU time and memory of the same processes without any rights, through our whole pipeline",
        ),
        figure(
            "core_percent_100hz",
            of("unprivileged", 100.0, "core_percent")?.min(of("snapshot", 100.0, "core_percent")?),
            Goal::AtMost(0.5),
            "percent of a core at 100 Hz, the cheapest way that samples",
        ),
        figure(
            "unprivileged_core_percent_100hz",
            of("unprivileged", 100.0, "core_percent")?,
            Goal::Shown,
            "the same without rights",
        ),
        figure(
            "events_core_percent",
            of("events", 20.0, "core_percent")?,
            Goal::Shown,
            "the same event-driven",
        ),
        figure(
            "duty_rms_pp_10ms",
            number(&duty, "rms_pp")?,
            Goal::AtMost(0.1),
            "error of 10 ms windows of a 37 % duty cycle of 1 ms bursts, in percentage points, against the kernel's own account",
        ),
        figure(
            "short_lived_seen",
            number(&short, "seen")?,
            Goal::AtLeast(500.0),
            "of 500 processes that live milliseconds, seen to start and to end",
        ),
        figure(
            "short_lived_polled",
            number(&short, "polled_at_100_hz")?,
            Goal::Shown,
            "of these, seen by looking 100 times a second",
        ),
        figure(
            "storm_lost",
            number(&storm, "lost")?,
            Goal::AtMost(0.0),
            "events lost in a storm of context switches",
        ),
        figure(
            "storm_switches_per_s",
            number(&storm, "switches_per_s")?,
            Goal::Shown,
            "switches a second in it",
        ),
        figure(
            "monitor_memory_mb",
            of("unprivileged", 100.0, "peak_memory_mb")?.max(of("events", 20.0, "peak_memory_mb")?),
            Goal::AtMost(20.0),
            "highest resident memory of the watching process at 100 Hz, rings included",
        ),
    ];
    let mut notes = vec![
        "watched: 100 processes that wake twice a second and 4 busy ones, 300 threads; medians of rounds"
            .to_owned(),
        format!("psutil at 100 Hz: {}", short_list(&psutil)),
    ];
    for (way, hertz, answers) in &ways {
        notes.push(format!("{way} at {hertz} Hz: {}", short_list(answers)));
    }
    notes.push(format!("duty: {duty}"));
    notes.push(format!("short-lived: {short}"));
    notes.push(format!("storm: {storm}"));
    let version = psutil.first().map_or(Value::Null, |first| first["psutil"].clone());
    Ok(Report { figures, peers: json!({"psutil": {"version": version, "answers": psutil}}), notes })
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
    json_of(&mut command)
}

fn ours(program: &Path, phase: &str, hertz: f64, seconds: f64, parent: &str) -> Result<Value> {
    let mut command = Command::new(program);
    command.args(["bench-sampler", "--phase", phase, "--hertz", &hertz.to_string()]);
    command.args(["--seconds", &seconds.to_string(), "--parent", parent]);
    json_of(&mut command).with_context(|| format!("phase {phase}"))
}

fn json_of(command: &mut Command) -> Result<Value> {
    let answer = capture(command)?;
    serde_json::from_str(&answer).with_context(|| format!("no JSON: {answer}"))
}

fn number(value: &Value, key: &str) -> Result<f64> {
    value[key].as_f64().with_context(|| format!("no {key} in {value}"))
}
