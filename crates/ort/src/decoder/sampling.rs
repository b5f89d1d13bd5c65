//! Greedy choice from logits.

use half::{bf16, f16};
use ortscope_core::tensor::ElementType;

use crate::{OrtError, OrtValue};

/// The index of the largest number in the last row.
pub(super) fn most_likely(logits: &OrtValue) -> Result<i64, OrtError> {
    let info = logits
        .tensor_info()?
        .ok_or_else(|| OrtError::Unsupported("the logits are not a tensor".to_owned()))?;
    let width = info.dims.last().and_then(|width| usize::try_from(*width).ok()).unwrap_or(0);
    argmax_of_last_row(info.element, width, logits.bytes()?)
}

fn argmax_of_last_row(element: ElementType, width: usize, bytes: &[u8]) -> Result<i64, OrtError> {
    let best = match element {
        ElementType::Float32 => {
            argmax(last_row::<4>(bytes, width).iter().map(|raw| f32::from_le_bytes(*raw)))
        }
        ElementType::Float16 => {
            argmax(last_row::<2>(bytes, width).iter().map(|raw| f16::from_le_bytes(*raw).to_f32()))
        }
        ElementType::BFloat16 => {
            argmax(last_row::<2>(bytes, width).iter().map(|raw| bf16::from_le_bytes(*raw).to_f32()))
        }
        other => {
            return Err(OrtError::Unsupported(format!("logits of type {other} cannot be compared")));
        }
    };
    best.ok_or_else(|| OrtError::Unsupported("the logits are empty or not numbers".to_owned()))
}

fn last_row<const SIZE: usize>(bytes: &[u8], width: usize) -> &[[u8; SIZE]] {
    let (numbers, _) = bytes.as_chunks::<SIZE>();
    &numbers[numbers.len().saturating_sub(width)..]
}

/// The first of the largest numbers; numbers that are none are passed over.
fn argmax(numbers: impl Iterator<Item = f32>) -> Option<i64> {
    let mut best: Option<(i64, f32)> = None;
    for (index, number) in (0i64..).zip(numbers) {
        if !number.is_nan() && best.is_none_or(|(_, largest)| number > largest) {
            best = Some((index, number));
        }
    }
    best.map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_row_decides() {
        let rows: Vec<u8> =
            [9f32, 0., 0., 1., f32::NAN, 3.].iter().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(argmax_of_last_row(ElementType::Float32, 3, &rows), Ok(2));
        let halves: Vec<u8> =
            [1f32, 2.].iter().flat_map(|value| f16::from_f32(*value).to_le_bytes()).collect();
        assert_eq!(argmax_of_last_row(ElementType::Float16, 2, &halves), Ok(1));
        assert!(argmax_of_last_row(ElementType::Float32, 0, &[]).is_err());
        assert!(argmax_of_last_row(ElementType::Int64, 1, &[0; 8]).is_err());
    }
}
