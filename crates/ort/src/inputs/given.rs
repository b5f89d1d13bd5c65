//! Values of the user against the signature: names, types, ranks, fixed sizes.

use std::collections::BTreeMap;

use ortscope_core::tensor::{Dimension, Value, ValueInfo, ValueType};

use super::error::InputError;
use super::{InputRequest, names};

/// Which value goes to which input.
pub(super) fn assign<'a>(request: &'a InputRequest<'_>) -> Result<BTreeMap<&'a str, &'a Value>, InputError> {
    let inputs = || request.signature.iter().map(|info| info.name.as_str()).collect::<Vec<_>>().join(", ");
    let mut assigned = BTreeMap::new();
    for (name, value) in &request.given {
        let info = match (name, request.signature) {
            (Some(name), signature) => signature.iter().find(|info| info.name == *name).ok_or_else(|| {
                let nearest = names::nearest(name, signature.iter().map(|info| info.name.as_str()));
                InputError::UnknownInput { name: name.clone(), nearest, inputs: inputs() }
            })?,
            (None, [only]) => only,
            (None, _) => return Err(InputError::Unnamed { inputs: inputs() }),
        };
        check(info, value)?;
        if assigned.insert(info.name.as_str(), value).is_some() {
            return Err(InputError::Twice { name: info.name.clone() });
        }
    }
    Ok(assigned)
}

fn check(info: &ValueInfo, value: &Value) -> Result<(), InputError> {
    if !fits(&info.value_type, value) {
        return Err(InputError::WrongType {
            name: info.name.clone(),
            expected: info.value_type.to_string(),
            received: describe(value),
        });
    }
    if let (ValueType::Tensor { shape: Some(shape), .. }, Value::Tensor(tensor)) = (&info.value_type, value) {
        check_shape(&info.name, shape, &tensor.dims)?;
    }
    Ok(())
}

pub(super) fn check_shape(name: &str, shape: &[Dimension], dims: &[u64]) -> Result<(), InputError> {
    if shape.len() != dims.len() {
        let text: Vec<String> = shape.iter().map(Dimension::to_string).collect();
        return Err(InputError::WrongRank {
            name: name.to_owned(),
            expected: shape.len(),
            shape: text.join(","),
            received: dims.to_vec(),
        });
    }
    for (axis, (dimension, received)) in shape.iter().zip(dims).enumerate() {
        if let Dimension::Fixed(expected) = dimension
            && expected != received
        {
            let (expected, received) = (*expected, *received);
            return Err(InputError::WrongSize { name: name.to_owned(), axis, expected, received });
        }
    }
    Ok(())
}

/// Whether the kind and the element type are right. Types that this program does not know are left to ONNX Runtime.
fn fits(value_type: &ValueType, value: &Value) -> bool {
    match (value_type, value) {
        (ValueType::Tensor { element, .. }, Value::Tensor(tensor)) => *element == tensor.element,
        (ValueType::Sequence(of), Value::Sequence(items)) => items.iter().all(|item| fits(of, item)),
        (ValueType::Map { key, value }, Value::Map { keys, values }) => {
            let right = |element| element == values.element;
            *key == keys.element && matches!(&**value, ValueType::Tensor { element, .. } if right(*element))
        }
        (ValueType::Optional(of), value) => fits(of, value),
        (ValueType::Other(_), _) => true,
        _ => false,
    }
}

fn describe(value: &Value) -> String {
    match value {
        Value::Tensor(tensor) => {
            let dims: Vec<String> = tensor.dims.iter().map(u64::to_string).collect();
            format!("{}[{}]", tensor.element, dims.join(","))
        }
        Value::Sequence(items) => match items.first() {
            Some(first) => format!("a sequence of {}", describe(first)),
            None => "an empty sequence".to_owned(),
        },
        Value::Map { keys, values } => format!("a map of {} to {}", keys.element, values.element),
    }
}
