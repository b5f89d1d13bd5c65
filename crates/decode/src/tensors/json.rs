//! Hand-written values: `{"ids": [[1, 2]], "x": {"dtype": "float32", "shape": [1, 3], "data": [0, 0, 0]}}`.
//!
//! Types come from the model's signature, so that `1` can be an int64 or a float16. `"fill"` instead of `"data"` repeats
//! one value; sequences are `{"sequence": [...]}`, maps `{"map": {"key": value}}`.

use ortscope_core::tensor::{
    Dimension, ElementType, Tensor, TensorData, Value, ValueInfo, ValueType, element_count,
};
use serde_json::{Map, Value as Json, json};

use super::pack::Packer;
use super::{NamedValues, TensorError, TensorLimits, element_from_name};

/// Reads an object of named values, or one value without a name.
pub fn read(
    bytes: &[u8],
    signature: &[ValueInfo],
    limits: &TensorLimits,
) -> Result<NamedValues, TensorError> {
    let json: Json = serde_json::from_slice(bytes).map_err(|error| TensorError::Json(error.to_string()))?;
    let reader = Reader { limits };
    match json {
        Json::Object(entries) if !is_value(&entries, signature) => entries
            .iter()
            .map(|(name, json)| {
                let hint = signature.iter().find(|info| info.name == *name).map(|info| &info.value_type);
                Ok((Some(name.clone()), reader.value(name, json, hint)?))
            })
            .collect(),
        json => {
            let hint = if let [only] = signature { Some(&only.value_type) } else { None };
            Ok(vec![(None, reader.value("value", &json, hint)?)])
        }
    }
}

/// A template with every input of the signature, which can be edited and read back.
pub fn template(signature: &[ValueInfo]) -> Json {
    Json::Object(signature.iter().map(|info| (info.name.clone(), template_of(&info.value_type))).collect())
}

fn template_of(value_type: &ValueType) -> Json {
    match value_type {
        ValueType::Tensor { element, shape } => {
            let size = |dim: &Dimension| {
                if let Dimension::Fixed(size) = dim { *size } else { 1 }
            };
            let shape: Vec<u64> = shape.iter().flatten().map(size).collect();
            let fill = match element {
                ElementType::String => json!("text"),
                ElementType::Bool => json!(true),
                _ => json!(0),
            };
            json!({"dtype": element.name(), "shape": shape, "fill": fill, "note": value_type.to_string()})
        }
        ValueType::Sequence(of) => json!({"sequence": [template_of(of)]}),
        ValueType::Map { key, value } => {
            let key = if *key == ElementType::String { "key" } else { "0" };
            let text = matches!(&**value, ValueType::Tensor { element: ElementType::String, .. });
            json!({"map": {key: if text { json!("text") } else { json!(0) }}})
        }
        ValueType::Optional(of) => template_of(of),
        ValueType::SparseTensor { .. } | ValueType::Other(_) => {
            json!({"note": format!("{value_type} cannot be given in a file")})
        }
    }
}

const KEYS: [&str; 7] = ["dtype", "shape", "data", "fill", "note", "sequence", "map"];

/// Whether an object is itself a value. An input may be named "data".
fn is_value(object: &Map<String, Json>, signature: &[ValueInfo]) -> bool {
    let names_input = |key: &String| signature.iter().any(|info| info.name == *key);
    !object.is_empty() && object.keys().all(|key| KEYS.contains(&key.as_str()) && !names_input(key))
}

struct Reader<'a> {
    limits: &'a TensorLimits,
}

fn wrong(at: &str, what: impl Into<String>) -> TensorError {
    TensorError::JsonValue { at: at.to_owned(), what: what.into() }
}

