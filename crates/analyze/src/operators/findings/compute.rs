//! How well the machine is used by the operators themselves.

use super::{FindingContext, OperatorFinding, Severity, costliest, percent, share, types_of};
use crate::operators::report::{NodeStatistics, OperatorReport};
use crate::operators::roofline::Bound;
use crate::operators::shapes::parse_shapes;

/// Some operators are always bound by memory; when they take this much of the time, moving less is what helps.
const MEMORY_BOUND_TIME: f64 = 0.3;
/// A product with so few rows reads every weight for that few MACs.
const FEW_ROWS: u64 = 4;
/// Below this, faster products would not change the latency by what can be measured.
const FEW_ROWS_TIME: f64 = 0.2;

const PRODUCTS: &[&str] = &[
    "MatMul",
    "Gemm",
    "FusedMatMul",
    "FusedGemm",
    "MatMulNBits",
    "MatMulBnb4",
    "QGemm",
    "QLinearMatMul",
    "DynamicQuantizeMatMul",
    "MatMulInteger",
    "MatMulIntegerToFloat",
];

pub(super) fn memory_bound(report: &OperatorReport, context: &FindingContext<'_>) -> Option<OperatorFinding> {
    let roofline = context.roofline?;
    let bound: Vec<_> = roofline.points.iter().filter(|point| point.bound == Bound::Memory).collect();
    let nodes: Vec<usize> = bound.iter().map(|point| point.node).collect();
    let time = share(report, &nodes);
    if time < MEMORY_BOUND_TIME {
        return None;
    }
    let mut intensities: Vec<f64> = bound.iter().map(|point| point.intensity).collect();
    intensities.sort_by(f64::total_cmp);
    let median = intensities.get(intensities.len() / 2)?;
    Some(OperatorFinding {
        id: "memory-bound".into(),
        severity: Severity::Advice,
        evidence: format!(
            "{} operators with {} of the time are bound by memory: {median:.1} FLOP per byte in the median, the machine \
             needs {:.1}; {}",
            nodes.len(),
            percent(time),
            roofline.peaks.ridge(),
            types_of(report, &nodes)
        ),
        advice: "move less: smaller types, fused operators, larger batches; more threads will not help"
            .to_owned(),
        nodes: costliest(report, nodes),
    })
}

pub(super) fn batch_too_small(report: &OperatorReport) -> Option<OperatorFinding> {
    let few: Vec<(usize, u64)> = report
        .nodes
        .iter()
        .enumerate()
        .filter(|(_, node)| PRODUCTS.contains(&&*node.op_type))
        .filter_map(|(index, node)| Some((index, rows(node).filter(|rows| *rows <= FEW_ROWS)?)))
        .collect();
    let nodes: Vec<usize> = few.iter().map(|(index, _)| *index).collect();
    let time = share(report, &nodes);
    if time < FEW_ROWS_TIME {
        return None;
    }
    let most = few.iter().map(|(_, rows)| *rows).max()?;
    let intensities: Vec<f64> = nodes
        .iter()
        .filter_map(|index| {
            let node = &report.nodes[*index];
            let bytes = node.bytes_moved.filter(|bytes| *bytes > 0)?;
            Some(node.flops? as f64 / bytes as f64)
        })
        .collect();
    let intensity = if intensities.is_empty() {
        String::new()
    } else {
        let mean = intensities.iter().sum::<f64>() / intensities.len() as f64;
        format!(", {mean:.1} FLOP per byte on average")
    };
    Some(OperatorFinding {
        id: "batch-too-small".into(),
        severity: Severity::Advice,
        evidence: format!(
            "{} matrix products with {} of the time have at most {most} rows{intensity}: every weight is read for {most} \
             multiplications or fewer",
            nodes.len(),
            percent(time)
        ),
        advice: "run more samples per call if the application allows it (ortscope run --batch tries sizes)"
            .to_owned(),
        nodes: costliest(report, nodes),
    })
}

/// Rows of the first matrix: all its dimensions but the last.
fn rows(node: &NodeStatistics) -> Option<u64> {
    let shapes = parse_shapes(node.input_shapes.as_deref()?)?;
    let (_, rows) = shapes.first()?.split_last()?;
    Some(rows.iter().fold(1, |product: u64, dim| product.saturating_mul(*dim)))
}
