//! The test models.

use super::onnx::{
    Dim, Graph, Message, float_attribute, initializer, int_attribute, ints_attribute, map_type, node,
    optional_type, sequence_type, tensor_type, unranked_type,
};

const FLOAT: i32 = 1;
const INT64: i32 = 7;
const STRING: i32 = 8;
const BOOL: i32 = 9;

/// `y = x` for any element type.
pub fn identity(elem: i32, ir: i64, opset: i64) -> Vec<u8> {
    let of = tensor_type(elem, &[Dim::Named("n")]);
    Graph::default()
        .node(&node("Identity", &["x"], &["y"]))
        .input("x", &of)
        .output("y", &of)
        .model_of(ir, opset)
}

pub fn string_identity() -> Vec<u8> {
    identity(STRING, 8, 13)
}

/// `z = x + y`, all of one fixed shape.
pub fn add() -> Vec<u8> {
    let of = tensor_type(FLOAT, &[Dim::Fixed(2), Dim::Fixed(3)]);
    Graph::default()
        .node(&node("Add", &["x", "y"], &["z"]))
        .input("x", &of)
        .input("y", &of)
        .output("z", &of)
        .model()
}

/// `y[batch,2] = x[batch,3] * W`, with W = [[1,2],[3,4],[5,6]].
pub fn matmul() -> Vec<u8> {
    let weights: Vec<u8> = [1f32, 2., 3., 4., 5., 6.].iter().flat_map(|value| value.to_le_bytes()).collect();
    Graph::default()
        .node(&node("MatMul", &["x", "w"], &["y"]))
        .initializer(&initializer("w", FLOAT, &[3, 2], &weights))
        .input("x", &tensor_type(FLOAT, &[Dim::Named("batch"), Dim::Fixed(3)]))
        .output("y", &tensor_type(FLOAT, &[Dim::Named("batch"), Dim::Fixed(2)]))
        .model()
}

/// The positions of the non-zero elements: the size depends on the data.
pub fn non_zero() -> Vec<u8> {
    Graph::default()
        .node(&node("NonZero", &["x"], &["y"]))
        .input("x", &tensor_type(FLOAT, &[Dim::Named("n")]))
        .output("y", &tensor_type(INT64, &[Dim::Fixed(1), Dim::Named("found")]))
        .model()
}

/// Random numbers whose count is random too: no two runs give the same shape for long.
pub fn random_size() -> Vec<u8> {
    let uniform = node("RandomUniformLike", &["x"], &["noise"]);
    Graph::default()
        .node(&uniform)
        .node(&node("Less", &["noise", "x"], &["keep"]))
        .node(&node("NonZero", &["keep"], &["y"]))
        .input("x", &tensor_type(FLOAT, &[Dim::Named("n")]))
        .output("y", &tensor_type(INT64, &[Dim::Fixed(1), Dim::Unknown]))
        .model()
}

/// `y = s[i]`.
pub fn sequence_at() -> Vec<u8> {
    let item = tensor_type(FLOAT, &[Dim::Named("n")]);
    Graph::default()
        .node(&node("SequenceAt", &["s", "i"], &["y"]))
        .input("s", &sequence_type(&item))
        .input("i", &tensor_type(INT64, &[]))
        .output("y", &item)
        .model()
}

/// `s = [x, y]`.
pub fn sequence_construct() -> Vec<u8> {
    let item = tensor_type(FLOAT, &[Dim::Named("n")]);
    Graph::default()
        .node(&node("SequenceConstruct", &["x", "y"], &["s"]))
        .input("x", &item)
        .input("y", &item)
        .output("s", &sequence_type(&item))
        .model()
}

/// `y = if c then x + x else x * x`.
pub fn branches() -> Vec<u8> {
    let of = tensor_type(FLOAT, &[Dim::Fixed(2)]);
    let branch = |op: &str, out: &str| {
        let value = Message::default().string(1, out).message(2, &of);
        Message::default().message(1, &node(op, &["x", "x"], &[out])).string(2, out).message(12, &value)
    };
    let attribute =
        |name: &str, graph: &Message| Message::default().string(1, name).message(6, graph).int(20, 5);
    let choice = node("If", &["c"], &["y"])
        .message(5, &attribute("then_branch", &branch("Add", "sum")))
        .message(5, &attribute("else_branch", &branch("Mul", "product")));
    Graph::default()
        .node(&choice)
        .input("c", &tensor_type(BOOL, &[]))
        .input("x", &of)
        .output("y", &of)
        .model()
}

/// Probabilities to a sequence of maps from class number to probability.
pub fn zip_map() -> Vec<u8> {
    let map = map_type(INT64, &tensor_type(FLOAT, &[]));
    let node = node("ZipMap", &["x"], &["m"])
        .message(5, &ints_attribute("classlabels_int64s", &[10, 20, 30]))
        .string(7, "ai.onnx.ml");
    Graph::default()
        .node(&node)
        .input("x", &tensor_type(FLOAT, &[Dim::Named("batch"), Dim::Fixed(3)]))
        .output("m", &sequence_type(&map))
        .model()
}

/// A map in, its values in key order out (DictVectorizer with string keys).
pub fn dict_vectorizer() -> Vec<u8> {
    let words = ["a", "b", "c"]
        .iter()
        .fold(Message::default().string(1, "string_vocabulary"), |attribute, word| attribute.string(9, word));
    let node = node("DictVectorizer", &["m"], &["y"]).message(5, &words.int(20, 8)).string(7, "ai.onnx.ml");
    Graph::default()
        .node(&node)
        .input("m", &map_type(STRING, &tensor_type(FLOAT, &[])))
        .output("y", &tensor_type(FLOAT, &[Dim::Fixed(1), Dim::Fixed(3)]))
        .model()
}

