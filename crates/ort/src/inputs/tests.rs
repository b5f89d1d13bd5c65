//! The rules of the module, one test each.

use ortscope_core::tensor::{Dimension, ElementType, Tensor, TensorData, ValueType};
use ortscope_decode::onnx::{ImageLayout, InputHint, LengthRole};

use super::*;

/// `name`, element type and dimensions: digits are fixed, `?` is unknown, all else a name.
fn tensor(name: &str, element: ElementType, dims: &[&str]) -> ValueInfo {
    let dimension = |text: &&str| match text.parse() {
        Ok(size) => Dimension::Fixed(size),
        Err(_) if *text == "?" => Dimension::Unknown,
        Err(_) => Dimension::Symbolic((*text).to_owned()),
    };
    let shape = Some(dims.iter().map(dimension).collect());
    ValueInfo { name: name.to_owned(), value_type: ValueType::Tensor { element, shape } }
}

/// The hints that the model's reader gives by name, and those of the test.
fn hints(signature: &[ValueInfo], extra: &[(&str, InputHint)]) -> InputHints {
    let mut hints = InputHints::default();
    for info in signature {
        let hint = InputHint {
            is_mask: info.name.contains("mask"),
            is_position: info.name.contains("position"),
            is_cache: info.name.starts_with("past"),
            ..InputHint::default()
        };
        hints.inputs.insert(info.name.clone(), hint);
    }
    hints.inputs.extend(extra.iter().map(|(name, hint)| ((*name).to_owned(), hint.clone())));
    hints
}

fn request<'a>(signature: &'a [ValueInfo], hints: &'a InputHints) -> InputRequest<'a> {
    InputRequest {
        signature,
        hints,
        given: Vec::new(),
        shapes: BTreeMap::new(),
        batch: None,
        seed: 42,
        max_bytes: 1 << 28,
    }
}

fn shapes(texts: &[&str]) -> BTreeMap<String, ShapeOverride> {
    texts.iter().map(|text| parse_shape_override(text).expect("a shape")).collect()
}

fn dims<'a>(resolved: &'a ResolvedInputs, name: &str) -> &'a [u64] {
    match resolved.values.iter().find(|(input, _)| input == name) {
        Some((_, Value::Tensor(tensor))) => &tensor.dims,
        other => panic!("{name}: {other:?}"),
    }
}

fn numbers(resolved: &ResolvedInputs, name: &str) -> Vec<f64> {
    match resolved.values.iter().find(|(input, _)| input == name) {
        Some((_, Value::Tensor(tensor))) => pack::numbers(tensor).expect("numbers"),
        other => panic!("{name}: {other:?}"),
    }
}

fn int64(dims: &[u64], values: &[i64]) -> Value {
    let data = TensorData::Bytes(values.iter().flat_map(|value| value.to_le_bytes()).collect());
    Value::Tensor(Tensor { element: ElementType::Int64, dims: dims.to_vec(), data })
}

#[test]
fn text_models_get_ids_in_range_and_whole_masks() {
    let signature = [
        tensor("input_ids", ElementType::Int64, &["batch", "seq"]),
        tensor("attention_mask", ElementType::Int64, &["batch", "seq"]),
        tensor("position_ids", ElementType::Int64, &["batch", "seq"]),
    ];
    let ids = InputHint { vocabulary: Some(50), feeds_index: true, ..InputHint::default() };
    let hints = hints(&signature, &[("input_ids", ids)]);
    let resolved = resolve(&request(&signature, &hints)).unwrap();
    assert_eq!(dims(&resolved, "input_ids"), [1, 128]);
    let ids = numbers(&resolved, "input_ids");
    assert!(ids.iter().all(|id| (0.0..50.0).contains(id)) && ids.iter().any(|id| *id > 40.0));
    assert!(numbers(&resolved, "attention_mask").iter().all(|one| *one == 1.0));
    assert_eq!(numbers(&resolved, "position_ids")[..3], [0.0, 1.0, 2.0]);
    assert_eq!(
        resolved.notes,
        [
            "dim 'batch' set to 1, change with --shape batch=1",
            "dim 'seq' set to 128, change with --shape seq=128"
        ]
    );
    assert_eq!(
        resolved.guessed[1],
        GuessedDim {
            sentence: resolved.notes[1].clone(),
            name: Some("seq".to_owned()),
            input: "input_ids".to_owned(),
            axis: 1,
            value: 128
        }
    );
    assert_eq!(resolved.batch_size, Some(1));
    assert_eq!(resolved.batch_axes.len(), 3);
    assert_eq!(resolved.padding_ratio, None);
}

