//! Sizes of dimensions that a model leaves open.
//!
//! In order: given values, `--shape`, `--batch`, and then the table of usual sizes, by the dimension's name, or else
//! by its position. Equal names have equal sizes.

use std::collections::BTreeMap;

use ortscope_core::tensor::{Dimension, Value, ValueInfo};
use ortscope_decode::onnx::{ImageLayout, InputHint};

use super::error::InputError;
use super::names::{self, Meaning};
use super::open_dims::{
    batch_axes, fixed_batch, in_a_cache, is_sound, is_voice, only_in_caches, shape_of, symbol, symbols,
    tensor_of,
};
use super::overrides::ShapeOverride;
use super::{BatchAxis, GuessedDim, InputRequest, given};

const SEQUENCE: u64 = 128;
const SPATIAL: u64 = 224;
const CHANNELS: u64 = 3;
/// One second of sound at the usual rate.
const SAMPLES: u64 = 16_000;
/// Chunk size of voice detectors (silero: 32 ms).
const VOICE_WINDOW: u64 = 512;

#[derive(Debug)]
pub(super) struct Sizes {
    /// By name, with the origin of the size.
    symbols: BTreeMap<String, (u64, String)>,
    /// Of inputs that are not given.
    pub shapes: BTreeMap<String, Vec<u64>>,
    pub notes: Vec<String>,
    pub guessed: Vec<GuessedDim>,
    pub batch_size: Option<u64>,
    pub batch_axes: Vec<BatchAxis>,
}

impl Sizes {
    pub fn settle(request: &InputRequest<'_>, given: &BTreeMap<&str, &Value>) -> Result<Self, InputError> {
        let mut sizes = Self {
            symbols: BTreeMap::new(),
            shapes: BTreeMap::new(),
            notes: Vec::new(),
            guessed: Vec::new(),
            batch_size: None,
            batch_axes: batch_axes(request),
        };
        for info in request.signature {
            if let Some(Value::Tensor(tensor)) = given.get(info.name.as_str()) {
                sizes.bind_shape(info, &tensor.dims, &format!("the given '{}'", info.name))?;
                sizes.bind_batch(&info.name, &tensor.dims);
            }
        }
        sizes.apply_overrides(request, given)?;
        sizes.apply_batch(request, given)?;
        for info in request.signature {
            if !given.contains_key(info.name.as_str()) && !sizes.shapes.contains_key(&info.name) {
                sizes.guess_shape(request, info);
            }
        }
        let known = sizes.batch_axes.first().and_then(|at| sizes.shapes.get(&at.input)?.get(at.axis));
        sizes.batch_size = sizes.batch_size.or(known.copied());
        Ok(sizes)
    }

    /// The size of the first dimension with that meaning, by the name it has in the model.
    pub fn of(&self, wanted: Meaning) -> Option<u64> {
        self.symbols.iter().find(|(name, _)| names::meaning(name) == wanted).map(|(_, (size, _))| *size)
    }

    /// Tokens that caches hold, and tokens after this run.
    pub fn past_and_total(&self) -> (u64, u64) {
        let past = self.of(Meaning::Past).unwrap_or(0);
        let total = self.of(Meaning::Total);
        (past, total.unwrap_or_else(|| past.saturating_add(self.of(Meaning::Sequence).unwrap_or(1))))
    }

    fn bind(&mut self, name: &str, size: u64, from: &str) -> Result<(), InputError> {
        match self.symbols.get(name) {
            Some((known, first_from)) if *known != size => Err(InputError::Conflict {
                dim: name.to_owned(),
                first: *known,
                first_from: first_from.clone(),
                second: size,
                second_from: from.to_owned(),
            }),
            Some(_) => Ok(()),
            None => {
                self.symbols.insert(name.to_owned(), (size, from.to_owned()));
                Ok(())
            }
        }
    }

    fn bind_shape(&mut self, info: &ValueInfo, dims: &[u64], from: &str) -> Result<(), InputError> {
        for (dimension, size) in shape_of(info).unwrap_or_default().iter().zip(dims) {
            if let Some(name) = symbol(dimension) {
                self.bind(name, *size, from)?;
            }
        }
        Ok(())
    }

