//! A bucket of time: while it is open it takes values, when it is closed it is seven numbers.

use super::sketch::Sketch;

/// A closed bucket. Numbers are `f32`: seven digits, more than any chart shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bucket {
    /// Start of the bucket in widths of its tier since the clock's zero.
    pub index: u64,
    pub count: u32,
    pub min: f32,
    pub max: f32,
    pub mean: f32,
    pub p50: f32,
    pub p95: f32,
    pub p99: f32,
}

/// A bucket that still takes values.
#[derive(Debug, Clone, Default)]
pub(super) struct Accumulator {
    pub count: u32,
    sum: f64,
    min: f64,
    max: f64,
    sketch: Sketch,
}

impl Accumulator {
    pub fn with_capacity_for(values: u32) -> Self {
        Self { sketch: Sketch::with_capacity_for(values), ..Self::default() }
    }

    /// Takes a value that is finite also as `f32`.
    #[inline]
    pub fn add(&mut self, value: f64) {
        if self.count == 0 {
            self.min = value;
            self.max = value;
        } else {
            self.min = self.min.min(value);
            self.max = self.max.max(value);
        }
        self.count = self.count.saturating_add(1);
        self.sum += value;
        self.sketch.add(value as f32);
    }

    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        (self.min, self.max) = match self.count {
            0 => (other.min, other.max),
            _ => (self.min.min(other.min), self.max.max(other.max)),
        };
        self.count = self.count.saturating_add(other.count);
        self.sum += other.sum;
        self.sketch.merge(&other.sketch);
    }

    pub fn compact(&mut self) {
        self.sketch.compact();
    }

    pub fn mean(&self) -> Option<f64> {
        // Rounding of the sum can push the mean of equal values past them.
        (self.count > 0).then(|| (self.sum / f64::from(self.count)).clamp(self.min, self.max))
    }

    /// The seven numbers; `None` if no value came.
    pub fn close(&mut self, index: u64) -> Option<Bucket> {
        let mean = self.mean()?;
        let [p50, p95, p99] = self.sketch.quantiles([0.50, 0.95, 0.99])?;
        let (min, max) = (self.min as f32, self.max as f32);
        let inside = |value: f32| value.clamp(min, max);
        Some(Bucket {
            index,
            count: self.count,
            min,
            max,
            mean: mean as f32,
            p50: inside(p50),
            p95: inside(p95),
            p99: inside(p99),
        })
    }

    pub fn heap_bytes(&self) -> usize {
        self.sketch.heap_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_says_what_was_in_it() {
        let mut open = Accumulator::default();
        assert!(open.close(0).is_none());
        for value in 1..=101 {
            open.add(f64::from(value));
        }
        let bucket = open.close(7).expect("values");
        let wanted = Bucket {
            index: 7,
            count: 101,
            min: 1.0,
            max: 101.0,
            mean: 51.0,
            p50: 51.0,
            p95: 96.0,
            p99: 100.0,
        };
        assert_eq!(bucket, wanted);
    }

    #[test]
    fn halves_make_the_whole() {
        let (mut left, mut right, mut whole) = <(Accumulator, Accumulator, Accumulator)>::default();
        for value in 0..200 {
            let value = f64::from(value * 37 % 200) - 50.0;
            (if value < 20.0 { &mut left } else { &mut right }).add(value);
            whole.add(value);
        }
        let mut merged = Accumulator::default();
        merged.merge(&Accumulator::default());
        merged.merge(&left);
        merged.merge(&right);
        assert_eq!(merged.close(0), whole.close(0));
    }

    #[test]
    fn the_mean_of_equal_values_is_the_value() {
        let mut open = Accumulator::default();
        for _ in 0..3 {
            open.add(0.1);
        }
        let bucket = open.close(0).expect("values");
        assert_eq!((bucket.min, bucket.mean, bucket.p99), (0.1, 0.1, 0.1));
    }
}
