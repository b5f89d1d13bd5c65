//! Operators that move, copy, select or convert data.

use super::count::{Gap, Work};
use super::facts::OpFacts;

const MOVES: &[&str] = &[
    "ArrayFeatureExtractor",
    "BitCast",
    "BitmaskDropout",
    "Cast",
    "CastLike",
    "CastMap",
    "CenterCropPad",
    "Compress",
    "Concat",
    "ConcatFromSequence",
    "Constant",
    "ConstantOfShape",
    "Crop",
    "DepthToSpace",
    "DictVectorizer",
    "Dropout",
    "DynamicSlice",
    "Expand",
    "ExpandDims",
    "EyeLike",
    "FeatureVectorizer",
    "Flatten",
    "Gather",
    "GatherElements",
    "GatherND",
    "GivenTensorFill",
    "Identity",
    "LabelEncoder",
    "CategoryMapper",
    "MaxUnpool",
    "MemcpyFromHost",
    "MemcpyToHost",
    "OneHot",
    "OneHotEncoder",
    "Optional",
    "OptionalGetElement",
    "OptionalHasElement",
    "Pad",
    "RelativePositionBias",
    "RemovePadding",
    "ReorderInput",
    "ReorderOutput",
    "Reshape",
    "RestorePadding",
    "ReverseSequence",
    "SampleOp",
    "SequenceAt",
    "SequenceConstruct",
    "SequenceEmpty",
    "SequenceErase",
    "SequenceInsert",
    "SequenceLength",
    "Shape",
    "Size",
    "Slice",
    "SpaceToDepth",
    "Split",
    "SplitToSequence",
    "Squeeze",
    "TensorScatter",
    "Tile",
    "TorchEmbedding",
    "Transpose",
    "Trilu",
    "UnfoldTensor",
    "Unsqueeze",
    "ZipMap",
];

pub(super) fn work(op: &OpFacts) -> Option<Result<Work, Gap>> {
    match op.op_type.as_str() {
        "Scatter" | "ScatterElements" | "ScatterND" => Some(scatter(op)),
        name if MOVES.contains(&name) => Some(Ok(Work::movement())),
        _ => None,
    }
}

/// Scattering with a reduction computes one operation per update.
fn scatter(op: &OpFacts) -> Result<Work, Gap> {
    match op.text("reduction") {
        None | Some("none") => Ok(Work::movement()),
        Some(_) => op.read(2).map(Work::elementwise),
    }
}
