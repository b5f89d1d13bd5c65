//! Identifies the cache inputs and outputs of a model by their names.
//!
//! Exporters name them differently: `past_key_values.0.key` and `present.0.key` (Hugging Face Optimum, ORT GenAI),
//! `past_key_0` and `present_key_0`, `past_0` and `present_0` (ONNX Runtime's GPT-2), with `.decoder.` and
//! `.encoder.` parts in encoder-decoder models.

use ortscope_core::tensor::{Dimension, ElementType, ValueInfo, ValueType};
use serde::Serialize;

use crate::OrtError;

/// How a model's inputs and outputs are used to generate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DecoderLayout {
    pub tokens: String,
    pub tokens_element: ElementType,
    pub attention_mask: Option<(String, ElementType)>,
    pub position_ids: Option<(String, ElementType)>,
    /// The switch of merged models: false while the cache is empty.
    pub use_cache_branch: Option<String>,
    pub logits: String,
    pub pairs: Vec<CachePair>,
    /// Inputs that the caller must supply.
    pub extras: Vec<String>,
}

/// One tensor of the cache: an output that becomes an input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CachePair {
    pub past: String,
    pub present: String,
    pub element: ElementType,
    /// The shape before the first token, with 0 on the axis that grows.
    pub empty_dims: Vec<u64>,
    /// Made once from the encoder's states, rather than grown by each token.
    pub from_encoder: bool,
}

impl DecoderLayout {
    /// All inputs, in the order in which a step builds its values.
    pub(super) fn input_names(&self) -> Vec<&String> {
        let pasts = self.pairs.iter().map(|pair| &pair.past);
        std::iter::once(&self.tokens)
            .chain(self.attention_mask.iter().map(|(name, _)| name))
            .chain(self.position_ids.iter().map(|(name, _)| name))
            .chain(&self.use_cache_branch)
            .chain(&self.extras)
            .chain(pasts)
            .collect()
    }

    /// The logits, then the cache.
    pub(super) fn output_names(&self) -> Vec<&String> {
        std::iter::once(&self.logits).chain(self.pairs.iter().map(|pair| &pair.present)).collect()
    }
}

pub(super) fn detect(inputs: &[ValueInfo], outputs: &[ValueInfo]) -> Result<Option<DecoderLayout>, OrtError> {
    let present_of = |past: &ValueInfo| {
        let key = cache_key(&past.name, "past")?;
        outputs.iter().find(|output| cache_key(&output.name, "present").as_ref() == Some(&key))
    };
    let pairs = inputs.iter().filter_map(|past| present_of(past).map(|present| pair(past, present)));
    let pairs = pairs.collect::<Result<Vec<_>, _>>()?;
    let input = |names: &[&str]| inputs.iter().find(|input| names.contains(&input.name.as_str()));
    let tokens = input(&["input_ids", "decoder_input_ids", "tokens"]);
    let logits = outputs.iter().find(|output| output.name == "logits" || output.name.ends_with(".logits"));
    let (Some(tokens), Some(logits), false) = (tokens, logits, pairs.is_empty()) else {
        return Ok(None);
    };

    let typed = |info: &ValueInfo| element(info).map(|element| (info.name.clone(), element));
    let attention_mask = input(&["attention_mask", "decoder_attention_mask"]).and_then(typed);
    let position_ids = input(&["position_ids"]).and_then(typed);
    let use_cache_branch = input(&["use_cache_branch"]).map(|info| info.name.clone());
    let tokens_element = element(tokens).unwrap_or(ElementType::Int64);

    let mut layout = DecoderLayout {
        tokens: tokens.name.clone(),
        tokens_element,
        attention_mask,
        position_ids,
        use_cache_branch,
        logits: logits.name.clone(),
        pairs,
        extras: Vec::new(),
    };
    let known: Vec<String> = layout.input_names().into_iter().cloned().collect();
    layout.extras =
        inputs.iter().map(|info| info.name.clone()).filter(|name| !known.contains(name)).collect();
    Ok(Some(layout))
}

/// The common part of a past and its present: `past_key_values.0.key` and `present.0.key` are both `0.key`.
fn cache_key(name: &str, prefix: &str) -> Option<String> {
    let rest = name.strip_prefix(prefix)?;
    let rest = rest.strip_prefix("_key_values").unwrap_or(rest);
    let rest = rest.trim_start_matches(['.', '_']);
    // Without a number it is something else, for example past_sequence_length.
    rest.contains(|character: char| character.is_ascii_digit()).then(|| rest.replace('_', "."))
}

fn element(info: &ValueInfo) -> Option<ElementType> {
    match &info.value_type {
        ValueType::Tensor { element, .. } => Some(*element),
        _ => None,
    }
}

