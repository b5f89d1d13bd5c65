//! One row of a profile, as the analysis needs it.

use std::collections::BTreeMap;

use ortscope_core::schema::{OperatorKind, OperatorRow, Text};

/// One event of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct OperatorEvent {
    pub kind: OperatorKind,
    pub name: Text,
    pub op_type: Text,
    pub provider: Text,
    /// CPU, GPU, NPU or Mixed; empty if not known.
    pub device: Text,
    pub node_index: Option<u64>,
    pub thread: u64,
    pub start_ns: u64,
    pub duration_ns: u64,
    /// 0 in the main graph, one more in each sub-graph.
    pub depth: u64,
    /// JSON, e.g. `[[1,3,224,224]]`.
    pub input_shapes: Option<Text>,
    pub output_bytes: Option<u64>,
    /// Inputs, weights and outputs together. Profiles leave out weights that kernels packed anew; a count over the graph
    /// ([`crate::flops`]) knows better.
    pub bytes_moved: Option<u64>,
    pub flops: Option<u64>,
    /// State of the provider's allocator after it (ONNX Runtime 1.28 and later).
    pub memory: Option<AllocatorState>,
    /// How the session's threads shared it; `None` with one thread.
    pub pool: Option<PoolUse>,
}

/// State of an allocator when an operator ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AllocatorState {
    pub in_use_bytes: u64,
    /// Change since the operator began.
    pub delta_bytes: i64,
    /// Held by the arena, in use or not.
    pub arena_bytes: Option<u64>,
}

/// Activity of the calling thread while the pool worked on an operator.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PoolUse {
    pub run_ns: u64,
    pub wait_ns: u64,
    /// Parts that other threads ran since the pool was made.
    pub helper_runs: u64,
}

impl OperatorEvent {
    pub fn end_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.duration_ns)
    }
}

impl From<&OperatorRow> for OperatorEvent {
    fn from(row: &OperatorRow) -> Self {
        let bytes = [row.activation_bytes, row.parameter_bytes, row.output_bytes];
        Self {
            kind: row.kind.known().unwrap_or(OperatorKind::Other),
            name: row.name.clone(),
            op_type: row.op_type.clone(),
            provider: row.execution_provider.clone(),
            device: row.device.clone(),
            node_index: row.node_index,
            thread: row.thread,
            start_ns: row.timestamp_ns,
            duration_ns: row.duration_ns,
            depth: row.depth,
            input_shapes: row.input_shapes.clone(),
            output_bytes: row.output_bytes,
            bytes_moved: bytes.into_iter().try_fold(0u64, |sum, bytes| sum.checked_add(bytes?)),
            flops: row.flops,
            memory: row.memory_in_use_bytes.map(|in_use_bytes| AllocatorState {
                in_use_bytes,
                delta_bytes: row.memory_delta_bytes.unwrap_or(0),
                arena_bytes: row.arena_bytes,
            }),
            pool: row.pool_run_ns.zip(row.pool_wait_ns).map(|(run_ns, wait_ns)| PoolUse {
                run_ns,
                wait_ns,
                helper_runs: row.pool_helper_runs.unwrap_or(0),
            }),
        }
    }
}

/// The rows of a session by run. Rows outside runs are skipped.
pub fn runs_of(rows: &[OperatorRow]) -> BTreeMap<u64, Vec<OperatorEvent>> {
    let mut runs: BTreeMap<u64, Vec<OperatorEvent>> = BTreeMap::new();
    for row in rows {
        if let Some(run) = row.run {
            runs.entry(run).or_default().push(OperatorEvent::from(row));
        }
    }
    runs
}
