//! What a user should act on, each with its evidence, advice and a command to try.

use ortscope_analyze::facts::Scenario;
use ortscope_analyze::leak::LeakVerdict;
use ortscope_analyze::open_loop::OpenLoopVerdict;
use ortscope_analyze::operators::OperatorFinding;
use ortscope_analyze::outputs::OutputVerdict;
use ortscope_analyze::stability::Verdict;
use ortscope_core::message::essence;
use ortscope_core::units::{self, provider};

use super::RunResult;
use crate::{FindingReport as Finding, Severity};

/// All findings, the gravest first.
pub fn find(result: &RunResult) -> Vec<Finding> {
    let mut findings: Vec<Finding> = [
        wrong_answers,
        throttled,
        fallback,
        provider_runs_nothing,
        simulated,
        lost_records,
        overloaded,
        unsteady,
        outliers_matter,
        slow_first_run,
        leak,
        fragmented_arena,
        growing_memory,
    ]
    .iter()
    .filter_map(|check| check(result))
    .collect();
    findings.sort_by_key(|finding| finding.severity);
    findings
}

/// Latencies of a clock that heat or power held down are not those of the model.
fn throttled(result: &RunResult) -> Option<Finding> {
    let (severity, devices) = (Severity::Warning, result.held_down());
    (!devices.is_empty()).then(|| Finding {
        id: "throttled".into(),
        severity,
        evidence: format!("the clock was held down during the measurement: {}", devices.join("; ")),
        advice: "let the machine cool down, or raise its power limit, and measure again; compare only runs without it".into(),
        command: command(result, "--duration 10s"),
    })
}

/// A finding of the operators, with a command to try.
pub fn of_operators(result: &RunResult, finding: &OperatorFinding) -> Finding {
    let flags = match &*finding.id {
        "cpu-fallback" => Some("--provider cpu"),
        "oversubscribed-threads" => Some("--sweep threads=1,2,4"),
        "batch-too-small" | "memory-bound" => Some("--batch 1,2,4,8"),
        "unattributed-time" => Some("--duration 30s"),
        id if id.starts_with("unfused") => Some("--profile full"),
        _ => None,
    };
    Finding {
        id: finding.id.to_string(),
        severity: finding.severity,
        evidence: finding.evidence.clone(),
        advice: finding.advice.clone(),
        command: flags.and_then(|flags| command(result, flags)),
    }
}

fn command(result: &RunResult, flags: &str) -> Option<String> {
    Some(format!("ortscope run {} {flags}", result.model_path.display()))
}

fn wrong_answers(result: &RunResult) -> Option<Finding> {
    let checked = result.outputs_checked.as_ref()?;
    let worst =
        checked.outputs.iter().find(|output| output.comparison.verdict == OutputVerdict::Different)?;
    Some(Finding {
        id: "outputs-differ".into(),
        severity: Severity::Error,
        evidence: format!(
            "output '{}' differs from the {}: {}",
            worst.name, checked.reference, worst.comparison.sentence
        ),
        advice: "do not trust the speed of answers that are wrong; report it to the provider's authors"
            .into(),
        command: command(result, "--provider cpu"),
    })
}

fn fallback(result: &RunResult) -> Option<Finding> {
    let placement = result.placement.as_ref()?;
    let fallen = placement.fallbacks.first()?;
    Some(Finding {
        id: "provider-fallback".into(),
        severity: Severity::Error,
        evidence: format!(
            "{} was asked for but is not used: {}",
            fallen.provider,
            units::clean(&essence(&fallen.reason), 300)
        ),
        advice: "these figures are of another provider; install what it needs, or ask for the one you want"
            .into(),
        command: Some("ortscope doctor".into()),
    })
}

/// The most repeated surprise of ONNX Runtime: the session has the provider, and not one node runs on it.
fn provider_runs_nothing(result: &RunResult) -> Option<Finding> {
    const CPU: &str = "CPUExecutionProvider";
    let placement = result.placement.as_ref().filter(|placement| !placement.nodes.is_empty())?;
    let runs = |provider: &&String| placement.nodes.iter().any(|of| of.provider == **provider);
    let idle = placement.providers.iter().find(|provider| *provider != CPU && !runs(provider))?;
    let total: u64 = placement.nodes.iter().map(|of| of.nodes).sum();
    Some(Finding {
        id: "provider-runs-nothing".into(),
        severity: Severity::Error,
        evidence: format!("{idle} is in the session but runs none of the {}", units::counted(total, "node")),
        advice: "these figures are of another provider; its log may say why".into(),
        command: command(result, "-v --json"),
    })
}

/// QNN's package for a PC computes on the CPU what an NPU would.
fn simulated(result: &RunResult) -> Option<Finding> {
    let device = result.placement.as_ref()?.devices.iter().find(|device| device.is_simulated)?;
    Some(Finding {
        id: "simulated-device".into(),
        severity: Severity::Warning,
        evidence: format!(
            "there is no {} here: {} simulates one on the CPU",
            device.class,
            provider(&device.provider)
        ),
        advice: "placement, answers and cycles are those of the device; times are not: measure them on one"
            .into(),
        command: None,
    })
}