#[test]
fn images_are_between_0_and_1_or_bytes() {
    let signature = [
        tensor("x", ElementType::Float32, &["N", "3", "?", "?"]),
        tensor("y", ElementType::Uint8, &["?", "H", "W", "3"]),
    ];
    let first = InputHint { image: Some(ImageLayout::ChannelsFirst), ..InputHint::default() };
    let last = InputHint { image: Some(ImageLayout::ChannelsLast), ..InputHint::default() };
    let hints = hints(&signature, &[("x", first), ("y", last)]);
    let resolved = resolve(&request(&signature, &hints)).unwrap();
    assert_eq!(dims(&resolved, "x"), [1, 3, 224, 224]);
    assert_eq!(dims(&resolved, "y"), [1, 224, 224, 3]);
    assert!(numbers(&resolved, "x").iter().all(|value| (0.0..=1.0).contains(value)));
    assert!(numbers(&resolved, "y").iter().any(|value| *value > 200.0));
    assert!(
        resolved.notes.contains(&"axis 2 of 'x' set to 224, change with --shape x=1x3x224x224".to_owned()),
        "{:?}",
        resolved.notes
    );
}

#[test]
fn decoders_start_with_an_empty_cache() {
    let signature = [
        tensor("input_ids", ElementType::Int64, &["batch_size", "sequence_length"]),
        tensor(
            "attention_mask",
            ElementType::Int64,
            &["batch_size", "past_sequence_length + sequence_length"],
        ),
        tensor("mask_2", ElementType::Int64, &["batch_size", "total_sequence_length"]),
        tensor(
            "past_key_values.0.key",
            ElementType::Float16,
            &["batch_size", "4", "past_sequence_length", "64"],
        ),
        tensor("past_key_values.0.other", ElementType::Float16, &["batch_size", "4", "kv_len", "64"]),
        tensor("use_cache_branch", ElementType::Bool, &["1"]),
        tensor("seqlens_k", ElementType::Int32, &["batch_size", "1"]),
        tensor("n", ElementType::Int32, &[]),
    ];
    let total = InputHint { length: Some(LengthRole::Total), ..InputHint::default() };
    let hints = hints(&signature, &[("n", total)]);
    let resolved = resolve(&request(&signature, &hints)).unwrap();
    assert_eq!(dims(&resolved, "past_key_values.0.key"), [1, 4, 0, 64]);
    assert_eq!(dims(&resolved, "past_key_values.0.other"), [1, 4, 0, 64]);
    assert_eq!(dims(&resolved, "attention_mask"), [1, 128]);
    assert_eq!(numbers(&resolved, "use_cache_branch"), [0.0]);
    let mut with_past = request(&signature, &hints);
    with_past.shapes = shapes(&["past_sequence_length=15", "sequence_length=1", "batch_size=2"]);
    let resolved = resolve(&with_past).unwrap();
    assert_eq!(dims(&resolved, "attention_mask"), [2, 16]);
    assert_eq!(dims(&resolved, "mask_2"), [2, 16]);
    assert_eq!(numbers(&resolved, "use_cache_branch"), [1.0]);
    assert_eq!(numbers(&resolved, "seqlens_k"), [15.0, 15.0]);
    assert_eq!(numbers(&resolved, "n"), [16.0]);
    assert_eq!(resolved.batch_size, Some(2));
}

