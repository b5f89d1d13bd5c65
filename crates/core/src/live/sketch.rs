//! The distribution of the values of one bucket in bounded memory.
//!
//! Up to [`EXACT`] values are kept as they are (`f32`, by their place in the order of numbers, which sorts fast).
//! Beyond that they are counted in bins whose middle is at most 0.4 % away from any of their values. Together with
//! the 0.2 % to which closed buckets round, a percentile is at most 1 % off. Percentiles interpolate between
//! neighbors as numpy, R and our reports do (type 7); where the neighbors have different signs the bound is
//! relative to the larger one.

use super::codes::{bin_of, from_ordered, middle_of_bin, ordered};

/// Values kept as they are before they are counted in bins.
pub(super) const EXACT: usize = 256;
/// Bins of one histogram: 32 powers of two filled without a hole. Beyond, the lowest bins become one, which makes low
/// percentiles of such wild series too high but leaves the upper ones.
const MAX_BINS: usize = 4096;

/// Bins that are counted in an array on the stack: four powers of two.
const NARROW: usize = 512;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bin {
    key: u16,
    count: u32,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Sketch {
    /// Values not yet counted in bins, in no order.
    recent: Vec<u32>,
    /// Sorted by key; empty as long as all values are in `recent`.
    bins: Vec<Bin>,
}

impl Sketch {
    /// An empty sketch with capacity for about this many values.
    pub fn with_capacity_for(values: u32) -> Self {
        Self { recent: Vec::with_capacity((values as usize).min(EXACT)), bins: Vec::new() }
    }

    #[inline]
    pub fn add(&mut self, value: f32) {
        self.add_place(ordered(value));
    }

    #[inline]
    fn add_place(&mut self, place: u32) {
        if self.recent.len() >= EXACT {
            self.fold();
        }
        self.recent.push(place);
    }

    pub fn merge(&mut self, other: &Self) {
        merge_bins(&mut self.bins, &other.bins);
        for place in &other.recent {
            self.add_place(*place);
        }
    }

    /// Releases memory that is not needed while few or no values follow.
    pub fn compact(&mut self) {
        if !self.bins.is_empty() {
            self.fold();
            self.bins.shrink_to_fit();
        }
        self.recent.shrink_to_fit();
    }

    /// The quantiles `qs` (0 to 1, ascending), or `None` without values.
    pub fn quantiles<const N: usize>(&mut self, qs: [f64; N]) -> Option<[f32; N]> {
        if self.bins.is_empty() {
            self.recent.sort_unstable();
            let sorted = &self.recent;
            return quantiles_by_rank(qs, sorted.len() as u64, |rank| {
                sorted.get(rank as usize).map_or(0.0, |place| from_ordered(*place))
            });
        }
        self.fold();
        let total = self.bins.iter().map(|bin| u64::from(bin.count)).sum();
        quantiles_by_rank(qs, total, |rank| {
            let mut seen = 0;
            let holds_rank = |bin: &&Bin| {
                seen += u64::from(bin.count);
                seen > rank
            };
            self.bins.iter().find(holds_rank).map_or(0.0, |bin| middle_of_bin(bin.key))
        })
    }

    pub fn heap_bytes(&self) -> usize {
        self.recent.capacity() * size_of::<u32>() + self.bins.capacity() * size_of::<Bin>()
    }

    /// Counts the recent values in bins.
    fn fold(&mut self) {
        let keys = || self.recent.iter().map(|place| bin_of(*place));
        let (Some(lowest), Some(highest)) = (keys().min(), keys().max()) else {
            return;
        };
        let mut fresh = Vec::new();
        if usize::from(highest - lowest) < NARROW {
            // The usual case, values within a few powers of two: counting is several times faster than sorting.
            let mut counts = [0_u16; NARROW];
            keys().for_each(|key| counts[usize::from(key - lowest)] += 1);
            let counted = (lowest..=highest).zip(counts).filter(|(_, count)| *count > 0);
            count_bins(&mut self.bins, &mut fresh, counted);
        } else {
            let mut sorted: Vec<u16> = keys().collect();
            sorted.sort_unstable();
            let counted = sorted.chunk_by(|a, b| a == b).map(|run| (run[0], run.len() as u16));
            count_bins(&mut self.bins, &mut fresh, counted);
        }
        self.recent.clear();
        merge_bins(&mut self.bins, &fresh);
    }
}

/// Adds ascending counts to the bins that are there; the others become `fresh` ones.
fn count_bins(bins: &mut [Bin], fresh: &mut Vec<Bin>, counted: impl Iterator<Item = (u16, u16)>) {
    let mut index = 0;
    for (key, count) in counted {
        while bins.get(index).is_some_and(|bin| bin.key < key) {
            index += 1;
        }
        let count = u32::from(count);
        match bins.get_mut(index) {
            Some(bin) if bin.key == key => bin.count = bin.count.saturating_add(count),
            _ => fresh.push(Bin { key, count }),
        }
    }
}

fn merge_bins(bins: &mut Vec<Bin>, more: &[Bin]) {
    if more.is_empty() {
        return;
    }
    bins.extend_from_slice(more);
    // Two ascending runs: the stable sort finds and merges them.
    bins.sort_by_key(|bin| bin.key);
    bins.dedup_by(|later, kept| {
        let same = later.key == kept.key;
        if same {
            kept.count = kept.count.saturating_add(later.count);
        }
        same
    });
    let surplus = bins.len().saturating_sub(MAX_BINS);
    if surplus > 0 {
        let collapsed = bins.drain(..surplus).fold(0_u32, |sum, bin| sum.saturating_add(bin.count));
        if let Some(lowest) = bins.first_mut() {
            lowest.count = lowest.count.saturating_add(collapsed);
        }
    }
}

fn quantiles_by_rank<const N: usize>(
    qs: [f64; N],
    total: u64,
    value_at: impl Fn(u64) -> f32,
) -> Option<[f32; N]> {
    let last = total.checked_sub(1)?;
    Some(qs.map(|q| {
        let position = q.clamp(0.0, 1.0) * last as f64;
        let rank = (position.floor() as u64).min(last);
        let fraction = position - rank as f64;
        let below = value_at(rank);
        if fraction <= 0.0 {
            return below;
        }
        let above = value_at((rank + 1).min(last));
        (f64::from(below) + (f64::from(above) - f64::from(below)) * fraction) as f32
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::testing::quantile;
    use crate::random::Random;

    const QS: [f64; 3] = [0.5, 0.95, 0.99];

    fn worst_error(values: &[f64]) -> f64 {
        let mut sketch = Sketch::default();
        values.iter().for_each(|value| sketch.add(*value as f32));
        let got = sketch.quantiles(QS).expect("values");
        let errors = QS.iter().zip(got).map(|(q, got)| {
            let exact = quantile(values, *q);
            if exact == 0.0 { f64::from(got).abs() } else { (f64::from(got) / exact - 1.0).abs() }
        });
        errors.fold(0.0, f64::max)
    }

    #[test]
    fn few_values_are_exact() {
        let mut random = Random::new(1);
        for count in [1, 2, 3, 100, EXACT] {
            let values: Vec<f64> = (0..count).map(|_| random.unit() * 1e9).collect();
            assert!(worst_error(&values) < 1e-6, "{count} values");
        }
    }

    #[test]
    fn many_values_stay_within_the_bound() {
        let mut random = Random::new(2);
        for count in [EXACT + 1, 1000, 6000, 60_000] {
            let shapes: [&dyn Fn(&mut Random) -> f64; 5] = [
                &|random| 4.5e6 * (1.0 + 0.05 * random.normal()).abs(),
                &|random| (random.normal() * 2.0).exp() * 1e6,
                &|random| if random.unit() < 0.9 { 1.0e6 } else { 9.0e6 + random.unit() },
                &|random| -random.unit() * 50.0,
                &|random| if random.unit() < 0.6 { 0.0 } else { 100.0 * random.unit() },
            ];
            for (shape, draw) in shapes.iter().enumerate() {
                let values: Vec<f64> = (0..count).map(|_| draw(&mut random)).collect();
                let error = worst_error(&values);
                assert!(error <= 0.0040, "shape {shape}, {count} values: {error}");
            }
        }
    }

    #[test]
    fn merging_in_parts_counts_every_value() {
        let mut random = Random::new(3);
        let values: Vec<f64> = (0..5000).map(|_| random.unit() * 1000.0).collect();
        let mut whole = Sketch::default();
        for part in values.chunks(170).chain(values.chunks(1300)) {
            let mut sketch = Sketch::with_capacity_for(10);
            part.iter().for_each(|value| sketch.add(*value as f32));
            sketch.compact();
            whole.merge(&sketch);
        }
        let got = whole.quantiles([0.5]).expect("values")[0];
        assert!((f64::from(got) / quantile(&values, 0.5) - 1.0).abs() < 0.004);
        assert_eq!(whole.bins.iter().map(|bin| bin.count).sum::<u32>(), 10_000);
    }

    #[test]
    fn a_wild_series_stays_bounded_and_its_upper_percentiles_hold() {
        let mut random = Random::new(4);
        let values: Vec<f64> = (0..200_000).map(|_| (random.unit() * 160.0 - 80.0).exp()).collect();
        let mut sketch = Sketch::default();
        values.iter().for_each(|value| sketch.add(*value as f32));
        let [p99] = sketch.quantiles([0.99]).expect("values");
        assert!((f64::from(p99) / quantile(&values, 0.99) - 1.0).abs() < 0.004);
        assert!(sketch.bins.len() <= MAX_BINS);
        assert!(sketch.heap_bytes() <= 4 * EXACT + 2 * 8 * (MAX_BINS + EXACT));
    }

    #[test]
    fn nothing_has_no_percentiles() {
        assert_eq!(Sketch::default().quantiles(QS), None);
    }
}
