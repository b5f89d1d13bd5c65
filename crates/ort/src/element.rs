//! ONNX's element types against ONNX Runtime's, which number the newest three differently.

use ort_sys::ONNXTensorElementDataType as Code;
use ortscope_core::tensor::{ELEMENT_TYPES, ElementType};

/// ONNX Runtime's code of a type.
pub(crate) fn to_ort(element: ElementType) -> Code {
    match element {
        ElementType::Float32 => Code::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT,
        ElementType::Uint8 => Code::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8,
        ElementType::Int8 => Code::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8,
        ElementType::Uint16 => Code::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16,
        ElementType::Int16 => Code::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16,
        ElementType::Int32 => Code::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32,
        ElementType::Int64 => Code::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64,
        ElementType::String => Code::ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING,
        ElementType::Bool => Code::ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL,
        ElementType::Float16 => Code::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16,
        ElementType::Float64 => Code::ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE,
        ElementType::Uint32 => Code::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32,
        ElementType::Uint64 => Code::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64,
        ElementType::Complex64 => Code::ONNX_TENSOR_ELEMENT_DATA_TYPE_COMPLEX64,
        ElementType::Complex128 => Code::ONNX_TENSOR_ELEMENT_DATA_TYPE_COMPLEX128,
        ElementType::BFloat16 => Code::ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16,
        ElementType::Float8E4M3Fn => Code::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E4M3FN,
        ElementType::Float8E4M3Fnuz => Code::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E4M3FNUZ,
        ElementType::Float8E5M2 => Code::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E5M2,
        ElementType::Float8E5M2Fnuz => Code::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E5M2FNUZ,
        ElementType::Uint4 => Code::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT4,
        ElementType::Int4 => Code::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT4,
        ElementType::Float4E2M1 => Code::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT4E2M1,
        ElementType::Float8E8M0 => Code::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E8M0,
        ElementType::Uint2 => Code::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT2,
        ElementType::Int2 => Code::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT2,
    }
}

/// The code to create a tensor with. Up to 1.30 the functions that create take ONNX's numbers for the newest types,
/// while everything that reads gives ONNX Runtime's (`TensorTypeFromONNXEnum` in their source).
pub(crate) fn to_create(element: ElementType, minor: u32) -> Code {
    match element {
        ElementType::Float8E8M0 if minor <= 30 => Code::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT2,
        ElementType::Uint2 if minor <= 30 => Code::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT2,
        ElementType::Int2 if minor <= 30 => Code::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E8M0,
        other => to_ort(other),
    }
}

/// The type behind ONNX Runtime's code. The code is an integer because a newer library may know more types.
pub(crate) fn from_ort(code: i32) -> Option<ElementType> {
    ELEMENT_TYPES.into_iter().find(|element| to_ort(*element) as i32 == code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_types_differ_from_onnx() {
        for element in ELEMENT_TYPES {
            assert_eq!(from_ort(to_ort(element) as i32), Some(element));
        }
        assert_eq!(from_ort(24), Some(ElementType::Uint2));
        assert_eq!(from_ort(26), Some(ElementType::Float8E8M0));
        for element in ELEMENT_TYPES {
            assert_eq!(to_create(element, 30) as i32, element as i32);
            assert_eq!(to_create(element, 31), to_ort(element));
        }
        assert_eq!(from_ort(0), None);
        assert_eq!(from_ort(99), None);
    }
}
