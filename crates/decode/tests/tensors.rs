//! Tensor files: what is read, what is rejected, and the error messages.

mod support;

use std::io::{Cursor, Write};

use ortscope_core::tensor::{Dimension, ElementType, Tensor, TensorData, Value, ValueInfo, ValueType};
use ortscope_decode::tensors::{NamedValues, TensorError, TensorLimits, element_from_name, json, npy, read};
use proptest::prelude::*;
use support::{bytes, number, tensor, varint};

const LIMITS: TensorLimits = TensorLimits { max_bytes: 1 << 20 };

fn npy_file(descr: &str, fortran: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}\n");
    let length = u16::try_from(header.len()).expect("a short header").to_le_bytes();
    [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), data].concat()
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn dense(element: ElementType, dims: &[u64], data: Vec<u8>) -> Tensor {
    Tensor { element, dims: dims.to_vec(), data: TensorData::Bytes(data) }
}

fn info(name: &str, element: ElementType, dims: &[Dimension]) -> ValueInfo {
    let value_type = ValueType::Tensor { element, shape: Some(dims.to_vec()) };
    ValueInfo { name: name.to_owned(), value_type }
}

#[test]
fn npy_files_of_all_layouts_are_read() {
    let plain = npy::read(&npy_file("'<f4'", "False", "(2, 1)", &floats(&[1.0, 2.0])), &LIMITS).unwrap();
    assert_eq!(plain, dense(ElementType::Float32, &[2, 1], floats(&[1.0, 2.0])));
    let big = npy::read(&npy_file("'>i2'", "False", "(2,)", &[0, 1, 0xff, 0xfe]), &LIMITS).unwrap();
    assert_eq!(big, dense(ElementType::Int16, &[2], vec![1, 0, 0xfe, 0xff]));
    let big = npy::read(&npy_file("'>c8'", "False", "()", &[0, 0, 0, 1, 0, 0, 0, 2]), &LIMITS).unwrap();
    assert_eq!(big, dense(ElementType::Complex64, &[], vec![1, 0, 0, 0, 2, 0, 0, 0]));
    let columns = npy::read(&npy_file("'|u1'", "True", "(2, 3)", &[1, 4, 2, 5, 3, 6]), &LIMITS).unwrap();
    assert_eq!(columns, dense(ElementType::Uint8, &[2, 3], vec![1, 2, 3, 4, 5, 6]));
    let text = npy::read(&npy_file("'|S2'", "False", "(2,)", b"ab\x63\x00"), &LIMITS).unwrap();
    assert_eq!(text.data, TensorData::Strings(vec!["ab".to_owned(), "c".to_owned()]));
    let text = npy::read(&npy_file("'>U1'", "False", "()", &[0, 0, 0, b'x']), &LIMITS).unwrap();
    assert_eq!(text.data, TensorData::Strings(vec!["x".to_owned()]));
    let empty = npy::read(&npy_file("'<i8'", "True", "(0, 5)", &[]), &LIMITS).unwrap();
    assert_eq!(empty, dense(ElementType::Int64, &[0, 5], vec![]));
}

#[test]
fn invalid_npy_files_are_rejected() {
    let error = |file: Vec<u8>| npy::read(&file, &LIMITS).unwrap_err().to_string();
    assert!(error(npy_file("'|O'", "False", "(1,)", b"\x80\x04")).contains("never loaded"));
    assert!(error(npy_file("'|O8'", "False", "(1,)", b"\x80\x04")).contains("never loaded"));
    assert_eq!(
        error(npy_file("'<f4'", "False", "(2, 2)", &[0; 12])),
        "the data has 12 bytes, but shape [2, 2] of float32 needs 16"
    );
    assert_eq!(
        error(npy_file("'<M8[ns]'", "False", "(1,)", &[0; 8])),
        "numpy's type '<M8[ns]' has no counterpart in ONNX"
    );
    assert!(error(npy_file("[('a', '<f4')]", "False", "(1,)", &[0; 4])).contains("'record'"));
    assert!(error(npy_file("'<f4'", "Maybe", "(1,)", &[0; 4])).contains("neither True nor False"));
    assert!(error(npy_file("'<f4'", "False", "(-1,)", &[0; 4])).contains("other than sizes"));
    assert!(error(npy_file("'<f4'", "False", "(18446744073709551615, 9)", &[])).contains("impossible"));
    assert!(error(npy_file("'<f4'", "False", "(1000000000,)", &[])).contains("limit of 1048576"));
    assert!(error(b"\x93NUMPY\x09\x00".to_vec()).contains("version 9.0"));
    assert!(error(b"\x93NUMPY\x01".to_vec()).contains("cut off"));
}

