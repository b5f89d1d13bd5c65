//! The newest rows of one subject at the full rate: times and values in columns, the oldest overwritten when full.
//!
//! Rows stay in order of arrival. Inferences of concurrent streams arrive out of order; sorting them would cost more
//! than letting the rare reader scan all rows.

/// A row without a value in a column has NaN there; no real value is NaN.
const NONE: f64 = f64::NAN;

/// A ring without any allowance requests space once in this many rows, because a request scans all other rings.
const ASK_AGAIN_ROWS: usize = 1024;

#[derive(Debug)]
pub(super) struct Ring {
    times: Vec<u64>,
    /// One per track; a column that never had a value is empty and costs nothing.
    columns: Box<[Vec<f64>]>,
    /// Index of the oldest row once the ring is full.
    oldest: usize,
    /// Rows it may hold now.
    allowance: usize,
    /// The allowance cannot grow for now; requested again after one pass of the ring.
    pub settled: bool,
    /// Rows that came while it could keep none.
    turned_away: usize,
    /// Rows at the end that ascend in time.
    ascending: usize,
    /// Newest time that was overwritten, or that came before the ring was there.
    pub forgotten_to_ns: Option<u64>,
}

impl Ring {
    pub fn new(columns: usize, forgotten_to_ns: Option<u64>) -> Self {
        Self {
            times: Vec::new(),
            columns: vec![Vec::new(); columns].into(),
            oldest: 0,
            allowance: 0,
            settled: false,
            turned_away: 0,
            ascending: 0,
            forgotten_to_ns,
        }
    }

    pub fn len(&self) -> usize {
        self.times.len()
    }

    pub fn allowance(&self) -> usize {
        self.allowance
    }

    /// Whether the next row overwrites one although the ring might be allowed to grow.
    #[inline]
    pub fn wants_more(&self) -> bool {
        self.times.len() >= self.allowance && !self.settled
    }

    /// Memory per row.
    pub fn row_bytes(&self) -> usize {
        (1 + self.columns.iter().filter(|column| !column.is_empty()).count()) * 8
    }

    pub fn heap_bytes(&self) -> usize {
        let columns: usize = self.columns.iter().map(Vec::capacity).sum();
        (self.times.capacity() + columns) * 8 + self.columns.len() * size_of::<Vec<f64>>()
    }

    /// Sets the maximum number of rows; returns how many were dropped.
    pub fn allow(&mut self, rows: usize) -> u64 {
        let forgotten = self.len().saturating_sub(rows);
        self.times.rotate_left(self.oldest);
        for column in self.columns.iter_mut().filter(|column| !column.is_empty()) {
            column.rotate_left(self.oldest);
            column.drain(..forgotten);
            fit(column, rows);
        }
        let newest_forgotten = self.times.drain(..forgotten).max();
        fit(&mut self.times, rows);
        self.forgotten_to_ns = self.forgotten_to_ns.max(newest_forgotten);
        self.oldest = 0;
        self.allowance = rows;
        forgotten as u64
    }

    /// Adds a row; NaN means no value.
    #[inline]
    pub fn push(&mut self, time_ns: u64, values: &[f64]) {
        if self.allowance == 0 {
            self.forgotten_to_ns = self.forgotten_to_ns.max(Some(time_ns));
            self.turned_away += 1;
            self.settled &= !self.turned_away.is_multiple_of(ASK_AGAIN_ROWS);
            return;
        }
        let newest = if self.oldest == 0 { self.times.last() } else { self.times.get(self.oldest - 1) };
        self.ascending = match newest {
            Some(newest) if *newest > time_ns => 1,
            _ => self.ascending.saturating_add(1),
        };
        if self.times.len() < self.allowance {
            for (column, value) in self.columns.iter_mut().zip(values) {
                if column.is_empty() && !value.is_nan() {
                    column.reserve_exact(self.allowance);
                    column.resize(self.times.len(), NONE);
                }
                if !value.is_nan() || !column.is_empty() {
                    column.push(*value);
                }
            }
            self.times.push(time_ns);
            return;
        }
        let slot = self.oldest;
        if let Some(time) = self.times.get_mut(slot) {
            self.forgotten_to_ns = self.forgotten_to_ns.max(Some(*time));
            *time = time_ns;
        }
        for (column, value) in self.columns.iter_mut().zip(values) {
            if column.is_empty() && !value.is_nan() {
                column.reserve_exact(self.allowance);
                column.resize(self.times.len(), NONE);
            }
            if let Some(place) = column.get_mut(slot) {
                *place = *value;
            }
        }
        self.oldest = slot + 1;
        if self.oldest == self.times.len() {
            self.oldest = 0;
            self.settled = false;
        }
    }

