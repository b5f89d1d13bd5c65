//! Shared by the tests against a real library.

#![allow(dead_code, reason = "every test binary uses another part")]
#![allow(clippy::allow_attributes, reason = "`expect` would fail in the binary that uses everything")]

pub mod models;
pub mod onnx;
pub mod skips;

use std::path::PathBuf;

use ortscope_core::tensor::{ElementType, Tensor, TensorData, Value};
use ortscope_ort::{Environment, LogLevel, Runtime, Session, SessionOptions};

/// The library to test with, or `None` after saying that the test is skipped.
pub fn library() -> Option<PathBuf> {
    skips::variable("ORTSCOPE_TEST_ORT")
}

pub fn environment() -> Option<Environment> {
    let runtime = Runtime::load(&library()?).expect("the library loads");
    Some(Environment::new(&runtime, LogLevel::Warning).expect("an environment"))
}

pub fn session(environment: &Environment, model: &[u8]) -> Session {
    Session::from_bytes(environment, model, &SessionOptions::default()).expect("the model loads")
}

pub fn floats(dims: &[u64], values: &[f32]) -> Value {
    let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Value::Tensor(Tensor {
        element: ElementType::Float32,
        dims: dims.to_vec(),
        data: TensorData::Bytes(bytes),
    })
}

pub fn integers(dims: &[u64], values: &[i64]) -> Value {
    let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Value::Tensor(Tensor { element: ElementType::Int64, dims: dims.to_vec(), data: TensorData::Bytes(bytes) })
}

pub fn strings(dims: &[u64], values: &[&str]) -> Value {
    let data = TensorData::Strings(values.iter().map(|value| (*value).to_owned()).collect());
    Value::Tensor(Tensor { element: ElementType::String, dims: dims.to_vec(), data })
}

pub fn named(name: &str, value: Value) -> (String, Value) {
    (name.to_owned(), value)
}
