//! The effect of each graph optimization level: nodes, session creation time, latency.

use std::path::Path;
use std::time::Duration;

use ortscope_analyze::StopRule;
use ortscope_analyze::operators::fusion::compare_graphs;
use ortscope_decode::onnx::Graph;

use super::graph::{RunGraph, graph_facts};
use crate::interrupt::Interrupt;
use crate::measure;
use crate::measure::plan::{LevelsPlan, WorkerPlan};
use crate::measure::supervisor::{Assignment, supervise};
use crate::progress::Progress;
use ortscope_analyze::facts::{Fact, LevelMeasured, Scenario};
use ortscope_analyze::operators::section::LevelReport;
use ortscope_core::failure::Failure;
use ortscope_core::units;

/// Total time in which all levels are measured in turn, run by run.
const DURATION: Duration = Duration::from_secs(3);
/// Maximum model size, because all sessions are in memory at once.
const MAX_MODEL_BYTES: u64 = 1 << 30;

/// Measures all levels of one model.
pub fn measure_levels(
    plan: &WorkerPlan,
    original: &Graph,
    model_bytes: u64,
    interrupt: &Interrupt,
    progress: &mut dyn Progress,
) -> Result<Vec<LevelReport>, Failure> {
    if model_bytes > MAX_MODEL_BYTES {
        return Err(Failure::usage(format!(
            "levels are not measured for models above {}: all sessions would be in memory at once",
            units::bytes(MAX_MODEL_BYTES as f64)
        )));
    }
    let directory = measure::profile_directory()?;
    let channel = measure::channel_directory(false)?;
    let mut plan = plan.clone();
    plan.channel = channel.path().to_owned();
    plan.scenario = Scenario::Single;
    plan.sessions = 1;
    plan.levels = Some(LevelsPlan {
        directory: directory.path().to_owned(),
        duration_ns: u64::try_from(DURATION.as_nanos()).unwrap_or(u64::MAX),
    });
    let assignment = Assignment {
        plan: &plan,
        model_name: "",
        rule: &StopRule::for_runs(u64::MAX),
        sampling_hertz: 1.0,
        kernel: false,
        stage: Some("measuring levels of optimisation"),
        recording: None,
    };
    let outcome = supervise(&assignment, interrupt, progress)?;
    let measured = outcome.collected.facts.into_iter().find_map(|message| match message {
        Fact::Levels { levels } => Some(levels),
        _ => None,
    });
    match measured {
        Some(levels) => Ok(report(levels, original)),
        None => Err(outcome.failure.unwrap_or_else(|| Failure::internal("no level was measured"))),
    }
}

fn report(levels: Vec<LevelMeasured>, original: &Graph) -> Vec<LevelReport> {
    let before = graph_facts(original);
    let mut known: Vec<String> = Vec::new();
    let mut reports: Vec<LevelReport> = Vec::new();
    for mut level in levels {
        let graph = level.model.as_deref().and_then(read);
        let patterns: Vec<String> = graph
            .as_ref()
            .map(|graph| compare_graphs(&before, &graph.facts()).patterns.into_keys().collect())
            .unwrap_or_default();
        let new_patterns = patterns.iter().filter(|pattern| !known.contains(pattern)).cloned().collect();
        known.extend(patterns);
        level.run_ns.sort_unstable();
        let middle = level.run_ns.len().checked_sub(1).map(|last| last / 2);
        let median_ms = middle.and_then(|middle| level.run_ns.get(middle)).map(|nanos| *nanos as f64 / 1e6);
        let none_ms = match reports.first() {
            Some(none) => none.median_ms,
            None => median_ms,
        };
        reports.push(LevelReport {
            level: level.level,
            nodes: graph.as_ref().map(RunGraph::node_count),
            session_ms: level.session_ns.map(|nanos| nanos as f64 / 1e6),
            runs: level.run_ns.len() as u64,
            median_ms,
            ratio_to_none: median_ms.zip(none_ms).map(|(median, none)| median / none),
            new_patterns,
            failure: level.failure,
        });
    }
    reports
}

fn read(path: &Path) -> Option<RunGraph> {
    RunGraph::read(path).ok()
}