#[test]
fn npy_round_trips() {
    let strings = TensorData::Strings(vec!["é".to_owned(), String::new(), "abc".to_owned()]);
    for tensor in [
        dense(ElementType::Float16, &[2], vec![1, 2, 3, 4]),
        dense(ElementType::Bool, &[], vec![1]),
        dense(ElementType::Int64, &[0, 3], vec![]),
        Tensor { element: ElementType::String, dims: vec![3], data: strings },
    ] {
        let file = npy::write(&tensor).unwrap();
        let data = file.len() - usize::try_from(tensor.byte_len()).unwrap();
        assert!(tensor.element == ElementType::String || data.is_multiple_of(64));
        assert_eq!(npy::read(&file, &LIMITS).unwrap(), tensor);
    }
    let error = npy::write(&dense(ElementType::BFloat16, &[1], vec![0, 0])).unwrap_err();
    assert!(error.to_string().starts_with("bfloat16 values cannot be written as .npy"));
}

fn npz_file(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, data) in entries {
        writer.start_file(*name, zip::write::SimpleFileOptions::default()).expect("memory");
        writer.write_all(data).expect("memory");
    }
    writer.finish().expect("memory").into_inner()
}

#[test]
fn npz_arrays_are_named_and_bounded() {
    let one = npy_file("'<f4'", "False", "(1,)", &floats(&[1.0]));
    let values = read(&npz_file(&[("x.npy", &one), ("dir/y.npy", &one)]), "a.npz", &[], &LIMITS).unwrap();
    let names: Vec<_> = values.iter().map(|(name, _)| name.as_deref()).collect();
    assert_eq!(names, [Some("x"), Some("dir/y")]);
    let zeros = npy_file("'<f4'", "False", "(250000,)", &vec![0; 1_000_000]);
    let bomb = npz_file(&[("a.npy", &zeros), ("b.npy", &zeros)]);
    assert!(bomb.len() < 10_000, "a bomb is small");
    assert_eq!(read(&bomb, "a.npz", &[], &LIMITS), Err(TensorError::TooLarge { limit: 1 << 20 }));
    let error = read(&npz_file(&[("x.npy", b"no")]), "a.npz", &[], &LIMITS).unwrap_err().to_string();
    assert_eq!(error, "'x.npy' in the .npz archive: the .npy header cannot be read: it is not a numpy file");
    assert!(matches!(read(b"PK\x03\x04", "a.npz", &[], &LIMITS), Err(TensorError::Zip(_))));
}

/// Found by fuzzing: empty texts take no space in a file but much memory, 748 MB for an archive of 5 kB.
#[test]
fn empty_texts_are_bounded_too() {
    let too_large = TensorError::TooLarge { limit: 1 << 20 };
    let many = npy_file("'<U0'", "False", "(100000,)", &[]);
    assert_eq!(read(&many, "a.npy", &[], &LIMITS), Err(too_large.clone()));
    let few = npy_file("'<U0'", "False", "(20000,)", &[]);
    assert!(read(&few, "a.npy", &[], &LIMITS).is_ok());
    assert_eq!(
        read(&npz_file(&[("a.npy", &few), ("b.npy", &few), ("c.npy", &few)]), "a.npz", &[], &LIMITS),
        Err(too_large)
    );
}

#[test]
fn pb_files_with_all_fields_are_read() {
    let pb = |file: Vec<u8>| read(&file, "input_0.pb", &[], &LIMITS).map(|mut values| values.remove(0));
    let raw = pb([tensor("x", 1, &[2]), bytes(9, floats(&[1.0, 2.0]))].concat()).unwrap();
    assert_eq!(
        raw,
        (Some("x".to_owned()), Value::Tensor(dense(ElementType::Float32, &[2], floats(&[1.0, 2.0]))))
    );
    let data = |file: Vec<u8>| match pb(file).unwrap().1 {
        Value::Tensor(Tensor { data: TensorData::Bytes(data), .. }) => data,
        other => panic!("{other:?}"),
    };
    assert_eq!(data([tensor("", 1, &[2]), bytes(4, floats(&[1.0, 2.0]))].concat()), floats(&[1.0, 2.0]));
    assert_eq!(data([tensor("", 10, &[1]), bytes(5, varint(0x3c00))].concat()), [0x00, 0x3c]);
    assert_eq!(data([tensor("", 3, &[1]), bytes(5, varint(-1i32 as u64))].concat()), [0xff]);
    assert_eq!(
        data([tensor("", 22, &[3]), bytes(5, [varint(0xf1), varint(7)].concat())].concat()),
        [0xf1, 7]
    );
    assert_eq!(data([tensor("", 12, &[1]), bytes(11, varint(7))].concat()), [7, 0, 0, 0]);
    assert_eq!(data([tensor("", 7, &[]), bytes(7, varint(9))].concat()), 9i64.to_le_bytes());
    let text = pb([tensor("", 8, &[2]), bytes(6, "a"), bytes(6, "b")].concat()).unwrap();
    let Value::Tensor(text) = text.1 else { panic!("no tensor") };
    assert_eq!(text.data, TensorData::Strings(vec!["a".to_owned(), "b".to_owned()]));

    let item = [tensor("", 1, &[1]), bytes(9, floats(&[1.0]))].concat();
    let sequence = pb([bytes(1, "seq"), number(2, 1), bytes(3, &item), bytes(3, &item)].concat()).unwrap();
    let one = Value::Tensor(dense(ElementType::Float32, &[1], floats(&[1.0])));
    assert_eq!(sequence, (Some("seq".to_owned()), Value::Sequence(vec![one.clone(), one])));

    let error = |file: Vec<u8>| pb(file).unwrap_err().to_string();
    assert_eq!(
        error([tensor("x", 1, &[3]), bytes(9, [0; 4])].concat()),
        "the data has 4 bytes, but shape [3] of float32 needs 12"
    );
    assert_eq!(
        error([tensor("x", 2, &[1]), bytes(5, varint(256))].concat()),
        "the file is not a TensorProto: 256 does not fit uint8"
    );
    assert!(error([tensor("x", 1, &[1]), number(14, 1)].concat()).contains("another file"));
    assert!(error(tensor("x", 1, &[-1])).contains("[-1] is impossible"));
    assert!(error(b"\x0a\xff".to_vec()).starts_with("the file is not a TensorProto"));
}

