//! Seeded latencies with the properties of real ones: correlation, bursts of outliers, differences between processes, heat.
//! `crates/bench` includes this file by its path.

use ortscope_analyze::random::Random;

/// Statistical properties of the latencies of one process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Behavior {
    /// Correlation of consecutive runs; their standard deviation is 3 %.
    pub correlation: f64,
    /// One run in a hundred is an outlier; outliers come in groups of this size.
    pub burst: usize,
    /// Standard deviation between processes, caused by memory layout and thread placement.
    pub between_processes: f64,
}

impl Behavior {
    pub const INDEPENDENT: Self = Self { correlation: 0.0, burst: 1, between_processes: 0.01 };
    pub const CORRELATED: Self = Self { correlation: 0.6, burst: 1, between_processes: 0.01 };
    pub const BURSTS: Self = Self { correlation: 0.9, burst: 5, between_processes: 0.01 };

    /// Returns the runs of one process in nanoseconds, around one millisecond times e^`log_level`.
    pub fn process(&self, random: &mut Random, runs: usize, log_level: f64) -> Vec<u64> {
        let level = log_level + self.between_processes * random.normal();
        self.runs(random, runs, level)
    }

    /// Like [`Self::process`], without the difference between processes.
    pub fn runs(&self, random: &mut Random, runs: usize, log_level: f64) -> Vec<u64> {
        let innovation = 0.03 * (1.0 - self.correlation * self.correlation).sqrt();
        let mut state = 0.03 * random.normal();
        let mut burst_left = 0;
        (0..runs)
            .map(|_| {
                state = self.correlation * state + innovation * random.normal();
                if random.uniform() < 0.01 / self.burst as f64 {
                    burst_left = self.burst;
                }
                let outlier = if burst_left > 0 { 0.1 + random.exponential(0.3) } else { 0.0 };
                burst_left = burst_left.saturating_sub(1);
                (1e6 * (log_level + state + outlier).exp()).round() as u64
            })
            .collect()
    }
}

/// How the speed of the machine changes from block to block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MachineDrift {
    None,
    /// Slower by the same ratio with every block.
    Linear {
        total: f64,
        over_blocks: f64,
    },
    /// Warms up and stays: `total` in the end, 63 % of it after `time_blocks`.
    Saturating {
        total: f64,
        time_blocks: f64,
    },
}

impl MachineDrift {
    /// Returns the change of the log latency of block number `block`.
    pub fn log_level(self, block: f64) -> f64 {
        match self {
            Self::None => 0.0,
            Self::Linear { total, over_blocks } => total * block / over_blocks,
            Self::Saturating { total, time_blocks } => total * (1.0 - (-block / time_blocks).exp()),
        }
    }
}
