//! Fields of self-describing events, taken out of their payload.

use ortscope_etl::payload::{Nest, Value, Visitor};

/// Fields kept of one event. ONNX Runtime's largest has some thirty.
const MAX_FIELDS: usize = 256;
/// Bytes of text kept of one field.
const MAX_TEXT: usize = 16 << 10;

#[derive(Debug, Clone, PartialEq)]
pub enum FieldValue {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Bool(bool),
    Text(String),
}

impl FieldValue {
    fn of(value: &Value<'_>) -> Self {
        match *value {
            Value::Unsigned(number) | Value::Hex(number) | Value::Pointer(number) => Self::Unsigned(number),
            Value::Signed(number) => Self::Signed(number),
            Value::Single(number) => Self::Float(f64::from(number)),
            Value::Double(number) => Self::Float(number),
            Value::Bool(truth) => Self::Bool(truth),
            ref other => Self::Text(short_text(other)),
        }
    }
}

/// The value as text, truncated if too long.
fn short_text(value: &impl std::fmt::Display) -> String {
    let mut text = value.to_string();
    if text.len() > MAX_TEXT {
        text.truncate(text.floor_char_boundary(MAX_TEXT));
    }
    text
}

/// Names and values in payload order; structure members are named `structure.member`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Fields {
    list: Vec<(String, FieldValue)>,
    /// Fields beyond the first 256.
    pub dropped: u64,
    prefixes: Vec<usize>,
    prefix: String,
}

impl Fields {
    pub fn iter(&self) -> impl Iterator<Item = (&str, &FieldValue)> {
        self.list.iter().map(|(name, value)| (name.as_str(), value))
    }

    pub fn get(&self, name: &str) -> Option<&FieldValue> {
        self.list.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    pub fn unsigned(&self, name: &str) -> Option<u64> {
        match *self.get(name)? {
            FieldValue::Unsigned(number) => Some(number),
            FieldValue::Signed(number) => u64::try_from(number).ok(),
            FieldValue::Bool(truth) => Some(u64::from(truth)),
            FieldValue::Float(_) | FieldValue::Text(_) => None,
        }
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        match self.get(name)? {
            FieldValue::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The fields as a JSON object.
    pub fn to_json(&self) -> serde_json::Value {
        let value = |value: &FieldValue| match value {
            FieldValue::Unsigned(number) => (*number).into(),
            FieldValue::Signed(number) => (*number).into(),
            FieldValue::Float(number) => (*number).into(),
            FieldValue::Bool(truth) => (*truth).into(),
            FieldValue::Text(text) => text.as_str().into(),
        };
        serde_json::Value::Object(self.iter().map(|(name, field)| (name.to_owned(), value(field))).collect())
    }
}

impl Visitor for Fields {
    fn field(&mut self, name: &str, value: Value<'_>) {
        if self.list.len() == MAX_FIELDS {
            self.dropped += 1;
            return;
        }
        self.list.push((format!("{}{name}", self.prefix), FieldValue::of(&value)));
    }

    fn open(&mut self, name: &str, _nest: Nest) {
        self.prefixes.push(self.prefix.len());
        self.prefix.push_str(name);
        self.prefix.push('.');
    }

    fn close(&mut self) {
        let length = self.prefixes.pop().unwrap_or(0);
        self.prefix.truncate(length);
    }
}

/// Extracts some numbers and one text by name, for very frequent events.
#[derive(Debug)]
pub(super) struct Wanted<const N: usize> {
    names: [&'static str; N],
    pub numbers: [Option<u64>; N],
    text_name: &'static str,
    pub text: Option<String>,
}

impl<const N: usize> Wanted<N> {
    pub fn new(names: [&'static str; N]) -> Self {
        Self { names, numbers: [None; N], text_name: "", text: None }
    }

    pub fn with_text(self, text_name: &'static str) -> Self {
        Self { text_name, ..self }
    }
}

impl<const N: usize> Visitor for Wanted<N> {
    fn field(&mut self, name: &str, value: Value<'_>) {
        if let Some(index) = self.names.iter().position(|wanted| *wanted == name) {
            self.numbers[index] = value.as_u64();
        } else if name == self.text_name {
            self.text = Some(short_text(&value));
        }
    }
}
