//! Verdicts between two things that were measured: pass, regression, improvement, or not known yet.
//!
//! The unit of comparison is a process run, called a block, never a single inference: inferences of one process share
//! its memory layout, its clocks and its luck, so a test over raw latencies takes a difference of luck for a difference
//! of models (43 % false alarms of Mann-Whitney on realistic latencies). What is compared is one statistic per block.
//!
//! - [`block`]: the statistic of a block,
//! - [`neighbours`]: the median of two blocks that ran in short turns,
//! - [`paired`]: blocks of two sides measured in turn (ABBA), which cancels slow drift; looks after 6, 10 and 20 rounds,
//! - [`two_sample`]: stored recordings, where nothing is paired,
//! - [`holm`]: several metrics at once without more false alarms,
//! - [`fingerprint`]: whether two measurements may be compared at all,
//! - [`sentence`]: a verdict in words,
//! - [`minimum_effect`]: how small a change this machine can show,
//! - [`change_points`]: where a history of runs has changed; for information, never for a verdict.

pub mod block;
pub mod change_points;
pub mod fingerprint;
pub mod holm;
pub mod metric;
pub mod minimum_effect;
pub mod neighbours;
pub mod paired;
pub mod sentence;
pub mod two_sample;

pub use block::{block_needs, block_quantile};
pub use metric::{Metric, MetricPlan, MetricVerdict, Verdict};
pub use neighbours::{TimedRun, neighbours_ratio};
pub use paired::{LOOKS, Look, PairedComparison, Step, looks_up_to};
