//! 64 closed buckets packed together: the form in which a day fits into memory.
//!
//! Eight columns of whole numbers (see [`codes`](super::codes)), each with as many bits per number as its largest
//! needs: a column of width w takes exactly w words. A track that does not change takes about 1.5 bytes per bucket, a
//! noisy one 8, the worst 16; mean, min and max are kept to 8 parts in a million, percentiles to 0.2 %, counts and
//! times exactly.

use std::sync::Arc;

use super::bucket::Bucket;
use super::codes::{COARSE_SHIFT, FINE_SHIFT, from_code, round_to_code};

/// Buckets of a block: 64, so that columns start at whole words.
pub(super) const BLOCK: usize = 64;
const COLUMNS: usize = 8;
/// Words before the columns: the smallest count and mean, and the width of each column.
const HEADER: usize = 2;
/// Approximate overhead of an allocation and the counters of `Arc`.
const ALLOCATION_BYTES: usize = 32;

/// Packed buckets, ascending in time. Cloning shares them, so that readers unpack without holding a lock.
#[derive(Debug, Clone)]
pub(super) struct Block {
    /// Index of the first and of the last bucket.
    pub first: u64,
    pub last: u64,
    words: Arc<[u64]>,
}

impl Block {
    /// Packs exactly [`BLOCK`] buckets with ascending indices; `None` for another number.
    pub fn pack(buckets: &[Bucket]) -> Option<Self> {
        let buckets: &[Bucket; BLOCK] = buckets.try_into().ok()?;
        let mut columns = [[0_u64; BLOCK]; COLUMNS];
        let count_base = buckets.iter().map(|bucket| bucket.count).min()?;
        let mean_base = buckets.iter().map(|bucket| round_to_code(bucket.mean, FINE_SHIFT)).min()?;
        let mut expected = buckets[0].index;
        for (row, bucket) in buckets.iter().enumerate() {
            let fine = |value| round_to_code(value, FINE_SHIFT);
            let coarse = |value| round_to_code(value, COARSE_SHIFT);
            let (min, mean, max) = (fine(bucket.min), fine(bucket.mean), fine(bucket.max));
            let (p50, p95, p99) = (coarse(bucket.p50), coarse(bucket.p95), coarse(bucket.p99));
            let numbers = [
                bucket.index.saturating_sub(expected),
                u64::from(bucket.count - count_base),
                u64::from(mean - mean_base),
                u64::from(mean.saturating_sub(min)),
                u64::from(max.saturating_sub(mean)),
                u64::from(p50.saturating_sub(floor_code(min))),
                u64::from(p95.saturating_sub(p50)),
                u64::from(p99.saturating_sub(p95)),
            ];
            for (column, number) in columns.iter_mut().zip(numbers) {
                column[row] = number;
            }
            expected = bucket.index.saturating_add(1);
        }
        let widths = columns.each_ref().map(width);
        let payload: usize = widths.iter().map(|width| usize::from(*width)).sum();
        let mut words = Vec::with_capacity(HEADER + payload);
        words.push(u64::from(count_base) << 32 | u64::from(mean_base));
        words.push(u64::from_le_bytes(widths));
        for (column, width) in columns.iter().zip(widths) {
            pack_column(column, u32::from(width), &mut words);
        }
        Some(Self { first: buckets[0].index, last: buckets[BLOCK - 1].index, words: words.into() })
    }

    pub fn unpack(&self) -> Vec<Bucket> {
        let header = |index: usize| self.words.get(index).copied().unwrap_or_default();
        let (count_base, mean_base) = ((header(0) >> 32) as u32, header(0) as u32);
        let mut start = HEADER;
        let columns = header(1).to_le_bytes().map(|width| {
            let words = self.words.get(start..).unwrap_or_default();
            start += usize::from(width);
            (words, u32::from(width))
        });
        let mut expected = self.first;
        let unpack_row = |row: usize| {
            let [gap, count, mean, below, above, p50, p95, p99] =
                columns.map(|(words, width)| unpack_number(words, width, row));
            let index = expected.saturating_add(gap);
            expected = index.saturating_add(1);
            let mean = mean_base + mean as u32;
            let (min, max) = (mean - below as u32, mean + above as u32);
            let p50 = floor_code(min) + p50 as u32;
            let p95 = p50 + p95 as u32;
            let p99 = p95 + p99 as u32;
            let [min, mean, max] = [min, mean, max].map(|code| from_code(code, FINE_SHIFT));
            let [p50, p95, p99] = [p50, p95, p99].map(|code| from_code(code, COARSE_SHIFT).clamp(min, max));
            Bucket { index, count: count_base + count as u32, min, max, mean, p50, p95, p99 }
        };
        (0..BLOCK).map(unpack_row).collect()
    }

    pub fn heap_bytes(&self) -> usize {
        self.words.len() * size_of::<u64>() + ALLOCATION_BYTES
    }
}

/// The coarse code at or below a fine one.
fn floor_code(fine: u32) -> u32 {
    fine >> (COARSE_SHIFT - FINE_SHIFT)
}