    fn bind_batch(&mut self, input: &str, dims: &[u64]) {
        let at = self.batch_axes.iter().find(|at| at.input == input);
        self.batch_size = self.batch_size.or(at.and_then(|at| dims.get(at.axis)).copied());
    }

    fn apply_overrides(
        &mut self,
        request: &InputRequest<'_>,
        given: &BTreeMap<&str, &Value>,
    ) -> Result<(), InputError> {
        for (name, wanted) in &request.shapes {
            let from = format!("--shape {name}");
            let is_symbol = symbols(request).any(|symbol| symbol == name);
            let input = request.signature.iter().find(|info| info.name == *name);
            let dims = match wanted {
                ShapeOverride::Size(size) if is_symbol => {
                    self.bind(name, *size, &from)?;
                    continue;
                }
                ShapeOverride::Size(size) => vec![*size],
                ShapeOverride::Shape(dims) => dims.clone(),
            };
            let Some(info) = input else {
                let known = symbols(request).chain(request.signature.iter().map(|info| info.name.as_str()));
                return Err(InputError::UnknownShape {
                    name: name.clone(),
                    nearest: names::nearest(name, known),
                });
            };
            if let Some(Value::Tensor(tensor)) = given.get(info.name.as_str()) {
                let exact: Vec<Dimension> = tensor.dims.iter().map(|dim| Dimension::Fixed(*dim)).collect();
                given::check_shape(name, &exact, &dims)?;
            }
            if let Some(shape) = shape_of(info) {
                given::check_shape(name, shape, &dims)?;
            }
            self.bind_shape(info, &dims, &from)?;
            self.bind_batch(name, &dims);
            self.shapes.insert(name.clone(), dims);
        }
        Ok(())
    }

    fn apply_batch(
        &mut self,
        request: &InputRequest<'_>,
        given: &BTreeMap<&str, &Value>,
    ) -> Result<(), InputError> {
        let Some(asked) = request.batch else { return Ok(()) };
        if self.batch_axes.is_empty() {
            return match fixed_batch(request) {
                Some((_, fixed)) if fixed == asked => {
                    self.batch_size = Some(asked);
                    Ok(())
                }
                Some((input, fixed)) => Err(InputError::FixedBatch { input: input.to_owned(), fixed, asked }),
                None => Err(InputError::NoBatch { asked }),
            };
        }
        for at in self.batch_axes.clone() {
            let info = request.signature.iter().find(|info| info.name == at.input);
            let dimension = info.and_then(shape_of).and_then(|shape| shape.get(at.axis));
            if let Some(name) = dimension.and_then(symbol) {
                self.bind(name, asked, "--batch")?;
            }
            let of_given = match given.get(at.input.as_str()) {
                Some(Value::Tensor(tensor)) => tensor.dims.get(at.axis),
                _ => self.shapes.get(&at.input).and_then(|dims| dims.get(at.axis)),
            };
            if let Some(size) = of_given.filter(|size| **size != asked) {
                return Err(InputError::Conflict {
                    dim: format!("{}[{}]", at.input, at.axis),
                    first: *size,
                    first_from: "the given shape".to_owned(),
                    second: asked,
                    second_from: "--batch".to_owned(),
                });
            }
        }
        self.batch_size = Some(asked);
        Ok(())
    }

    fn guess_shape(&mut self, request: &InputRequest<'_>, info: &ValueInfo) {
        let Some(shape) = tensor_of(&info.value_type) else {
            return;
        };
        let Some(shape) = shape else {
            let name = &info.name;
            self.notes.push(format!(
                "'{name}' has no known rank, one value is used, change with --shape {name}=1x1"
            ));
            self.shapes.insert(name.clone(), vec![1]);
            return;
        };
        let hint = request.hints.get(&info.name);
        let mut dims = Vec::with_capacity(shape.len());
        let mut unnamed = Vec::new();
        for (axis, dimension) in shape.iter().enumerate() {
            let size = match (dimension, symbol(dimension)) {
                (Dimension::Fixed(size), _) => *size,
                (_, Some(name)) => match self.symbols.get(name) {
                    Some((size, _)) => *size,
                    None => self.guess_symbol(request, info, shape, axis, name),
                },
                (_, None) => {
                    let (size, is_guess) = self.by_place(request, info, &hint, shape, axis);
                    if is_guess {
                        unnamed.push((axis, size));
                    }
                    size
                }
            };
            dims.push(size);
        }
        let whole: Vec<String> = dims.iter().map(u64::to_string).collect();
        for (axis, value) in unnamed {
            let name = &info.name;
            let how = if dims.len() == 1 { format!("[{value}]") } else { whole.join("x") };
            let sentence =
                format!("axis {axis} of '{name}' set to {value}, change with --shape {name}={how}");
            self.notes.push(sentence.clone());
            self.guessed.push(GuessedDim { sentence, name: None, input: name.clone(), axis, value });
        }
        self.shapes.insert(info.name.clone(), dims);
    }

