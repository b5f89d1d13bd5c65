//! The parser finds the contents of a model.

#[path = "../../ort/tests/support/skips.rs"]
mod skips;
mod support;

use ortscope_core::tensor::{Dimension, ElementType, ValueType};
use ortscope_decode::onnx::{
    AttributeValue, ExternalData, ImageLayout, Limits, Model, ModelKind, OnnxError, Quantization, read_model,
};
use support::{
    attribute, bytes, external, float, model, node, number, sample, tensor, tensor_type, value, varint,
};

fn read(bytes: &[u8]) -> Result<Model, OnnxError> {
    read_model(bytes, &Limits::default())
}

fn node_graph(nodes: &[Vec<u8>]) -> Vec<u8> {
    nodes.iter().flat_map(|node| bytes(1, node)).collect()
}

#[test]
fn a_model_is_read_completely() {
    let model = read(&sample()).unwrap();
    assert_eq!((model.ir_version, model.opset()), (8, Some(17)));
    assert_eq!((model.producer_name.as_str(), model.producer_version.as_str()), ("test", "1.0"));
    assert_eq!((model.node_count(), model.total_node_count()), (4, 6));
    let names: Vec<&str> = model.graph.inputs.iter().map(|input| input.name.as_str()).collect();
    assert_eq!(names, ["ids", "attention_mask", "image"], "an input with an initializer is not an input");
    assert_eq!(
        model.graph.inputs[2].value_type,
        ValueType::Tensor {
            element: ElementType::Float32,
            shape: Some(vec![
                Dimension::Symbolic("batch".to_owned()),
                Dimension::Fixed(3),
                Dimension::Unknown,
                Dimension::Unknown
            ])
        }
    );
    let counts = model.operator_counts();
    assert_eq!(counts.get(&(String::new(), "Add".to_owned())), Some(&1));
    assert_eq!(counts.values().sum::<usize>(), 6);
    assert_eq!(model.parameter_count(), 30522 * 384 + 100);
    assert_eq!(model.parameter_bytes(), (30522 * 384 + 100) * 4);
    assert_eq!(model.external_locations().into_iter().collect::<Vec<_>>(), ["w.bin"]);
    assert_eq!(
        model.graph.initializers[1].external,
        Some(ExternalData { location: "w.bin".to_owned(), offset: 4096, length: None })
    );
    assert_eq!(model.graph.nodes[2].ints("kernel_shape"), Some(&[3, 3][..]));
    assert_eq!(model.graph.nodes[3].subgraphs[0].0, "then_branch");
    assert_eq!(model.weight_type(), Some(ElementType::Float32));
    assert_eq!(model.kind(), ModelKind::Convolutional);
    assert!(!model.is_quantized());
}

#[test]
fn hints_find_vocabulary_mask_and_image() {
    let hints = read(&sample()).unwrap().input_hints();
    assert_eq!(hints.get("ids").vocabulary, Some(30522));
    assert!(hints.get("ids").feeds_index && !hints.get("ids").is_mask);
    assert!(hints.get("attention_mask").is_mask);
    assert_eq!(hints.get("image").image, Some(ImageLayout::ChannelsFirst));
    assert_eq!(hints.get("nothing"), Default::default());
}

#[test]
fn the_smallest_of_several_tables_is_used() {
    let graph = [
        node_graph(&[node("Gather", &["large", "x"], &["a"]), node("Gather", &["small", "x"], &["b"])]),
        bytes(5, tensor("large", 1, &[1000, 8])),
        bytes(5, tensor("small", 1, &[10, 8])),
        bytes(11, value("x", tensor_type(7, &["n"]))),
    ]
    .concat();
    assert_eq!(read(&model(&graph)).unwrap().input_hints().get("x").vocabulary, Some(10));
}

#[test]
fn a_table_in_a_constant_is_found_from_a_branch_through_dequantize() {
    let table = attribute("value", 4, bytes(5, tensor("", 3, &[500, 4])));
    let inner = node_graph(&[
        [node("Constant", &[], &["q"]), table].concat(),
        node("DequantizeLinear", &["q", "s"], &["t"]),
        node("Unsqueeze", &["ids", "axes"], &["ids2"]),
        [node("Gather", &["t", "ids2"], &["out"]), attribute("axis", 2, number(3, -2i64 as u64))].concat(),
    ]);
    let graph = [
        bytes(1, [node("If", &["c"], &["y"]), attribute("else_branch", 5, bytes(6, inner))].concat()),
        bytes(11, value("ids", tensor_type(7, &["1"]))),
    ]
    .concat();
    let model = read(&model(&graph)).unwrap();
    assert_eq!(model.input_hints().get("ids").vocabulary, Some(500));
    assert_eq!(model.parameter_count(), 2000, "weights in Constant nodes count");
    assert_eq!(model.quantization(), Some(Quantization::Qdq));
}

#[test]
fn a_cyclic_graph_is_read_and_its_hints_terminate() {
    let graph = [
        node_graph(&[node("Identity", &["x"], &["a"]), node("Cast", &["a"], &["x"])]),
        bytes(11, value("x", tensor_type(7, &[]))),
    ]
    .concat();
    let model = read(&model(&graph)).unwrap();
    assert!(!model.input_hints().get("x").feeds_index);
}

