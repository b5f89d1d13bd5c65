//! Counts against numbers worked out by hand.

use ortscope_analyze::flops::{
    AttributeFact, FlopCount, FlopTotal, Method, OpFacts, ReportedTensor, TensorFacts, align_inputs, count,
    element_by_runtime_name,
};
use ortscope_core::tensor::ElementType::{
    Float16, Float32, Int8, Int32, Int64, String as Strings, Uint4, Uint8,
};
use proptest::prelude::*;

fn float(shape: &[u64]) -> TensorFacts {
    TensorFacts::new(Float32, shape)
}

fn weight(shape: &[u64]) -> TensorFacts {
    TensorFacts::parameter(Float32, shape)
}

fn op(op_type: &str, inputs: &[&[u64]], outputs: &[&[u64]]) -> OpFacts {
    let tensors = |shapes: &[&[u64]]| shapes.iter().map(|shape| float(shape)).collect();
    OpFacts::new(op_type, tensors(inputs), tensors(outputs))
}

fn int(value: i64) -> AttributeFact {
    AttributeFact::Int(value)
}

fn text(value: &str) -> AttributeFact {
    AttributeFact::Text(value.to_owned())
}

/// MACs and all FLOPs.
fn counted(op: &OpFacts) -> (Option<u64>, Option<u64>) {
    let counted = count(op);
    (counted.macs, counted.flops)
}

fn why(op: &OpFacts) -> String {
    match count(op) {
        FlopCount { method: Method::Unknown { why }, flops: None, macs: None, .. } => why,
        other => panic!("counted: {other:?}"),
    }
}

fn flops(macs: u64, other: u64) -> (Option<u64>, Option<u64>) {
    (Some(macs), Some(2 * macs + other))
}

fn plain(other: u64) -> (Option<u64>, Option<u64>) {
    (None, Some(other))
}

#[test]
fn matrix_products() {
    assert_eq!(counted(&op("MatMul", &[&[2, 3, 4], &[4, 5]], &[&[2, 3, 5]])), flops(2 * 3 * 5 * 4, 0));
    assert_eq!(counted(&op("MatMul", &[&[4], &[4]], &[&[]])), flops(4, 0));
    assert_eq!(counted(&op("MatMul", &[&[7, 4], &[4]], &[&[7]])), flops(28, 0));
    // Without the output's shape it follows from the inputs.
    let mut hidden = op("MatMul", &[&[1, 6, 3, 4], &[2, 1, 4, 5]], &[&[]]);
    hidden.outputs = vec![None];
    assert_eq!(counted(&hidden), flops(2 * 6 * 3 * 5 * 4, 0));
    let gemm =
        op("Gemm", &[&[4, 3], &[5, 4], &[5]], &[&[3, 5]]).with("transA", int(1)).with("transB", int(1));
    assert_eq!(counted(&gemm), flops(3 * 5 * 4, 15));
    let fused = op("FusedGemm", &[&[3, 4], &[4, 5], &[5]], &[&[3, 5]]).with("activation", text("Relu"));
    assert_eq!(counted(&fused), flops(60, 15 + 15));
    let transposed = op("FusedMatMul", &[&[2, 4, 3], &[2, 4, 5]], &[&[2, 3, 5]]).with("transA", int(1));
    assert_eq!(counted(&transposed), flops(2 * 3 * 5 * 4, 0));
    let batches = op("FusedMatMul", &[&[4, 2, 3], &[2, 4, 5]], &[&[2, 3, 5]])
        .with("transA", int(1))
        .with("transBatchA", int(1));
    assert_eq!(counted(&batches), flops(2 * 3 * 5 * 4, 0));
}