impl Reader<'_> {
    fn value(&self, at: &str, json: &Json, hint: Option<&ValueType>) -> Result<Value, TensorError> {
        if let Some(ValueType::Optional(of)) = hint {
            return self.value(at, json, Some(of));
        }
        match json {
            Json::Object(object) if object.contains_key("sequence") => {
                let Some(items) = object.get("sequence").and_then(Json::as_array) else {
                    return Err(wrong(at, "\"sequence\" must be a list"));
                };
                let hint = if let Some(ValueType::Sequence(of)) = hint { Some(&**of) } else { None };
                let items = items.iter().enumerate();
                let items = items.map(|(index, item)| self.value(&format!("{at}[{index}]"), item, hint));
                items.collect::<Result<_, _>>().map(Value::Sequence)
            }
            Json::Object(object) if object.contains_key("map") => {
                let Some(entries) = object.get("map").and_then(Json::as_object) else {
                    return Err(wrong(at, "\"map\" must be an object"));
                };
                self.map(at, entries, hint)
            }
            _ => {
                let element =
                    if let Some(ValueType::Tensor { element, .. }) = hint { Some(*element) } else { None };
                self.tensor(at, json, element).map(Value::Tensor)
            }
        }
    }

    fn map(
        &self,
        at: &str,
        entries: &Map<String, Json>,
        hint: Option<&ValueType>,
    ) -> Result<Value, TensorError> {
        let (key, of) = match hint {
            Some(ValueType::Map { key, value }) => match &**value {
                ValueType::Tensor { element, .. } => (*key, Some(*element)),
                _ => (*key, None),
            },
            _ => (ElementType::String, None),
        };
        let dims = vec![entries.len() as u64];
        let keys = match Packer::new(key) {
            None => Tensor {
                element: key,
                dims: dims.clone(),
                data: TensorData::Strings(entries.keys().cloned().collect()),
            },
            Some(mut packer) => {
                for text in entries.keys() {
                    let number = text.parse::<i128>().ok().and_then(|number| packer.push_int(number).ok());
                    number.ok_or_else(|| wrong(at, format!("the key \"{text}\" is not a valid {key}")))?;
                }
                packer.finish(dims.clone())
            }
        };
        let items: Vec<&Json> = entries.values().collect();
        let values = pack(at, &items, dims, of.unwrap_or_else(|| inferred(&items)))?;
        Ok(Value::Map { keys, values })
    }

    fn tensor(&self, at: &str, json: &Json, wanted: Option<ElementType>) -> Result<Tensor, TensorError> {
        let Json::Object(object) = json else {
            let (mut dims, mut items) = (Vec::new(), Vec::new());
            flatten(at, json, 0, &mut dims, &mut items)?;
            return pack(at, &items, dims, wanted.unwrap_or_else(|| inferred(&items)));
        };
        if let Some(key) = object.keys().find(|key| !KEYS.contains(&key.as_str())) {
            return Err(wrong(
                at,
                format!("\"{key}\" is not one of dtype, shape, data, fill, note, sequence and map"),
            ));
        }
        let element = match object.get("dtype") {
            None => wanted,
            Some(name) => {
                let element = name.as_str().and_then(element_from_name);
                let element = element.ok_or_else(|| wrong(at, format!("{name} is not a dtype")))?;
                Some(wanted.filter(|wanted| same_family(*wanted, element)).unwrap_or(element))
            }
        };
        let shape = match object.get("shape") {
            None => None,
            Some(shape) => {
                let sizes = shape
                    .as_array()
                    .and_then(|sizes| sizes.iter().map(Json::as_u64).collect::<Option<Vec<_>>>());
                Some(sizes.ok_or_else(|| wrong(at, format!("{shape} is not a shape")))?)
            }
        };
        match (object.get("data"), object.get("fill")) {
            (Some(data), None) => {
                let (mut dims, mut items) = (Vec::new(), Vec::new());
                flatten(at, data, 0, &mut dims, &mut items)?;
                let dims = shape.unwrap_or(dims);
                pack(at, &items, dims, element.unwrap_or_else(|| inferred(&items)))
            }
            (None, Some(fill)) => {
                let dims = shape.ok_or_else(|| wrong(at, "\"fill\" needs a \"shape\""))?;
                self.filled(at, fill, dims, element.unwrap_or_else(|| inferred(&[fill])))
            }
            _ => Err(wrong(at, "needs either \"data\" or \"fill\"")),
        }
    }

    fn filled(
        &self,
        at: &str,
        fill: &Json,
        dims: Vec<u64>,
        element: ElementType,
    ) -> Result<Tensor, TensorError> {
        let elements = element_count(&dims).ok_or_else(|| TensorError::Shape(format!("{dims:?}")))?;
        let text = fill.as_str().map_or(0, |text| text.len() as u64 + size_of::<String>() as u64);
        let bytes = element.bytes_for(elements).or_else(|| elements.checked_mul(text));
        let fits = bytes.is_some_and(|bytes| bytes <= self.limits.max_bytes);
        let Some(count) = usize::try_from(elements).ok().filter(|_| fits) else {
            return Err(TensorError::TooLarge { limit: self.limits.max_bytes });
        };
        let Some(mut packer) = Packer::new(element) else {
            let one = pack(at, &[fill], vec![1], element)?;
            let data = match one.data {
                TensorData::Strings(one) => {
                    TensorData::Strings(one.into_iter().cycle().take(count).collect())
                }
                data => data,
            };
            return Ok(Tensor { element, dims, data });
        };
        for _ in 0..count {
            push(at, &mut packer, element, fill)?;
        }
        Ok(packer.finish(dims))
    }
}

