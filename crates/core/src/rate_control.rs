//! Keeps the cost of observing under a limit by lowering the sampling rate, and raises the rate again when the cost
//! allows.
//!
//! Pure: the caller measures the cost of each period (a second) and applies the returned rate. Over the limit the
//! rate is multiplied by [`LOWER`], below [`RAISE_BELOW`] of the limit by [`RAISE`], but never above the requested
//! rate. In between it does not change. Raising by 20 % from 0.4 of the limit ends at 0.48 of it, so the control
//! cannot oscillate where cost grows with the rate.

/// Slowest and fastest rate of anything that is sampled.
pub const MIN_HERTZ: f64 = 0.1;
pub const MAX_HERTZ: f64 = 1000.0;

/// Factor applied to the rate over the limit.
pub const LOWER: f64 = 0.8;
/// Factor applied to the rate when the cost is low.
pub const RAISE: f64 = 1.2;
/// The rate may rise while the cost is below this share of the limit.
pub const RAISE_BELOW: f64 = 0.4;

/// Consecutive periods over the limit before the rate is lowered, and then lowered at each further one. A single
/// expensive period (a page fault, a frequency change) is ignored.
const PERIODS_TO_LOWER: u32 = 2;
/// Consecutive cheap periods before each raise: recovery is never urgent.
const PERIODS_TO_RAISE: u32 = 5;

/// A requested rate that is out of range.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum RateError {
    #[error("{what} is {hertz} Hz: a rate lies between {MIN_HERTZ} and {MAX_HERTZ} Hz")]
    OutOfRange { what: &'static str, hertz: f64 },
    #[error("the overhead limit is {percent} %: it must be above 0 and at most 100 percent of a core")]
    Limit { percent: f64 },
}

/// Rejects rates that are out of range or NaN.
pub fn check_hertz(what: &'static str, hertz: f64) -> Result<f64, RateError> {
    if (MIN_HERTZ..=MAX_HERTZ).contains(&hertz) {
        Ok(hertz)
    } else {
        Err(RateError::OutOfRange { what, hertz })
    }
}

/// A change of the rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RateChange {
    Lowered { from_hertz: f64, to_hertz: f64 },
    Raised { from_hertz: f64, to_hertz: f64 },
}

/// The rate control of one sampler.
#[derive(Debug, Clone)]
pub struct RateControl {
    limit_ratio: f64,
    asked_hertz: f64,
    hertz: f64,
    periods_over: u32,
    cheap_periods: u32,
}

impl RateControl {
    /// `limit_percent` of one core; `asked_hertz` is the highest rate it will ever give.
    pub fn new(asked_hertz: f64, limit_percent: f64) -> Result<Self, RateError> {
        let asked_hertz = check_hertz("the sampling rate", asked_hertz)?;
        if !(limit_percent > 0.0 && limit_percent <= 100.0) {
            return Err(RateError::Limit { percent: limit_percent });
        }
        Ok(Self {
            limit_ratio: limit_percent / 100.0,
            asked_hertz,
            hertz: asked_hertz,
            periods_over: 0,
            cheap_periods: 0,
        })
    }

    /// The rate to use now.
    pub fn rate_hertz(&self) -> f64 {
        self.hertz
    }

    /// The current rate relative to the requested one; slower samplers are scaled by the same factor.
    pub fn factor(&self) -> f64 {
        self.hertz / self.asked_hertz
    }

    /// Allowed CPU time per wall time, 1 = one core.
    pub fn limit_ratio(&self) -> f64 {
        self.limit_ratio
    }

    /// Requests another rate. The learned cost is kept.
    pub fn ask(&mut self, hertz: f64) -> Result<(), RateError> {
        let asked = check_hertz("the sampling rate", hertz)?;
        let factor = self.factor();
        self.asked_hertz = asked;
        self.hertz = (asked * factor).clamp(MIN_HERTZ, asked);
        Ok(())
    }

    /// Reports the CPU time per wall time of a finished period. NaN is ignored.
    pub fn period_cost(&mut self, own_cpu_ratio: f64) -> Option<RateChange> {
        if !own_cpu_ratio.is_finite() || own_cpu_ratio < 0.0 {
            return None;
        }
        if own_cpu_ratio > self.limit_ratio {
            self.cheap_periods = 0;
            self.periods_over = self.periods_over.saturating_add(1);
            return (self.periods_over >= PERIODS_TO_LOWER).then(|| self.scale(LOWER)).flatten();
        }
        self.periods_over = 0;
        if own_cpu_ratio >= RAISE_BELOW * self.limit_ratio {
            self.cheap_periods = 0;
            return None;
        }
        self.cheap_periods += 1;
        if self.cheap_periods < PERIODS_TO_RAISE {
            return None;
        }
        self.cheap_periods = 0;
        self.scale(RAISE)
    }

