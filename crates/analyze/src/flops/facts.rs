//! Known facts of one operator before it is counted.

use std::collections::BTreeMap;

use ortscope_core::tensor::ElementType;

use super::count::{Count, Gap};

/// One operator with everything a count may need.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OpFacts {
    /// Empty and `ai.onnx` are ONNX's own; empty if the profile does not contain it.
    pub domain: String,
    pub op_type: String,
    /// In the order of the operator's definition; `None` is an optional input that is left out.
    pub inputs: Vec<Option<TensorFacts>>,
    pub outputs: Vec<Option<TensorFacts>>,
    pub attributes: BTreeMap<String, AttributeFact>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct TensorFacts {
    /// `None` when it is not known.
    pub shape: Option<Vec<u64>>,
    pub element: Option<ElementType>,
    /// A weight of the model rather than a value of this run.
    pub is_parameter: bool,
    /// The content of small integer tensors where it is known, e.g. a sequence length.
    pub value: Option<Vec<i64>>,
}

impl TensorFacts {
    pub fn new(element: ElementType, shape: &[u64]) -> Self {
        Self { shape: Some(shape.to_vec()), element: Some(element), is_parameter: false, value: None }
    }

    pub fn parameter(element: ElementType, shape: &[u64]) -> Self {
        Self { is_parameter: true, ..Self::new(element, shape) }
    }

    /// Bytes of the tensor; `None` without a shape, a type, or for strings.
    pub fn bytes(&self) -> Option<u64> {
        let elements = Count::of(self.shape.as_deref()?).fits().ok()?;
        self.element?.bytes_for(elements)
    }
}

/// An attribute, as far as counting needs it.
#[derive(Debug, Clone, PartialEq)]
pub enum AttributeFact {
    Int(i64),
    Float(f64),
    Text(String),
    Ints(Vec<i64>),
    Floats(Vec<f64>),
    /// Anything else (tensors, graphs, long lists): how many items it has.
    Other {
        items: u64,
    },
}

impl OpFacts {
    /// An operator of ONNX's own with tensors of known shapes; the rest is set by the fields.
    pub fn new(op_type: &str, inputs: Vec<TensorFacts>, outputs: Vec<TensorFacts>) -> Self {
        Self {
            domain: String::new(),
            op_type: op_type.to_owned(),
            inputs: inputs.into_iter().map(Some).collect(),
            outputs: outputs.into_iter().map(Some).collect(),
            attributes: BTreeMap::new(),
        }
    }

    #[must_use]
    pub fn with(mut self, name: &str, value: AttributeFact) -> Self {
        self.attributes.insert(name.to_owned(), value);
        self
    }

    #[must_use]
    pub fn in_domain(mut self, domain: &str) -> Self {
        domain.clone_into(&mut self.domain);
        self
    }

    pub(super) fn input(&self, index: usize) -> Option<&TensorFacts> {
        self.inputs.get(index)?.as_ref()
    }

    pub(super) fn has_input(&self, index: usize) -> bool {
        self.input(index).is_some()
    }

    pub(super) fn input_shape(&self, index: usize) -> Result<&[u64], Gap> {
        let shape = self.input(index).and_then(|tensor| tensor.shape.as_deref());
        shape.ok_or_else(|| Gap::new(format!("the shape of input {index} is not known")))
    }

    pub(super) fn output_shape(&self, index: usize) -> Result<&[u64], Gap> {
        let output = self.outputs.get(index).and_then(Option::as_ref);
        let shape = output.and_then(|tensor| tensor.shape.as_deref());
        shape.ok_or_else(|| Gap::new(format!("the shape of output {index} is not known")))
    }

    /// Elements of an input.
    pub(super) fn read(&self, index: usize) -> Result<Count, Gap> {
        self.input_shape(index).map(Count::of)
    }

    /// Elements of the first output.
    pub(super) fn written(&self) -> Result<Count, Gap> {
        self.output_shape(0).map(Count::of)
    }

    /// The only number in an input whose content is known.
    pub(super) fn input_value(&self, index: usize) -> Option<u64> {
        let value = self.input(index)?.value.as_deref()?;
        value.iter().copied().max().and_then(|value| u64::try_from(value).ok())
    }

    pub(super) fn int(&self, name: &str) -> Option<i64> {
        match self.attributes.get(name)? {
            AttributeFact::Int(value) => Some(*value),
            _ => None,
        }
    }

    pub(super) fn is_set(&self, name: &str) -> bool {
        self.int(name).is_some_and(|value| value != 0)
    }

    /// A positive integer the formula cannot do without.
    pub(super) fn size(&self, name: &str) -> Result<u64, Gap> {
        self.int(name)
            .and_then(|value| u64::try_from(value).ok())
            .filter(|value| *value > 0)
            .ok_or_else(|| Gap::new(format!("the attribute {name} is missing or not positive")))
    }

    pub(super) fn sizes(&self, name: &str) -> Option<Vec<u64>> {
        match self.attributes.get(name)? {
            AttributeFact::Ints(values) => values.iter().map(|value| u64::try_from(*value).ok()).collect(),
            _ => None,
        }
    }

    pub(super) fn float(&self, name: &str) -> Option<f64> {
        match self.attributes.get(name)? {
            AttributeFact::Float(value) => Some(*value),
            _ => None,
        }
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        match self.attributes.get(name)? {
            AttributeFact::Text(value) => Some(value),
            _ => None,
        }
    }

    /// Items of a list attribute.
    pub(super) fn items(&self, name: &str) -> Result<u64, Gap> {
        let items = match self.attributes.get(name) {
            Some(AttributeFact::Ints(values)) => values.len() as u64,
            Some(AttributeFact::Floats(values)) => values.len() as u64,
            Some(AttributeFact::Other { items }) => *items,
            _ => return Err(Gap::new(format!("the attribute {name} is missing"))),
        };
        Ok(items)
    }
}