#[test]
fn integer_products_count_like_float_ones() {
    assert_eq!(counted(&op("MatMulInteger", &[&[3, 4], &[4, 5]], &[&[3, 5]])), flops(60, 0));
    let scalars: &[u64] = &[];
    let qgemm = op("QGemm", &[&[3, 4], scalars, scalars, &[4, 5], scalars, scalars, &[5]], &[&[3, 5]]);
    assert_eq!(counted(&qgemm), flops(60, 15 + 2 * 15));
    let qlinear = op(
        "QLinearMatMul",
        &[&[3, 4], scalars, scalars, &[4, 5], scalars, scalars, scalars, scalars],
        &[&[3, 5]],
    );
    assert_eq!(counted(&qlinear), flops(60, 30));
    let dynamic = op("DynamicQuantizeMatMul", &[&[3, 4], &[4, 5], scalars, scalars, &[5]], &[&[3, 5]]);
    assert_eq!(counted(&dynamic), flops(60, 2 * 15 + 4 * 12 + 15));
    let mut to_float = op("MatMulIntegerToFloat", &[&[3, 4], &[4, 5], scalars, scalars], &[&[3, 5]]);
    assert_eq!(counted(&to_float), flops(60, 30));
    to_float.inputs.extend([None, None, Some(float(&[5]))]);
    assert_eq!(counted(&to_float), flops(60, 45));
}

/// The weights of a kernel that packed them are not in a profile: the rest must do.
#[test]
fn hidden_weights_are_worked_out() {
    let hide = |mut op: OpFacts, index: usize| {
        op.inputs[index] = Some(TensorFacts { is_parameter: true, ..TensorFacts::default() });
        op
    };
    assert_eq!(counted(&hide(op("Gemm", &[&[3, 4], &[4, 5], &[5]], &[&[3, 5]]), 1)), flops(60, 15));
    assert_eq!(counted(&hide(op("MatMul", &[&[3, 4], &[4, 5]], &[&[3, 5]]), 1)), flops(60, 0));
    let conv = op("Conv", &[&[1, 8, 6, 6], &[16, 4, 3, 3]], &[&[1, 16, 4, 4]])
        .with("group", int(2))
        .with("kernel_shape", AttributeFact::Ints(vec![3, 3]));
    assert_eq!(counted(&conv), flops(16 * 16 * 36, 0));
    assert_eq!(counted(&hide(conv, 1)), flops(16 * 16 * 36, 0));
    let last = op("QLinearConv", &[&[1, 6, 6, 8], &[], &[], &[16, 8, 3, 3]], &[&[1, 4, 4, 16]])
        .with("channels_last", int(1))
        .with("kernel_shape", AttributeFact::Ints(vec![3, 3]));
    assert_eq!(counted(&hide(last, 3)), flops(16 * 16 * 72, 2 * 256));
    let lstm =
        op("LSTM", &[&[5, 2, 3], &[1, 16, 3], &[1, 16, 4]], &[&[5, 1, 2, 4]]).with("hidden_size", int(4));
    assert_eq!(counted(&lstm), counted(&hide(hide(lstm.clone(), 1), 2)));
}

#[test]
fn convolutions() {
    let conv = op("Conv", &[&[1, 3, 224, 224], &[16, 3, 3, 3], &[16]], &[&[1, 16, 112, 112]]);
    let volume = 16 * 112 * 112;
    assert_eq!(counted(&conv), flops(volume * 27, volume));
    // Sum and activation fused in.
    let fused = op("FusedConv", &[&[1, 8, 4, 4], &[8, 8, 1, 1], &[8], &[1, 8, 4, 4]], &[&[1, 8, 4, 4]])
        .with("activation", text("Relu"))
        .in_domain("com.microsoft");
    assert_eq!(counted(&fused), flops(128 * 8, 128 * 3));
    let blocked =
        op("Conv", &[&[1, 8, 4, 4], &[8, 8, 1, 1]], &[&[1, 8, 4, 4]]).in_domain("com.microsoft.nchwc");
    assert!(count(&blocked).note.is_some());
    // 2 channels of 4×4 spread by a 2×2 kernel to 3 channels: 32 · 3 · 4.
    let transposed = op("ConvTranspose", &[&[1, 2, 4, 4], &[2, 3, 2, 2], &[3]], &[&[1, 3, 8, 8]]);
    assert_eq!(counted(&transposed), flops(32 * 12, 3 * 64));
    // 4 outputs × 2 positions² × 2 channels × 9 taps for the product; each sample interpolated from 4.
    let deformable = op("DeformConv", &[&[1, 2, 4, 4], &[4, 2, 3, 3], &[1, 18, 2, 2]], &[&[1, 4, 2, 2]]);
    assert_eq!(counted(&deformable), flops(16 * 18 + 4 * 2 * 9 * 4, 0));
}