fn pair(past: &ValueInfo, present: &ValueInfo) -> Result<CachePair, OrtError> {
    let ValueType::Tensor { element, shape: Some(shape) } = &past.value_type else {
        return Err(OrtError::Unsupported(format!("the cache input '{}' has no known shape", past.name)));
    };
    Ok(CachePair {
        past: past.name.clone(),
        present: present.name.clone(),
        element: *element,
        empty_dims: empty_dims(&past.name, shape)?,
        from_encoder: past.name.contains(".encoder."),
    })
}

/// The shape of an empty cache: 1 for the batch, 0 for the positions, and the fixed sizes as they are.
///
/// Names decide where there are any; else the usual places do, [batch, heads, positions, width] or, with keys and
/// values in one tensor, [2, batch, heads, positions, width].
fn empty_dims(name: &str, shape: &[Dimension]) -> Result<Vec<u64>, OrtError> {
    let (batch, positions) = if shape.len() == 5 { (1, 3) } else { (0, 2) };
    let mut dims = Vec::with_capacity(shape.len());
    for (axis, dimension) in shape.iter().enumerate() {
        let named = match dimension {
            Dimension::Symbolic(symbol) => symbol.to_ascii_lowercase(),
            _ => String::new(),
        };
        let says = |words: &[&str]| words.iter().any(|word| named.contains(word));
        dims.push(match dimension {
            Dimension::Fixed(size) => *size,
            _ if says(&["batch"]) => 1,
            _ if says(&["past", "seq", "len", "total", "cache", "ctx"]) => 0,
            _ if axis == batch => 1,
            _ if axis == positions => 0,
            other => {
                return Err(OrtError::Unsupported(format!(
                    "the size '{other}' (axis {axis}) of the cache input '{name}' is unknown: fix it with a dimension \
                     override"
                )));
            }
        });
    }
    Ok(dims)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(name: &str, element: ElementType, shape: &[&str]) -> ValueInfo {
        let dimension = |text: &&str| match text.parse() {
            Ok(size) => Dimension::Fixed(size),
            Err(_) if *text == "?" => Dimension::Unknown,
            Err(_) => Dimension::Symbolic((*text).to_owned()),
        };
        let shape = Some(shape.iter().map(dimension).collect());
        ValueInfo { name: name.to_owned(), value_type: ValueType::Tensor { element, shape } }
    }

    #[test]
    fn the_names_of_all_exporters() {
        for (past, present) in [
            ("past_key_values.3.key", "present.3.key"),
            ("past.3.key", "present.3.key"),
            ("past_key_3", "present_key_3"),
            ("past_3", "present_3"),
            ("past_key_values.3.decoder.value", "present.3.decoder.value"),
            ("past_key_values_3_value", "present_key_values_3_value"),
        ] {
            assert!(cache_key(past, "past").is_some(), "{past}");
            assert_eq!(cache_key(past, "past"), cache_key(present, "present"), "{past}");
        }
        assert_eq!(cache_key("past_sequence_length", "past"), None);
        assert_ne!(cache_key("past_1", "past"), cache_key("present_11", "present"));
    }

    #[test]
    fn a_plain_decoder() {
        use ElementType::{Float16, Int32, Int64};
        let inputs = [
            tensor("input_ids", Int64, &["batch", "seq"]),
            tensor("attention_mask", Int32, &["batch", "total_len"]),
            tensor("past_key_values.0.key", Float16, &["batch", "8", "past_len", "64"]),
        ];
        let outputs = [
            tensor("logits", Float16, &["batch", "seq", "1000"]),
            tensor("present.0.key", Float16, &["?", "8", "?", "64"]),
        ];
        let layout = detect(&inputs, &outputs).expect("understood").expect("a decoder");
        assert_eq!(layout.pairs[0].empty_dims, [1, 8, 0, 64]);
        assert_eq!(layout.attention_mask, Some(("attention_mask".to_owned(), Int32)));
        assert_eq!(layout.position_ids, None);
        assert!(layout.extras.is_empty());
    }

    #[test]
    fn shapes_without_names_and_with_both_in_one() {
        let unknown = Dimension::Unknown;
        let fixed = Dimension::Fixed;
        assert_eq!(
            empty_dims("past_0", &[fixed(2), unknown.clone(), fixed(12), unknown.clone(), fixed(64)]),
            Ok(vec![2, 1, 12, 0, 64])
        );
        assert_eq!(
            empty_dims("p", &[unknown.clone(), fixed(4), unknown.clone(), fixed(8)]),
            Ok(vec![1, 4, 0, 8])
        );
        let error = empty_dims("p", &[unknown.clone(), unknown.clone(), unknown, fixed(8)])
            .expect_err("heads unknown");
        assert!(error.to_string().contains("axis 1"), "{error}");
    }

    #[test]
    fn other_models_are_not_decoders() {
        let inputs = [tensor("x", ElementType::Float32, &["n"])];
        assert_eq!(detect(&inputs, &inputs), Ok(None));
    }
}
