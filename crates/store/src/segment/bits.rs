//! Booleans: null masks and bool columns. Uniform columns take one byte; others use bits or run lengths, whichever is
//! shorter.

use super::bytes::{Bytes, Problem, put_varint};

const ALL_TRUE: u8 = 0;
const ALL_FALSE: u8 = 1;
const BITS: u8 = 2;
/// Lengths of alternating runs; the first is of `true`.
const RUNS: u8 = 3;

pub(super) fn encode(values: &[bool], into: &mut Vec<u8>) {
    let first = values.first().copied().unwrap_or(true);
    if values.iter().all(|value| *value == first) {
        into.push(if first { ALL_TRUE } else { ALL_FALSE });
        return;
    }
    let packed_bytes = values.len().div_ceil(8);
    let mut runs = Vec::new();
    let mut expected = true;
    let mut length = 0;
    for value in values {
        if *value != expected {
            put_varint(&mut runs, length);
            expected = *value;
            length = 0;
            if runs.len() >= packed_bytes {
                break;
            }
        }
        length += 1;
    }
    put_varint(&mut runs, length);
    if runs.len() < packed_bytes {
        into.push(RUNS);
        into.extend_from_slice(&runs);
    } else {
        into.push(BITS);
        into.extend(values.chunks(8).map(|eight| {
            eight.iter().enumerate().fold(0, |byte, (bit, value)| byte | (u8::from(*value) << bit))
        }));
    }
}

/// Reads `count` values; the caller has bounded `count`.
pub(super) fn decode(bytes: &mut Bytes<'_>, count: usize) -> Result<Vec<bool>, Problem> {
    match bytes.byte()? {
        ALL_TRUE => Ok(vec![true; count]),
        ALL_FALSE => Ok(vec![false; count]),
        BITS => {
            let packed = bytes.take(count.div_ceil(8))?;
            Ok((0..count).map(|index| packed[index / 8] >> (index % 8) & 1 == 1).collect())
        }
        RUNS => {
            let mut values = Vec::with_capacity(count);
            let mut value = true;
            while values.len() < count {
                let length = bytes.count(count - values.len())?;
                if length == 0 && !values.is_empty() {
                    return Err("a run in it is empty".into());
                }
                values.resize(values.len() + length, value);
                value = !value;
            }
            Ok(values)
        }
        other => Err(format!("its truth values are coded in the unknown way {other}")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn round_trip(values: &[bool]) -> usize {
        let mut coded = Vec::new();
        encode(values, &mut coded);
        let mut bytes = Bytes(&coded);
        assert_eq!(decode(&mut bytes, values.len()).as_deref(), Ok(values));
        assert!(bytes.0.is_empty());
        coded.len()
    }

    #[test]
    fn uniform_columns_take_one_byte_and_few_runs_little() {
        assert_eq!(round_trip(&[]), 1);
        assert_eq!(round_trip(&[true; 65_536]), 1);
        assert_eq!(round_trip(&[false; 65_536]), 1);
        let mut one_gap = vec![true; 65_536];
        one_gap[40_000] = false;
        assert!(round_trip(&one_gap) < 12);
    }

    proptest! {
        #[test]
        fn any_values_round_trip(values in prop::collection::vec(any::<bool>(), 0..500)) {
            round_trip(&values);
        }

        #[test]
        fn arbitrary_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..40), count in 0_usize..300) {
            if let Ok(values) = decode(&mut Bytes(&bytes), count) {
                prop_assert_eq!(values.len(), count);
            }
        }
    }
}
