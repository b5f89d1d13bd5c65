//! Statistics of inference latencies, as pure functions: no I/O, no clock, no global state.
//!
//! Inference latencies are neither independent nor normal: they warm up, they wander with clocks and temperature, and
//! their outliers come in bursts. The textbook interval of a percentile then covers the truth in 34 to 58 % of the
//! cases instead of 95 %. Everything here is built on that observation:
//! - [`percentile`]: order-statistic intervals with an effective sample size; too few runs give no number,
//! - [`warmup`]: where the steady state begins, or that there is none,
//! - [`summary`]: one series in full: percentiles, jitter, outliers, stability,
//! - [`stop`]: when an adaptive measurement has seen enough,
//! - [`throughput`], [`open_loop`], [`generation`]: streams, servers, token generators,
//! - [`batch_sweep`], [`recommend`]: what to change,
//! - [`outputs`]: whether two providers compute the same thing,
//! - [`clock_cost`]: how many digits the clock supports,
//! - [`flops`]: how much an operator computes and moves,
//! - [`operators`]: where the time of a profiled run goes, and what to do about it,
//! - [`verdict`]: whether one thing is slower than another, and how sure that is,
//! - [`leak`]: memory that is lost with every inference, arenas that lie idle,
//! - [`processes`]: what watched processes did, and every spike of theirs,
//! - [`providers`]: whose device time an operator used, with what nobody accounts for,
//! - [`correlation`]: what devices did around an inference,
//! - [`energy`], [`carbon`]: what a stretch of time and an inference cost, measured or honestly not,
//! - [`throttling`]: whether a clock was held down while something was measured,
//! - [`hodges_lehmann`], [`theil_sen`], [`distribution`]: the tools under them.
//!
//! Inputs are `u64` nanoseconds (`*_nanos`); outputs for people are `f64` milliseconds (`*_ms`). No output ever holds a
//! NaN or an infinity: what is unknown or unbounded is `None`, so every result survives JSON.

pub mod batch_sweep;
pub mod carbon;
pub mod clock_cost;
pub mod correlation;
pub mod distribution;
pub mod drift;
pub mod energy;
pub mod flops;
pub mod generation;
pub mod hodges_lehmann;
pub mod leak;
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