/// Bits that the largest number of a column needs.
fn width(column: &[u64; BLOCK]) -> u8 {
    let all = column.iter().fold(0, |bits, number| bits | number);
    (u64::BITS - all.leading_zeros()) as u8
}

fn pack_column(column: &[u64; BLOCK], width: u32, words: &mut Vec<u64>) {
    let (mut word, mut used) = (0_u64, 0);
    for number in column.iter().filter(|_| width > 0) {
        word |= number << used;
        used += width;
        if used >= u64::BITS {
            words.push(word);
            used -= u64::BITS;
            // The bits that did not fit; a shift by the whole width would not be defined.
            word = if used > 0 { number >> (width - used) } else { 0 };
        }
    }
}

#[inline]
fn unpack_number(words: &[u64], width: u32, row: usize) -> u64 {
    if width == 0 {
        return 0;
    }
    let bit = row * width as usize;
    let (index, shift) = (bit / 64, (bit % 64) as u32);
    let word = |index: usize| words.get(index).copied().unwrap_or_default();
    let mut number = word(index) >> shift;
    if shift + width > u64::BITS {
        number |= word(index + 1) << (u64::BITS - shift);
    }
    number & (u64::MAX >> (u64::BITS - width))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn near(a: f32, b: f32, error: f32) -> bool {
        (a - b).abs() <= error * b.abs()
    }

    fn check(buckets: &[Bucket]) -> usize {
        let block = Block::pack(buckets).expect("64 buckets");
        assert_eq!((block.first, block.last), (buckets[0].index, buckets[BLOCK - 1].index));
        for (got, wanted) in block.unpack().iter().zip(buckets) {
            assert_eq!((got.index, got.count), (wanted.index, wanted.count));
            for (got, wanted) in [(got.min, wanted.min), (got.max, wanted.max), (got.mean, wanted.mean)] {
                assert!(near(got, wanted, 8e-6), "{got} for {wanted}");
            }
            for (got, wanted) in [(got.p50, wanted.p50), (got.p95, wanted.p95), (got.p99, wanted.p99)] {
                assert!(near(got, wanted, 0.00196), "{got} for {wanted}");
            }
            assert!(got.min <= got.p50 && got.p50 <= got.p95 && got.p95 <= got.p99 && got.p99 <= got.max);
        }
        block.heap_bytes()
    }

    fn bucket(index: u64, mut values: [f32; 5], count: u32) -> Bucket {
        values.sort_by(f32::total_cmp);
        let [min, p50, p95, p99, max] = values;
        let mean = ((f64::from(min) + f64::from(max)) / 2.0) as f32;
        Bucket { index, count, min, max, mean, p50, p95, p99 }
    }

    #[test]
    fn random_buckets_come_back_within_the_precision() {
        let mut random = Random::new(5);
        for round in 0..300 {
            let spread = 10f64.powi((round % 30) - 15);
            let mut index = random.below(1 << 34);
            let buckets: Vec<Bucket> = (0..BLOCK)
                .map(|_| {
                    index += 1 + if random.below(8) == 0 { random.below(100_000) } else { 0 };
                    let values = [(); 5].map(|()| {
                        let sign = if round % 3 == 0 && random.below(2) == 0 { -1.0 } else { 1.0 };
                        (sign * spread * random.normal().exp()) as f32
                    });
                    bucket(index, values, 1 + random.below(1 << 20) as u32)
                })
                .collect();
            check(&buckets);
        }
    }

    #[test]
    fn extremes_come_back() {
        let values = [f32::MIN, -1.0, 0.0, 1.0, f32::MAX];
        let far = |index: usize| if index + 1 == BLOCK { u64::MAX } else { index as u64 };
        let buckets: Vec<Bucket> = (0..BLOCK).map(|index| bucket(far(index), values, u32::MAX)).collect();
        let block = Block::pack(&buckets).expect("64 buckets");
        let back = block.unpack();
        assert_eq!(back[63].index, u64::MAX);
        assert!(
            back.iter().all(|bucket| bucket.count == u32::MAX && bucket.max > 3.3e38 && bucket.p95 == 0.0)
        );
    }

    #[test]
    fn constant_tracks_are_small_and_noisy_ones_bounded() {
        let quiet: Vec<Bucket> = (0..64).map(|index| bucket(index, [42.5; 5], 100)).collect();
        assert_eq!(check(&quiet), 16 + ALLOCATION_BYTES);
        let mut random = Random::new(6);
        let noisy: Vec<Bucket> = (0..64)
            .map(|index| bucket(index, [(); 5].map(|()| 50.0 + 5.0 * random.normal() as f32), 100))
            .collect();
        assert!(check(&noisy) < 9 * 64, "{}", check(&noisy));
    }

    #[test]
    fn packing_another_number_of_buckets_fails() {
        assert!(Block::pack(&[]).is_none());
        assert!(Block::pack(&[bucket(0, [1.0; 5], 1); 63]).is_none());
    }
}
