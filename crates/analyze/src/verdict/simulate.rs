//! Seeded latencies with the troubles of real ones: correlation, bursts, luck of the process, heat. For the tests and for
//! `cargo xtask bench verdicts`; the same on every machine.

/// xorshift64*: enough for simulations.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        // SplitMix64's finalizer: neighbouring seeds must not give neighbouring streams.
        let mut state = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        state = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        state = (state ^ (state >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        Self((state ^ (state >> 31)) | 1)
    }

    fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Uniform on (0, 1).
    pub fn uniform(&mut self) -> f64 {
        ((self.bits() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    /// An index below `limit`, which must not be 0.
    pub fn below(&mut self, limit: usize) -> usize {
        ((self.uniform() * limit as f64) as usize).min(limit.saturating_sub(1))
    }

    /// Box and Muller's standard normal.
    pub fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }

    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.uniform().ln()
    }
}

/// How the latencies of a process behave.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Behaviour {
    /// Correlation of neighbouring runs; their standard deviation is 3 %.
    pub correlation: f64,
    /// One run in a hundred is an outlier; so many come at once.
    pub burst: usize,
    /// Standard deviation between process runs: layout of memory, placement of threads.
    pub between_processes: f64,
}

impl Behaviour {
    pub const INDEPENDENT: Self = Self { correlation: 0.0, burst: 1, between_processes: 0.01 };
    pub const CORRELATED: Self = Self { correlation: 0.6, burst: 1, between_processes: 0.01 };
    pub const BURSTS: Self = Self { correlation: 0.9, burst: 5, between_processes: 0.01 };
    pub const LONG_BURSTS: Self = Self { correlation: 0.9, burst: 20, between_processes: 0.01 };

    /// The runs of one process: nanoseconds around one millisecond times e^`log_level`.
    pub fn process(&self, random: &mut Random, runs: usize, log_level: f64) -> Vec<u64> {
        let level = log_level + self.between_processes * random.normal();
        self.runs(random, runs, level)
    }

    /// The same without luck of the process.
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

/// How the machine changes while blocks are measured one after the other.
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
    /// What it adds to the log latency of the block measured as number `block`.
    pub fn log_level(self, block: f64) -> f64 {
        match self {
            Self::None => 0.0,
            Self::Linear { total, over_blocks } => total * block / over_blocks,
            Self::Saturating { total, time_blocks } => total * (1.0 - (-block / time_blocks).exp()),
        }
    }
}
