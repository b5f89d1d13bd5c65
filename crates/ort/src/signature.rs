//! The inputs and outputs of a session, read from its type information.
#![expect(unsafe_code, reason = "reads type descriptions from C objects")]

use std::ptr;

use ort_sys as sys;
use ortscope_core::tensor::{Dimension, ElementType, ValueInfo, ValueType};

use crate::api::Api;
use crate::handle::Handle;
use crate::{OrtError, element, text};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Input,
    Output,
}

/// The inputs or the outputs of a session.
///
/// # Safety
/// `session` is alive.
pub(crate) unsafe fn read(
    api: Api,
    session: *mut sys::OrtSession,
    side: Side,
) -> Result<Vec<ValueInfo>, OrtError> {
    let allocator = text::default_allocator(api)?;
    let mut count = 0usize;
    // SAFETY: the session is alive by contract; out pointers are locals; the name is freed by `take`.
    unsafe {
        match side {
            Side::Input => call!(api, SessionGetInputCount(session, &raw mut count)),
            Side::Output => call!(api, SessionGetOutputCount(session, &raw mut count)),
        }?;
        (0..count)
            .map(|index| {
                let mut name = ptr::null_mut();
                let info = match side {
                    Side::Input => {
                        call!(api, SessionGetInputName(session, index, allocator, &raw mut name))?;
                        create!(api, SessionGetInputTypeInfo(session, index), ReleaseTypeInfo)?
                    }
                    Side::Output => {
                        call!(api, SessionGetOutputName(session, index, allocator, &raw mut name))?;
                        create!(api, SessionGetOutputTypeInfo(session, index), ReleaseTypeInfo)?
                    }
                };
                Ok(ValueInfo { name: text::take(api, allocator, name)?, value_type: value_type(api, &info)? })
            })
            .collect()
    }
}

fn value_type(api: Api, info: &Handle<sys::OrtTypeInfo>) -> Result<ValueType, OrtError> {
    let info = info.as_ptr();
    // The kind and all element types are read as integers, because a newer library may know more of them.
    let mut kind = 0i32;
    // SAFETY: `info` is alive. It owns the results of the casts; the results of Get…TypeInfo are ours and released by
    // their handles.
    unsafe {
        call!(api, GetOnnxTypeFromTypeInfo(info, (&raw mut kind).cast()))?;
        Ok(match kind {
            1 | 5 => {
                let mut tensor = ptr::null();
                call!(api, CastTypeInfoToTensorInfo(info, &raw mut tensor))?;
                match (tensor_element(api, tensor)?, kind) {
                    (Ok(element), 1) => ValueType::Tensor { element, shape: shape(api, tensor)? },
                    (Ok(element), _) => ValueType::SparseTensor { element },
                    (Err(code), _) => ValueType::Other(format!("tensor of the unknown element type {code}")),
                }
            }
            2 => {
                let mut sequence = ptr::null();
                call!(api, CastTypeInfoToSequenceTypeInfo(info, &raw mut sequence))?;
                let of = create!(api, GetSequenceElementType(sequence), ReleaseTypeInfo)?;
                ValueType::Sequence(Box::new(value_type(api, &of)?))
            }
            3 => {
                let (mut map, mut key) = (ptr::null(), 0i32);
                call!(api, CastTypeInfoToMapTypeInfo(info, &raw mut map))?;
                call!(api, GetMapKeyType(map, (&raw mut key).cast()))?;
                let value = create!(api, GetMapValueType(map), ReleaseTypeInfo)?;
                match element::from_ort(key) {
                    Some(key) => ValueType::Map { key, value: Box::new(value_type(api, &value)?) },
                    None => ValueType::Other(format!("map with the unknown key type {key}")),
                }
            }
            4 => ValueType::Other("opaque".to_owned()),
            6 => {
                let mut optional = ptr::null();
                call!(api, CastTypeInfoToOptionalTypeInfo(info, &raw mut optional))?;
                let of = create!(api, GetOptionalContainedTypeInfo(optional), ReleaseTypeInfo)?;
                ValueType::Optional(Box::new(value_type(api, &of)?))
            }
            other => ValueType::Other(format!("unknown kind {other}")),
        })
    }
}

/// The element type, or the code that is not known.
///
/// # Safety
/// `tensor` is alive.
pub(crate) unsafe fn tensor_element(
    api: Api,
    tensor: *const sys::OrtTensorTypeAndShapeInfo,
) -> Result<Result<ElementType, i32>, OrtError> {
    let mut code = 0i32;
    // SAFETY: alive by contract; the enum is written as its integer.
    unsafe { call!(api, GetTensorElementType(tensor, (&raw mut code).cast())) }?;
    Ok(element::from_ort(code).ok_or(code))
}

/// # Safety
/// `tensor` is alive.
pub(crate) unsafe fn dimensions(
    api: Api,
    tensor: *const sys::OrtTensorTypeAndShapeInfo,
) -> Result<Vec<i64>, OrtError> {
    let mut rank = 0usize;
    // SAFETY: alive by contract; the vector has the requested length.
    unsafe {
        call!(api, GetDimensionsCount(tensor, &raw mut rank))?;
        let mut sizes = vec![0i64; rank];
        call!(api, GetDimensions(tensor, sizes.as_mut_ptr(), rank))?;
        Ok(sizes)
    }
}

/// # Safety
/// `tensor` is alive.
unsafe fn shape(
    api: Api,
    tensor: *const sys::OrtTensorTypeAndShapeInfo,
) -> Result<Option<Vec<Dimension>>, OrtError> {
    // Before 1.24 an unknown rank cannot be distinguished from a scalar; the scalar is the better guess.
    // SAFETY: alive by contract.
    if unsafe { call_plain!(api, TensorTypeAndShape_HasShape(tensor)) } == Ok(false) {
        return Ok(None);
    }
    // SAFETY: alive by contract; names are as many as sizes, and belong to `tensor`.
    unsafe {
        let sizes = dimensions(api, tensor)?;
        let mut names = vec![ptr::null(); sizes.len()];
        call!(api, GetSymbolicDimensions(tensor, names.as_mut_ptr(), names.len()))?;
        let dimension = |(size, name): (&i64, &*const _)| match (u64::try_from(*size), text::copy(*name)) {
            (Ok(size), _) => Dimension::Fixed(size),
            (Err(_), name) if name.is_empty() => Dimension::Unknown,
            (Err(_), name) => Dimension::Symbolic(name),
        };
        Ok(Some(sizes.iter().zip(&names).map(dimension).collect()))
    }
}
