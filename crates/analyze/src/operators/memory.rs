//! Allocations of operators, run by run.
//!
//! The first run of a shape shows what each node allocates. Later ones mostly use one planned block, so that their
//! changes per node are near zero: both are kept, because the difference is what planning saves.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::event::OperatorEvent;

/// Memory in profiled runs; only what ONNX Runtime 1.28 and later report.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryUse {
    pub first_run: Option<RunMemory>,
    /// The last run.
    pub last_run: Option<RunMemory>,
    /// Growth of the memory in use from the end of the second run to the end of the last, per run.
    pub growth_bytes_per_run: Option<f64>,
}

/// The allocator over one run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunMemory {
    /// Nodes after which more was in use than before.
    pub allocating_nodes: u64,
    pub allocated_bytes: u64,
    pub freed_bytes: u64,
    /// Maximum in use at the end of a node; within a node it may have been more.
    pub peak_in_use_bytes: u64,
    pub end_in_use_bytes: u64,
    /// Held by the arena at the end.
    pub arena_bytes: Option<u64>,
    /// Of what the arena held at the end of the run, the part that was never in use at once: fragments and reserve.
    pub unused_share: Option<f64>,
    /// The nodes that allocate most: name and bytes.
    pub largest: Vec<(String, u64)>,
}

/// Nodes named.
const MAX_NAMED: usize = 5;

#[derive(Debug, Default)]
pub(super) struct MemoryRuns {
    runs: u64,
    first: Option<RunMemory>,
    last: Option<RunMemory>,
    second_end: Option<u64>,
}

impl MemoryRuns {
    pub(super) fn add(&mut self, events: &[OperatorEvent]) {
        let Some(memory) = of_run(events) else { return };
        self.runs += 1;
        if self.runs == 2 {
            self.second_end = Some(memory.end_in_use_bytes);
        }
        if self.first.is_none() {
            self.first = Some(memory.clone());
        }
        self.last = Some(memory);
    }

    pub(super) fn finish(self) -> Option<MemoryUse> {
        let last_end = self.last.as_ref()?.end_in_use_bytes;
        // Two ends make no growth.
        let growth = self
            .second_end
            .filter(|_| self.runs > 3)
            .map(|second| (last_end as f64 - second as f64) / (self.runs - 2) as f64);
        Some(MemoryUse { first_run: self.first, last_run: self.last, growth_bytes_per_run: growth })
    }
}

fn of_run(events: &[OperatorEvent]) -> Option<RunMemory> {
    let mut memory = RunMemory::default();
    let mut by_end: Vec<(&OperatorEvent, _)> =
        events.iter().filter_map(|event| Some((event, event.memory?))).collect();
    by_end.sort_by_key(|(event, _)| event.end_ns());
    let (_, last) = by_end.last()?;
    memory.end_in_use_bytes = last.in_use_bytes;
    memory.arena_bytes = last.arena_bytes;
    // The change of a node with sub-graphs contains theirs.
    let deepest = by_end.iter().map(|(event, _)| event.depth).max().unwrap_or(0);
    let mut largest: Vec<(&str, u64)> = Vec::new();
    for (event, state) in &by_end {
        memory.peak_in_use_bytes = memory.peak_in_use_bytes.max(state.in_use_bytes);
        let contains = deepest > event.depth && matches!(&*event.op_type, "If" | "Loop" | "Scan");
        if contains {
            continue;
        }
        let bytes = state.delta_bytes.unsigned_abs();
        if state.delta_bytes > 0 {
            memory.allocating_nodes += 1;
            memory.allocated_bytes = memory.allocated_bytes.saturating_add(bytes);
            largest.push((&event.name, bytes));
        } else {
            memory.freed_bytes = memory.freed_bytes.saturating_add(bytes);
        }
    }
    memory.unused_share = memory
        .arena_bytes
        .filter(|arena| *arena > 0)
        .map(|arena| 1.0 - (memory.peak_in_use_bytes.min(arena) as f64 / arena as f64));
    largest.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    largest.truncate(MAX_NAMED);
    memory.largest = largest.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect();
    Some(memory)
}

#[cfg(test)]
mod tests {
    use ortscope_core::schema::OperatorRow;

    use super::*;

    fn node(name: &str, at: u64, in_use: u64, delta: i64, arena: u64) -> OperatorEvent {
        OperatorEvent::from(&OperatorRow {
            timestamp_ns: at,
            duration_ns: 5,
            kind: "operator".into(),
            name: name.into(),
            memory_in_use_bytes: Some(in_use),
            memory_delta_bytes: Some(delta),
            arena_bytes: Some(arena),
            ..OperatorRow::default()
        })
    }

    #[test]
    fn a_first_run_allocates_and_later_ones_do_not() {
        let first =
            [node("a", 0, 100, 100, 400), node("b", 10, 300, 200, 400), node("c", 20, 200, -100, 400)];
        let later = [node("a", 100, 200, 0, 400), node("b", 110, 200, 0, 400)];
        let mut runs = MemoryRuns::default();
        runs.add(&first);
        for _ in 0..4 {
            runs.add(&later);
        }
        let use_ = runs.finish().unwrap();
        let first = use_.first_run.unwrap();
        assert_eq!((first.allocating_nodes, first.allocated_bytes, first.freed_bytes), (2, 300, 100));
        assert_eq!((first.peak_in_use_bytes, first.end_in_use_bytes), (300, 200));
        assert_eq!(first.unused_share, Some(0.25));
        assert_eq!(first.largest[0], ("b".to_owned(), 200));
        assert_eq!(use_.last_run.unwrap().allocated_bytes, 0);
        assert_eq!(use_.growth_bytes_per_run, Some(0.0));
    }

    #[test]
    fn without_statistics_there_is_no_result() {
        let mut runs = MemoryRuns::default();
        runs.add(&[OperatorEvent::from(&OperatorRow::default())]);
        assert_eq!(runs.finish(), None);
    }
}