    fn scale(&mut self, by: f64) -> Option<RateChange> {
        let from_hertz = self.hertz;
        let to_hertz = (from_hertz * by).clamp(MIN_HERTZ, self.asked_hertz);
        self.hertz = to_hertz;
        if to_hertz < from_hertz {
            Some(RateChange::Lowered { from_hertz, to_hertz })
        } else if to_hertz > from_hertz {
            Some(RateChange::Raised { from_hertz, to_hertz })
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::UseCase;

    /// Runs the control against a cost that grows with the rate; returns the rate after every period.
    fn simulate(control: &mut RateControl, periods: usize, cost: impl Fn(usize, f64) -> f64) -> Vec<f64> {
        (0..periods)
            .map(|period| {
                control.period_cost(cost(period, control.rate_hertz()));
                control.rate_hertz()
            })
            .collect()
    }

    /// How often the rate turned from falling to rising or back.
    fn turns(rates: &[f64]) -> usize {
        let moves: Vec<f64> =
            rates.windows(2).map(|pair| pair[1] - pair[0]).filter(|step| *step != 0.0).collect();
        moves.windows(2).filter(|pair| pair[0] * pair[1] < 0.0).count()
    }

    #[test]
    fn limits_follow_the_use_case() {
        let cases = [
            (UseCase::Development, 0.5),
            (UseCase::Testing, 0.2),
            (UseCase::Staging, 0.1),
            (UseCase::Production, 0.05),
            (UseCase::Critical, 0.02),
        ];
        for (case, limit) in cases {
            let control = RateControl::new(100.0, case.overhead_limit_percent()).unwrap();
            assert!((control.limit_ratio() - limit).abs() < 1e-12, "{case:?}");
        }
    }

    #[test]
    fn absurd_rates_and_limits_are_refused_by_name() {
        for hertz in [0.0, -1.0, 0.09, 1000.1, 1e9, f64::NAN, f64::INFINITY] {
            let error = RateControl::new(hertz, 5.0).unwrap_err();
            assert!(error.to_string().contains("between 0.1 and 1000"), "{error}");
        }
        for percent in [0.0, -5.0, 100.1, f64::NAN] {
            assert!(matches!(RateControl::new(1.0, percent), Err(RateError::Limit { .. })));
        }
    }

    #[test]
    fn a_dear_source_settles_under_the_limit_and_stays() {
        // 0.5 ms a sample: 1000 Hz would be half a core, 5 % is 100 Hz.
        let mut control = RateControl::new(1000.0, 5.0).unwrap();
        let rates = simulate(&mut control, 600, |_, hertz| hertz * 0.0005);
        let settled = rates[rates.len() - 1];
        assert!((80.0..=100.0).contains(&settled), "{settled}");
        assert_eq!(turns(&rates), 0);
        assert!(rates[100..].iter().all(|rate| *rate == settled), "it keeps moving");
    }

    #[test]
    fn every_level_of_cost_settles_without_swinging() {
        for nanos_per_sample in [1_000u32, 30_000, 100_000, 420_000, 1_000_000, 20_000_000] {
            for fixed in [0.0, 0.001, 0.01] {
                let mut control = RateControl::new(1000.0, 5.0).unwrap();
                let cost = |_, hertz: f64| (fixed + hertz * f64::from(nanos_per_sample) / 1e9).min(1.0);
                let rates = simulate(&mut control, 1000, cost);
                assert_eq!(turns(&rates), 0, "{nanos_per_sample} {fixed}");
                assert!(cost(0, control.rate_hertz()) <= 0.05, "{nanos_per_sample} {fixed}");
            }
        }
    }

    #[test]
    fn a_burst_of_load_lowers_it_once_and_it_comes_back_to_what_was_asked() {
        let mut control = RateControl::new(100.0, 5.0).unwrap();
        let rates = simulate(&mut control, 400, |period, hertz| {
            hertz * if (50..60).contains(&period) { 0.002 } else { 0.0001 }
        });
        assert_eq!(rates[49], 100.0);
        assert!(rates[59] < 30.0, "{}", rates[59]);
        assert_eq!(rates[399], 100.0);
        assert_eq!(turns(&rates), 1);
    }

    #[test]
    fn single_dear_periods_and_noise_change_nothing() {
        let mut control = RateControl::new(100.0, 5.0).unwrap();
        let rates = simulate(&mut control, 500, |period, _| if period % 2 == 0 { 0.2 } else { 0.03 });
        assert!(rates.iter().all(|rate| *rate == 100.0));
        assert_eq!(control.period_cost(f64::NAN), None);
        assert_eq!(control.period_cost(-1.0), None);
    }

    #[test]
    fn cost_that_no_rate_can_help_ends_at_the_slowest() {
        let mut control = RateControl::new(1000.0, 2.0).unwrap();
        let rates = simulate(&mut control, 200, |_, _| 0.9);
        assert_eq!(rates[199], MIN_HERTZ);
        assert!(control.factor() > 0.0);
    }

    #[test]
    fn another_rate_keeps_what_was_learned() {
        let mut control = RateControl::new(100.0, 5.0).unwrap();
        simulate(&mut control, 3, |_, _| 0.9);
        assert!((control.factor() - 0.64).abs() < 1e-9, "{}", control.factor());
        control.ask(50.0).unwrap();
        assert!((control.rate_hertz() - 32.0).abs() < 1e-9);
        assert!(control.ask(f64::NAN).is_err());
    }
}
