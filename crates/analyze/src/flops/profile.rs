//! Maps the tensors in an ONNX Runtime profile to the inputs of an operator.
//!
//! A profile lists the tensors passed to a kernel, without names: omitted optional inputs are missing from the list,
//! and so are weights that the kernel repacked when the session was created (`Gemm`, `MatMul`, `MatMulNBits`,
//! `QLinearConv`: the matrices that matter most). The graph knows both, so the two are combined.

use ortscope_core::tensor::ElementType;

use super::facts::TensorFacts;

/// One tensor of a profile's list.
#[derive(Debug, Clone, PartialEq)]
pub struct ReportedTensor {
    pub element: Option<ElementType>,
    pub shape: Vec<u64>,
}

/// Assigns the tensors of a profile to the inputs of the node. `graph` has an entry per input of the node: `None` if
/// it is omitted, weights with their shape and type, other values with what is known of them.
///
/// Weights that the profile does not list keep the graph's information. `None` if the two cannot belong together.
pub fn align_inputs(
    graph: &[Option<TensorFacts>],
    reported: &[ReportedTensor],
) -> Option<Vec<Option<TensorFacts>>> {
    let mut rest = reported;
    // Values that no profile hides: each needs one of the reported tensors.
    let mut needed = graph.iter().flatten().filter(|tensor| !tensor.is_parameter).count();
    let mut aligned = Vec::with_capacity(graph.len());
    for input in graph {
        let Some(known) = input else {
            aligned.push(None);
            continue;
        };
        if known.is_parameter {
            let is_listed = rest.len() > needed && rest.first().is_some_and(|next| is_same(known, next));
            if is_listed {
                rest = &rest[1..];
            }
            aligned.push(Some(known.clone()));
            continue;
        }
        let (next, after) = rest.split_first()?;
        (rest, needed) = (after, needed - 1);
        aligned.push(Some(TensorFacts {
            shape: Some(next.shape.clone()),
            element: next.element.or(known.element),
            ..known.clone()
        }));
    }
    rest.is_empty().then_some(aligned)
}

fn is_same(known: &TensorFacts, reported: &ReportedTensor) -> bool {
    let same_element = match (known.element, reported.element) {
        (Some(known), Some(reported)) => known == reported,
        _ => true,
    };
    same_element && known.shape.as_ref().is_none_or(|shape| *shape == reported.shape)
}

/// The element type behind ONNX Runtime's name of it, with or without `tensor(…)` around it.
pub fn element_by_runtime_name(name: &str) -> Option<ElementType> {
    let name = name.strip_prefix("tensor(").and_then(|name| name.strip_suffix(')')).unwrap_or(name);
    Some(match name {
        "float" | "float32" => ElementType::Float32,
        "double" | "float64" => ElementType::Float64,
        "float16" => ElementType::Float16,
        "bfloat16" => ElementType::BFloat16,
        "uint8" => ElementType::Uint8,
        "int8" => ElementType::Int8,
        "uint16" => ElementType::Uint16,
        "int16" => ElementType::Int16,
        "uint32" => ElementType::Uint32,
        "int32" => ElementType::Int32,
        "uint64" => ElementType::Uint64,
        "int64" => ElementType::Int64,
        "bool" => ElementType::Bool,
        "string" => ElementType::String,
        "complex64" => ElementType::Complex64,
        "complex128" => ElementType::Complex128,
        "float8e4m3fn" => ElementType::Float8E4M3Fn,
        "float8e4m3fnuz" => ElementType::Float8E4M3Fnuz,
        "float8e5m2" => ElementType::Float8E5M2,
        "float8e5m2fnuz" => ElementType::Float8E5M2Fnuz,
        "float8e8m0" => ElementType::Float8E8M0,
        "uint4" | "UInt4x2" | "uint4x2" => ElementType::Uint4,
        "int4" | "Int4x2" | "int4x2" => ElementType::Int4,
        "uint2" | "UInt2x4" | "uint2x4" => ElementType::Uint2,
        "int2" | "Int2x4" | "int2x4" => ElementType::Int2,
        "float4e2m1" | "Float4E2M1x2" => ElementType::Float4E2M1,
        _ => return None,
    })
}
