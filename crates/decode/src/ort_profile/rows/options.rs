//! Options and summary of the conversion to rows.

use ortscope_core::schema::Text;

use super::ProfileStart;

/// Options for the conversion to rows.
#[derive(Debug, Clone)]
pub struct RowOptions {
    /// Used in every row.
    pub session_id: Text,
    /// Where the profile starts on the monotonic clock.
    pub start: ProfileStart,
    /// Devices of execution providers, with precedence over the built-in ones: `("OpenVINOExecutionProvider",
    /// "NPU")`.
    pub devices: Vec<(String, String)>,
    /// Keep fences that took no time. Versions up to 1.20 write two per node, whatever the provider; by default only
    /// fences that waited become rows, and the others are counted.
    pub keep_empty_fences: bool,
    /// Limit for pending rows. Default 100,000 (about 30 MB); beyond it the older half is emitted with the run known
    /// so far, or none.
    pub max_pending_rows: usize,
}

impl Default for RowOptions {
    fn default() -> Self {
        Self {
            session_id: Text::from(""),
            start: ProfileStart::Unknown,
            devices: Vec::new(),
            keep_empty_fences: false,
            max_pending_rows: 100_000,
        }
    }
}

/// Summary of the conversion.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RowSummary {
    pub rows: u64,
    pub runs: u64,
    /// Rows of operators, copies and waits without a known run: the run was truncated or is not complete.
    pub without_run: u64,
    /// Rows of operators, copies and waits on helper threads during several runs.
    pub ambiguous_run: u64,
    /// Device work without a run; its clock may be different.
    pub device_rows_without_run: u64,
    /// Primitives whose reported time was the mean of all executions so far, and was corrected.
    pub corrected_means: u64,
    /// Fences that took no time and became no rows.
    pub empty_fences: u64,
    /// Events of other tools, which become no rows.
    pub foreign_events: u64,
    /// Times before the start of the clock, set to its start.
    pub clamped_times: u64,
    /// Names that were truncated.
    pub cut_texts: u64,
    /// Unreadable lists of types and shapes.
    pub unreadable_shapes: u64,
}
