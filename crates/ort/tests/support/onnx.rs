//! A protobuf writer just large enough to make test models.

/// A message under construction.
#[derive(Debug, Clone, Default)]
pub struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    pub fn int(mut self, field: u64, value: i64) -> Self {
        self.varint(field << 3);
        self.varint(value as u64);
        self
    }

    pub fn float(mut self, field: u64, value: f32) -> Self {
        self.varint(field << 3 | 5);
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub fn bytes(mut self, field: u64, value: &[u8]) -> Self {
        self.varint(field << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    pub fn string(self, field: u64, value: &str) -> Self {
        self.bytes(field, value.as_bytes())
    }

    pub fn message(self, field: u64, value: &Message) -> Self {
        self.bytes(field, &value.0)
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// One size of a shape.
#[derive(Debug, Clone, Copy)]
pub enum Dim {
    Fixed(i64),
    Named(&'static str),
    Unknown,
}

/// `TypeProto` of a tensor; `elem` is ONNX's code.
pub fn tensor_type(elem: i32, dims: &[Dim]) -> Message {
    let shape = dims.iter().fold(Message::default(), |shape, dim| {
        shape.message(
            1,
            &match dim {
                Dim::Fixed(size) => Message::default().int(1, *size),
                Dim::Named(name) => Message::default().string(2, name),
                Dim::Unknown => Message::default(),
            },
        )
    });
    Message::default().message(1, &Message::default().int(1, i64::from(elem)).message(2, &shape))
}

/// `TypeProto` of a tensor of unknown rank.
pub fn unranked_type(elem: i32) -> Message {
    Message::default().message(1, &Message::default().int(1, i64::from(elem)))
}

pub fn sequence_type(of: &Message) -> Message {
    Message::default().message(4, &Message::default().message(1, of))
}

pub fn map_type(key: i32, value: &Message) -> Message {
    Message::default().message(5, &Message::default().int(1, i64::from(key)).message(2, value))
}

pub fn optional_type(of: &Message) -> Message {
    Message::default().message(9, &Message::default().message(1, of))
}

/// `NodeProto`.
pub fn node(op: &str, inputs: &[&str], outputs: &[&str]) -> Message {
    let node = inputs.iter().fold(Message::default(), |node, name| node.string(1, name));
    let node = outputs.iter().fold(node, |node, name| node.string(2, name));
    node.string(3, &format!("node_{op}_{}", outputs.first().unwrap_or(&""))).string(4, op)
}

pub fn ints_attribute(name: &str, values: &[i64]) -> Message {
    values
        .iter()
        .fold(Message::default().string(1, name), |attribute, value| attribute.int(8, *value))
        .int(20, 7)
}

pub fn int_attribute(name: &str, value: i64) -> Message {
    Message::default().string(1, name).int(3, value).int(20, 2)
}

pub fn float_attribute(name: &str, value: f32) -> Message {
    Message::default().string(1, name).float(2, value).int(20, 1)
}

/// `TensorProto`.
pub fn initializer(name: &str, elem: i32, dims: &[i64], data: &[u8]) -> Message {
    let tensor = dims.iter().fold(Message::default(), |tensor, dim| tensor.int(1, *dim));
    tensor.int(2, i64::from(elem)).string(8, name).bytes(9, data)
}

/// A graph with typed inputs and outputs.
#[derive(Debug, Default)]
pub struct Graph(Message);

impl Graph {
    pub fn node(self, node: &Message) -> Self {
        Self(self.0.message(1, node))
    }

    pub fn initializer(self, tensor: &Message) -> Self {
        Self(self.0.message(5, tensor))
    }

    pub fn input(self, name: &str, of: &Message) -> Self {
        Self(self.0.message(11, &Message::default().string(1, name).message(2, of)))
    }

    pub fn output(self, name: &str, of: &Message) -> Self {
        Self(self.0.message(12, &Message::default().string(1, name).message(2, of)))
    }

    /// `ModelProto` of IR 8 and opset 13, which every version since 1.15 takes.
    pub fn model(self) -> Vec<u8> {
        self.model_of(8, 13)
    }

    pub fn model_of(self, ir: i64, opset: i64) -> Vec<u8> {
        let graph = self.0.string(2, "test");
        let domain = |name: &str, version| Message::default().string(1, name).int(2, version);
        Message::default()
            .int(1, ir)
            .string(2, "ortscope-tests")
            .string(6, "a test model")
            .message(7, &graph)
            .message(8, &domain("", opset))
            .message(8, &domain("ai.onnx.ml", 2))
            .message(14, &Message::default().string(1, "color").string(2, "green"))
            .into_bytes()
    }
}
