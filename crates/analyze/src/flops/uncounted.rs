//! Why an operator has no formula. The reasons appear in reports, to explain what a total omits.

const CONTROL_FLOW: &str = "control flow: the nodes of its sub-graph are counted on their own";
const HIDDEN: &str = "compiled for a provider: what it computes is not visible";
const BY_VALUE: &str = "how much it computes depends on the values, not on the shapes";
const PAIRS_BY_VALUE: &str = "which pairs attend to each other depends on the values, not on the shapes";
const TEXT: &str = "it works on text";
const RANDOM: &str = "random numbers: the cost is that of the generator";
const GENERATION: &str = "a whole generation loop in one node: the number of steps depends on the values";
const TRAINING: &str = "it belongs to training";
const NO_FORMULA: &str = "there is no formula for it yet";

pub(super) fn reason(op_type: &str) -> &'static str {
    match op_type {
        "If" | "Loop" | "Scan" | "SequenceMap" => CONTROL_FLOW,
        "EPContext" | "Snpe" => HIDDEN,
        "BifurcationDetector"
        | "CropAndResize"
        | "DecoderAttention"
        | "DynamicTimeWarping"
        | "EfficientNMS_TRT"
        | "MaxRoiPool"
        | "MultilevelCropAndResize_TRT"
        | "NonMaxSuppression"
        | "PyramidROIAlign_TRT"
        | "TopK"
        | "TreeEnsemble"
        | "TreeEnsembleClassifier"
        | "TreeEnsembleRegressor"
        | "Unique"
        | "VarlenCausalConvWithState" => BY_VALUE,
        "DynamicSparseAttention"
        | "LongformerAttention"
        | "PackedSparseAttentionIndexer"
        | "PagedAttention"
        | "QOrderedLongformerAttention"
        | "SparseAttention"
        | "SparseAttentionIndexer"
        | "SparsePagedAttention" => PAIRS_BY_VALUE,
        "MurmurHash3"
        | "NGramHashMapping"
        | "NGramRepeatBlock"
        | "RegexFullMatch"
        | "StringConcat"
        | "StringNormalizer"
        | "StringSplit"
        | "TfIdfVectorizer"
        | "Tokenizer"
        | "VarlenNGramHashMapping" => TEXT,
        "Bernoulli" | "Multinomial" | "RandomNormal" | "RandomNormalLike" | "RandomUniform"
        | "RandomUniformLike" => RANDOM,
        "BeamSearch" | "GreedySearch" | "Sampling" | "WhisperBeamSearch" => GENERATION,
        "NegativeLogLikelihoodLoss" | "SoftmaxCrossEntropyLoss" => TRAINING,
        "AttnLSTM"
        | "DisentangledAttention_TRT"
        | "EngramGate"
        | "GRUUnit"
        | "GatedDeltaNet"
        | "GatedRelativePositionBias"
        | "HyperConnectionPostMix"
        | "HyperConnectionPreMix"
        | "ImageDecoder"
        | "LinearAttentionGate"
        | "MelWeightMatrix"
        | "SVMClassifier"
        | "SVMRegressor"
        | "WordConvEmbedding" => NO_FORMULA,
        // Providers name the sub-graphs they take after themselves.
        name if name.contains("ExecutionProvider") || name.contains("-EP-subgraph") => HIDDEN,
        _ => "the operator is not known",
    }
}
