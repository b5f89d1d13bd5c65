//! Values for inputs that are not given.

use ortscope_core::tensor::{ElementType, Tensor, TensorData, Value, ValueInfo, ValueType, element_count};
use ortscope_decode::onnx::{InputHint, LengthRole};
use ortscope_decode::tensors::{json, pack::Packer};

use super::InputRequest;
use super::error::InputError;
use super::names::{self, Meaning};
use super::random::Random;
use super::sizes::Sizes;

/// The rate that voice models are made for.
const SAMPLING_RATE: f64 = 16_000.0;

/// How the elements of an input are chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Recipe {
    Normal,
    /// From 0 to 1.
    Uniform,
    /// Whole numbers below this.
    Below(u64),
    /// 0, 1, 2, … along the last axis, starting again at this.
    Count(u64),
    Constant(f64),
}

pub(super) fn make(
    request: &InputRequest<'_>,
    sizes: &Sizes,
    info: &ValueInfo,
    left: &mut u64,
) -> Result<Value, InputError> {
    let dims = sizes.shapes.get(&info.name).cloned().unwrap_or_default();
    match &info.value_type {
        ValueType::Tensor { element, .. } => {
            tensor(request, sizes, &info.name, *element, dims, left).map(Value::Tensor)
        }
        ValueType::Sequence(of) => match &**of {
            ValueType::Tensor { element, .. } => {
                let item = tensor(request, sizes, &info.name, *element, dims, left)?;
                Ok(Value::Sequence(vec![Value::Tensor(item)]))
            }
            _ => Err(needs_value(info)),
        },
        _ => Err(needs_value(info)),
    }
}

fn needs_value(info: &ValueInfo) -> InputError {
    InputError::NeedsValue {
        input: info.name.clone(),
        value_type: info.value_type.to_string(),
        template: json::template(std::slice::from_ref(info)),
    }
}

fn tensor(
    request: &InputRequest<'_>,
    sizes: &Sizes,
    name: &str,
    element: ElementType,
    dims: Vec<u64>,
    left: &mut u64,
) -> Result<Tensor, InputError> {
    const TEXT: &str = "ortscope";
    let elements = element_count(&dims);
    let per_text = (size_of::<String>() + TEXT.len()) as u64;
    let bytes = elements.and_then(|count| element.bytes_for(count).or_else(|| count.checked_mul(per_text)));
    let count = elements.and_then(|count| usize::try_from(count).ok());
    let (Some(count), Some(rest)) = (count, bytes.and_then(|bytes| left.checked_sub(bytes))) else {
        let bytes = bytes.map_or_else(|| "more than 2^64".to_owned(), |bytes| bytes.to_string());
        return Err(InputError::TooLarge { input: name.to_owned(), bytes, limit: request.max_bytes });
    };
    *left = rest;
    let Some(mut packer) = Packer::new(element) else {
        return Ok(Tensor { element, dims, data: TensorData::Strings(vec![TEXT.to_owned(); count]) });
    };
    let recipe = recipe(sizes, name, &request.hints.get(name), element, &dims);
    let mut random = Random::new(request.seed, name);
    let width = dims.last().copied().unwrap_or(1).max(1);
    let most = most(element);
    for index in 0..count {
        let value = match recipe {
            Recipe::Normal => random.normal(),
            Recipe::Uniform => random.uniform(),
            Recipe::Below(end) => random.below(end) as f64,
            Recipe::Count(end) => (index as u64 % width % end.max(1)) as f64,
            Recipe::Constant(value) => value,
        };
        // Values too large for a small type become its maximum.
        if packer.push_float(value.min(most)).is_err() && packer.push_int(0).is_err() {
            return Err(InputError::TooLarge { input: name.to_owned(), bytes: format!("{value}"), limit: 0 });
        }
    }
    Ok(packer.finish(dims))
}

fn recipe(sizes: &Sizes, name: &str, hint: &InputHint, element: ElementType, dims: &[u64]) -> Recipe {
    let (past, total) = sizes.past_and_total();
    let is_integer = is_integer(element);
    let lower = name.to_ascii_lowercase();
    if element == ElementType::Bool {
        // Merged decoders must not use a cache that is empty.
        return Recipe::Constant(f64::from(u8::from(lower != "use_cache_branch" || past > 0)));
    }
    if is_integer {
        if hint.length == Some(LengthRole::LastIndex) || lower == "seqlens_k" {
            return Recipe::Constant(total.saturating_sub(1) as f64);
        }
        if hint.length == Some(LengthRole::Total) || lower == "total_sequence_length" {
            return Recipe::Constant(total as f64);
        }
        if hint.is_position && !hint.is_mask {
            return Recipe::Count(hint.vocabulary.unwrap_or(u64::MAX));
        }
    }
    let is_single = dims.iter().all(|dim| *dim <= 1);
    if hint.is_mask {
        Recipe::Constant(1.0)
    } else if names::is_sampling_rate(name) && is_single {
        Recipe::Constant(SAMPLING_RATE)
    } else if let (true, Some(vocabulary)) = (is_integer, hint.vocabulary) {
        Recipe::Below(vocabulary)
    } else if is_integer && dims.len() <= 1 && names::is_length(name) && !hint.feeds_index {
        Recipe::Constant(sizes.of(Meaning::Sequence).unwrap_or(1) as f64)
    } else if element == ElementType::Uint8 && dims.len() >= 3 {
        Recipe::Below(256)
    } else if is_integer {
        Recipe::Below(2)
    } else if is_single && names::is_factor(name) {
        Recipe::Constant(1.0)
    } else if hint.image.is_some() {
        Recipe::Uniform
    } else {
        Recipe::Normal
    }
}

fn is_integer(element: ElementType) -> bool {
    use ElementType::{Int2, Int4, Int8, Int16, Int32, Int64, Uint2, Uint4, Uint8, Uint16, Uint32, Uint64};
    matches!(
        element,
        Int2 | Int4 | Int8 | Int16 | Int32 | Int64 | Uint2 | Uint4 | Uint8 | Uint16 | Uint32 | Uint64
    )
}

/// The largest whole number of a small integer type; of the others, more than is ever made up.
fn most(element: ElementType) -> f64 {
    match element {
        ElementType::Int2 => 1.0,
        ElementType::Uint2 => 3.0,
        ElementType::Int4 => 7.0,
        ElementType::Uint4 => 15.0,
        ElementType::Int8 => 127.0,
        ElementType::Uint8 => 255.0,
        ElementType::Int16 => 32_767.0,
        ElementType::Uint16 => 65_535.0,
        ElementType::Int32 => f64::from(i32::MAX),
        ElementType::Uint32 => f64::from(u32::MAX),
        _ => f64::INFINITY,
    }
}