#[test]
fn json_types_come_from_the_signature() {
    let signature = [
        info("ids", ElementType::Int64, &[]),
        info("h", ElementType::Float16, &[]),
        info("data", ElementType::Uint8, &[]),
    ];
    let text =
        br#"{"ids": [[1, 2], [3, 4]], "h": 1, "data": {"shape": [2, 2], "fill": 255}, "extra": [true]}"#;
    let values = json::read(text, &signature, &LIMITS).unwrap();
    let find = |name: &str| values.iter().find(|(n, _)| n.as_deref() == Some(name)).map(|(_, v)| v.clone());
    let ids = [1i64, 2, 3, 4].iter().flat_map(|v| v.to_le_bytes()).collect();
    assert_eq!(find("ids"), Some(Value::Tensor(dense(ElementType::Int64, &[2, 2], ids))));
    assert_eq!(find("h"), Some(Value::Tensor(dense(ElementType::Float16, &[], vec![0, 0x3c]))));
    assert_eq!(find("data"), Some(Value::Tensor(dense(ElementType::Uint8, &[2, 2], vec![255; 4]))));
    assert_eq!(find("extra"), Some(Value::Tensor(dense(ElementType::Bool, &[1], vec![1]))));

    let single = json::read(br#"{"dtype": "int32", "data": [7]}"#, &signature[..1], &LIMITS).unwrap();
    assert_eq!(
        single,
        vec![(None, Value::Tensor(dense(ElementType::Int64, &[1], 7i64.to_le_bytes().to_vec())))]
    );
    let named = json::read(br#"{"data": [7]}"#, &signature, &LIMITS).unwrap();
    assert_eq!(named[0].0.as_deref(), Some("data"), "an input may be named data");
}

#[test]
fn json_sequences_and_maps() {
    let float = ValueType::Tensor { element: ElementType::Float32, shape: None };
    let map = ValueType::Map { key: ElementType::Int64, value: Box::new(float.clone()) };
    let signature = [
        ValueInfo { name: "s".to_owned(), value_type: ValueType::Sequence(Box::new(float)) },
        ValueInfo { name: "m".to_owned(), value_type: map },
    ];
    let text = br#"{"s": {"sequence": [[1], [2, 3]]}, "m": {"map": {"5": 0.5}}}"#;
    let values = json::read(text, &signature, &LIMITS).unwrap();
    let keys = dense(ElementType::Int64, &[1], 5i64.to_le_bytes().to_vec());
    let expected = Value::Map { keys, values: dense(ElementType::Float32, &[1], floats(&[0.5])) };
    assert_eq!(values[0], (Some("m".to_owned()), expected));
    let Value::Sequence(items) = &values[1].1 else { panic!("no sequence") };
    assert_eq!(items[1], Value::Tensor(dense(ElementType::Float32, &[2], floats(&[2.0, 3.0]))));
}

#[test]
fn invalid_json_is_rejected() {
    let signature = [info("x", ElementType::Uint8, &[]), info("s", ElementType::String, &[])];
    let error = |text: &str| json::read(text.as_bytes(), &signature, &LIMITS).unwrap_err().to_string();
    assert_eq!(error(r#"{"x": 256}"#), "'x': 256 is not a valid uint8");
    assert_eq!(error(r#"{"x": [1, 1.5]}"#), "'x': 1.5 is not a valid uint8");
    assert_eq!(error(r#"{"x": ["a"]}"#), "'x': \"a\" is not a valid uint8");
    assert_eq!(error(r#"{"x": null}"#), "'x': null is not a valid uint8");
    assert_eq!(error(r#"{"x": [[1], [1, 2]]}"#), "'x': lists at depth 1 differ in length: 1 and 2");
    assert_eq!(error(r#"{"x": [[1], 2]}"#), "'x': contains both lists and values at depth 1");
    assert_eq!(error(r#"{"x": [1, [2]]}"#), "'x': contains both lists and values at depth 1");
    assert_eq!(error(r#"{"s": [1]}"#), "'s': every value must be a string");
    assert_eq!(error(r#"{"x": {"shape": [3], "data": [1]}}"#), "'x': shape [3] does not fit 1 values");
    assert_eq!(error(r#"{"x": {"dtype": "int9", "data": [1]}}"#), "'x': \"int9\" is not a dtype");
    assert_eq!(error(r#"{"x": {"shape": [1e9], "fill": 1}}"#), "'x': [1000000000.0] is not a shape");
    assert_eq!(
        error(r#"{"x": {"values": [1]}}"#),
        "'x': \"values\" is not one of dtype, shape, data, fill, note, sequence and map"
    );
    assert_eq!(
        error(r#"{"x": {"shape": [4294967296], "fill": 1}}"#),
        "the values are larger than the limit of 1048576 bytes when unpacked"
    );
    assert!(error("{").starts_with("the JSON cannot be read: EOF"));
    assert!(error(&"[".repeat(100_000)).starts_with("the JSON cannot be read: recursion limit"));
}

#[test]
fn templates_can_be_read_back() {
    let float = ValueType::Tensor { element: ElementType::Float32, shape: Some(vec![Dimension::Unknown]) };
    let value = |name: &str, value_type| ValueInfo { name: name.to_owned(), value_type };
    let signature = [
        info("t", ElementType::BFloat16, &[Dimension::Symbolic("n".to_owned()), Dimension::Fixed(3)]),
        info("s", ElementType::String, &[]),
        value("q", ValueType::Sequence(Box::new(float.clone()))),
        value("m", ValueType::Map { key: ElementType::String, value: Box::new(float.clone()) }),
        value("o", ValueType::Optional(Box::new(float))),
    ];
    let template = json::template(&signature);
    assert_eq!(
        template["t"],
        serde_json::json!({"dtype": "bfloat16", "shape": [1, 3], "fill": 0, "note": "bfloat16[n,3]"})
    );
    let values = json::read(template.to_string().as_bytes(), &signature, &LIMITS).unwrap();
    assert_eq!(values.len(), signature.len());
}

#[test]
fn kinds_are_told_by_their_bytes() {
    assert_eq!(read(b"", "x.npy", &[], &LIMITS), Err(TensorError::Empty));
    assert_eq!(read(b"hello", "x.txt", &[], &LIMITS), Err(TensorError::UnknownKind));
    assert!(read(b" [1]", "x", &[], &LIMITS).is_ok());
    assert_eq!(element_from_name("float8_e4m3fn"), Some(ElementType::Float8E4M3Fn));
    assert_eq!(element_from_name("double"), Some(ElementType::Float64));
    assert_eq!(element_from_name("int9"), None);
}

fn consistent(values: &NamedValues) {
    for (_, value) in values {
        if let Value::Tensor(Tensor { element, dims, data: TensorData::Bytes(bytes) }) = value {
            let elements = ortscope_core::tensor::element_count(dims).expect("a shape that fits");
            assert_eq!(element.bytes_for(elements), Some(bytes.len() as u64));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes(body in proptest::collection::vec(any::<u8>(), 0..512)) {
        for prefix in [&b""[..], b"\x93NUMPY\x01\x00", b"\x93NUMPY\x02\x00", b"PK\x03\x04"] {
            let file = [prefix, &body].concat();
            for name in ["x", "x.pb"] {
                if let Ok(values) = read(&file, name, &[], &LIMITS) {
                    consistent(&values);
                }
            }
        }
    }

    #[test]
    fn any_damage(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let one = npy_file("'<f4'", "True", "(2, 2)", &floats(&[1.0; 4]));
        let pb = [tensor("x", 1, &[2]), bytes(9, floats(&[1.0, 2.0]))].concat();
        for mut file in [one.clone(), npz_file(&[("x.npy", &one)]), pb, br#"{"x": {"shape": [2], "data": [1, 2.5]}}"#.to_vec()] {
            let at = at.index(file.len());
            file[at] = byte;
            if let Ok(values) = read(&file, "x.pb", &[], &LIMITS) {
                consistent(&values);
            }
        }
    }
}
