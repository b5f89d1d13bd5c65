//! Possible improvements of the graph itself.

use std::collections::{BTreeMap, BTreeSet};

use ortscope_core::schema::OperatorKind;

use super::{FindingContext, OperatorFinding, Severity, costliest, percent, share, types_of};
use crate::operators::fusion::{MissedFusion, MissedPattern};
use crate::operators::report::OperatorReport;

/// Nodes whose shapes change must take part in the time to matter.
const DYNAMIC_TIME: f64 = 0.05;
/// Quantizing and dequantizing between the operators of a quantized model should take almost no time.
const QUANTIZE_ADVICE: f64 = 0.05;
const QUANTIZE_WARNING: f64 = 0.2;
/// Missed fusions of nodes that take less than this are no loss worth a change.
const UNFUSED_TIME: f64 = 0.01;
/// A pattern that occurs this often points to the model's export, even if each instance is short.
const UNFUSED_PLACES: usize = 8;

/// Shapes that differ between runs: memory cannot be planned ahead, kernels are chosen anew.
pub(super) fn dynamic_shapes(report: &OperatorReport) -> Option<OperatorFinding> {
    let is_operator = |index: &usize| report.nodes[*index].kind == OperatorKind::Operator;
    let operators: Vec<usize> = (0..report.nodes.len()).filter(is_operator).collect();
    let changing: Vec<usize> =
        operators.iter().copied().filter(|index| report.nodes[*index].shape_variants > 1).collect();
    let time = share(report, &changing);
    if time < DYNAMIC_TIME {
        return None;
    }
    let most = changing.iter().map(|index| report.nodes[*index].shape_variants).max()?;
    Some(OperatorFinding {
        id: "dynamic-shapes".into(),
        severity: Severity::Advice,
        evidence: format!(
            "{} of {} nodes with {} of the time saw up to {most} different shapes in {} runs: {}",
            changing.len(),
            operators.len(),
            percent(time),
            report.runs,
            types_of(report, &changing)
        ),
        advice: "pad inputs to few sizes and fix the dimensions that do not change".to_owned(),
        nodes: costliest(report, changing),
    })
}

/// A quantized model that spends its time on conversions.
pub(super) fn quantize_islands(
    report: &OperatorReport,
    context: &FindingContext<'_>,
) -> Option<OperatorFinding> {
    let converting: Vec<usize> = (0..report.nodes.len())
        .filter(|index| {
            matches!(
                &*report.nodes[*index].op_type,
                "QuantizeLinear" | "DequantizeLinear" | "DynamicQuantizeLinear"
            )
        })
        .collect();
    let time = share(report, &converting);
    if time < QUANTIZE_ADVICE {
        return None;
    }
    let islands: Vec<&MissedFusion> =
        context.missed.iter().filter(|missed| missed.pattern == MissedPattern::QuantizedIsland).collect();
    let inner: BTreeSet<&str> = islands
        .iter()
        .flat_map(|island| &island.op_types)
        .map(|op_type| &**op_type)
        .filter(|op_type| !matches!(*op_type, "QuantizeLinear" | "DequantizeLinear"))
        .collect();
    let around = if islands.is_empty() {
        String::new()
    } else {
        let inner: Vec<&str> = inner.into_iter().collect();
        format!("; {} operators compute in float between them: {}", islands.len(), inner.join(", "))
    };
    Some(OperatorFinding {
        id: "quantize-islands".into(),
        severity: if time >= QUANTIZE_WARNING { Severity::Warning } else { Severity::Advice },
        evidence: format!(
            "{} nodes that only quantize or dequantize take {} of the time{around}",
            converting.len(),
            percent(time)
        ),
        advice: "quantize the operators between them too, or leave whole blocks in float".to_owned(),
        nodes: costliest(report, converting),
    })
}

/// One finding per unfused pattern in the optimized graph.
pub(super) fn unfused(report: &OperatorReport, context: &FindingContext<'_>) -> Vec<OperatorFinding> {
    let mut places: BTreeMap<MissedPattern, Vec<&MissedFusion>> = BTreeMap::new();
    // Islands have a finding of their own.
    for missed in context.missed.iter().filter(|missed| missed.pattern != MissedPattern::QuantizedIsland) {
        places.entry(missed.pattern).or_default().push(missed);
    }
    let by_name: BTreeMap<&str, usize> = report
        .nodes
        .iter()
        .enumerate()
        .filter(|(_, node)| node.kind == OperatorKind::Operator)
        .map(|(index, node)| (&*node.name, index))
        .collect();
    let mut found = Vec::new();
    for (pattern, places) in places {
        let nodes: BTreeSet<usize> = places
            .iter()
            .flat_map(|missed| &missed.nodes)
            .filter_map(|name| by_name.get(&**name).copied())
            .collect();
        let nodes: Vec<usize> = nodes.into_iter().collect();
        let time = share(report, &nodes);
        if time < UNFUSED_TIME && places.len() < UNFUSED_PLACES {
            continue;
        }
        let op_types: Vec<&str> = places[0].op_types.iter().map(|op_type| &**op_type).collect();
        found.push(OperatorFinding {
            id: "unfused-patterns".into(),
            severity: Severity::Advice,
            evidence: format!(
                "{} × {} not fused, {} of the time in the {} nodes that the profile names",
                places.len(),
                op_types.join(" + "),
                percent(time),
                nodes.len()
            ),
            advice: pattern.advice().to_owned(),
            nodes: costliest(report, nodes),
        });
    }
    found
}
