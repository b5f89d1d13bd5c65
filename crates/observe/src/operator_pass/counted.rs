//! FLOPs and bytes of one run.

use ortscope_analyze::flops::{FlopCount, FlopTotal};
use ortscope_core::schema::OperatorRow;

/// FLOPs of one run, with the operators that are not counted.
#[derive(Debug, Default)]
pub struct Counted {
    pub total: FlopTotal,
    pub bytes_moved: u64,
    pub weight_bytes: u64,
}

impl Counted {
    pub fn add(&mut self, row: &OperatorRow, count: &FlopCount) {
        self.total.add(&row.op_type, count);
        self.bytes_moved = self.bytes_moved.saturating_add(count.bytes_moved.unwrap_or(0));
        self.weight_bytes = self.weight_bytes.saturating_add(count.weight_bytes.unwrap_or(0));
    }
}