#[test]
fn attributes_of_every_kind_are_read() {
    let long: Vec<u8> = (0..5000).flat_map(|_| varint(1)).collect();
    let all = [
        node("Custom", &[], &[]),
        attribute("f", 1, float(2, 1.5)),
        attribute("zero", 2, Vec::new()),
        attribute("s", 3, bytes(4, "text")),
        attribute("fs", 6, [float(7, 1.0), bytes(7, 2f32.to_le_bytes())].concat()),
        attribute("is", 7, bytes(8, [varint(1), varint(-1i64 as u64)].concat())),
        attribute("ss", 8, [bytes(9, "a"), bytes(9, "b")].concat()),
        attribute("untyped", 0, number(3, 9)),
        attribute("long", 7, bytes(8, long)),
        attribute("reference", 2, bytes(21, "outer")),
    ]
    .concat();
    let model = read(&model(&bytes(1, all))).unwrap();
    let node = &model.graph.nodes[0];
    assert_eq!(node.attribute("f"), Some(&AttributeValue::Float(1.5)));
    assert_eq!(node.int("zero"), Some(0), "a writer may omit a zero");
    assert_eq!(node.attribute("s"), Some(&AttributeValue::Text("text".to_owned())));
    assert_eq!(node.attribute("fs"), Some(&AttributeValue::Floats(vec![1.0, 2.0])));
    assert_eq!(node.ints("is"), Some(&[1, -1][..]));
    assert_eq!(node.attribute("ss"), Some(&AttributeValue::Texts(vec!["a".to_owned(), "b".to_owned()])));
    assert_eq!(node.int("untyped"), Some(9));
    assert_eq!(node.attribute("long"), Some(&AttributeValue::Omitted { items: 5000 }));
    assert_eq!(node.attribute("reference"), None);
}

/// ONNX Runtime opens these files too, so they must be included in the check of external data.
#[test]
fn external_data_is_found_everywhere() {
    let hidden = |file: &str| [tensor("t", 1, &[1]), external(&[("location", file)])].concat();
    let body =
        [node("Constant", &[], &["c"]), attribute("value", 4, bytes(5, hidden("function.bin")))].concat();
    let nodes = node_graph(&[
        [node("Constant", &[], &["c"]), attribute("value", 4, bytes(5, hidden("constant.bin")))].concat(),
        [node("X", &[], &["c"]), attribute("v", 2, bytes(5, hidden("wrong_type.bin")))].concat(),
        [node("X", &[], &["c"]), attribute("v", 9, bytes(10, hidden("tensors.bin")))].concat(),
        [node("X", &[], &["c"]), attribute("v", 11, bytes(22, bytes(1, hidden("sparse.bin"))))].concat(),
        [node("X", &[], &["c"]), attribute("v", 10, bytes(11, bytes(5, hidden("subgraph.bin"))))].concat(),
    ]);
    let function = bytes(25, [bytes(1, "F"), bytes(10, "local"), bytes(7, body)].concat());
    // The second piece of the graph is merged into the first.
    let second = bytes(7, bytes(15, bytes(1, hidden("second_piece.bin"))));
    let file = [model(&nodes), function, second].concat();
    let model = read(&file).unwrap();
    let found: Vec<&str> = model.external_locations().into_iter().collect();
    let expected = [
        "constant.bin",
        "function.bin",
        "second_piece.bin",
        "sparse.bin",
        "subgraph.bin",
        "tensors.bin",
        "wrong_type.bin",
    ];
    assert_eq!(found, expected);
    assert_eq!((model.functions[0].name.as_str(), model.functions[0].node_count()), ("F", 1));
}

#[test]
fn value_types_of_every_kind_are_read() {
    let float = tensor_type(1, &["n"]);
    let map = bytes(5, [number(1, 8), bytes(2, &float)].concat());
    let graph = [
        bytes(11, value("seq", bytes(4, bytes(1, &float)))),
        bytes(11, value("map", &map)),
        bytes(11, value("maps", bytes(4, bytes(1, &map)))),
        bytes(11, value("opt", bytes(9, bytes(1, &float)))),
        bytes(11, value("sparse", bytes(8, number(1, 11)))),
        bytes(11, value("rankless", bytes(1, number(1, 16)))),
        bytes(11, value("scalar", tensor_type(9, &[]))),
        bytes(11, value("newer", tensor_type(27, &["1"]))),
        bytes(11, bytes(1, "untyped")),
    ]
    .concat();
    let model = read(&model(&graph)).unwrap();
    let shown: Vec<String> = model.graph.inputs.iter().map(|input| input.value_type.to_string()).collect();
    let expected = [
        "sequence of float32[n]",
        "map of string to float32[n]",
        "sequence of map of string to float32[n]",
        "optional float32[n]",
        "sparse float64",
        "bfloat16[...]",
        "bool[]",
        "a tensor of the unknown element type 27",
        "a value without a type",
    ];
    assert_eq!(shown, expected);
}

#[test]
fn a_million_nodes_are_read() {
    let graph: Vec<u8> = bytes(1, node("Add", &["a", "b"], &["c"])).repeat(1_000_000);
    assert_eq!(read(&model(&graph)).unwrap().node_count(), 1_000_000);
}

/// Every model that `cargo xtask test` downloaded.
#[test]
fn real_models_are_read() {
    let Some(root) = skips::variable("ORTSCOPE_TEST_MODELS") else { return };
    let mut open = vec![root];
    let mut count = 0;
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "onnx") {
                let model = read(&std::fs::read(&path).unwrap());
                let model = model.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                assert!(model.node_count() > 0, "{} has no nodes", path.display());
                assert_eq!(model.input_hints().inputs.len(), model.graph.inputs.len());
                count += 1;
            }
        }
    }
    println!("{count} models read");
    assert!(count > 0, "no .onnx file below ORTSCOPE_TEST_MODELS");
}