fn lost_records(result: &RunResult) -> Option<Finding> {
    let lost: u64 = result.losses.iter().map(|loss| loss.count).sum();
    (lost > 0).then(|| Finding {
        id: "records-lost".into(),
        severity: Severity::Error,
        evidence: result
            .losses
            .iter()
            .map(|loss| format!("{} {} lost at {}", units::count(loss.count), loss.kind, loss.place))
            .collect::<Vec<_>>()
            .join(", "),
        advice: "the machine was too busy to record everything; measure again with less beside it".into(),
        command: None,
    })
}

fn overloaded(result: &RunResult) -> Option<Finding> {
    let server = result.server.as_ref()?;
    let OpenLoopVerdict::CannotKeepUp { .. } = server.verdict else {
        return None;
    };
    let achieved = server.achieved_per_second.unwrap_or(0.0);
    Some(Finding {
        id: "cannot-keep-up".into(),
        severity: Severity::Error,
        evidence: format!(
            "{} requests/s were planned, {} were served, the queue grew to {}, and {} requests never started",
            units::digits(server.target_per_second),
            units::digits(achieved),
            units::count(server.queue_depth_max.unwrap_or(0)),
            units::count(server.unserved.unwrap_or(0))
        ),
        advice: "latency grows without end at this rate; offer less, or make the model faster".into(),
        command: command(result, &format!("--scenario server:{:.0}", (achieved * 0.7).max(1.0))),
    })
}

fn unsteady(result: &RunResult) -> Option<Finding> {
    let stability = &result.latency.as_ref()?.inference.stability;
    (stability.verdict == Verdict::NoSteadyState).then(|| Finding {
        id: "no-steady-state".into(),
        severity: Severity::Warning,
        evidence: stability.reason.clone(),
        advice:
            "one number does not describe this; measure longer, and look for heat, clocks and other programs"
                .into(),
        command: command(result, "--duration 60s"),
    })
}

fn outliers_matter(result: &RunResult) -> Option<Finding> {
    let outliers = &result.latency.as_ref()?.inference.outliers;
    outliers.change_result.then(|| Finding {
        id: "outliers-matter".into(),
        severity: Severity::Warning,
        evidence: format!(
            "{} outliers ({}) take {} of the time; {}",
            units::count(outliers.count as u64),
            units::percent(outliers.share),
            units::percent(outliers.share_of_time),
            outliers.note
        ),
        advice: "look at p99 and at what else runs on this machine; nothing was removed".into(),
        command: None,
    })
}

fn slow_first_run(result: &RunResult) -> Option<Finding> {
    let first = result.cold.first_run_ms?;
    let usual = result.latency.as_ref()?.end_to_end.median_ms;
    (first > 10.0 * usual && first - usual > 50.0).then(|| Finding {
        id: "slow-first-run".into(),
        severity: Severity::Advice,
        evidence: format!(
            "the first run took {} ms, {}× a usual one",
            units::digits(first),
            units::digits(first / usual)
        ),
        advice:
            "run the model once before you serve; providers compile in the first run, and some can cache it"
                .into(),
        command: None,
    })
}

fn leak(result: &RunResult) -> Option<Finding> {
    let report = result.leak.as_ref().filter(|report| report.verdict == LeakVerdict::Leak)?;
    Some(Finding {
        id: "memory-leak".into(),
        severity: Severity::Error,
        evidence: report.sentence.clone(),
        advice:
            "memory is lost with every inference: try another version of the provider, and without the arena"
                .into(),
        command: command(result, "--soak 5m --no-arena"),
    })
}

fn fragmented_arena(result: &RunResult) -> Option<Finding> {
    let leak = result.leak.as_ref()?;
    let arena = leak.fragmentation.as_ref().filter(|arena| arena.grows)?;
    Some(Finding {
        id: "arena-fragmentation".into(),
        severity: Severity::Warning,
        evidence: format!(
            "of {} that the arena holds {} lie idle, {} when it had settled: it grew by more than is needed",
            units::bytes(arena.reserved_bytes as f64),
            units::percent(arena.unused_share_end),
            units::percent(arena.unused_share_begin)
        ),
        advice: "sizes that change from run to run leave gaps: fix the shapes, or let the arena shrink after a run \
                 (memory.enable_memory_arena_shrinkage)"
            .into(),
        command: command(result, "--soak 5m --no-arena"),
    })
}

/// For runs that nobody meant as a soak, which judges the same with bounds.
fn growing_memory(result: &RunResult) -> Option<Finding> {
    if result.leak.as_ref().is_some_and(|leak| leak.verdict != LeakVerdict::TooShort) {
        return None;
    }
    let growth = result.memory.growth_per_inference_bytes?;
    let runs = result.measured_runs() as f64;
    let offline = matches!(result.scenario, Scenario::Offline { .. });
    (growth * runs > 32e6 && growth > 64.0 && !offline).then(|| Finding {
        id: "memory-grows".into(),
        severity: Severity::Warning,
        evidence: format!(
            "memory grew by {} per inference over the second half of the runs",
            units::bytes(growth)
        ),
        advice: "if it goes on growing in a longer run, something keeps memory per inference".into(),
        command: command(result, "--duration 2m"),
    })
}