#[test]
fn voice_models_get_their_rate_and_a_window() {
    let signature = [
        tensor("input", ElementType::Float32, &["?", "?"]),
        tensor("state", ElementType::Float32, &["2", "?", "128"]),
        tensor("sr", ElementType::Int64, &[]),
    ];
    let hints = hints(&signature, &[]);
    let resolved = resolve(&request(&signature, &hints)).unwrap();
    assert_eq!(dims(&resolved, "input"), [1, 512]);
    assert_eq!(dims(&resolved, "state"), [2, 1, 128]);
    assert_eq!(numbers(&resolved, "sr"), [16000.0]);
    let waves = [tensor("input_values", ElementType::Float32, &["batch", "sequence"])];
    let resolved = resolve(&request(&waves, &hints)).unwrap();
    assert_eq!(dims(&resolved, "input_values"), [1, 16_000], "a second of sound");
    let batched = resolve(&InputRequest { batch: Some(3), ..request(&signature, &hints) }).unwrap();
    assert_eq!((dims(&batched, "input"), dims(&batched, "state")), (&[3, 512][..], &[2, 3, 128][..]));
}

#[test]
fn other_values() {
    let signature = [
        tensor("noise_scale", ElementType::Float32, &["1"]),
        tensor("s", ElementType::String, &["2"]),
        tensor("flag", ElementType::Bool, &[]),
        tensor("i4", ElementType::Int4, &["3"]),
        tensor("f8", ElementType::Float8E4M3Fn, &["5"]),
        tensor("bf", ElementType::BFloat16, &["1000"]),
        tensor("ids", ElementType::Int32, &["100"]),
        tensor("text_lengths", ElementType::Int64, &["batch"]),
        tensor("text", ElementType::Int64, &["batch", "time"]),
    ];
    let hints = hints(&signature, &[]);
    let resolved = resolve(&request(&signature, &hints)).unwrap();
    assert_eq!(numbers(&resolved, "noise_scale"), [1.0]);
    let texts = TensorData::Strings(vec!["ortscope".to_owned(); 2]);
    assert!(matches!(&resolved.values[1].1, Value::Tensor(tensor) if tensor.data == texts));
    assert_eq!(numbers(&resolved, "flag"), [1.0]);
    assert!(matches!(&resolved.values[3].1, Value::Tensor(tensor) if tensor.byte_len() == 2));
    assert!(matches!(&resolved.values[4].1, Value::Tensor(tensor) if tensor.byte_len() == 5));
    let normal = numbers(&resolved, "bf");
    let mean = normal.iter().sum::<f64>() / 1000.0;
    assert!(mean.abs() < 0.15 && normal.iter().any(|value| value.abs() > 1.5), "{mean}");
    assert!(numbers(&resolved, "ids").iter().all(|id| *id < 2.0));
    assert_eq!(numbers(&resolved, "text_lengths"), [128.0]);
}

#[test]
fn every_element_type_can_be_generated() {
    let name = |element: &ElementType| element.name().to_owned();
    let signature: Vec<ValueInfo> = ortscope_core::tensor::ELEMENT_TYPES
        .iter()
        .map(|element| tensor(&name(element), *element, &["7"]))
        .collect();
    let hints = hints(&signature, &[]);
    let resolved = resolve(&request(&signature, &hints)).unwrap();
    for (name, value) in &resolved.values {
        let Value::Tensor(tensor) = value else { panic!("{name}") };
        if let Some(bytes) = tensor.element.bytes_for(7) {
            assert_eq!(tensor.byte_len(), bytes, "{name}");
        }
    }
}

#[test]
fn equal_seeds_give_equal_bytes_and_inputs_are_independent() {
    let both = [tensor("a", ElementType::Float32, &["64"]), tensor("b", ElementType::Float32, &["64"])];
    let hints = hints(&both, &[]);
    let first = resolve(&request(&both, &hints)).unwrap();
    assert_eq!(first, resolve(&request(&both, &hints)).unwrap());
    let alone = resolve(&request(&both[1..], &hints)).unwrap();
    assert_eq!(alone.values[0], first.values[1]);
    assert_ne!(numbers(&first, "a"), numbers(&first, "b"));
    let other = resolve(&InputRequest { seed: 43, ..request(&both, &hints) }).unwrap();
    assert_ne!(first.values, other.values);
}

