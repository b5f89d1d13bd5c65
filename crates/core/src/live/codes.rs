//! Order-preserving encoding of numbers in few bits, for closed buckets and histograms.
//!
//! The bits of an `f32` with its sign folded in are a whole number that grows with the value. Dropping the lower bits
//! rounds the value to a fixed relative precision, and the differences of neighboring numbers stay small.

/// Bits left out of mean, min and max: 16 bits of mantissa stay, an error of at most 2⁻¹⁷ (8 parts in a million).
pub(super) const FINE_SHIFT: u32 = 7;
/// Bits left out of percentiles: 8 bits of mantissa stay, an error of at most 2⁻⁹ (0.2 %).
pub(super) const COARSE_SHIFT: u32 = 15;
/// Bits left out of the bins of a histogram: 7 bits of mantissa stay, the middle of a bin is at most 2⁻⁸ (0.4 %) away.
const BIN_SHIFT: u32 = 16;

/// Place of a finite number in the order of all `f32`.
#[inline]
pub(super) fn ordered(value: f32) -> u32 {
    // Adding zero turns -0 into +0.
    let bits = (value + 0.0).to_bits();
    if bits >> 31 == 1 { !bits } else { bits | 0x8000_0000 }
}

pub(super) fn from_ordered(place: u32) -> f32 {
    f32::from_bits(if place >> 31 == 1 { place & 0x7fff_ffff } else { !place })
}

/// The number rounded to the nearest code; codes grow with their numbers.
pub(super) fn round_to_code(value: f32, shift: u32) -> u32 {
    // Rounding up the largest number would give infinity.
    let largest = ordered(f32::MAX) >> shift;
    (ordered(value).saturating_add(1 << (shift - 1)) >> shift).min(largest)
}

pub(super) fn from_code(code: u32, shift: u32) -> f32 {
    from_ordered(code << shift)
}

/// The bin of a histogram that holds the number at this place of the order.
pub(super) fn bin_of(place: u32) -> u16 {
    (place >> BIN_SHIFT) as u16
}

/// The representative of a bin. Numbers closer to zero than 1e-38 count as zero.
pub(super) fn middle_of_bin(bin: u16) -> f32 {
    let place = u32::from(bin) << BIN_SHIFT;
    let value = from_ordered(place | 1 << (BIN_SHIFT - 1));
    if value.is_subnormal() { 0.0 } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBERS: [f32; 12] =
        [0.0, 1.0, -1.0, 0.37, 99.99, 131_071.0, 17e9, -4.5e-3, 1e-37, f32::MAX, f32::MIN, 1.844_674_4e19];

    #[test]
    fn codes_keep_the_promised_precision() {
        for (shift, error) in [(FINE_SHIFT, 2f64.powi(-17)), (COARSE_SHIFT, 2f64.powi(-9))] {
            for value in NUMBERS {
                let back = f64::from(from_code(round_to_code(value, shift), shift));
                let value = f64::from(value);
                // The largest number cannot be rounded up: its code is a whole step away.
                let error = if value.abs() > 3e38 { 2.0 * error } else { error };
                assert!((back - value).abs() <= error * value.abs(), "{value} became {back}");
            }
        }
    }

    #[test]
    fn whole_numbers_up_to_131072_are_exact() {
        for value in (0..=131_072).step_by(7) {
            let value = value as f32;
            assert_eq!(from_code(round_to_code(value, FINE_SHIFT), FINE_SHIFT), value);
        }
    }

    #[test]
    fn codes_and_bins_keep_the_order() {
        let mut sorted = NUMBERS;
        sorted.sort_by(f32::total_cmp);
        for pair in sorted.windows(2) {
            assert!(round_to_code(pair[0], FINE_SHIFT) <= round_to_code(pair[1], FINE_SHIFT));
            assert!(bin_of(ordered(pair[0])) <= bin_of(ordered(pair[1])));
        }
        assert_eq!(ordered(-0.0), ordered(0.0));
    }

    #[test]
    fn the_middle_of_a_bin_is_near_all_its_numbers() {
        for step in 0..2000 {
            let value = 0.5 + step as f32 * 0.001;
            for value in [value, -value, value * 1e9, value * 1e-9] {
                let middle = middle_of_bin(bin_of(ordered(value)));
                assert!((middle - value).abs() <= value.abs() * 2f32.powi(-8), "{value}: {middle}");
            }
        }
        assert_eq!(middle_of_bin(bin_of(ordered(0.0))), 0.0);
    }
}