#[test]
fn pools_and_reductions() {
    let pool = op("MaxPool", &[&[1, 8, 8, 8]], &[&[1, 8, 4, 4]])
        .with("kernel_shape", AttributeFact::Ints(vec![2, 2]));
    assert_eq!(counted(&pool), plain(8 * 16 * 4));
    assert_eq!(counted(&op("GlobalAveragePool", &[&[1, 8, 8, 8]], &[&[1, 8, 1, 1]])), plain(512));
    assert_eq!(counted(&op("ReduceMean", &[&[2, 10]], &[&[2]])), plain(20));
    assert_eq!(counted(&op("ReduceL2", &[&[2, 10]], &[&[2]])), plain(40));
    assert_eq!(counted(&op("ArgMax", &[&[2, 10]], &[&[2]])), plain(20));
    assert!(why(&op("MaxPool", &[&[1, 8, 8, 8]], &[&[1, 8, 4, 4]])).contains("kernel_shape"));
}

#[test]
fn elementwise_operators() {
    assert_eq!(counted(&op("Add", &[&[2, 1], &[3]], &[&[2, 3]])), plain(6));
    assert_eq!(counted(&op("Tanh", &[&[6]], &[&[6]])), plain(6));
    assert_eq!(counted(&op("Sum", &[&[6], &[6], &[6]], &[&[6]])), plain(12));
    assert_eq!(counted(&op("Mean", &[&[6], &[6], &[6]], &[&[6]])), plain(18));
    assert_eq!(counted(&op("Max", &[&[6]], &[&[6]])), plain(6));
    assert_eq!(counted(&op("Gelu", &[&[6]], &[&[6]])), plain(30));
    assert_eq!(counted(&op("Gelu", &[&[6]], &[&[6]]).with("approximate", text("tanh"))), plain(48));
    assert_eq!(counted(&op("BiasGelu", &[&[6], &[6]], &[&[6]])), plain(36));
    assert_eq!(counted(&op("FastGelu", &[&[6], &[6]], &[&[6]])), plain(54));
    // x·sigmoid(x): QuickGelu with its own factor scales first.
    assert_eq!(counted(&op("QuickGelu", &[&[6]], &[&[6]])), plain(18));
    assert_eq!(
        counted(&op("QuickGelu", &[&[6]], &[&[6]]).with("alpha", AttributeFact::Float(1.0))),
        plain(12)
    );
    assert_eq!(counted(&op("QLinearAdd", &[&[6]], &[&[6]])), plain(42));
    assert_eq!(count(&op("Add", &[&[6], &[6]], &[&[6]])).method, Method::Elementwise);
}

#[test]
fn normalizations() {
    assert_eq!(counted(&op("Softmax", &[&[4, 10]], &[&[4, 10]])), plain(200));
    assert_eq!(counted(&op("LayerNormalization", &[&[4, 10], &[10], &[10]], &[&[4, 10]])), plain(200));
    assert_eq!(counted(&op("SimplifiedLayerNormalization", &[&[4, 10], &[10]], &[&[4, 10]])), plain(160));
    let skip = op("SkipLayerNormalization", &[&[4, 10], &[4, 10], &[10], &[10], &[10]], &[&[4, 10]]);
    assert_eq!(counted(&skip), plain(40 * 7));
    assert_eq!(counted(&op("BatchNormalization", &[&[1, 4, 5, 5]], &[&[1, 4, 5, 5]])), plain(200));
    let embed = op(
        "EmbedLayerNormalization",
        &[&[2, 3], &[2, 3], &[99, 8], &[7, 8], &[2, 8], &[8], &[8]],
        &[&[2, 3, 8]],
    );
    assert_eq!(counted(&embed), plain(48 * 7));
}

