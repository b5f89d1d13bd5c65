//! 4-bit and 8-bit floats, which are small enough for a table of all values.

use ortscope_core::tensor::ElementType;

/// Sign, exponent and fraction of a small float.
#[derive(Debug, Clone, Copy)]
struct Format {
    exponent_bits: u32,
    fraction_bits: u32,
    bias: i32,
}

fn format(element: ElementType) -> Option<Format> {
    let (exponent_bits, fraction_bits, bias) = match element {
        ElementType::Float8E4M3Fn => (4, 3, 7),
        ElementType::Float8E4M3Fnuz => (4, 3, 8),
        ElementType::Float8E5M2 => (5, 2, 15),
        ElementType::Float8E5M2Fnuz => (5, 2, 16),
        ElementType::Float4E2M1 => (2, 1, 1),
        _ => return None,
    };
    Some(Format { exponent_bits, fraction_bits, bias })
}

/// The value of a code; `None` for other types.
pub(super) fn decode(element: ElementType, code: u8) -> Option<f32> {
    if element == ElementType::Float8E8M0 {
        return Some(if code == 0xff { f32::NAN } else { 2f32.powi(i32::from(code) - 127) });
    }
    let Format { exponent_bits, fraction_bits, bias } = format(element)?;
    let nan = match element {
        ElementType::Float8E4M3Fn => code & 0x7f == 0x7f,
        ElementType::Float8E4M3Fnuz | ElementType::Float8E5M2Fnuz => code == 0x80,
        ElementType::Float8E5M2 => code & 0x7f > 0x7c,
        _ => false,
    };
    if nan {
        return Some(f32::NAN);
    }
    let exponent = i32::from(code >> fraction_bits & ((1 << exponent_bits) - 1));
    let fraction = f32::from(code & ((1 << fraction_bits) - 1)) / f32::from(1u8 << fraction_bits);
    let size = if element == ElementType::Float8E5M2 && code & 0x7f == 0x7c {
        f32::INFINITY
    } else if exponent == 0 {
        fraction * 2f32.powi(1 - bias)
    } else {
        (1.0 + fraction) * 2f32.powi(exponent - bias)
    };
    Some(if code >> (exponent_bits + fraction_bits) & 1 == 1 { -size } else { size })
}

/// Finds the nearest code of a value.
#[derive(Debug)]
pub(super) struct Encoder {
    /// Finite values with their codes, ascending.
    table: Vec<(f32, u8)>,
    nan: Option<u8>,
}

impl Encoder {
    pub fn new(element: ElementType) -> Option<Self> {
        let last = if element.bits() == Some(4) { 15 } else { 255 };
        let all: Option<Vec<(f32, u8)>> =
            (0..=last).map(|code| Some((decode(element, code)?, code))).collect();
        let all = all?;
        let nan = all.iter().find(|(value, _)| value.is_nan()).map(|(_, code)| *code);
        let mut table: Vec<(f32, u8)> = all.into_iter().filter(|(value, _)| value.is_finite()).collect();
        table.sort_by(|a, b| a.0.total_cmp(&b.0));
        Some(Self { table, nan })
    }

    /// Rounds to nearest, ties to even; larger values saturate. `None` for NaN if the type has none.
    pub fn encode(&self, value: f32) -> Option<u8> {
        if value.is_nan() {
            return self.nan;
        }
        let above = self.table.partition_point(|(known, _)| known.total_cmp(&value).is_lt());
        let high = self.table.get(above).or(self.table.last())?;
        if high.0.to_bits() == value.to_bits() {
            return Some(high.1);
        }
        let low = above.checked_sub(1).and_then(|below| self.table.get(below)).unwrap_or(high);
        let (to_low, to_high) = ((value - low.0).abs(), (high.0 - value).abs());
        let take_low = to_low < to_high || (to_low == to_high && low.1 & 1 == 0);
        Some(if take_low { low.1 } else { high.1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values_are_decoded() {
        let cases = [
            (ElementType::Float8E4M3Fn, 0x38, 1.0),
            (ElementType::Float8E4M3Fn, 0x7e, 448.0),
            (ElementType::Float8E4M3Fn, 0x01, 2f32.powi(-9)),
            (ElementType::Float8E4M3Fnuz, 0x40, 1.0),
            (ElementType::Float8E4M3Fnuz, 0x7f, 240.0),
            (ElementType::Float8E5M2, 0x3c, 1.0),
            (ElementType::Float8E5M2, 0x7b, 57344.0),
            (ElementType::Float8E5M2Fnuz, 0x40, 1.0),
            (ElementType::Float8E8M0, 127, 1.0),
            (ElementType::Float4E2M1, 0b0111, 6.0),
            (ElementType::Float4E2M1, 0b1001, -0.5),
        ];
        for (element, code, value) in cases {
            assert_eq!(decode(element, code), Some(value), "{element} {code:#x}");
        }
        assert!(decode(ElementType::Float8E4M3Fn, 0x7f).is_some_and(f32::is_nan));
        assert_eq!(decode(ElementType::Float8E5M2, 0xfc), Some(f32::NEG_INFINITY));
        assert_eq!(decode(ElementType::Float32, 0), None);
    }

    #[test]
    fn every_code_round_trips_and_ties_round_to_even() {
        for element in [ElementType::Float8E4M3Fn, ElementType::Float8E5M2, ElementType::Float4E2M1] {
            let encoder = Encoder::new(element).unwrap();
            for (value, code) in &encoder.table {
                assert_eq!(encoder.encode(*value), Some(*code), "{element} {value}");
            }
        }
        let encoder = Encoder::new(ElementType::Float4E2M1).unwrap();
        assert_eq!(encoder.encode(2.5), Some(0b0100), "between 2 (100) and 3 (101)");
        assert_eq!(encoder.encode(1e9), Some(0b0111));
        assert_eq!(encoder.encode(f32::NEG_INFINITY), Some(0b1111));
        assert_eq!(encoder.encode(f32::NAN), None);
    }
}
