//! Random input values that are the same on every system and in every version: a seed in a report identifies them.
//!
//! One stream per input, seeded by the user's seed and the FNV-1a hash of the input's name, so that an input keeps its
//! values when another is added. Only integer operations and exact float operations are used: `ln` and `cos` differ
//! between systems, so normal numbers are sums of twelve uniform ones (Irwin-Hall), whose mean is 0, variance 1 and
//! range ±6.

#[derive(Debug)]
pub(super) struct Random(ortscope_core::random::Random);

impl Random {
    pub fn new(seed: u64, name: &str) -> Self {
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Self(ortscope_core::random::Random::new(hash ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        let wide = u128::from(self.bits()) * u128::from(end.max(1));
        u64::try_from(wide >> 64).unwrap_or(0)
    }

    /// Uniform on [0, 1).
    pub fn uniform(&mut self) -> f64 {
        self.0.unit()
    }

    pub fn normal(&mut self) -> f64 {
        let mut sum = 0u64;
        for _ in 0..3 {
            let bits = self.bits();
            sum += (bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48);
        }
        // Twelve numbers from 0 to 65535, each with the mean 32767.5.
        (sum as f64 - 393_210.0) / 65536.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If this fails, seeds in reports are no longer reproducible.
    #[test]
    fn the_numbers_never_change() {
        let mut random = Random::new(42, "input");
        let bits: Vec<u64> = (0..2).map(|_| random.bits()).collect();
        assert_eq!(bits, FIRST);
        assert_ne!(Random::new(43, "input").bits(), FIRST[0]);
        assert_ne!(Random::new(42, "other").bits(), FIRST[0]);
    }

    /// Computed by an independent program.
    const FIRST: [u64; 2] = [7_755_237_690_891_282_871, 16_779_773_375_177_364_210];

    #[test]
    fn moments_are_right() {
        let mut random = Random::new(1, "x");
        let values: Vec<f64> = (0..100_000).map(|_| random.normal()).collect();
        let mean = values.iter().sum::<f64>() / 1e5;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / 1e5;
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.02, "{mean} {variance}");
        assert!((0..10_000).all(|_| (0.0..1.0).contains(&random.uniform())));
        assert!((0..10_000).all(|_| random.below(3) < 3));
        assert_eq!(random.below(0), 0);
    }
}
