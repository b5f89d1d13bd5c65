//! Scales and their marks: round numbers, few enough to read.

use super::super::escape::{coordinate, escape};
use ortscope_core::units::TimeUnit;

/// Maps values to shares of the axis, 0 to 1.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    logarithmic: bool,
}

impl Scale {
    pub fn linear(low: f64, high: f64) -> Self {
        let high = if high > low { high } else { low + low.abs().max(1.0) * 0.1 };
        Self { low, high, logarithmic: false }
    }

    /// For values above zero.
    pub fn logarithmic(low: f64, high: f64) -> Self {
        let low = low.max(1e-9);
        Self { low, high: high.max(low * 1.01), logarithmic: true }
    }

    pub fn share(&self, value: f64) -> f64 {
        let share = match self.logarithmic {
            true => (value.max(self.low) / self.low).ln() / (self.high / self.low).ln(),
            false => (value - self.low) / (self.high - self.low),
        };
        if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }
    }

    /// About `wanted` round values on the scale.
    fn rounds(&self, wanted: usize) -> Vec<f64> {
        if !self.logarithmic || self.high / self.low < 4.0 {
            return round_steps(self.low, self.high, wanted);
        }
        let decades = (self.high / self.low).log10();
        // The finest of these sets that is not too fine.
        let sets: [&[f64]; 3] = [&[1.0, 2.0, 5.0], &[1.0, 3.0], &[1.0]];
        let set =
            sets.iter().find(|set| decades * set.len() as f64 <= wanted as f64 + 1.0).unwrap_or(&sets[2]);
        let first = self.low.log10().floor() as i32;
        let last = self.high.log10().ceil() as i32;
        // Over very many decades only every few of them.
        let stride = (decades / wanted.max(1) as f64).ceil().max(1.0) as usize;
        (first..=last)
            .step_by(if set.len() > 1 { 1 } else { stride })
            .flat_map(|power| set.iter().map(move |digit| digit * 10_f64.powi(power)))
            .filter(|value| *value >= self.low * 0.999 && *value <= self.high * 1.001)
            .collect()
    }
}

fn round_steps(low: f64, high: f64, wanted: usize) -> Vec<f64> {
    let rough = (high - low) / wanted.max(1) as f64;
    let power = 10_f64.powf(rough.log10().floor());
    let step =
        [1.0, 2.0, 5.0, 10.0].into_iter().map(|digit| digit * power).find(|step| *step >= rough * 0.999);
    steps(low, high, step.unwrap_or(rough))
}

fn steps(low: f64, high: f64, step: f64) -> Vec<f64> {
    if !(step.is_finite() && step > 0.0) || (high - low) / step > 100.0 {
        return Vec::new();
    }
    let first = (low / step - 1e-9).ceil() as i64;
    let last = (high / step + 1e-9).floor() as i64;
    (first..=last).map(|index| index as f64 * step).collect()
}

/// Marks of an axis: their share and label.
#[derive(Debug, Default)]
pub(super) struct Ticks {
    pub title: String,
    pub marks: Vec<(f64, String)>,
}

impl Ticks {
    /// Latencies given in milliseconds.
    pub fn latency(scale: &Scale, wanted: usize, title: &str) -> Self {
        // In the unit itself, so that the marks are round in it.
        let unit = TimeUnit::of((scale.low * scale.high).max(0.0).sqrt());
        let per_ms = unit.scale(1.0);
        let scaled = Scale { low: scale.low * per_ms, high: scale.high * per_ms, ..*scale };
        let marks =
            scaled.rounds(wanted).into_iter().map(|value| (scaled.share(value), plain(value))).collect();
        Self { title: format!("{title} ({})", unit.name()), marks }
    }

    /// Seconds of the recording.
    pub fn time(scale: &Scale, wanted: usize) -> Self {
        let span = scale.high - scale.low;
        let (unit, per, title) = match span {
            span if span >= 3.0 * 3600.0 => (3600.0, &[1.0, 2.0, 3.0, 6.0, 12.0, 24.0][..], "time (h)"),
            span if span >= 180.0 => (60.0, &[1.0, 2.0, 5.0, 10.0, 15.0, 30.0][..], "time (min)"),
            span if span >= 0.01 => (1.0, &[][..], "time (s)"),
            _ => (0.001, &[][..], "time (ms)"),
        };
        let (low, high) = (scale.low / unit, scale.high / unit);
        let step = per.iter().copied().find(|step| (high - low) / step <= wanted as f64);
        let values = step.map_or_else(|| round_steps(low, high, wanted), |step| steps(low, high, step));
        let marks = values.into_iter().map(|value| (scale.share(value * unit), plain(value))).collect();
        Self { title: title.to_owned(), marks }
    }

    /// Any other values; `show` writes them with their unit.
    pub fn values(scale: &Scale, wanted: usize, show: impl Fn(f64) -> String) -> Self {
        let marks = scale.rounds(wanted).into_iter().map(|value| (scale.share(value), show(value))).collect();
        Self { title: String::new(), marks }
    }
}

/// A round number as it is written on an axis.
fn plain(value: f64) -> String {
    if value.abs() >= 10_000.0 {
        return ortscope_core::units::digits(value);
    }
    let text = format!("{value:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// A label under a chart; those at the ends stay inside.
pub(super) fn x_label(share: f64, label: &str) -> String {
    let anchor = match share {
        share if share < 0.03 => "start",
        share if share > 0.97 => "end",
        _ => "middle",
    };
    format!(
        "<text x=\"{}%\" y=\"13\" text-anchor=\"{anchor}\">{}</text>",
        coordinate(share * 100.0),
        escape(label)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(ticks: &Ticks) -> String {
        ticks.marks.iter().map(|(_, label)| label.as_str()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn marks_are_round_and_inside() {
        let ticks = Ticks::latency(&Scale::logarithmic(0.9, 42.0), 6, "latency");
        assert_eq!((labels(&ticks).as_str(), ticks.title.as_str()), ("1 2 5 10 20", "latency (ms)"));
        assert!(ticks.marks.iter().all(|(share, _)| (0.0..=1.0).contains(share)));
        assert_eq!(labels(&Ticks::latency(&Scale::logarithmic(0.0008, 0.0011), 5, "x")), "800 900 1000 1100");
        assert_eq!(labels(&Ticks::time(&Scale::linear(0.0, 600.0), 6)), "0 2 4 6 8 10");
        assert_eq!(labels(&Ticks::time(&Scale::linear(0.0, 86_400.0), 6)), "0 6 12 18 24");
        assert_eq!(labels(&Ticks::time(&Scale::linear(3.2, 4.9), 4)), "3.5 4 4.5");
        assert_eq!(labels(&Ticks::values(&Scale::linear(0.0, 0.0), 4, plain)), "0 0.05 0.1");
    }

    #[test]
    fn absurd_ranges_do_no_harm() {
        for scale in [Scale::linear(0.0, 1e300), Scale::logarithmic(0.0, f64::MAX), Scale::linear(-5.0, -5.0)]
        {
            assert!(Ticks::latency(&scale, 5, "x").marks.len() < 120);
            assert!(Ticks::time(&scale, 5).marks.len() < 120);
            assert!(scale.share(f64::NAN).is_finite());
        }
    }
}
