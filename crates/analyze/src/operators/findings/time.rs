//! Time that no operator explains, threads that get in each other's way, the first run.

use super::{FindingContext, OperatorFinding, Severity, milliseconds, percent};
use crate::operators::report::OperatorReport;

/// Cost of the profiler per executed node between the operators; 5 to 8 µs were measured from 1.15 to 1.31.
const PROFILER_NS_PER_CALL: f64 = 5_000.0;
/// Less than this is the ordinary cost of a call.
const UNATTRIBUTED_ADVICE: f64 = 0.2;
/// Half of the time unexplained means that the operators are not where to look.
const UNATTRIBUTED_WARNING: f64 = 0.5;
/// Below this the remainder is the call itself: shares of very short runs are meaningless.
const UNATTRIBUTED_MIN_NS: f64 = 100_000.0;
/// A first run that prepares kernels takes several times as long; twice may be chance.
const SLOW_FIRST_RATIO: f64 = 3.0;
/// Smaller differences do not matter.
const SLOW_FIRST_MIN_NS: f64 = 5_000_000.0;

pub(super) fn unattributed(report: &OperatorReport) -> Option<OperatorFinding> {
    let runs = report.runs as f64;
    let run_ns = report.time.run_ns as f64 / runs;
    let remainder_ns = report.time.remainder_ns() as f64 / runs;
    // The profiler's own work falls between the operators: it is not the model's.
    let calls: f64 = report.nodes.iter().map(|node| node.calls_per_run).sum();
    let profiler_ns = match report.observer_factor {
        Some(factor) => run_ns * (1.0 - 1.0 / factor.max(1.0)),
        None => calls * PROFILER_NS_PER_CALL,
    };
    let unexplained_ns = (remainder_ns - profiler_ns).max(0.0);
    let share = if run_ns > 0.0 { unexplained_ns / run_ns } else { 0.0 };
    if share < UNATTRIBUTED_ADVICE || unexplained_ns < UNATTRIBUTED_MIN_NS {
        return None;
    }
    Some(OperatorFinding {
        id: "unattributed-time".into(),
        severity: if share >= UNATTRIBUTED_WARNING { Severity::Warning } else { Severity::Advice },
        evidence: format!(
            "{} of {} per run ({}) belong to no operator: {} between operators, {} outside of the executor; {} of it are \
             taken off for the profiler itself",
            milliseconds(unexplained_ns),
            milliseconds(run_ns),
            percent(share),
            milliseconds(report.time.between_operators_ns as f64 / runs),
            milliseconds(report.time.outside_executor_ns as f64 / runs),
            milliseconds(profiler_ns.min(remainder_ns)),
        ),
        advice: "on a GPU or NPU this is waiting for the device: look at the device's own profile; on the CPU look for \
                 other load, paging and the copying of inputs and outputs"
            .to_owned(),
        nodes: Vec::new(),
    })
}

pub(super) fn oversubscribed_threads(
    report: &OperatorReport,
    context: &FindingContext<'_>,
) -> Option<OperatorFinding> {
    let threads = context.threads?;
    let product = [threads.intra_op.max(1), threads.inter_op.max(1), threads.concurrent_runs.max(1)]
        .into_iter()
        .fold(1u64, u64::saturating_mul);
    if threads.processors == 0 || product <= threads.processors {
        return None;
    }
    Some(OperatorFinding {
        id: "oversubscribed-threads".into(),
        severity: Severity::Warning,
        evidence: format!(
            "{product} threads ({} per operator × {} operators × {} runs) compete for {} processors; {:.2} operators run \
             at once on average",
            threads.intra_op.max(1),
            threads.inter_op.max(1),
            threads.concurrent_runs.max(1),
            threads.processors,
            report.parallelism.mean_concurrency,
        ),
        advice: format!(
            "use at most {} threads in all: fewer threads per operator, or fewer runs side by side",
            threads.processors
        ),
        nodes: Vec::new(),
    })
}

pub(super) fn slow_first_run(report: &OperatorReport) -> Option<OperatorFinding> {
    // Without later runs there is nothing to compare with.
    if report.warm_up_runs == 0 {
        return None;
    }
    let (first_ns, median_ns) = (report.first_run_ns? as f64, report.run.median_ns as f64);
    if median_ns == 0.0 || first_ns < median_ns * SLOW_FIRST_RATIO || first_ns - median_ns < SLOW_FIRST_MIN_NS
    {
        return None;
    }
    Some(OperatorFinding {
        id: "slow-first-run".into(),
        severity: Severity::Advice,
        evidence: format!(
            "the first run took {}, {:.1} times the median of the others ({})",
            milliseconds(first_ns),
            first_ns / median_ns,
            milliseconds(median_ns)
        ),
        advice: "run once before serving requests, or save the provider's compiled context".to_owned(),
        nodes: Vec::new(),
    })
}
