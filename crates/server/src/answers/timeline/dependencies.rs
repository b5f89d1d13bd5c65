//! What an operator waited for and who waited for it: the edges of the graph, put to the rectangles of the same run.

use std::collections::{BTreeMap, BTreeSet};

use ortscope_core::schema::{GraphEdgeRow, OperatorKind, OperatorRow, TableId};
use ortscope_core::tables::Scan;
use serde_json::{Value, json};

use super::super::number;
use super::lanes::LaneKey;
use crate::data::Source;
use crate::error::ApiError;

/// The others of its run are first looked for this near, then ever farther: a recording can have millions of rows.
const NEAR_NS: u64 = 1_000_000;

/// `Err` inside: why they are not known.
pub fn of(source: &Source, row: &OperatorRow) -> Result<Result<Value, &'static str>, ApiError> {
    if row.depth > 0 {
        return Ok(Err("the edges inside of sub-graphs are not recorded"));
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
        return Ok(Err("the edges of the graph are not known here; `ortscope run MODEL` records them"));
    }
    if needs.is_empty() && needed_by.is_empty() {
        // Every node of a graph with more than one is somebody's neighbour, unless it could not be found in the file.
        return Ok(Err("no neighbour is known: the node has no name in the file, or loading has made it"));
    }
    let wanted: BTreeSet<u64> = needs.union(&needed_by).copied().collect();
    let rows = in_the_same_run(source, row, &wanted)?;
    let refs = |nodes: &BTreeSet<u64>| -> Vec<Value> {
        nodes.iter().filter_map(|node| rows.get(node)).map(|row| reference(source, row)).collect()
    };
    Ok(Ok(json!({ "needs": refs(&needs), "needed_by": refs(&needed_by) })))
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
            // The whole run was seen: what is not there was not recorded.
            break;
        }
        reach = reach.saturating_mul(8);
    }
    Ok(found)
}

fn reference(source: &Source, row: &OperatorRow) -> Value {
    let lane = LaneKey::Operators {
        session: row.session_id.clone(),
        provider: row.execution_provider.clone(),
        thread: row.thread,
    };
    json!({
        "lane": lane.id(),
        "id": row.timestamp_ns as i64 - source.origin_ns as i64,
        "name": row.name,
        "t_ms": number(source.ms(row.timestamp_ns)),
        "duration_ms": number(row.duration_ns as f64 / 1e6),
    })
}