    fn guess_symbol(
        &mut self,
        request: &InputRequest<'_>,
        info: &ValueInfo,
        shape: &[Dimension],
        axis: usize,
        name: &str,
    ) -> u64 {
        let value = match names::meaning(name) {
            Meaning::Sequence if is_sound(request, name) => {
                if is_voice(request) {
                    VOICE_WINDOW
                } else {
                    SAMPLES
                }
            }
            Meaning::Unclear => self.by_place(request, info, &request.hints.get(&info.name), shape, axis).0,
            meaning => self.by_meaning(request, name, meaning),
        };
        self.symbols.insert(name.to_owned(), (value, "a guess".to_owned()));
        let sentence = format!("dim '{name}' set to {value}, change with --shape {name}={value}");
        self.notes.push(sentence.clone());
        self.guessed.push(GuessedDim {
            sentence,
            name: Some(name.to_owned()),
            input: info.name.clone(),
            axis,
            value,
        });
        value
    }

    fn by_meaning(&self, request: &InputRequest<'_>, name: &str, meaning: Meaning) -> u64 {
        // `past_sequence_length + 1` and the like are sums of known sizes.
        if name.contains('+') {
            let term = |term: &str| {
                let term = term.trim().trim_matches(['(', ')']);
                let known = self.symbols.get(term).map(|(size, _)| *size);
                let number =
                    || term.parse().unwrap_or_else(|_| self.by_meaning(request, term, names::meaning(term)));
                known.unwrap_or_else(number)
            };
            return name.split('+').map(term).fold(0, u64::saturating_add);
        }
        match meaning {
            Meaning::Batch => self.batch_size.unwrap_or(1),
            Meaning::Sequence if only_in_caches(request, name) => 0,
            Meaning::Sequence => SEQUENCE,
            Meaning::Past => u64::from(!in_a_cache(request, name)),
            Meaning::Total => {
                let first = |wanted| symbols(request).find(|symbol| names::meaning(symbol) == wanted);
                let size = |wanted: Meaning| {
                    let symbol = first(wanted)?;
                    let known = self.symbols.get(symbol).map(|(size, _)| *size);
                    Some(known.unwrap_or_else(|| self.by_meaning(request, symbol, wanted)))
                };
                let past = size(Meaning::Past).unwrap_or(0);
                past.saturating_add(size(Meaning::Sequence).unwrap_or(SEQUENCE))
            }
            Meaning::Samples => SAMPLES,
            Meaning::Spatial => SPATIAL,
            Meaning::Channels => CHANNELS,
            Meaning::Unclear => 1,
        }
    }

    /// By the place in the shape: the size, and whether it is a guess.
    fn by_place(
        &self,
        request: &InputRequest<'_>,
        info: &ValueInfo,
        hint: &InputHint,
        shape: &[Dimension],
        axis: usize,
    ) -> (u64, bool) {
        if self.batch_axes.iter().any(|at| at.input == info.name && at.axis == axis) {
            return (self.batch_size.unwrap_or(1), self.batch_size.is_none());
        }
        let spatial = match (shape.len(), hint.image) {
            (4, Some(ImageLayout::ChannelsLast)) => 1..3,
            (4, _) => 2..4,
            _ => 0..0,
        };
        let is_sequence = hint.feeds_index || hint.is_mask || hint.is_position || shape.len() == 3;
        let size = if hint.is_cache {
            0
        } else if names::is_state(&info.name) || axis == 0 {
            1
        } else if is_sequence {
            SEQUENCE
        } else if spatial.contains(&axis) {
            SPATIAL
        } else if shape.len() == 4 {
            CHANNELS
        } else if is_voice(request) && shape.len() == 2 {
            VOICE_WINDOW
        } else {
            1
        };
        (size, true)
    }
}