#[test]
fn grouped_attention_with_a_past() {
    // 4 new queries after 16 tokens: they see 17 + 18 + 19 + 20 = 74 keys. 4 heads of 64.
    let attention = |queries: &[u64], keys: &[u64], past: u64, present: u64| {
        op(
            "GroupQueryAttention",
            &[queries, keys, keys, &[1, 2, past, 64], &[1, 2, past, 64], &[1], &[1]],
            &[queries, &[1, 2, present, 64]],
        )
        .with("num_heads", int(4))
        .with("kv_num_heads", int(2))
        .in_domain("com.microsoft")
    };
    let grown = attention(&[1, 4, 256], &[1, 4, 128], 16, 20);
    assert_eq!(counted(&grown), flops(4 * 74 * 128, 4 * 74 * 5));
    assert!(count(&grown).note.is_some());
    assert_eq!(counted(&grown.clone().with("causal", int(0))), flops(4 * 80 * 128, 4 * 80 * 5));
    // A window of 8 keys: every query sees 8.
    assert_eq!(counted(&grown.clone().with("local_window_size", int(8))), flops(4 * 32 * 128, 4 * 32 * 5));
    // Rotation of 4 + 2 heads.
    assert_eq!(counted(&grown.with("do_rotary", int(1))), flops(4 * 74 * 128, 4 * 74 * 5 + 4 * 6 * 64 * 3));
    // A cache of 512 written in place: all of it, unless the length is known.
    let shared = attention(&[1, 1, 256], &[1, 1, 128], 512, 512);
    assert_eq!(counted(&shared), flops(4 * 512 * 128, 4 * 512 * 5));
    assert!(matches!(count(&shared).method, Method::Estimated { .. }));
    let mut known = shared;
    known.inputs[6].as_mut().unwrap().value = Some(vec![20]);
    assert_eq!(counted(&known), flops(4 * 20 * 128, 4 * 20 * 5));
    assert_eq!(count(&known).method, Method::Counted);
    // Queries, keys and values in one tensor: (4 + 2·2)·64 wide.
    let mut packed = attention(&[1, 4, 512], &[1, 4, 128], 0, 4);
    (packed.inputs[1], packed.inputs[2]) = (None, None);
    assert_eq!(counted(&packed), flops(4 * 10 * 128, 4 * 10 * 5));
}

#[test]
fn attention_with_and_without_projection() {
    let multi = op("MultiHeadAttention", &[&[2, 5, 32], &[2, 7, 32], &[2, 7, 16]], &[&[2, 5, 16]])
        .with("num_heads", int(4))
        .in_domain("com.microsoft");
    assert_eq!(counted(&multi), flops(2 * 4 * 35 * (8 + 4), 2 * 4 * 35 * 5));
    let standard = op("Attention", &[&[2, 4, 5, 8], &[2, 4, 7, 8], &[2, 4, 7, 4]], &[&[2, 4, 5, 4]]);
    assert_eq!(counted(&standard), counted(&multi));
    let flat = op("Attention", &[&[2, 5, 32], &[2, 7, 32], &[2, 7, 16]], &[&[2, 5, 16]])
        .with("q_num_heads", int(4))
        .with("kv_num_heads", int(4));
    assert_eq!(counted(&flat), counted(&multi));
    // Projection of 16 columns to 3 · 32, then attention of 4 heads of 8 among 5 tokens.
    let own = op("Attention", &[&[1, 5, 16], &[16, 96], &[96]], &[&[1, 5, 32]])
        .with("num_heads", int(4))
        .in_domain("com.microsoft");
    assert_eq!(counted(&own), flops(5 * 16 * 96 + 4 * 25 * 16, 5 * 96 + 4 * 25 * 5));
    let causal = own.clone().with("unidirectional", int(1));
    assert_eq!(counted(&causal), flops(5 * 16 * 96 + 4 * 15 * 16, 5 * 96 + 4 * 15 * 5));
    let mut hidden = own.clone();
    hidden.inputs[1] = Some(TensorFacts::default());
    assert_eq!(counted(&hidden), counted(&own));
    assert_eq!(
        counted(
            &op("RotaryEmbedding", &[&[1, 4, 2, 8]], &[&[1, 4, 2, 8]]).with("rotary_embedding_dim", int(4))
        ),
        plain(32 * 3)
    );
}

