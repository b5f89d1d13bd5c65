//! Any bytes as a file of input values: numpy's `.npy` and `.npz`, and beside them ONNX's `.pb` and JSON. Never a panic, a
//! sentence when it is none, and as many values as the shape says.
//!
//! The first byte chooses what the rest is. An archive has a checksum of each file in it, which would stop every input: one
//! kind is packed here, from names and files of which each begins with its length (1 and 2 bytes).

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use ortscope_core::tensor::{ElementType, Tensor, TensorData, Value, ValueInfo, ValueType};
use ortscope_decode::tensors::{TensorError, TensorLimits, json, npy, npz, pb};

/// Less than users get: a few bytes may claim all of it.
const LIMITS: TensorLimits = TensorLimits { max_bytes: 1 << 16 };

/// Of each kind that JSON is read by.
static SIGNATURE: LazyLock<Vec<ValueInfo>> = LazyLock::new(|| {
    let tensor = |element| ValueType::Tensor { element, shape: None };
    let map = ValueType::Map { key: ElementType::Int64, value: Box::new(tensor(ElementType::Float32)) };
    [
        ("ids", tensor(ElementType::Int64)),
        ("x", tensor(ElementType::Float16)),
        ("q", tensor(ElementType::Int4)),
        ("s", ValueType::Sequence(Box::new(tensor(ElementType::String)))),
        ("m", ValueType::Optional(Box::new(map))),
    ]
    .map(|(name, value_type)| ValueInfo { name: name.to_owned(), value_type })
    .into()
});

fn is_whole(value: &Value) {
    let check = |tensor: &Tensor| {
        let elements = tensor.elements().expect("a shape that was believed");
        match &tensor.data {
            TensorData::Bytes(bytes) => {
                assert_eq!(Some(bytes.len() as u64), tensor.element.bytes_for(elements));
            }
            TensorData::Strings(strings) => assert_eq!(strings.len() as u64, elements),
        }
    };
    match value {
        Value::Tensor(tensor) => check(tensor),
        Value::Sequence(items) => items.iter().for_each(is_whole),
        Value::Map { keys, values } => {
            [keys, values].into_iter().for_each(check);
            assert_eq!(keys.elements(), values.elements());
        }
    }
}

/// What was read can be written, and reads as the same. Long lists of empty strings are left out: they cost and show nothing.
fn comes_back(tensor: &Tensor) {
    if tensor.elements().is_some_and(|elements| elements <= 4096) {
        let bytes = npy::write(tensor).expect("numpy has what it wrote");
        let limits = TensorLimits { max_bytes: 1 << 24 };
        assert_eq!(npy::read(&bytes, &limits).as_ref(), Ok(tensor));
    }
}

fn told(error: &TensorError) {
    assert!(!error.to_string().is_empty());
}

/// An archive whose checksums and places are right.
fn packed(mut rest: &[u8]) -> Vec<u8> {
    let (mut archive, mut directory, mut count) = (Vec::new(), Vec::new(), 0u16);
    while let Some((&[name, low, high], behind)) = rest.split_first_chunk::<3>() {
        let (name, behind) = behind.split_at(usize::from(name).min(behind.len()));
        let (file, next) = behind.split_at(usize::from(u16::from_le_bytes([low, high])).min(behind.len()));
        rest = next;
        let at = archive.len() as u32;
        // Version, flags, stored as it is, time and date; then checksum, sizes and the length of the name.
        let mut common = vec![20, 0, 0, 0, 0, 0, 0, 0, 0x21, 0];
        common.extend(crc32fast::hash(file).to_le_bytes());
        common.extend([(file.len() as u32).to_le_bytes(); 2].as_flattened());
        common.extend((name.len() as u16).to_le_bytes());
        archive.extend([b"PK\x03\x04", common.as_slice(), &[0; 2], name, file].concat());
        let entry = [b"PK\x01\x02\x14\0", common.as_slice(), &[0; 12], &at.to_le_bytes(), name].concat();
        directory.extend(entry);
        count += 1;
    }
    let at = archive.len() as u32;
    archive.extend(&directory);
    archive.extend(b"PK\x05\x06\0\0\0\0");
    archive.extend([count.to_le_bytes(); 2].as_flattened());
    archive.extend((directory.len() as u32).to_le_bytes());
    archive.extend(at.to_le_bytes());
    archive.extend([0; 2]);
    archive
}

fuzz_target!(|data: &[u8]| {
    let Some((kind, bytes)) = data.split_first() else { return };
    let archive = |bytes: &[u8]| match npz::read(bytes, &LIMITS) {
        Ok(values) => values.iter().for_each(|(_, value)| is_whole(value)),
        Err(error) => told(&error),
    };
    match kind % 8 {
        0..=2 => match npy::read(bytes, &LIMITS) {
            Ok(tensor) => {
                comes_back(&tensor);
                is_whole(&Value::Tensor(tensor));
            }
            Err(error) => told(&error),
        },
        3 => archive(bytes),
        4 | 5 => archive(&packed(bytes)),
        6 => match pb::read(bytes, &LIMITS) {
            Ok((_, value)) => is_whole(&value),
            Err(error) => told(&error),
        },
        _ => match json::read(bytes, &SIGNATURE, &LIMITS) {
            Ok(values) => values.iter().for_each(|(_, value)| is_whole(value)),
            Err(error) => told(&error),
        },
    }
});
