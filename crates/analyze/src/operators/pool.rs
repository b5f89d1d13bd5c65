//! Use of the threads inside operators, from the calling thread's pool statistics.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::event::OperatorEvent;

/// Operators that the session's thread pool shared out. The times are those of the calling thread; what the others did
/// is only known as a number of parts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IntraOp {
    /// Calls that report it.
    pub calls: u64,
    /// Of these, calls whose work was shared out.
    pub shared_calls: u64,
    /// Time of these operators.
    pub operators_ns: u64,
    /// The calling thread working on its parts, and waiting for the others.
    pub run_ns: u64,
    pub wait_ns: u64,
    /// Parts that other threads ran.
    pub helper_parts: u64,
}

impl IntraOp {
    /// Of the time of shared-out operators, what the calling thread waited: near 0 is well divided work.
    pub fn waiting_share(&self) -> Option<f64> {
        (self.operators_ns > 0).then(|| self.wait_ns as f64 / self.operators_ns as f64)
    }
}

#[derive(Debug, Default)]
pub(super) struct PoolSums {
    sums: IntraOp,
    helpers_before: Option<u64>,
}

impl PoolSums {
    pub(super) fn add(&mut self, event: &OperatorEvent) {
        let Some(pool) = event.pool else { return };
        self.sums.calls += 1;
        // Counts only grow during a pool's lifetime; a smaller one means another pool.
        let parts = self.helpers_before.map_or(0, |before| pool.helper_runs.saturating_sub(before));
        self.helpers_before = Some(pool.helper_runs);
        self.sums.helper_parts = self.sums.helper_parts.saturating_add(parts);
        if pool.run_ns > 0 || pool.wait_ns > 0 {
            self.sums.shared_calls += 1;
            self.sums.operators_ns = self.sums.operators_ns.saturating_add(event.duration_ns);
            self.sums.run_ns = self.sums.run_ns.saturating_add(pool.run_ns);
            self.sums.wait_ns = self.sums.wait_ns.saturating_add(pool.wait_ns);
        }
    }

    pub(super) fn finish(self) -> Option<IntraOp> {
        (self.sums.calls > 0).then_some(self.sums)
    }
}
