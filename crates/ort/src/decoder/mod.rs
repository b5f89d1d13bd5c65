//! Text generation with models that carry a cache of keys and values from step to step.
//!
//! The present tensors of one step are the past tensors of the next: they are handed back to ONNX Runtime as they are,
//! without a copy. A step is three calls, so that the caller can time the middle one alone.

mod layout;
mod sampling;

use ortscope_core::tensor::{ElementType, Tensor, TensorData, Value};

pub use layout::{CachePair, DecoderLayout};

use crate::plain::PlainRunner;
use crate::{OrtError, OrtValue, Session};

/// A generation in progress: one sequence, batch size 1, greedy.
#[derive(Debug)]
pub struct KvDecoder<'s> {
    session: &'s Session,
    layout: DecoderLayout,
    runner: PlainRunner<'s>,
    /// Index of the first cache input: tokens, mask, positions and switch come first, then what the caller supplied.
    first_past: usize,
    /// Positions in the cache.
    length: u64,
    new_tokens: u64,
}

impl<'s> KvDecoder<'s> {
    /// The layout of the model's cache; `None` if it has none.
    pub fn detect(session: &Session) -> Result<Option<DecoderLayout>, OrtError> {
        layout::detect(session.inputs(), session.outputs())
    }

    /// Starts with an empty cache. `extras` are the inputs that [`DecoderLayout::extras`] names.
    pub fn new(
        session: &'s Session,
        layout: DecoderLayout,
        extras: &[(String, Value)],
    ) -> Result<Self, OrtError> {
        let runtime = session.environment().runtime();
        let mut values = layout
            .step_values(0, &[0])?
            .iter()
            .map(|value| OrtValue::from_value(runtime, value))
            .collect::<Result<Vec<_>, _>>()?;
        for name in &layout.extras {
            let Some((_, value)) = extras.iter().find(|(given, _)| given == name) else {
                return Err(OrtError::Unsupported(format!(
                    "the decoder needs a value for its input '{name}'"
                )));
            };
            values.push(OrtValue::from_value(runtime, value)?);
        }
        let first_past = values.len();
        for pair in &layout.pairs {
            values.push(OrtValue::zeroed(runtime, pair.element, &pair.empty_dims)?);
        }
        let (inputs, outputs) = (layout.input_names(), layout.output_names());
        let runner = PlainRunner::with_values(session, inputs.into_iter(), values, outputs.into_iter())?;
        Ok(Self { session, layout, runner, first_past, length: 0, new_tokens: 0 })
    }

    /// Forgets the sequence.
    pub fn reset(&mut self) -> Result<(), OrtError> {
        let runtime = self.session.environment().runtime();
        for (index, pair) in self.layout.pairs.iter().enumerate() {
            let empty = OrtValue::zeroed(runtime, pair.element, &pair.empty_dims)?;
            self.runner.set_input(self.first_past + index, empty);
        }
        self.length = 0;
        Ok(())
    }

    /// Positions in the cache so far.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Processes a prompt and returns the most likely next token. For timing, use the three steps.
    pub fn prefill(&mut self, tokens: &[i64]) -> Result<i64, OrtError> {
        self.prepare_step(tokens)?;
        self.run_step()?;
        self.finish_step()
    }

    /// Processes one token and returns the most likely next one.
    pub fn step(&mut self, token: i64) -> Result<i64, OrtError> {
        self.prefill(&[token])
    }

    /// Builds the inputs of a step.
    pub fn prepare_step(&mut self, tokens: &[i64]) -> Result<(), OrtError> {
        if tokens.is_empty() {
            return Err(OrtError::Unsupported("a step needs at least one token".to_owned()));
        }
        let runtime = self.session.environment().runtime();
        for (index, value) in self.layout.step_values(self.length, tokens)?.iter().enumerate() {
            self.runner.set_input(index, OrtValue::from_value(runtime, value)?);
        }
        // Outside the run, where the time of a release would be counted.
        self.runner.release_outputs();
        self.new_tokens = tokens.len() as u64;
        Ok(())
    }

    /// Runs the model: the part to time.
    #[inline]
    pub fn run_step(&mut self) -> Result<(), OrtError> {
        self.runner.run()
    }

    /// Takes the new cache over and picks the most likely next token.
    pub fn finish_step(&mut self) -> Result<i64, OrtError> {
        let mut outputs = self.runner.take_values()?.into_iter();
        let logits =
            outputs.next().ok_or_else(|| OrtError::Unsupported("the decoder gave no logits".to_owned()))?;
        let first = self.length == 0;
        for (index, (present, pair)) in outputs.zip(&self.layout.pairs).enumerate() {
            // With its cache branch a merged encoder-decoder returns empty placeholders for the encoder's one-time
            // outputs.
            if first || !pair.from_encoder {
                self.runner.set_input(self.first_past + index, present);
            }
        }
        self.length += self.new_tokens;
        sampling::most_likely(&logits)
    }
}

impl DecoderLayout {
    /// The inputs that change with every step, in the order of [`Self::input_names`].
    fn step_values(&self, length: u64, tokens: &[i64]) -> Result<Vec<Value>, OrtError> {
        let new = tokens.len() as u64;
        let total = length + new;
        let mut values = vec![integers(self.tokens_element, &[1, new], tokens)?];
        if let Some((_, element)) = &self.attention_mask {
            values.push(integers(*element, &[1, total], &(0..total).map(|_| 1).collect::<Vec<_>>())?);
        }
        if let Some((_, element)) = &self.position_ids {
            let positions: Vec<i64> = (length..total).map(|position| position as i64).collect();
            values.push(integers(*element, &[1, new], &positions)?);
        }
        if self.use_cache_branch.is_some() {
            let data = TensorData::Bytes(vec![u8::from(length > 0)]);
            values.push(Value::Tensor(Tensor { element: ElementType::Bool, dims: vec![1], data }));
        }
        Ok(values)
    }
}

/// An integer tensor in the type the model wants.
fn integers(element: ElementType, dims: &[u64], values: &[i64]) -> Result<Value, OrtError> {
    let bytes = match element {
        ElementType::Int64 => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
        ElementType::Int32 => values.iter().flat_map(|value| (*value as i32).to_le_bytes()).collect(),
        ElementType::Float32 => values.iter().flat_map(|value| (*value as f32).to_le_bytes()).collect(),
        ElementType::Bool => values.iter().map(|value| u8::from(*value != 0)).collect(),
        other => {
            return Err(OrtError::Unsupported(format!(
                "the decoder wants {other} for tokens, mask or positions"
            )));
        }
    };
    Ok(Value::Tensor(Tensor { element, dims: dims.to_vec(), data: TensorData::Bytes(bytes) }))
}
