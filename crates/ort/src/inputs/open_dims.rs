//! The dimensions that a signature leaves open: their names, how they are shared, and the batch axis.

use ortscope_core::tensor::{Dimension, ElementType, ValueInfo, ValueType};

use super::names::{self, Meaning};
use super::{BatchAxis, InputRequest};

/// The name of a dimension. Some exporters call every open dimension `?`, which makes none of them equal.
pub(super) fn symbol(dimension: &Dimension) -> Option<&str> {
    match dimension {
        Dimension::Symbolic(name) if !matches!(name.as_str(), "" | "?") => Some(name),
        _ => None,
    }
}

/// The shape of a tensor or of the tensors in a sequence; the inner `None` is an unknown rank.
pub(super) fn tensor_of(value_type: &ValueType) -> Option<Option<&[Dimension]>> {
    match value_type {
        ValueType::Tensor { shape, .. } => Some(shape.as_deref()),
        ValueType::Sequence(of) => tensor_of(of),
        _ => None,
    }
}

pub(super) fn shape_of(info: &ValueInfo) -> Option<&[Dimension]> {
    match &info.value_type {
        ValueType::Tensor { shape, .. } => shape.as_deref(),
        _ => None,
    }
}

/// All names, in the order of the signature, repeated as often as they occur.
pub(super) fn symbols<'a>(request: &InputRequest<'a>) -> impl Iterator<Item = &'a str> + use<'a> {
    let shapes = request.signature.iter().filter_map(|info| tensor_of(&info.value_type)).flatten();
    shapes.flatten().filter_map(symbol)
}

/// For each input that has the dimension: whether it is a cache.
fn holders<'a>(request: &'a InputRequest<'_>, wanted: &'a str) -> impl Iterator<Item = bool> + 'a {
    let has = move |info: &&ValueInfo| {
        shape_of(info).unwrap_or_default().iter().any(|dim| symbol(dim) == Some(wanted))
    };
    request.signature.iter().filter(has).map(|info| request.hints.get(&info.name).is_cache)
}

/// A voice detector processes audio in chunks: it takes the sampling rate, or keeps a state.
pub(super) fn is_voice(request: &InputRequest<'_>) -> bool {
    let mut inputs = request.signature.iter();
    inputs.any(|info| names::is_sampling_rate(&info.name) || names::is_state(&info.name))
}

/// A sequence of single floats, which is not the mask of something else, is sound: `input_values[batch,sequence]`.
pub(super) fn is_sound(request: &InputRequest<'_>, wanted: &str) -> bool {
    let mut found = false;
    for info in request.signature {
        let shape = shape_of(info).unwrap_or_default();
        let last = matches!(shape, [_, last] if symbol(last) == Some(wanted));
        let any = shape.iter().any(|dim| symbol(dim) == Some(wanted));
        let is_float = matches!(
            info.value_type,
            ValueType::Tensor {
                element: ElementType::Float32 | ElementType::Float16 | ElementType::Float64,
                ..
            }
        );
        if last && is_float && !request.hints.get(&info.name).is_mask {
            found = true;
        } else if any && !request.hints.get(&info.name).is_mask {
            return false;
        }
    }
    found
}

pub(super) fn in_a_cache(request: &InputRequest<'_>, wanted: &str) -> bool {
    holders(request, wanted).any(|is_cache| is_cache)
}

pub(super) fn only_in_caches(request: &InputRequest<'_>, wanted: &str) -> bool {
    in_a_cache(request, wanted) && holders(request, wanted).all(|is_cache| is_cache)
}

/// The batch axes: the dimension with that name, or else an open first axis without another meaning.
pub(super) fn batch_axes(request: &InputRequest<'_>) -> Vec<BatchAxis> {
    let axis = |info: &ValueInfo| {
        let shape = shape_of(info)?;
        let named = |dim: &Dimension| symbol(dim).is_some_and(|name| names::meaning(name) == Meaning::Batch);
        let open = |dim: &Dimension| match (dim, symbol(dim)) {
            (Dimension::Fixed(_), _) => false,
            (_, Some(name)) => names::meaning(name) == Meaning::Unclear,
            (_, None) => true,
        };
        // A state has its layers first.
        let place = usize::from(names::is_state(&info.name) && shape.len() == 3 && !open(&shape[0]));
        shape.iter().position(named).or_else(|| shape.get(place).is_some_and(open).then_some(place))
    };
    let inputs = request.signature.iter();
    inputs.filter_map(|info| Some(BatchAxis { input: info.name.clone(), axis: axis(info)? })).collect()
}

pub(super) fn fixed_batch<'a>(request: &InputRequest<'a>) -> Option<(&'a str, u64)> {
    request.signature.iter().find_map(|info| match shape_of(info)? {
        [Dimension::Fixed(size), _, ..] if !names::is_state(&info.name) => Some((info.name.as_str(), *size)),
        _ => None,
    })
}
