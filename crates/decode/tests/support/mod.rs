//! A small protobuf encoder, independent of the reader it tests.
#![allow(dead_code)]

pub fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = (value & 0x7f) as u8;
        value >>= 7;
        if value == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}

pub fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

pub fn bytes(field: u64, payload: impl AsRef<[u8]>) -> Vec<u8> {
    let payload = payload.as_ref();
    [varint(field << 3 | 2), varint(payload.len() as u64), payload.to_vec()].concat()
}

pub fn float(field: u64, value: f32) -> Vec<u8> {
    [varint(field << 3 | 5), value.to_le_bytes().to_vec()].concat()
}

/// A dimension: digits are a size, `?` is nothing, all else a name.
pub fn dim(text: &str) -> Vec<u8> {
    match text.parse::<i64>() {
        Ok(size) => number(1, size as u64),
        Err(_) if text == "?" => Vec::new(),
        Err(_) => bytes(2, text),
    }
}

pub fn tensor_type(element: u64, dims: &[&str]) -> Vec<u8> {
    let shape: Vec<u8> = dims.iter().flat_map(|text| bytes(1, dim(text))).collect();
    bytes(1, [number(1, element), bytes(2, shape)].concat())
}

pub fn value(name: &str, value_type: impl AsRef<[u8]>) -> Vec<u8> {
    [bytes(1, name), bytes(2, value_type)].concat()
}

pub fn node(op_type: &str, inputs: &[&str], outputs: &[&str]) -> Vec<u8> {
    let inputs = inputs.iter().flat_map(|name| bytes(1, name));
    let outputs = outputs.iter().flat_map(|name| bytes(2, name));
    inputs.chain(outputs).chain(bytes(4, op_type)).collect()
}

pub fn attribute(name: &str, code: u64, payload: Vec<u8>) -> Vec<u8> {
    bytes(5, [bytes(1, name), payload, number(20, code)].concat())
}

pub fn tensor(name: &str, element: u64, dims: &[i64]) -> Vec<u8> {
    let dims: Vec<u8> = dims.iter().flat_map(|size| number(1, *size as u64)).collect();
    [dims, number(2, element), bytes(8, name)].concat()
}

pub fn external(entries: &[(&str, &str)]) -> Vec<u8> {
    let entries =
        entries.iter().flat_map(|(key, value)| bytes(13, [bytes(1, key), bytes(2, value)].concat()));
    entries.chain(number(14, 1)).collect()
}

pub fn model(graph: &[u8]) -> Vec<u8> {
    let opset = [bytes(1, ""), number(2, 17)].concat();
    [number(1, 8), bytes(2, "test"), bytes(3, "1.0"), bytes(7, graph), bytes(8, opset)].concat()
}

/// Ids through a `Cast` into a table, with a mask, an image, a subgraph and an external weight.
pub fn sample() -> Vec<u8> {
    let branch =
        [bytes(1, node("Add", &["a", "b"], &["c"])), bytes(1, node("Mul", &["c", "c"], &["d"]))].concat();
    let graph = [
        bytes(1, node("Cast", &["ids"], &["ids32"])),
        bytes(
            1,
            [node("Gather", &["table", "ids32"], &["rows"]), attribute("axis", 2, number(3, 0))].concat(),
        ),
        bytes(
            1,
            [
                node("Conv", &["image"], &["y"]),
                attribute("kernel_shape", 7, [number(8, 3), number(8, 3)].concat()),
            ]
            .concat(),
        ),
        bytes(1, [node("If", &["flag"], &["z"]), attribute("then_branch", 5, bytes(6, branch))].concat()),
        bytes(2, "main"),
        bytes(5, [tensor("table", 1, &[30522, 384]), bytes(9, [0; 64])].concat()),
        bytes(
            5,
            [tensor("w", 1, &[10, 10]), external(&[("location", "w.bin"), ("offset", "4096")])].concat(),
        ),
        bytes(11, value("ids", tensor_type(7, &["batch", "seq"]))),
        bytes(11, value("attention_mask", tensor_type(7, &["batch", "seq"]))),
        bytes(11, value("image", tensor_type(1, &["batch", "3", "?", "-1"]))),
        bytes(11, value("table", tensor_type(1, &["30522", "384"]))),
        bytes(12, value("y", tensor_type(1, &["batch", "1000"]))),
    ]
    .concat();
    model(&graph)
}