#[test]
fn weights_of_few_bits() {
    let packed = TensorFacts::parameter(Uint8, &[96, 2, 16]);
    let product = OpFacts::new(
        "MatMulNBits",
        vec![float(&[1, 4, 64]), packed, weight(&[192])],
        vec![float(&[1, 4, 96])],
    )
    .with("K", int(64))
    .with("N", int(96))
    .with("bits", int(4))
    .in_domain("com.microsoft");
    let counted = count(&product);
    assert_eq!((counted.macs, counted.flops), (Some(4 * 64 * 96), Some(2 * 4 * 64 * 96)));
    assert_eq!(counted.weight_bytes, Some(96 * 64 / 2 + 192 * 4));
    assert_eq!(counted.bytes_moved, Some(4 * 64 * 4 + 3072 + 768 + 4 * 96 * 4));
    let intensity = counted.arithmetic_intensity().unwrap();
    assert!((intensity - 49152.0 / 6400.0).abs() < 1e-12);
    assert!(why(&product.with("K", int(60))).contains("divided"));
    assert_eq!(TensorFacts::new(Uint4, &[3]).bytes(), Some(2));
    // Two experts of eight for 6 tokens: 16 → 2·32 → 16, two 4-bit weights per byte.
    let experts = OpFacts {
        inputs: vec![
            Some(float(&[6, 16])),
            Some(float(&[6, 8])),
            Some(TensorFacts::parameter(Uint8, &[8, 64, 8])),
            Some(weight(&[8, 64])),
            None,
            Some(TensorFacts::parameter(Uint8, &[8, 16, 16])),
        ],
        ..op("QMoE", &[], &[&[6, 16]])
    }
    .with("k", int(2))
    .with("expert_weight_bits", int(4));
    assert_eq!(
        (count(&experts).macs, count(&experts).flops),
        flops(6 * 2 * (64 * 16 + 16 * 32), 48 * 5 + 6 * 2 * 64)
    );
}

#[test]
fn recurrent_networks() {
    // 5 steps of 2 sequences; 3 inputs, 4 hidden: (16·3 + 16·4) weights a step.
    let lstm = op("LSTM", &[&[5, 2, 3], &[1, 16, 3], &[1, 16, 4], &[1, 32]], &[&[5, 1, 2, 4]]);
    assert_eq!(counted(&lstm), flops(10 * 112, 10 * (4 * 9 + 32)));
    let gru = op("GRU", &[&[5, 2, 3], &[2, 12, 3], &[2, 12, 4]], &[&[5, 2, 2, 4]]);
    assert_eq!(counted(&gru), flops(10 * 2 * 84, 10 * 8 * 8));
    let quantized = op("DynamicQuantizeLSTM", &[&[5, 2, 3], &[1, 3, 16], &[1, 4, 16]], &[&[5, 1, 2, 4]]);
    assert_eq!(counted(&quantized), flops(10 * 112, 10 * 36));
}

