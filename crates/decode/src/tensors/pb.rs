//! ONNX's `TensorProto` and `SequenceProto` in separate files, as in the test data of models (`input_0.pb`).

use ortscope_core::tensor::{ElementType, Tensor, TensorData, Value, element_count};
use prost::Message;

use super::{TensorError, TensorLimits};

/// Field numbers of `onnx.proto`.
#[derive(Clone, PartialEq, Message)]
struct TensorProto {
    #[prost(int64, repeated, packed = "false", tag = "1")]
    dims: Vec<i64>,
    #[prost(int32, tag = "2")]
    data_type: i32,
    #[prost(float, repeated, tag = "4")]
    float_data: Vec<f32>,
    #[prost(int32, repeated, tag = "5")]
    int32_data: Vec<i32>,
    #[prost(bytes = "vec", repeated, tag = "6")]
    string_data: Vec<Vec<u8>>,
    #[prost(int64, repeated, tag = "7")]
    int64_data: Vec<i64>,
    #[prost(bytes = "vec", tag = "8")]
    name: Vec<u8>,
    #[prost(bytes = "vec", tag = "9")]
    raw_data: Vec<u8>,
    #[prost(double, repeated, tag = "10")]
    double_data: Vec<f64>,
    #[prost(uint64, repeated, tag = "11")]
    uint64_data: Vec<u64>,
    #[prost(int32, tag = "14")]
    data_location: i32,
}

/// Field numbers of `onnx-data.proto`. A file does not state which of the two it is; a tensor never uses field 3, and
/// its field 1 is text only if packed.
#[derive(Clone, PartialEq, Message)]
struct SequenceProto {
    #[prost(bytes = "vec", tag = "1")]
    name: Vec<u8>,
    #[prost(message, repeated, tag = "3")]
    tensor_values: Vec<TensorProto>,
}

/// The value and its name, if it has one.
pub fn read(bytes: &[u8], limits: &TensorLimits) -> Result<(Option<String>, Value), TensorError> {
    if bytes.len() as u64 > limits.max_bytes {
        return Err(TensorError::TooLarge { limit: limits.max_bytes });
    }
    if let Ok(sequence) = SequenceProto::decode(bytes)
        && !sequence.tensor_values.is_empty()
    {
        let items = sequence.tensor_values.into_iter().map(|proto| tensor(proto).map(Value::Tensor));
        return Ok((text(&sequence.name), Value::Sequence(items.collect::<Result<_, _>>()?)));
    }
    let proto = TensorProto::decode(bytes).map_err(|error| TensorError::Protobuf(error.to_string()))?;
    Ok((text(&proto.name), Value::Tensor(tensor(proto)?)))
}

fn text(name: &[u8]) -> Option<String> {
    Some(String::from_utf8_lossy(name).into_owned()).filter(|name| !name.is_empty())
}

fn tensor(mut proto: TensorProto) -> Result<Tensor, TensorError> {
    let element = ElementType::from_onnx(proto.data_type)
        .ok_or_else(|| TensorError::Protobuf(format!("its element type is {}", proto.data_type)))?;
    if proto.data_location == 1 {
        return Err(TensorError::External);
    }
    let dims: Option<Vec<u64>> = proto.dims.iter().map(|dim| u64::try_from(*dim).ok()).collect();
    let sizes = dims.and_then(|dims| element_count(&dims).map(|elements| (dims, elements)));
    let (dims, elements) = sizes.ok_or_else(|| TensorError::Shape(format!("{:?}", proto.dims)))?;
    let data = if element == ElementType::String {
        let received = proto.string_data.len() as u64;
        if received != elements {
            return Err(TensorError::Length { element, dims, expected: elements, received });
        }
        let strings = proto.string_data.into_iter().map(String::from_utf8).collect::<Result<_, _>>();
        TensorData::Strings(strings.map_err(|_| TensorError::Protobuf("a string is not UTF-8".to_owned()))?)
    } else {
        let raw = std::mem::take(&mut proto.raw_data);
        let data = if raw.is_empty() { typed(element, &proto)? } else { raw };
        let expected = element.bytes_for(elements).ok_or_else(|| TensorError::Shape(format!("{dims:?}")))?;
        if data.len() as u64 != expected {
            return Err(TensorError::Length { element, dims, expected, received: data.len() as u64 });
        }
        TensorData::Bytes(data)
    };
    Ok(Tensor { element, dims, data })
}

/// Bytes from the list that ONNX prescribes for the type.
fn typed(element: ElementType, proto: &TensorProto) -> Result<Vec<u8>, TensorError> {
    let narrow = |value: i64| TensorError::Protobuf(format!("{value} does not fit {element}"));
    Ok(match element {
        ElementType::Float32 | ElementType::Complex64 => {
            proto.float_data.iter().flat_map(|value| value.to_le_bytes()).collect()
        }
        ElementType::Float64 | ElementType::Complex128 => {
            proto.double_data.iter().flat_map(|value| value.to_le_bytes()).collect()
        }
        ElementType::Int64 => proto.int64_data.iter().flat_map(|value| value.to_le_bytes()).collect(),
        ElementType::Uint64 => proto.uint64_data.iter().flat_map(|value| value.to_le_bytes()).collect(),
        ElementType::Uint32 => {
            let mut bytes = Vec::new();
            for value in &proto.uint64_data {
                bytes.extend(u32::try_from(*value).map_err(|_| narrow(*value as i64))?.to_le_bytes());
            }
            bytes
        }
        ElementType::Int32 => proto.int32_data.iter().flat_map(|value| value.to_le_bytes()).collect(),
        _ => {
            // One list entry per element, or per byte of packed elements: its low bytes, signed or not.
            let width = usize::from(element.bits().is_some_and(|bits| bits == 16)) + 1;
            let range = if width == 2 { -0x8000..0x1_0000 } else { -0x80..0x100 };
            let mut bytes = Vec::new();
            for value in &proto.int32_data {
                if !range.contains(value) {
                    return Err(narrow(i64::from(*value)));
                }
                bytes.extend_from_slice(&value.to_le_bytes()[..width]);
            }
            bytes
        }
    })
}
