//! Cost and resolution of the clock, and so the number of meaningful digits of a result.
//!
//! Nothing is subtracted from measurements. Digits below twice the timer noise are not shown: a report that prints
//! nanoseconds from a 100 ns clock invents them.

use serde::{Deserialize, Serialize};

use crate::order::quantile_sorted_f64;

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ClockCost {
    /// Smallest step seen that is not zero; `None` when the clock never moved between two reads.
    pub resolution_ns: Option<u64>,
    /// Median time between two reads in a row: what one read costs.
    pub cost_ns: f64,
    /// The larger of the two: by this much a single measurement can be off.
    pub noise_ns: f64,
    /// Pairs of reads behind the figures.
    pub reads: usize,
}

/// Resolution and cost from the differences of back-to-back reads; `None` when there are none.
pub fn clock_cost(deltas_ns: &[u64]) -> Option<ClockCost> {
    let mut sorted = deltas_ns.to_vec();
    sorted.sort_unstable();
    let cost_ns = quantile_sorted_f64(&sorted, 0.5)?;
    let resolution_ns = sorted.iter().copied().find(|delta| *delta > 0);
    let noise_ns = resolution_ns.map_or(0.0, |step| step as f64).max(cost_ns);
    Some(ClockCost { resolution_ns, cost_ns, noise_ns, reads: sorted.len() })
}

/// How many significant digits of `value_ns` may be shown: the last one must represent at least twice the noise. 0
/// means that the value is below the noise; without noise all 17 digits of a double may be shown.
pub fn digits_for(value_ns: f64, noise_ns: f64) -> u32 {
    const DIGITS_OF_A_DOUBLE: f64 = 17.0;
    let value = value_ns.abs();
    if !(value.is_finite() && value > 0.0) {
        return 0;
    }
    if noise_ns.is_nan() || noise_ns <= 0.0 {
        return DIGITS_OF_A_DOUBLE as u32;
    }
    let leading = value.log10().floor();
    let last_shown = (2.0 * noise_ns).log10().ceil();
    // The cast saturates: infinite noise shows no digit.
    (leading - last_shown + 1.0).clamp(0.0, DIGITS_OF_A_DOUBLE) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_windows_and_a_linux_clock() {
        let linux = clock_cost(&[19, 20, 21, 20, 20, 900]).unwrap();
        assert_eq!((linux.resolution_ns, linux.cost_ns, linux.noise_ns), (Some(19), 20.0, 20.0));
        // QueryPerformanceCounter at 10 MHz: most reads see the same tick.
        let windows = clock_cost(&[0, 0, 0, 100, 0, 0, 100]).unwrap();
        assert_eq!((windows.resolution_ns, windows.cost_ns, windows.noise_ns), (Some(100), 0.0, 100.0));
        assert_eq!(clock_cost(&[]), None);
        assert_eq!(clock_cost(&[0, 0]).unwrap().resolution_ns, None);
    }

    #[test]
    fn digits_end_at_twice_the_noise() {
        // 2.31 ms with 20 ns: 40 ns must not show, 100 ns may: 2.3100 ms.
        assert_eq!(digits_for(2_310_000.0, 20.0), 5);
        // A step of exactly twice the noise may show.
        assert_eq!(digits_for(2_310_000.0, 50.0), 5);
        assert_eq!(digits_for(2_310_000.0, 51.0), 4);
        assert_eq!(digits_for(900.0, 100.0), 0);
        assert_eq!(digits_for(1500.0, 100.0), 1);
        assert_eq!(digits_for(30.0, 20.0), 0);
        assert_eq!(digits_for(0.0, 20.0), 0);
        assert_eq!(digits_for(1000.0, 0.0), 17);
        assert_eq!(digits_for(1000.0, f64::INFINITY), 0);
        assert_eq!(digits_for(f64::NAN, 1.0), 0);
    }
}
