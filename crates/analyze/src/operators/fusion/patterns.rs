//! Patterns that runtimes usually fuse and that are still unfused in a graph.

use ortscope_core::schema::Text;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{GraphFacts, Wiring, label};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MissedPattern {
    /// The normalization could be folded into the weights.
    ConvBatchNormalization,
    /// The activation could be computed by the convolution.
    ConvActivation,
    /// A product and a bias could be one `Gemm`.
    MatMulAdd,
    /// GELU as its parts.
    GeluChain,
    /// A layer normalization as its parts.
    LayerNormalizationChain,
    /// Two transpositions in a row.
    TransposePair,
    /// Two conversions in a row.
    CastPair,
    /// An operator that computes in float between dequantizing and quantizing.
    QuantizedIsland,
    /// Quantizing followed directly by dequantizing.
    QuantizePair,
}

impl MissedPattern {
    pub fn name(self) -> &'static str {
        match self {
            Self::ConvBatchNormalization => "conv-batch-normalization",
            Self::ConvActivation => "conv-activation",
            Self::MatMulAdd => "mat-mul-add",
            Self::GeluChain => "gelu-chain",
            Self::LayerNormalizationChain => "layer-normalization-chain",
            Self::TransposePair => "transpose-pair",
            Self::CastPair => "cast-pair",
            Self::QuantizedIsland => "quantized-island",
            Self::QuantizePair => "quantize-pair",
        }
    }

    /// The recommended action.
    pub fn advice(self) -> &'static str {
        match self {
            Self::ConvBatchNormalization => {
                "export the model in inference mode with constant statistics, so that the normalization is folded"
            }
            Self::ConvActivation => {
                "use optimization level extended or all, or an activation the provider can fuse"
            }
            Self::MatMulAdd => "give the product two dimensions, so that it becomes a Gemm with a bias",
            Self::GeluChain => {
                "export with opset 20 or optimize with the transformer tools, so that it is one Gelu"
            }
            Self::LayerNormalizationChain => {
                "export with opset 17 or later, so that it is one LayerNormalization"
            }
            Self::TransposePair => "merge the two into one, or change the layout of the model",
            Self::CastPair => "leave the tensor in one type",
            Self::QuantizedIsland => "quantize this operator too, or leave its neighbors in float",
            Self::QuantizePair => "remove the pair: it only costs time and accuracy",
        }
    }
}

/// One place where a fusion is missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MissedFusion {
    pub pattern: MissedPattern,
    /// Names of the nodes; of unnamed ones, what they write.
    pub nodes: Vec<Text>,
    pub op_types: Vec<Text>,
}

const ACTIVATIONS: &[&str] =
    &["Relu", "Clip", "Sigmoid", "Tanh", "LeakyRelu", "HardSigmoid", "HardSwish", "Elu", "PRelu"];

/// Finds unfused patterns. The graph should be the optimized one: patterns of an original graph are not a loss yet.
pub fn missed(graph: &GraphFacts) -> Vec<MissedFusion> {
    let wiring = Wiring::of(graph);
    let mut found = Vec::new();
    for index in 0..graph.nodes.len() {
        let chain = match wiring.op(index) {
            "Conv" | "FusedConv" => after_convolution(&wiring, index),
            "MatMul" => biased_product(&wiring, index),
            "Erf" => gelu(&wiring, index),
            "ReduceMean" => layer_normalization(&wiring, index),
            "Transpose" => twice(&wiring, index, MissedPattern::TransposePair),
            "Cast" => twice(&wiring, index, MissedPattern::CastPair),
            "QuantizeLinear" => quantize_pair(&wiring, index),
            _ => None,
        };
        let chain = chain.or_else(|| island(&wiring, index));
        if let Some((pattern, nodes)) = chain {
            found.push(MissedFusion {
                pattern,
                nodes: nodes.iter().map(|node| label(wiring.node(*node))).collect(),
                op_types: nodes.iter().map(|node| wiring.node(*node).op_type.clone()).collect(),
            });
        }
    }
    found
}

type Chain = Option<(MissedPattern, Vec<usize>)>;