#[test]
fn given_values_bind_sizes_and_masks_define_the_padding() {
    let signature = [
        tensor("ids", ElementType::Int64, &["batch", "seq"]),
        tensor("mask", ElementType::Int64, &["batch", "seq"]),
        tensor("types", ElementType::Int64, &["?", "seq"]),
    ];
    let hints = hints(&signature, &[]);
    let mut request = request(&signature, &hints);
    request.given = vec![(Some("mask".to_owned()), int64(&[2, 2], &[1, 1, 1, 0]))];
    let resolved = resolve(&request).unwrap();
    assert_eq!(dims(&resolved, "ids"), [2, 2]);
    assert_eq!(dims(&resolved, "types"), [2, 2], "an unnamed batch follows the given one");
    assert_eq!(resolved.padding_ratio, Some(0.25));
    assert_eq!(resolved.notes, ["no values given for ids, types; they are made up"]);
    assert!(resolved.guessed.is_empty());
    request.given.push((Some("ids".to_owned()), int64(&[2, 3], &[0; 6])));
    assert_eq!(
        resolve(&request).unwrap_err().to_string(),
        "dimension 'seq' is 3 by the given 'ids' but 2 by the given 'mask'; equal names mean equal sizes"
    );
}

#[test]
fn mistakes_in_given_values_are_explained() {
    let signature =
        [tensor("ids", ElementType::Int64, &["batch", "8"]), tensor("x", ElementType::Float32, &["1"])];
    let hints = hints(&signature, &[]);
    let error = |name: Option<&str>, value: Value| {
        let given = vec![(name.map(str::to_owned), value)];
        resolve(&InputRequest { given, ..request(&signature, &hints) }).unwrap_err().to_string()
    };
    assert_eq!(
        error(Some("idz"), int64(&[1, 8], &[0; 8])),
        "the model has no input 'idz' (did you mean 'ids'?); its inputs are ids, x"
    );
    assert_eq!(
        error(Some("something"), int64(&[], &[0])),
        "the model has no input 'something'; its inputs are ids, x"
    );
    assert_eq!(error(Some("x"), int64(&[1], &[0])), "input 'x' must be float32[1], but int64[1] was given");
    assert_eq!(
        error(Some("x"), Value::Sequence(vec![int64(&[1], &[0])])),
        "input 'x' must be float32[1], but a sequence of int64[1] was given"
    );
    assert_eq!(
        error(Some("ids"), int64(&[8], &[0; 8])),
        "input 'ids' must have 2 dimensions (batch,8), but [8] has 1"
    );
    assert_eq!(
        error(Some("ids"), int64(&[1, 7], &[0; 7])),
        "axis 1 of input 'ids' is fixed at 8 in the model, but 7 was given"
    );
    assert_eq!(
        error(None, int64(&[1, 8], &[0; 8])),
        "a value without a name can only be given to a model with one input; this one has ids, x"
    );
    let twice = vec![(Some("ids".to_owned()), int64(&[1, 8], &[0; 8])); 2];
    let twice = resolve(&InputRequest { given: twice, ..request(&signature, &hints) }).unwrap_err();
    assert_eq!(twice.to_string(), "input 'ids' is given twice");
    let only = resolve(&InputRequest {
        given: vec![(None, int64(&[3, 8], &[5; 24]))],
        ..request(&signature[..1], &hints)
    });
    assert_eq!(only.unwrap().batch_size, Some(3));
}

#[test]
fn shapes_are_overridden_and_mistakes_explained() {
    let signature = [tensor("x", ElementType::Float32, &["N", "3", "?", "?"])];
    let hints = hints(&signature, &[]);
    let with = |texts: &[&str], batch| {
        resolve(&InputRequest { shapes: shapes(texts), batch, ..request(&signature, &hints) })
    };
    let resolved = with(&["x=2x3x32x64"], None).unwrap();
    assert_eq!(dims(&resolved, "x"), [2, 3, 32, 64]);
    assert!(resolved.guessed.is_empty() && resolved.batch_size == Some(2));
    assert_eq!(dims(&with(&["N=0"], None).unwrap(), "x"), [0, 3, 224, 224], "an open dimension may be 0");
    let error = |texts: &[&str], batch| with(texts, batch).unwrap_err().to_string();
    assert_eq!(
        error(&["x=2x0x32x64"], None),
        "axis 1 of input 'x' is fixed at 3 in the model, but 0 was given"
    );
    assert_eq!(error(&["x=2x3"], None), "input 'x' must have 4 dimensions (N,3,?,?), but [2, 3] has 2");
    assert_eq!(
        error(&["M=2"], None),
        "--shape M: the model has neither an input nor a dimension of that name (did you mean 'N'?)"
    );
    assert_eq!(
        error(&["N=2"], Some(4)),
        "dimension 'N' is 2 by --shape N but 4 by --batch; equal names mean equal sizes"
    );
    assert_eq!(
        error(&["x=9x3x100000x100000"], None),
        "values for input 'x' would need 1080000000000 bytes, more than is left of 268435456; make it smaller with --shape"
    );
    assert!(error(&["x=9000000000x3x9000000000x9"], None).contains("more than 2^64 bytes"));
}