#[test]
fn einsum() {
    let einsum = |equation: &str, inputs: &[&[u64]], output: &[u64]| {
        op("Einsum", inputs, &[output]).with("equation", text(equation))
    };
    assert_eq!(counted(&einsum("bij, bjk -> bik", &[&[2, 3, 4], &[2, 4, 5]], &[2, 3, 5])), flops(120, 0));
    assert_eq!(counted(&einsum("i,j->ij", &[&[3], &[4]], &[3, 4])), plain(12));
    assert_eq!(count(&einsum("ij->ji", &[&[3, 4]], &[4, 3])).method, Method::DataMovement);
    assert_eq!(counted(&einsum("ij->i", &[&[3, 4]], &[3])), plain(12));
    assert_eq!(counted(&einsum("ij,jk", &[&[3, 4], &[4, 5]], &[3, 5])), flops(60, 0));
    assert_eq!(counted(&einsum("...ij,...jk->...ik", &[&[2, 3, 4], &[4, 5]], &[2, 3, 5])), flops(120, 0));
    let three = count(&einsum("ij,jk,kl->il", &[&[2, 3], &[3, 4], &[4, 5]], &[2, 5]));
    assert_eq!(three.macs, Some(2 * 120));
    assert!(matches!(three.method, Method::Estimated { .. }));
    assert!(why(&einsum("ij,jk->ik", &[&[3, 4], &[5, 6]], &[3, 6])).contains("two sizes"));
    assert!(why(&einsum("ij,jk->ik", &[&[3], &[5, 6]], &[3, 6])).contains("rank"));
}

#[test]
fn interpolation_and_transforms() {
    let resize = |mode: &str| op("Resize", &[&[1, 3, 4, 4]], &[&[1, 3, 8, 8]]).with("mode", text(mode));
    assert_eq!(count(&resize("nearest")).method, Method::DataMovement);
    assert_eq!(counted(&resize("linear")), flops(192 * 4, 0));
    assert_eq!(counted(&resize("cubic")), flops(192 * 16, 0));
    let one_side = op("Resize", &[&[1, 3, 4, 4]], &[&[1, 3, 4, 8]]).with("mode", text("linear"));
    assert_eq!(counted(&one_side), flops(96 * 2, 0));
    // 3 real signals of 8 points: 5·8·3 each, halved.
    assert_eq!(counted(&op("DFT", &[&[3, 8, 1]], &[&[3, 8, 2]])), plain(3 * 60));
    assert!(matches!(count(&op("DFT", &[&[3, 8, 1]], &[&[3, 8, 2]])).method, Method::Estimated { .. }));
    let stft = op("STFT", &[&[2, 100, 1], &[], &[16]], &[&[2, 10, 9, 2]]);
    assert_eq!(counted(&stft), plain(20 * (160 + 16)));
}

#[test]
fn movement_costs_bytes_but_no_flops() {
    let transposed = count(&op("Transpose", &[&[3, 4]], &[&[4, 3]]));
    assert_eq!((transposed.flops, transposed.method), (Some(0), Method::DataMovement));
    assert_eq!(transposed.bytes_moved, Some(96));
    // Only the rows taken from the table count.
    let gather = OpFacts::new(
        "Gather",
        vec![weight(&[50_000, 8]), TensorFacts::new(Int64, &[2])],
        vec![float(&[2, 8])],
    );
    assert_eq!(count(&gather).bytes_moved, Some(64 + 16 + 64));
    assert_eq!(count(&gather).weight_bytes, Some(50_000 * 8 * 4));
    // A shape is not data.
    let shape = OpFacts::new("Shape", vec![float(&[500, 500])], vec![TensorFacts::new(Int64, &[2])]);
    assert_eq!(count(&shape).bytes_moved, Some(16));
    let words = OpFacts::new(
        "Identity",
        vec![TensorFacts::new(Strings, &[2])],
        vec![TensorFacts::new(Strings, &[2])],
    );
    assert_eq!(count(&words).bytes_moved, None);
    let scatter = op("ScatterND", &[&[8], &[2, 1], &[2]], &[&[8]]);
    assert_eq!(count(&scatter).flops, Some(0));
    assert_eq!(counted(&scatter.with("reduction", text("add"))), plain(2));
}