/// An optional input and an output of unknown rank, for signatures.
pub fn optional_and_unranked() -> Vec<u8> {
    let tensor = tensor_type(FLOAT, &[Dim::Named("n")]);
    Graph::default()
        .node(&node("OptionalGetElement", &["o"], &["t"]))
        .node(&node("Reshape", &["t", "shape"], &["y"]))
        .input("o", &optional_type(&tensor))
        .input("shape", &tensor_type(INT64, &[Dim::Named("rank")]))
        .output("y", &unranked_type(FLOAT))
        .model_of(8, 15)
}

/// `y = float(x)`, for the packed types that Identity does not take.
pub fn cast_to_float(elem: i32, ir: i64, opset: i64) -> Vec<u8> {
    Graph::default()
        .node(&node("Cast", &["x"], &["y"]).message(5, &int_attribute("to", 1)))
        .input("x", &tensor_type(elem, &[Dim::Named("n")]))
        .output("y", &tensor_type(FLOAT, &[Dim::Named("n")]))
        .model_of(ir, opset)
}

/// A decoder with a cache of one layer: present = concat(past, embedding of the tokens), logits favour the token that
/// equals the number of cached positions. `dims` are 1 head and 1 wide, so that a person can follow it.
pub fn decoder() -> Vec<u8> {
    let cache =
        |length| tensor_type(FLOAT, &[Dim::Named("batch"), Dim::Fixed(1), Dim::Named(length), Dim::Fixed(1)]);
    let tokens = |length| tensor_type(INT64, &[Dim::Named("batch"), Dim::Named(length)]);
    let int64s = |values: &[i64]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>();
    let vocabulary: Vec<u8> = (0..8).flat_map(|value: i32| (value as f32).to_le_bytes()).collect();
    Graph::default()
        // Tokens [b,s] as floats [b,1,s,1], appended to both caches.
        .node(&node("Cast", &["input_ids"], &["ids"]).message(5, &int_attribute("to", 1)))
        .node(&node("Unsqueeze", &["ids", "axes"], &["new"]))
        .initializer(&initializer("axes", INT64, &[2], &int64s(&[1, 3])))
        .node(
            &node("Concat", &["past_key_values.0.key", "new"], &["present.0.key"])
                .message(5, &int_attribute("axis", 2)),
        )
        .node(
            &node("Concat", &["past_key_values.0.value", "new"], &["present.0.value"])
                .message(5, &int_attribute("axis", 2)),
        )
        // logits[b,s,v] = -(v - sum of the mask)^2, so that argmax is the number of visible positions.
        .node(&node("Cast", &["attention_mask"], &["mask"]).message(5, &int_attribute("to", 1)))
        .initializer(&initializer("one", INT64, &[1], &int64s(&[1])))
        .node(&node("ReduceSum", &["mask", "one"], &["visible"]).message(5, &int_attribute("keepdims", 1)))
        .initializer(&initializer("vocabulary", FLOAT, &[8], &vocabulary))
        .node(&node("Sub", &["vocabulary", "visible"], &["distance"]))
        .node(&node("Mul", &["distance", "distance"], &["square"]))
        .node(&node("Neg", &["square"], &["score"]))
        .node(&node("Unsqueeze", &["score", "one"], &["row"]))
        // One row per token, and the positions take part so that they must be right in shape.
        .node(&node("Cast", &["position_ids"], &["positions"]).message(5, &int_attribute("to", 1)))
        .initializer(&initializer("last", INT64, &[1], &int64s(&[2])))
        .node(&node("Unsqueeze", &["positions", "last"], &["column"]))
        .node(&node("Sub", &["column", "column"], &["zeros"]))
        .node(&node("Add", &["row", "zeros"], &["logits"]))
        .input("input_ids", &tokens("sequence"))
        .input("attention_mask", &tokens("total"))
        .input("position_ids", &tokens("sequence"))
        .input("past_key_values.0.key", &cache("past"))
        .input("past_key_values.0.value", &cache("past"))
        .output("logits", &tensor_type(FLOAT, &[Dim::Named("batch"), Dim::Named("sequence"), Dim::Fixed(8)]))
        .output("present.0.key", &cache("total"))
        .output("present.0.value", &cache("total"))
        .model()
}

/// Draws a number in [0, 100) in every run, always the same sequence, and looks it up in a table of 98 entries: some
/// later run fails.
pub fn fails_after_some_runs() -> Vec<u8> {
    let draw = node("RandomUniform", &[], &["drawn"])
        .message(5, &ints_attribute("shape", &[1]))
        .message(5, &float_attribute("high", 100.0))
        .message(5, &float_attribute("seed", 5.0));
    let table: Vec<u8> = [1f32; 98].iter().flat_map(|value| value.to_le_bytes()).collect();
    Graph::default()
        .node(&draw)
        .node(&node("Cast", &["drawn"], &["index"]).message(5, &int_attribute("to", i64::from(INT64))))
        .node(&node("Gather", &["table", "index"], &["found"]))
        .node(&node("Add", &["found", "x"], &["y"]))
        .initializer(&initializer("table", FLOAT, &[98], &table))
        .input("x", &tensor_type(FLOAT, &[Dim::Fixed(1)]))
        .output("y", &tensor_type(FLOAT, &[Dim::Fixed(1)]))
        .model()
}