    /// Values of a column with a time in the range, as they came, and whether they ascend in time.
    pub fn select(&self, column: usize, from_ns: u64, to_ns: u64) -> (Vec<(u64, f64)>, bool) {
        let ascending = self.ascending >= self.len();
        let values = match self.columns.get(column) {
            Some(values) if !values.is_empty() => values,
            _ => return (Vec::new(), ascending),
        };
        let mut rows = Vec::new();
        for part in [self.oldest..self.len(), 0..self.oldest] {
            let (mut times, mut values) = (&self.times[part.clone()], &values[part]);
            if ascending {
                let start = times.partition_point(|time| *time < from_ns);
                let end = times.partition_point(|time| *time < to_ns).max(start);
                (times, values) = (&times[start..end], &values[start..end]);
                rows.reserve(times.len());
            }
            let inside = |(time, value): &(u64, f64)| from_ns <= *time && *time < to_ns && !value.is_nan();
            rows.extend(times.iter().copied().zip(values.iter().copied()).filter(inside));
        }
        (rows, ascending)
    }

    /// How many values [`Ring::select`] would give.
    pub fn count(&self, column: usize, from_ns: u64, to_ns: u64) -> usize {
        let Some(values) = self.columns.get(column) else {
            return 0;
        };
        let inside = |(time, value): &(&u64, &f64)| from_ns <= **time && **time < to_ns && !value.is_nan();
        self.times.iter().zip(values).filter(inside).count()
    }
}

/// Sets the capacity of a list to exactly this many entries.
fn fit<T>(list: &mut Vec<T>, entries: usize) {
    if entries > list.capacity() {
        list.reserve_exact(entries - list.len());
    } else {
        list.shrink_to(entries);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use crate::random::Random;

    #[test]
    fn agrees_with_a_plain_list() {
        let mut random = Random::new(7);
        for round in 0..200 {
            let disorder = if round % 2 == 0 { 1 } else { 20 };
            let mut ring = Ring::new(2, None);
            let mut list: VecDeque<(u64, [f64; 2])> = VecDeque::new();
            ring.allow(1 + random.below(20) as usize);
            let mut time = 100;
            for step in 0..200 {
                if random.below(40) == 0 {
                    ring.allow(random.below(40) as usize);
                }
                time += random.below(5);
                let late = time - random.below(disorder).min(time);
                let second = if step > 50 && random.below(3) > 0 { random.unit() } else { f64::NAN };
                let row = [random.unit(), second];
                ring.push(late, &row);
                list.push_back((late, row));
                while list.len() > ring.allowance() {
                    list.pop_front();
                }
                let (from, to) = (random.below(time + 5), random.below(time + 5));
                for column in 0..2 {
                    let wanted: Vec<(u64, f64)> = list
                        .iter()
                        .map(|(time, row)| (*time, row[column]))
                        .filter(|(time, value)| from <= *time && *time < to && !value.is_nan())
                        .collect();
                    let (got, ascending) = ring.select(column, from, to);
                    assert_eq!(got, wanted);
                    assert_eq!(ring.count(column, from, to), wanted.len());
                    assert!(!ascending || got.is_sorted_by_key(|row| row.0));
                }
            }
        }
    }

    #[test]
    fn overwritten_rows_are_tracked() {
        let mut ring = Ring::new(1, None);
        assert!(ring.wants_more());
        ring.allow(3);
        for time in [10, 30, 20] {
            ring.push(time, &[1.0]);
        }
        assert_eq!(ring.forgotten_to_ns, None);
        assert!(ring.wants_more());
        ring.push(40, &[1.0]);
        ring.push(50, &[1.0]);
        assert_eq!(ring.forgotten_to_ns, Some(30));
        assert_eq!(ring.allow(1), 2);
        assert_eq!(ring.select(0, 0, 100).0, [(50, 1.0)]);
        assert_eq!(ring.forgotten_to_ns, Some(40));
        assert_eq!(ring.heap_bytes(), 16 + size_of::<Vec<f64>>());
    }

    #[test]
    fn a_column_without_values_takes_no_room() {
        let mut ring = Ring::new(3, None);
        ring.allow(1000);
        ring.push(1, &[1.0, f64::NAN, f64::NAN]);
        assert_eq!((ring.row_bytes(), ring.heap_bytes()), (16, 16_000 + 3 * size_of::<Vec<f64>>()));
        ring.push(2, &[1.0, 5.0, f64::NAN]);
        assert_eq!(ring.row_bytes(), 24);
        assert_eq!(ring.select(1, 0, 9).0, [(2, 5.0)]);
    }
}