#[test]
fn uncounted_operators_are_named() {
    assert!(why(&op("If", &[], &[])).contains("sub-graph"));
    assert!(why(&op("TopK", &[&[10]], &[&[3]])).contains("values"));
    assert!(why(&op("QNNExecutionProvider_123_0", &[], &[])).contains("provider"));
    assert!(why(&op("Nobody", &[], &[])).contains("not known"));
    assert!(why(&op("Conv", &[], &[]).in_domain("my.company")).contains("my.company"));
    assert!(why(&op("Add", &[&[3]], &[])).contains("output 0"));
    assert!(why(&op("MatMul", &[&[3, 4], &[5, 6]], &[&[3, 6]])).contains("do not fit"));
    let mut total = FlopTotal::default();
    for op in
        [op("TopK", &[&[10]], &[&[3]]), op("Add", &[&[3], &[3]], &[&[3]]), op("Transpose", &[&[3]], &[&[3]])]
    {
        total.add(&op.op_type, &count(&op));
    }
    assert_eq!((total.flops, total.counted, total.movement, total.unknown_count()), (3, 1, 1, 1));
}

#[test]
fn absurd_shapes_give_a_reason() {
    let huge = [u64::MAX; 4];
    assert!(why(&op("Add", &[&huge, &huge], &[&huge])).contains("64 bits"));
    assert!(why(&op("MatMul", &[&huge, &huge], &[&huge])).contains("64 bits"));
    assert_eq!(count(&op("Transpose", &[&huge], &[&huge])).bytes_moved, None);
    assert_eq!(counted(&op("Add", &[&[0, u64::MAX, u64::MAX]], &[&[0, u64::MAX, u64::MAX]])), plain(0));
    assert!(
        why(&op("GroupQueryAttention", &[&[1, u64::MAX, 4]], &[])
            .with("num_heads", int(1))
            .with("kv_num_heads", int(1)))
        .contains("divided")
    );
}

/// Every operator of ONNX Runtime is counted or has a specific reason.
#[test]
fn every_operator_of_the_runtime_is_known() {
    let mut counted = 0;
    for line in
        include_str!("../data/onnxruntime-operators.txt").lines().filter(|line| !line.starts_with('#'))
    {
        let (domain, op_type) = line.split_once("::").unwrap();
        let cube: &[u64] = &[2, 4, 4];
        let facts = op(op_type, &[cube; 24], &[cube; 3]).in_domain(domain);
        match count(&facts).method {
            Method::Unknown { why } => assert!(!why.contains("not known"), "{line}: {why}"),
            _ => counted += 1,
        }
    }
    assert!(counted > 250, "{counted}");
}

