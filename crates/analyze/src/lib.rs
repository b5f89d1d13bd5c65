//! Statistics of inference latencies, as pure functions: no I/O, no clock, no global state.
//!
//! Inference latencies are neither independent nor normal: they warm up, they drift with clocks and temperature, and
//! their outliers come in bursts. The textbook interval of a percentile then covers the truth in 34 to 58 % of the
//! cases instead of 95 %. Everything here is built on that observation:
//! - [`percentile`]: order-statistic intervals with an effective sample size; too few runs give no number,
//! - [`warmup`]: where the steady state begins, or that there is none,
//! - [`summary`]: one series in full: percentiles, jitter, outliers, stability,
//! - [`stop`]: when an adaptive measurement may stop,
//! - [`throughput`], [`open_loop`], [`generation`]: streams, servers, token generators,
//! - [`batch_sweep`], [`recommend`]: what to change,
//! - [`outputs`]: whether two providers compute the same result,
//! - [`clock_cost`]: how many digits the clock supports,
//! - [`flops`]: how much an operator computes and moves,
//! - [`operators`]: where the time of a profiled run goes, and what to do about it,
//! - [`verdict`]: which of two is slower, and with what confidence,
//! - [`leak`]: memory leaked per inference, unused arenas,
//! - [`processes`]: summaries and CPU spikes of observed processes,
//! - [`providers`]: device time of operators, with the unattributed rest,
//! - [`correlation`]: device readings around an inference,
//! - [`energy`], [`carbon`]: energy and carbon of an interval and an inference,
//! - [`throttling`]: whether clocks were throttled during a measurement,
//! - [`hodges_lehmann`], [`theil_sen`], [`distribution`]: the statistical tools.
//!
//! Inputs are `u64` nanoseconds (`*_ns`); outputs for people are `f64` milliseconds (`*_ms`). No output contains NaN
//! or infinity: unknown or unbounded values are `None`, so every result survives JSON.

pub mod batch_sweep;
pub mod carbon;
pub mod clock_cost;
pub mod correlation;
pub mod distribution;
pub mod drift;
pub mod energy;
pub mod facts;
pub mod flame;
pub mod flops;
pub mod generation;
pub mod hodges_lehmann;
pub mod leak;
pub mod measurement;
pub mod open_loop;
pub mod operators;
mod order;
pub mod outliers;
pub mod outputs;
pub mod percentile;
pub mod processes;
pub mod providers;
pub mod random;
pub mod recommend;
pub mod stability;
pub mod stop;
pub mod summary;
pub mod theil_sen;
pub mod throttling;
pub mod throughput;
pub mod verdict;
pub mod warmup;

pub use order::median_ns;
pub use percentile::{Percentile, percentiles};
pub use stop::{StopReason, StopRule};
pub use summary::{LatencySummary, SummaryOptions, summarize};
pub use warmup::{WarmUp, WarmUpVerdict, detect_warm_up};
