//! The document's part about operators, bounded and cleaned: it may come from anywhere.

use serde::Deserialize;
use serde_json::Value;

use crate::OperatorInsight;
use ortscope_core::units::clean;

const MAX_NODES: usize = 40;
const MAX_ROWS: usize = 100;
const NAME: usize = 200;

pub(crate) fn read(operators: &Value) -> Option<OperatorInsight> {
    let mut insight = OperatorInsight::deserialize(operators).ok()?;
    insight.by_node.truncate(MAX_NODES);
    for node in &mut insight.by_node {
        node.name = clean(&node.name, NAME);
        node.op_type = clean(&node.op_type, NAME);
        node.bound = node.bound.take().map(|bound| clean(&bound, 20));
    }
    insight.flops.not_counted.truncate(MAX_ROWS);
    for of in &mut insight.flops.not_counted {
        of.op_type = clean(&of.op_type, NAME);
        of.why = clean(&of.why, NAME);
    }
    if let Some(peak) = &mut insight.peak {
        peak.instructions = clean(&peak.instructions, 40);
    }
    if let Some(path) = &mut insight.critical_path {
        path.method.why = path.method.why.take().map(|why| clean(&why, NAME));
        path.method.kind = clean(&path.method.kind, 40);
    }
    insight.placement.fallback_types.truncate(MAX_ROWS);
    for of in &mut insight.placement.fallback_types {
        of.op_type = clean(&of.op_type, NAME);
    }
    bounded(&mut insight.placement.reasons, 20, 400);
    insight.transitions.pairs.truncate(MAX_ROWS);
    for pair in &mut insight.transitions.pairs {
        (pair.from, pair.to) = (clean(&pair.from, NAME), clean(&pair.to, NAME));
    }
    if let Some(fusion) = &mut insight.fusion {
        let patterns = std::mem::take(&mut fusion.patterns);
        fusion.patterns =
            patterns.into_iter().take(MAX_ROWS).map(|(what, often)| (clean(&what, NAME), often)).collect();
        fusion.missed.truncate(MAX_ROWS);
        for missed in &mut fusion.missed {
            missed.pattern = clean(&missed.pattern, 60);
            bounded(&mut missed.nodes, 10, NAME);
        }
    }
    insight.levels.truncate(10);
    for level in &mut insight.levels {
        level.level = clean(&level.level, 20);
        bounded(&mut level.new_patterns, 20, NAME);
        level.failure = level.failure.take().map(|why| clean(&why, 400));
    }
    if let Some(memory) = &mut insight.memory {
        for run in memory.first_run.iter_mut().chain(&mut memory.last_run) {
            run.largest.truncate(10);
            for (name, _) in &mut run.largest {
                *name = clean(name, NAME);
            }
        }
    }
    insight.device_time.truncate(10);
    for time in &mut insight.device_time {
        time.provider = clean(&time.provider, NAME);
        for text in [&mut time.device, &mut time.device_name, &mut time.divided_by, &mut time.unknown] {
            *text = text.take().map(|text| clean(&text, 400));
        }
        let rest = time.operators.len().saturating_sub(MAX_ROWS);
        time.operators_not_listed = time.operators_not_listed.saturating_add(rest as u64);
        let cut = time.operators.iter().skip(MAX_ROWS).filter_map(|of| of.ns);
        time.not_listed_ns = cut.fold(time.not_listed_ns, u64::saturating_add);
        time.operators.truncate(MAX_ROWS);
        for of in &mut time.operators {
            (of.name, of.op_type) = (clean(&of.name, NAME), clean(&of.op_type, NAME));
            of.method = clean(&of.method, 20);
        }
    }
    insight.device_work.truncate(MAX_ROWS);
    for work in &mut insight.device_work {
        work.name = clean(&work.name, NAME);
        work.op_type = clean(&work.op_type, NAME);
        work.provider = clean(&work.provider, NAME);
    }
    bounded(&mut insight.notes, 20, 400);
    Some(insight)
}

fn bounded(texts: &mut Vec<String>, most: usize, length: usize) {
    texts.truncate(most);
    for text in texts {
        *text = clean(text, length);
    }
}