#[test]
fn profiles_are_aligned_with_the_graph() {
    let reported = |element, shape: &[u64]| ReportedTensor { element: Some(element), shape: shape.to_vec() };
    // QGemm as a profile shows it: the matrix is packed away, the bias is there.
    let scalar = |element| Some(TensorFacts::parameter(element, &[]));
    let graph = [
        Some(TensorFacts::default()),
        scalar(Float32),
        scalar(Uint8),
        Some(TensorFacts::parameter(Int8, &[384, 256])),
        Some(TensorFacts::parameter(Float32, &[256])),
        Some(TensorFacts::parameter(Int8, &[256])),
        Some(TensorFacts::parameter(Int32, &[256])),
        scalar(Float32),
        scalar(Uint8),
    ];
    let profile = [
        reported(Uint8, &[1, 384]),
        reported(Float32, &[]),
        reported(Uint8, &[]),
        reported(Float32, &[256]),
        reported(Int8, &[256]),
        reported(Int32, &[256]),
        reported(Float32, &[]),
        reported(Uint8, &[]),
    ];
    let aligned = align_inputs(&graph, &profile).unwrap();
    assert_eq!(aligned[0].as_ref().unwrap().shape, Some(vec![1, 384]));
    assert_eq!(aligned[3], graph[3]);
    let qgemm = OpFacts { inputs: aligned, ..op("QGemm", &[], &[&[1, 256]]) };
    assert_eq!(counted(&qgemm), flops(384 * 256, 256 + 512));
    // An optional input left out, and a weight of the shape of the value that follows it.
    let graph = [
        Some(TensorFacts::default()),
        None,
        Some(weight(&[4, 4])),
        Some(TensorFacts { element: Some(Float16), ..TensorFacts::default() }),
    ];
    let two = [reported(Float32, &[4, 4]), ReportedTensor { element: None, shape: vec![4, 4] }];
    let aligned = align_inputs(&graph, &two).unwrap();
    assert_eq!(aligned[3].as_ref().unwrap().element, Some(Float16));
    assert_eq!(aligned[1], None);
    assert_eq!(align_inputs(&graph, &two[..1]), None);
    assert_eq!(align_inputs(&graph[..1], &two), None);
    assert_eq!(element_by_runtime_name("tensor(float16)"), Some(Float16));
    assert_eq!(element_by_runtime_name("float"), Some(Float32));
    assert_eq!(element_by_runtime_name("seq(tensor(float))"), None);
}

proptest! {
    /// For any facts, counting returns without a panic, and there is a count exactly if there is no reason.
    #[test]
    fn counting_never_panics(
        index in 0usize..400,
        shapes in prop::collection::vec(
            prop::option::of(prop::collection::vec(prop_oneof![0u64..5, Just(u64::MAX), any::<u64>()], 0..6)), 0..12),
        outputs in prop::collection::vec(prop::option::of(prop::collection::vec(0u64..6, 0..6)), 0..3),
        number in prop_oneof![-3i64..9, any::<i64>()],
        list in prop::collection::vec(prop_oneof![-1i64..5, any::<i64>()], 0..4),
        word in prop_oneof!["", "linear", "cubic", "bidirectional", "ij,jk->ik", "...,...", "gated_delta"],
    ) {
        let lines: Vec<&str> = include_str!("../data/onnxruntime-operators.txt").lines().skip(1).collect();
        let (domain, op_type) = lines[index % lines.len()].split_once("::").unwrap();
        let tensors = |shapes: Vec<Option<Vec<u64>>>| {
            shapes.into_iter().map(|shape| shape.map(|shape| TensorFacts { value: Some(vec![number]), ..float(&shape) })).collect()
        };
        let mut facts = OpFacts { domain: domain.into(), op_type: op_type.into(), inputs: tensors(shapes),
            outputs: tensors(outputs), ..OpFacts::default() };
        for name in ["num_heads", "kv_num_heads", "q_num_heads", "K", "N", "k", "group", "axis", "hidden_size", "size",
            "signal_ndim", "local_window_size", "rotary_embedding_dim", "sampling_ratio", "transA", "transBatchA"] {
            facts = facts.with(name, int(number));
        }
        for name in ["kernel_shape", "qkv_hidden_sizes"] {
            facts = facts.with(name, AttributeFact::Ints(list.clone()));
        }
        for name in ["equation", "mode", "direction", "update_rule", "reduction", "activation"] {
            facts = facts.with(name, text(&word));
        }
        let counted = count(&facts);
        let is_unknown = matches!(counted.method, Method::Unknown { .. });
        prop_assert_eq!(counted.flops.is_none(), is_unknown);
        if let (Some(flops), Some(macs)) = (counted.flops, counted.macs) {
            prop_assert!(flops / 2 >= macs);
            prop_assert!(counted.other_flops().is_some());
        }
    }
}
