//! The kind of a model, derived from its operators and inputs. For display and advice, never for correctness.

use std::collections::BTreeSet;

use ortscope_core::tensor::ElementType;
use serde::Serialize;

use super::model::{Initializer, Model};

/// How a model is quantized. A model with mixed methods has the first that applies, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantization {
    /// Block-wise 4-bit or 8-bit weights with float computation (`MatMulNBits`).
    WeightOnly,
    /// Integer operators with scales determined at run time (`DynamicQuantizeLinear`).
    Dynamic,
    /// Integer operators with fixed scales (`QLinearConv`, …).
    Operators,
    /// Pairs of `QuantizeLinear` and `DequantizeLinear` around float operators.
    Qdq,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelKind {
    /// Attention with a cache of earlier tokens.
    Decoder,
    Transformer,
    Recurrent,
    Convolutional,
    /// Matrix products without any of the above.
    Dense,
    /// Trees, linear models and similar (`ai.onnx.ml`).
    Classical,
    Other,
}

impl Model {
    pub fn quantization(&self) -> Option<Quantization> {
        let ops = self.operators();
        let has = |names: &[&str]| names.iter().any(|name| ops.contains(name));
        if has(&["MatMulNBits", "MatMulBnb4", "GatherBlockQuantized", "QMoE"]) {
            Some(Quantization::WeightOnly)
        } else if has(&["DynamicQuantizeLinear", "DynamicQuantizeMatMul", "DynamicQuantizeLSTM"]) {
            Some(Quantization::Dynamic)
        } else if ops.iter().any(|op| op.starts_with("QLinear"))
            || has(&["ConvInteger", "MatMulInteger", "QAttention", "QGemm"])
        {
            Some(Quantization::Operators)
        } else if has(&["DequantizeLinear", "QuantizeLinear"]) {
            Some(Quantization::Qdq)
        } else {
            None
        }
    }

    pub fn is_quantized(&self) -> bool {
        self.quantization().is_some()
    }

    pub fn kind(&self) -> ModelKind {
        let ops = self.operators();
        let has = |names: &[&str]| names.iter().any(|name| ops.contains(name));
        let attention =
            ops.iter().any(|op| op.contains("Attention")) || (has(&["Softmax"]) && has(&["MatMul"]));
        let cache = self.graph.inputs.iter().any(|input| super::hints::is_cache(&input.name));
        let mut classical = false;
        self.visit_nodes(&mut |node| classical |= node.domain == "ai.onnx.ml");
        let normalised = ops.iter().any(|op| op.contains("LayerNormalization") || op.contains("RMSNorm"))
            || has(&["ReduceMean", "EmbedLayerNormalization"]);
        if attention && cache {
            ModelKind::Decoder
        } else if attention && normalised && !has(&["LSTM", "RNN"]) {
            ModelKind::Transformer
        } else if has(&["LSTM", "GRU", "RNN", "DynamicQuantizeLSTM"]) {
            ModelKind::Recurrent
        } else if has(&["Conv", "ConvInteger", "QLinearConv", "FusedConv", "NhwcFusedConv"]) {
            ModelKind::Convolutional
        } else if classical {
            ModelKind::Classical
        } else if has(&["MatMul", "Gemm", "MatMulInteger", "QLinearMatMul", "MatMulNBits", "FusedMatMul"]) {
            ModelKind::Dense
        } else {
            ModelKind::Other
        }
    }

    /// The element type of most weight bytes.
    pub fn weight_type(&self) -> Option<ElementType> {
        let mut bytes: Vec<(ElementType, u64)> = Vec::new();
        let mut add =
            |tensor: &Initializer| match bytes.iter_mut().find(|(element, _)| *element == tensor.element) {
                Some((_, sum)) => *sum = sum.saturating_add(tensor.bytes),
                None => bytes.push((tensor.element, tensor.bytes)),
            };
        self.visit_parameters(&mut add);
        bytes.into_iter().max_by_key(|(_, sum)| *sum).map(|(element, _)| element)
    }

    fn operators(&self) -> BTreeSet<&str> {
        let mut ops = BTreeSet::new();
        self.visit_nodes(&mut |node| {
            ops.insert(node.op_type.as_str());
        });
        ops
    }
}