fn after_convolution(wiring: &Wiring<'_>, conv: usize) -> Chain {
    let next = wiring.only_reader(conv)?;
    match wiring.op(next) {
        "BatchNormalization" => Some((MissedPattern::ConvBatchNormalization, vec![conv, next])),
        // A fused convolution already has its activation.
        op if ACTIVATIONS.contains(&op) && wiring.op(conv) == "Conv" => {
            Some((MissedPattern::ConvActivation, vec![conv, next]))
        }
        _ => None,
    }
}

fn biased_product(wiring: &Wiring<'_>, product: usize) -> Chain {
    let sum = wiring.only_reader(product).filter(|next| wiring.op(*next) == "Add")?;
    let output = wiring.node(product).outputs.first()?;
    let bias = wiring.node(sum).inputs.iter().find(|tensor| *tensor != output)?;
    wiring.is_parameter(bias).then(|| (MissedPattern::MatMulAdd, vec![product, sum]))
}

/// `x/√2 → Erf → +1 → ·x → ·½`, whose products may come in any order.
fn gelu(wiring: &Wiring<'_>, erf: usize) -> Chain {
    let scaled = wiring.writers_of_inputs(erf).find(|node| matches!(wiring.op(*node), "Div" | "Mul"))?;
    let sum = wiring.only_reader(erf).filter(|next| wiring.op(*next) == "Add")?;
    let product = wiring.only_reader(sum).filter(|next| wiring.op(*next) == "Mul")?;
    Some((MissedPattern::GeluChain, vec![scaled, erf, sum, product]))
}

/// `mean → x − mean → square → mean → + ε → √ → quotient`.
fn layer_normalization(wiring: &Wiring<'_>, mean: usize) -> Chain {
    let step = |from: usize, ops: &[&str]| {
        let tensor = wiring.node(from).outputs.first()?;
        let mut readers = wiring.readers(tensor).iter().copied();
        readers.find(|next| ops.contains(&wiring.op(*next)))
    };
    let centred = step(mean, &["Sub"])?;
    let square = step(centred, &["Pow", "Mul"])?;
    let variance = step(square, &["ReduceMean"])?;
    let shifted = step(variance, &["Add"])?;
    let root = step(shifted, &["Sqrt"])?;
    let quotient = step(root, &["Div", "Reciprocal"])?;
    let chain = vec![mean, centred, square, variance, shifted, root, quotient];
    Some((MissedPattern::LayerNormalizationChain, chain))
}

fn twice(wiring: &Wiring<'_>, first: usize, pattern: MissedPattern) -> Chain {
    let second = wiring.only_reader(first).filter(|next| wiring.op(*next) == wiring.op(first))?;
    Some((pattern, vec![first, second]))
}

fn quantize_pair(wiring: &Wiring<'_>, quantize: usize) -> Chain {
    let dequantize = wiring.only_reader(quantize).filter(|next| wiring.op(*next) == "DequantizeLinear")?;
    // Before an operator that takes quantized data the pair is part of the pattern it recognizes; alone in a chain of
    // float it is not.
    let reader = wiring.only_reader(dequantize)?;
    let is_quantized = |node: usize| wiring.op(node).starts_with('Q') || wiring.op(node) == "QuantizeLinear";
    (!is_quantized(reader)).then(|| (MissedPattern::QuantizePair, vec![quantize, dequantize]))
}

/// A float operator all of whose inputs come from dequantizing and all of whose outputs go to quantizing.
fn island(wiring: &Wiring<'_>, index: usize) -> Chain {
    let node = wiring.node(index);
    if matches!(wiring.op(index), "QuantizeLinear" | "DequantizeLinear" | "Constant") {
        return None;
    }
    let from: Vec<usize> =
        wiring.writers_of_inputs(index).filter(|writer| wiring.op(*writer) != "Constant").collect();
    let readers = node.outputs.first().map_or(&[][..], |tensor| wiring.readers(tensor));
    let is_island = !from.is_empty()
        && from.iter().all(|writer| wiring.op(*writer) == "DequantizeLinear")
        && !readers.is_empty()
        && readers.iter().all(|reader| wiring.op(*reader) == "QuantizeLinear");
    is_island.then(|| {
        let chain = from.iter().copied().chain([index]).chain(readers.iter().copied());
        (MissedPattern::QuantizedIsland, chain.collect())
    })
}
