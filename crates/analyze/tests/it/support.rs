//! Seeded latency generators: AR(1) log latency of 3 % with outliers that come alone or in
//! bursts, and the warm-up shapes.

/// xorshift64*: enough for simulations, and the same on every machine.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// Uniform on (0, 1).
    pub fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let bits = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11;
        (bits as f64 + 0.5) / (1_u64 << 53) as f64
    }

    /// Box and Muller's standard normal.
    pub fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }

    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.uniform().ln()
    }
}

/// Log latency: AR(1) with standard deviation 3 %, and 1 % of outliers in bursts of `burst`.
pub fn log_latencies(random: &mut Random, n: usize, phi: f64, burst: usize) -> Vec<f64> {
    let innovation = 0.03 * (1.0 - phi * phi).sqrt();
    let mut level = 0.03 * random.normal();
    let mut burst_left = 0;
    (0..n)
        .map(|_| {
            level = phi * level + innovation * random.normal();
            if random.uniform() < 0.01 / burst as f64 {
                burst_left = burst;
            }
            let outlier = if burst_left > 0 { 0.1 + random.exponential(0.3) } else { 0.0 };
            burst_left = burst_left.saturating_sub(1);
            level + outlier
        })
        .collect()
}

/// Nanoseconds around one millisecond.
pub fn nanos(logs: &[f64]) -> Vec<u64> {
    logs.iter().map(|log| (1e6 * log.exp()).round() as u64).collect()
}
