//! `/timeline/event`: all about one rectangle, with the operators it depends on.

use std::collections::{BTreeMap, BTreeSet};

use ortscope_core::schema::{
    GraphEdgeRow, InferenceRow, KernelEventRow, OperatorKind, OperatorRow, Row, TableId, Text,
};
use ortscope_core::tables::Scan;
use ortscope_export::wire::{
    InferenceContext, InferenceRecord, OperationRecord, Sensors, Unavailable, inference_record,
    operation_record,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::super::Timed;
use super::records::reasons;
use crate::app::{App, Asked};
use crate::data::Source;
use crate::error::ApiError;
use crate::timeline::LaneKey;

/// The other operators of a run are searched for within this time, then within ever longer times: a recording can have
/// millions of rows.
const NEAR_NS: u64 = 1_000_000;

#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct TimelineEvent {
    pub source: String,
    pub lane: String,
    /// Exactly one of `operation`, `inference` and `kernel` is not null.
    pub operation: Option<Timed<OperationRecord>>,
    pub inference: Option<Timed<InferenceRecord>>,
    pub kernel: Option<KernelEvent>,
    /// The neighbors in the graph, in the same run, if the recording has the graph.
    pub dependencies: Option<Dependencies>,
    /// Further figures for a list, with the unit in the name.
    pub details: BTreeMap<&'static str, Option<Detail>>,
    pub unavailable: Unavailable,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct KernelEvent {
    pub t_ms: f64,
    pub kind: Text,
    pub processor: Option<u64>,
    pub pid: Option<u64>,
    pub tid: Option<u64>,
    pub duration_ms: Option<f64>,
    pub value: Option<u64>,
    pub detail: Option<Text>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Detail {
    Text(Text),
    Count(u64),
    Change(i64),
    Number(f64),
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Dependencies {
    pub needs: Vec<TimelineRef>,
    pub needed_by: Vec<TimelineRef>,
}

/// Another rectangle of the timeline.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TimelineRef {
    pub lane: String,
    pub id: i64,
    pub name: Text,
    pub t_ms: f64,
    pub duration_ms: f64,
}

pub fn event(app: &App, asked: &Asked) -> Result<TimelineEvent, ApiError> {
    let source = app.sources.of(&asked.params)?;
    let lane = asked.params.text("lane").unwrap_or_default();
    let key =
        LaneKey::parse(lane).ok_or_else(|| ApiError::bad_parameter("lane", "is not the id of a lane"))?;
    let offset = asked.params.whole("id")?.unwrap_or_default();
    let at_ns = source.origin_ns.saturating_add_signed(offset);
    let scan = Scan { from_ns: Some(at_ns), to_ns: Some(at_ns.saturating_add(1)), ..Scan::all() };
    let found = match &key {
        LaneKey::Inferences { session, stream } => {
            let is_it = |row: &InferenceRow| row.session_id == *session && row.stream == *stream;
            first(&source, TableId::Inferences, &scan, is_it)?
                .map(|row| inference(&source, &row))
                .transpose()?
        }
        LaneKey::Runs { session } => {
            let is_it = |row: &OperatorRow| {
                row.session_id == *session && !row.kind.known().is_some_and(OperatorKind::is_work)
            };
            first(&source, TableId::Operators, &scan, is_it)?
                .map(|row| operation(&source, &row))
                .transpose()?
        }
        LaneKey::Operators { session, provider, thread } => {
            let is_it = |row: &OperatorRow| {
                row.session_id == *session && row.execution_provider == *provider && row.thread == *thread
            };
            first(&source, TableId::Operators, &scan, is_it)?
                .map(|row| operation(&source, &row))
                .transpose()?
        }
        LaneKey::Kernel { pid, tid } => {
            let is_it = |row: &KernelEventRow| row.tid == Some(*tid) && row.pid.unwrap_or(0) == *pid;
            first(&source, TableId::KernelEvents, &scan, is_it)?.map(|row| kernel(&source, row))
        }
    };
    let event = found.ok_or_else(|| ApiError::not_found("there is no such event in this lane"))?;
    Ok(TimelineEvent { source: source.id, lane: lane.to_owned(), ..event })
}

fn first<R: Row>(
    source: &Source,
    table: TableId,
    scan: &Scan,
    is_it: impl Fn(&R) -> bool,
) -> Result<Option<R>, ApiError> {
    for batch in source.tables().scan(table, scan) {
        if let Some(row) = batch?.rows::<R>().find(|row| is_it(row)) {
            return Ok(Some(row));
        }
    }
    Ok(None)
}

fn text(text: &Text) -> Option<Detail> {
    Some(Detail::Text(Text::clone(text)))
}

fn ms(nanos: u64) -> Option<Detail> {
    Some(Detail::Number(nanos as f64 / 1e6))
}

fn inference(source: &Source, row: &InferenceRow) -> Result<TimelineEvent, ApiError> {
    let sessions = source.sessions()?;
    let sensors = Sensors::default();
    let reasons = reasons(source)?;
    let context = InferenceContext {
        model_name: sessions.get(&row.session_id).map(|session| &*session.model_name),
        figures: None,
        sensors: &sensors,
        flops: None,
        padding_ratio: None,
        reasons: &reasons,
    };
    let record = inference_record(row, &context);
    Ok(TimelineEvent {
        inference: Some(Timed { record, t_ms: source.ms(row.timestamp_ns) }),
        details: BTreeMap::from([
            ("phase", text(row.phase.text())),
            ("sequence", Some(Detail::Count(row.sequence))),
            ("stream", Some(Detail::Count(row.stream))),
            ("copy_in_ms", ms(row.copy_in_ns)),
            ("run_ms", ms(row.run_ns)),
            ("copy_out_ms", ms(row.copy_out_ns)),
            ("token", row.token.map(Detail::Count)),
            ("ok", Some(Detail::Text(if row.ok { "yes" } else { "failed" }.into()))),
        ]),
        unavailable: Unavailable::one("dependencies", "an inference has none"),
        ..TimelineEvent::default()
    })
}

fn operation(source: &Source, row: &OperatorRow) -> Result<TimelineEvent, ApiError> {
    let (dependencies, unavailable) = match dependencies(source, row)? {
        Ok(found) => (Some(found), Unavailable::default()),
        Err(reason) => (None, Unavailable::one("dependencies", reason)),
    };
    let record = operation_record(row, &reasons(source)?);
    Ok(TimelineEvent {
        operation: Some(Timed { record, t_ms: source.ms(row.timestamp_ns) }),
        dependencies,
        details: BTreeMap::from([
            ("kind", text(row.kind.text())),
            ("node_index", row.node_index.map(Detail::Count)),
            ("thread", Some(Detail::Count(row.thread))),
            ("depth", Some(Detail::Count(row.depth))),
            ("flops", row.flops.map(Detail::Count)),
            ("output_bytes", row.output_bytes.map(Detail::Count)),
            ("activation_bytes", row.activation_bytes.map(Detail::Count)),
            ("parameter_bytes", row.parameter_bytes.map(Detail::Count)),
            ("memory_in_use_bytes", row.memory_in_use_bytes.map(Detail::Count)),
            ("memory_delta_bytes", row.memory_delta_bytes.map(Detail::Change)),
            ("arena_bytes", row.arena_bytes.map(Detail::Count)),
            ("pool_run_ms", row.pool_run_ns.and_then(ms)),
            ("pool_wait_ms", row.pool_wait_ns.and_then(ms)),
            ("input_types", row.input_types.as_ref().and_then(text)),
            ("output_types", row.output_types.as_ref().and_then(text)),
        ]),
        unavailable,
        ..TimelineEvent::default()
    })
}

fn kernel(source: &Source, row: KernelEventRow) -> TimelineEvent {
    TimelineEvent {
        kernel: Some(KernelEvent {
            t_ms: source.ms(row.timestamp_ns),
            kind: row.kind.text().clone(),
            processor: row.processor,
            pid: row.pid,
            tid: row.tid,
            duration_ms: row.duration_ns.map(|nanos| nanos as f64 / 1e6),
            value: row.value,
            detail: row.detail,
        }),
        unavailable: Unavailable::one("dependencies", "a kernel event has none"),
        ..TimelineEvent::default()
    }
}

/// The graph's edges at an operator, as rectangles of the same run. The inner error is the reason for unknown edges.
fn dependencies(source: &Source, row: &OperatorRow) -> Result<Result<Dependencies, &'static str>, ApiError> {
    if row.depth > 0 {
        return Ok(Err("the edges inside subgraphs are not recorded"));
    }
    let (Some(node), Some(OperatorKind::Operator)) = (row.node_index, row.kind.known()) else {
        return Ok(Err("it is not a node of the graph"));
    };
    let (mut needs, mut needed_by) = (BTreeSet::new(), BTreeSet::new());
    let mut is_known = false;
    for batch in source.tables().scan(TableId::GraphEdges, &Scan::all()) {
        for edge in batch?.rows::<GraphEdgeRow>().filter(|edge| edge.session_id == row.session_id) {
            is_known = true;
            if edge.to_node == node {
                needs.insert(edge.from_node);
            }
            if edge.from_node == node {
                needed_by.insert(edge.to_node);
            }
        }
    }
    if !is_known {
        return Ok(Err("the edges of the graph are unknown; `ortscope run MODEL` records them"));
    }
    if needs.is_empty() && needed_by.is_empty() {
        // Every node of a graph with several nodes has a neighbor, unless it could not be found in the file.
        return Ok(Err(
            "no neighbor is known: the node has no name in the file, or was created while loading",
        ));
    }
    let wanted: BTreeSet<u64> = needs.union(&needed_by).copied().collect();
    let rows = in_the_same_run(source, row, &wanted)?;
    let refs = |nodes: &BTreeSet<u64>| -> Vec<TimelineRef> {
        nodes.iter().filter_map(|node| rows.get(node)).map(|row| reference(source, row)).collect()
    };
    Ok(Ok(Dependencies { needs: refs(&needs), needed_by: refs(&needed_by) }))
}

/// The rows of these nodes in the run of `row`.
fn in_the_same_run(
    source: &Source,
    row: &OperatorRow,
    wanted: &BTreeSet<u64>,
) -> Result<BTreeMap<u64, OperatorRow>, ApiError> {
    let mut found = BTreeMap::new();
    let mut reach = NEAR_NS.max(row.duration_ns);
    while found.len() < wanted.len() {
        let (from, to) = (row.timestamp_ns.saturating_sub(reach), row.timestamp_ns.saturating_add(reach));
        let scan = Scan { from_ns: Some(from), to_ns: Some(to), ..Scan::all() };
        let (mut begins_before, mut ends_after) = (from <= source.first_ns, to > source.last_ns);
        for batch in source.tables().scan(TableId::Operators, &scan) {
            let batch = batch?;
            for other in batch.rows::<OperatorRow>().filter(|other| other.session_id == row.session_id) {
                if other.run != row.run {
                    begins_before |= other.run.is_some() && other.run < row.run;
                    ends_after |= other.run > row.run;
                } else if let Some(node) = other.node_index
                    && other.depth == 0
                    && other.kind == OperatorKind::Operator
                    && wanted.contains(&node)
                {
                    found.entry(node).or_insert(other);
                }
            }
        }
        if begins_before && ends_after {
            // The whole run was read: missing nodes were not recorded.
            break;
        }
        reach = reach.saturating_mul(8);
    }
    Ok(found)
}

fn reference(source: &Source, row: &OperatorRow) -> TimelineRef {
    let lane = LaneKey::Operators {
        session: row.session_id.clone(),
        provider: row.execution_provider.clone(),
        thread: row.thread,
    };
    TimelineRef {
        lane: lane.id(),
        id: row.timestamp_ns as i64 - source.origin_ns as i64,
        name: Text::clone(&row.name),
        t_ms: source.ms(row.timestamp_ns),
        duration_ms: row.duration_ns as f64 / 1e6,
    }
}
