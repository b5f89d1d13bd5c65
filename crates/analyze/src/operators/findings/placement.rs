//! Who runs what, and what moving costs.

use ortscope_core::schema::OperatorKind;

use super::{
    CPU, FindingContext, OperatorFinding, Severity, costliest, megabytes, milliseconds, percent, share,
    types_of,
};
use crate::operators::report::OperatorReport;

/// Runtimes leave the arithmetic of shapes on the CPU on purpose; it takes well below a percent of the time.
const FALLBACK_ADVICE_TIME: f64 = 0.01;
/// From here on the fallback has a noticeable cost.
const FALLBACK_WARNING_TIME: f64 = 0.05;
/// So many nodes elsewhere mean many changes of provider even if each is short.
const FALLBACK_ADVICE_NODES: f64 = 0.1;
/// A compiled subgraph is one node, so the single nodes at its ends are many but cost nothing.
const FALLBACK_NODES_TIME: f64 = 0.001;
/// Copies below this share of the time are not worth a change.
const COPIES_ADVICE: f64 = 0.02;
const COPIES_WARNING: f64 = 0.1;
/// A megabyte takes about 0.1 ms over PCI Express with its latency; several such changes a run add up.
const CARRIED_ADVICE_BYTES: u64 = 1_000_000;

/// Another provider was requested, but nodes run on the CPU.
pub(super) fn cpu_fallback(report: &OperatorReport, context: &FindingContext<'_>) -> Option<OperatorFinding> {
    let wanted: Vec<&str> =
        context.requested_providers.iter().map(|name| &**name).filter(|name| *name != CPU).collect();
    let first = *wanted.first()?;
    let operators: Vec<usize> =
        (0..report.nodes.len()).filter(|index| report.nodes[*index].kind == OperatorKind::Operator).collect();
    let on_cpu: Vec<usize> =
        operators.iter().copied().filter(|index| &*report.nodes[*index].provider == CPU).collect();
    if on_cpu.is_empty() {
        return None;
    }
    let (time, nodes) = (share(report, &on_cpu), on_cpu.len() as f64 / operators.len() as f64);
    let severity = if on_cpu.len() == operators.len() {
        Severity::Error
    } else if time >= FALLBACK_WARNING_TIME {
        Severity::Warning
    } else if time >= FALLBACK_ADVICE_TIME || (nodes >= FALLBACK_ADVICE_NODES && time >= FALLBACK_NODES_TIME)
    {
        Severity::Advice
    } else {
        return None;
    };
    Some(OperatorFinding {
        id: "cpu-fallback".into(),
        severity,
        evidence: format!(
            "{} of {} nodes run on {first}, {} on the CPU with {} of the time: {}",
            operators.iter().filter(|index| wanted.contains(&&*report.nodes[**index].provider)).count(),
            operators.len(),
            on_cpu.len(),
            percent(time),
            types_of(report, &on_cpu)
        ),
        advice: if context.has_open_sizes && nodes > 0.5 {
            format!(
                "the model leaves sizes of its inputs open, and providers that compile for a device often take only fixed \
                 ones: fix them in the model for {first}, then look at the operators again"
            )
        } else if severity == Severity::Error {
            format!("check that {first} is installed and supports the model's operators, types and opset")
        } else {
            format!(
                "replace or rewrite these operators with ones that {first} supports, or use another opset or type"
            )
        },
        nodes: costliest(report, on_cpu),
    })
}

/// Data travels between providers.
pub(super) fn provider_copies(
    report: &OperatorReport,
    context: &FindingContext<'_>,
) -> Option<OperatorFinding> {
    let transitions = context.transitions?;
    let copies = &transitions.copies;
    let carried = transitions.pairs.iter().map(|pair| pair.bytes).fold(0, u64::saturating_add);
    let severity = if copies.share >= COPIES_WARNING {
        Severity::Warning
    } else if copies.share >= COPIES_ADVICE
        || (transitions.transitions.len() > 1 && carried >= CARRIED_ADVICE_BYTES)
    {
        Severity::Advice
    } else {
        return None;
    };
    let changes: Vec<String> = transitions
        .pairs
        .iter()
        .map(|pair| {
            format!("{} × {} → {} ({})", pair.count, pair.from, pair.to, megabytes(pair.bytes as f64))
        })
        .collect();
    let changes = if changes.is_empty() { "no change of provider".to_owned() } else { changes.join(", ") };
    let copy_nodes = (0..report.nodes.len()).filter(|index| report.nodes[*index].kind == OperatorKind::Copy);
    let at_changes = transitions.transitions.iter().map(|transition| transition.to_node);
    Some(OperatorFinding {
        id: "provider-copies".into(),
        severity,
        evidence: format!(
            "{:.0} copies per run take {} ({} of the run); per run {changes}",
            copies.calls_per_run,
            milliseconds(copies.ns_per_run),
            percent(copies.share),
        ),
        advice: "keep neighboring operators on one provider, and bind inputs and outputs to the device"
            .to_owned(),
        nodes: costliest(report, copy_nodes.chain(at_changes)),
    })
}