#[test]
fn a_fixed_batch_is_reported() {
    let signature = [tensor("x", ElementType::Float32, &["1", "3", "8", "8"])];
    let hints = hints(&signature, &[]);
    let with = |batch| resolve(&InputRequest { batch: Some(batch), ..request(&signature, &hints) });
    assert_eq!(
        with(8).unwrap_err().to_string(),
        "the model's batch is fixed at 1 (axis 0 of 'x'), so --batch 8 is impossible; export it with a dynamic batch"
    );
    assert_eq!(with(1).unwrap().batch_size, Some(1));
    let scalar = [tensor("s", ElementType::Float32, &[])];
    let error = resolve(&InputRequest { batch: Some(2), ..request(&scalar, &hints) }).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the model has no batch dimension, so --batch 2 is impossible; use --shape"
    );
}

#[test]
fn sequences_are_generated_and_maps_must_be_given() {
    let float = tensor("", ElementType::Float32, &["n", "4"]).value_type;
    let value = |name: &str, value_type| ValueInfo { name: name.to_owned(), value_type };
    let sequence = [value("s", ValueType::Sequence(Box::new(float.clone())))];
    let hints = InputHints::default();
    let resolved = resolve(&request(&sequence, &hints)).unwrap();
    let Value::Sequence(items) = &resolved.values[0].1 else { panic!("no sequence") };
    assert!(matches!(&items[..], [Value::Tensor(tensor)] if tensor.dims == [1, 4]));
    let map = ValueType::Map { key: ElementType::String, value: Box::new(float.clone()) };
    let map = [value("m", map)];
    let error = resolve(&request(&map, &hints)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "input 'm' is map of string to float32[n,4], for which no value can be made up; give one with --input, \
         like {\"m\":{\"map\":{\"key\":0}}}"
    );
    let InputError::NeedsValue { template, .. } = error else { panic!("{error}") };
    let limits = ortscope_decode::tensors::TensorLimits::default();
    let given = json::read(template.to_string().as_bytes(), &map, &limits).unwrap();
    assert!(
        resolve(&InputRequest { given, ..request(&map, &hints) }).is_ok(),
        "the template is a valid answer"
    );
    let optional = [value("o", ValueType::Optional(Box::new(float)))];
    assert!(matches!(resolve(&request(&optional, &hints)), Err(InputError::NeedsValue { .. })));
    let rankless = [value("r", ValueType::Tensor { element: ElementType::Float32, shape: None })];
    let resolved = resolve(&request(&rankless, &hints)).unwrap();
    assert_eq!((dims(&resolved, "r"), resolved.notes.len()), (&[1][..], 1));
}

/// PaddlePaddle's exporter calls every open dimension `?`.
#[test]
fn question_marks_are_not_names() {
    let name = || Dimension::Symbolic("?".to_owned());
    let shape = Some(vec![name(), Dimension::Fixed(3), name(), name()]);
    let value_type = ValueType::Tensor { element: ElementType::Float32, shape };
    let signature = [ValueInfo { name: "x".to_owned(), value_type }];
    let hints = hints(&signature, &[]);
    let resolved = resolve(&request(&signature, &hints)).unwrap();
    assert_eq!(dims(&resolved, "x"), [1, 3, 224, 224]);
    assert!(
        resolved.notes.iter().all(|note| note.ends_with("--shape x=1x3x224x224")),
        "{:?}",
        resolved.notes
    );
}
