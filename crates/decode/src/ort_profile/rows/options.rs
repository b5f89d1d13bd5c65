//! How to make rows, and what became of the events.

use ortscope_core::schema::Text;

use super::ProfileStart;

/// How to make rows of events.
#[derive(Debug, Clone)]
pub struct RowOptions {
    /// Goes into every row.
    pub session_id: Text,
    /// Where the profile starts on the monotonic clock.
    pub start: ProfileStart,
    /// Devices of execution providers, before the built-in ones: `("OpenVINOExecutionProvider", "NPU")`.
    pub devices: Vec<(String, String)>,
    /// Keep fences that took no time. Versions up to 1.20 write two per node, whatever the provider; by default only
    /// those that waited become rows, and the others are counted.
    pub keep_empty_fences: bool,
    /// Rows that wait for their run. Default 100,000 (about 30 MB); when they are more, the older half goes out with
    /// the run that is known by then, or none.
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

/// What became of the events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RowSummary {
    pub rows: u64,
    pub runs: u64,
    /// Rows of operators, copies and waits that lie in no run that is known: the run was cut off, or is not over.
    pub without_run: u64,
    /// Rows of operators, copies and waits on helper threads while several runs were going on.
    pub ambiguous_run: u64,
    /// Work of a device that no run could be given to; its clock may be another one.
    pub device_rows_without_run: u64,
    /// Primitives whose reported time was the mean of all executions so far, and was taken apart.
    pub mended_means: u64,
    /// Fences that took no time and became no rows.
    pub empty_fences: u64,
    /// Events of other tools; they become no rows.
    pub foreign_events: u64,
    /// Times before the start of the clock, set to its start.
    pub clamped_times: u64,
    /// Names that were too long and were cut.
    pub cut_texts: u64,
    /// Lists of types and shapes that could not be read.
    pub unreadable_shapes: u64,
}