/// Types that JSON does not distinguish well enough for an error.
fn same_family(a: ElementType, b: ElementType) -> bool {
    use ElementType::{Float32, Float64, Int32, Int64};
    matches!((a, b), (Int32, Int64) | (Int64, Int32) | (Float32, Float64) | (Float64, Float32))
}

/// Flattens nested lists; all lists of a level must have the same length.
fn flatten<'a>(
    at: &str,
    json: &'a Json,
    depth: usize,
    dims: &mut Vec<u64>,
    items: &mut Vec<&'a Json>,
) -> Result<(), TensorError> {
    let Json::Array(list) = json else {
        if depth < dims.len() {
            return Err(wrong(at, format!("contains both lists and values at depth {depth}")));
        }
        items.push(json);
        return Ok(());
    };
    let length = list.len() as u64;
    if items.is_empty() && dims.len() == depth {
        dims.push(length);
    } else {
        match dims.get(depth) {
            None => return Err(wrong(at, format!("contains both lists and values at depth {depth}"))),
            Some(first) if *first != length => {
                let what = format!("lists at depth {depth} differ in length: {first} and {length}");
                return Err(wrong(at, what));
            }
            Some(_) => {}
        }
    }
    list.iter().try_for_each(|item| flatten(at, item, depth + 1, dims, items))
}

/// The type of a value in Python with the defaults of ONNX exporters.
fn inferred(items: &[&Json]) -> ElementType {
    match items.first() {
        Some(Json::String(_)) => ElementType::String,
        Some(Json::Bool(_)) => ElementType::Bool,
        Some(Json::Number(_)) if items.iter().all(|item| item.is_i64()) => ElementType::Int64,
        _ => ElementType::Float32,
    }
}

fn pack(at: &str, items: &[&Json], dims: Vec<u64>, element: ElementType) -> Result<Tensor, TensorError> {
    if element_count(&dims) != Some(items.len() as u64) {
        return Err(wrong(at, format!("shape {dims:?} does not fit {} values", items.len())));
    }
    let Some(mut packer) = Packer::new(element) else {
        let strings: Option<Vec<String>> =
            items.iter().map(|item| item.as_str().map(str::to_owned)).collect();
        let strings = strings.ok_or_else(|| wrong(at, "every value must be a string"))?;
        return Ok(Tensor { element, dims, data: TensorData::Strings(strings) });
    };
    for item in items {
        push(at, &mut packer, element, item)?;
    }
    Ok(packer.finish(dims))
}

fn push(at: &str, packer: &mut Packer, element: ElementType, item: &Json) -> Result<(), TensorError> {
    let special = |text: &str| match text {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        _ => None,
    };
    let pushed = match item {
        Json::Bool(value) if element == ElementType::Bool => packer.push_int(i128::from(*value)).ok(),
        Json::Number(number) => match number.as_i128() {
            Some(value) => packer.push_int(value).ok(),
            None => number.as_f64().and_then(|value| packer.push_float(value).ok()),
        },
        Json::String(text) => special(text).and_then(|value| packer.push_float(value).ok()),
        _ => None,
    };
    pushed.ok_or_else(|| wrong(at, format!("{} is not a valid {element}", excerpt(item))))
}

fn excerpt(item: &Json) -> String {
    let text = item.to_string();
    if text.chars().count() > 40 { text.chars().take(40).chain("...".chars()).collect() } else { text }
}
