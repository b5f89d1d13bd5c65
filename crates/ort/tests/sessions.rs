//! Sessions, values and bindings against a real library.

mod support;

use ortscope_core::tensor::{Dimension, ELEMENT_TYPES, ElementType, Tensor, TensorData, Value, ValueType};
use ortscope_ort::{
    DeviceKind, ErrorCode, FallbackPolicy, Optimization, OrtError, ProviderRequest, Session, SessionOptions,
};
use support::{environment, floats, integers, models, named, session, strings};

/// Runs a model once through a binding and once bare; both must agree.
fn run(session: &Session, inputs: &[(String, Value)]) -> Vec<(String, Value)> {
    let mut binding = session.bind(inputs).expect("inputs bind");
    binding.copy_inputs().expect("copies");
    binding.run().expect("runs");
    binding.synchronize().expect("synchronises");
    let first = binding.outputs().expect("outputs");
    binding.copy_outputs().expect("copies");
    for _ in 0..3 {
        binding.copy_inputs().expect("copies");
        binding.run().expect("runs again");
        binding.copy_outputs().expect("copies");
    }
    assert_eq!(binding.outputs().expect("outputs"), first, "later runs give the same");
    let mut plain = session.run_plain(inputs).expect("inputs bind");
    plain.run().expect("runs");
    assert_eq!(plain.take_outputs().expect("outputs"), first, "a bare run gives the same");
    first
}

#[test]
fn fixed_shapes() {
    let Some(environment) = environment() else { return };
    let session = session(&environment, &models::add());
    assert_eq!(session.inputs().len(), 2);
    assert_eq!(session.inputs()[0].to_owned().value_type.to_string(), "float32[2,3]");
    let x = floats(&[2, 3], &[1., 2., 3., 4., 5., 6.]);
    let outputs = run(&session, &[named("x", x.clone()), named("y", x.clone())]);
    assert_eq!(outputs, [named("z", floats(&[2, 3], &[2., 4., 6., 8., 10., 12.]))]);

    let mut binding = session.bind(&[named("x", x.clone()), named("y", x)]).expect("binds");
    assert_eq!((binding.input_bytes(), binding.copied_input_bytes(), binding.output_bytes()), (48, 48, 0));
    binding.run().expect("runs");
    binding.copy_outputs().expect("copies");
    assert_eq!((binding.output_bytes(), binding.floating_outputs()), (24, 0));
}

#[test]
fn a_symbolic_batch() {
    let Some(environment) = environment() else { return };
    let session = session(&environment, &models::matmul());
    let ValueType::Tensor { shape: Some(shape), .. } = &session.inputs()[0].value_type else {
        panic!("a tensor")
    };
    assert_eq!(*shape, [Dimension::Symbolic("batch".to_owned()), Dimension::Fixed(3)]);
    for batch in [1u64, 4] {
        let x: Vec<f32> = (0..batch * 3).map(|value| value as f32).collect();
        let outputs = run(&session, &[named("x", floats(&[batch, 3], &x))]);
        let Value::Tensor(tensor) = &outputs[0].1 else { panic!("a tensor") };
        assert_eq!(tensor.dims, [batch, 2]);
    }
}

#[test]
fn free_dimensions_can_be_fixed() {
    let Some(environment) = environment() else { return };
    let options = SessionOptions {
        free_dimension_overrides: [("batch".to_owned(), 5)].into(),
        intra_op_threads: Some(1),
        inter_op_threads: Some(1),
        optimization: Optimization::Basic,
        cpu_arena: Some(false),
        memory_pattern: Some(false),
        parallel: true,
        ..SessionOptions::default()
    };
    let session = Session::from_bytes(&environment, &models::matmul(), &options).expect("loads");
    assert_eq!(session.inputs()[0].value_type.to_string(), "float32[5,3]");
}

/// The size of such an output must not be frozen after the first run.
#[test]
fn outputs_whose_size_depends_on_data() {
    let Some(environment) = environment() else { return };
    let session_of = |model: &[u8]| session(&environment, model);
    let fixed = session_of(&models::non_zero());
    let outputs = run(&fixed, &[named("x", floats(&[5], &[0., 1., 0., 2., 3.]))]);
    assert_eq!(outputs, [named("y", integers(&[1, 3], &[1, 3, 4]))]);

    let random = session_of(&models::random_size());
    let mut binding = random.bind(&[named("x", floats(&[64], &[0.5; 64]))]).expect("binds");
    let mut sizes = std::collections::BTreeSet::new();
    for round in 0..30 {
        // The middle third leaves the copies out, so that runs must prepare their outputs themselves.
        if !(10..20).contains(&round) {
            binding.copy_inputs().expect("copies");
        }
        binding.run().expect("a run of another size");
        binding.copy_outputs().expect("copies");
        let Value::Tensor(tensor) = &binding.outputs().expect("outputs")[0].1 else { panic!("a tensor") };
        assert_eq!(binding.output_bytes(), tensor.byte_len());
        sizes.insert(tensor.dims[1]);
    }
    assert!(sizes.len() > 1, "the sizes differ: {sizes:?}");
    assert_eq!(binding.floating_outputs(), 1);
}

#[test]
fn outputs_before_a_run_are_an_error() {
    let Some(environment) = environment() else { return };
    let session = session(&environment, &models::non_zero());
    let mut binding = session.bind(&[named("x", floats(&[1], &[1.]))]).expect("binds");
    assert!(binding.outputs().is_err());
    assert!(binding.copy_outputs().is_err());
    binding.run().expect("runs");
    binding.copy_inputs().expect("copies");
    assert!(binding.outputs().is_err(), "copying inputs forgets the outputs of the last run");
}

#[test]
fn strings_with_any_characters() {
    let Some(environment) = environment() else { return };
    let session = session(&environment, &models::string_identity());
    let text = strings(&[4], &["", "plain", "Ωmega", "with\0nul"]);
    assert_eq!(run(&session, &[named("x", text.clone())]), [named("y", text.clone())]);
    assert_eq!(run(&session, &[named("x", strings(&[0], &[]))]), [named("y", strings(&[0], &[]))]);
    let binding = session.bind(&[named("x", text)]).expect("binds");
    assert_eq!((binding.input_bytes(), binding.copied_input_bytes()), (19, 0));
}

#[test]
fn sequences_and_maps() {
    let Some(environment) = environment() else { return };
    let (a, b) = (floats(&[2], &[1., 2.]), floats(&[1], &[3.]));

    let at = session(&environment, &models::sequence_at());
    assert_eq!(at.inputs()[0].value_type.to_string(), "sequence of float32[n]");
    let inputs = [named("s", Value::Sequence(vec![a.clone(), b.clone()])), named("i", integers(&[], &[1]))];
    assert_eq!(run(&at, &inputs), [named("y", b.clone())]);

    let construct = session(&environment, &models::sequence_construct());
    let outputs = run(&construct, &[named("x", a.clone()), named("y", b.clone())]);
    assert_eq!(outputs, [named("s", Value::Sequence(vec![a, b]))]);

    let zip = session(&environment, &models::zip_map());
    assert_eq!(zip.outputs()[0].value_type.to_string(), "sequence of map of int64 to float32[]");
    let outputs = run(&zip, &[named("x", floats(&[1, 3], &[0.5, 0.25, 0.125]))]);
    let (Value::Tensor(keys), Value::Tensor(values)) =
        (integers(&[3], &[10, 20, 30]), floats(&[3], &[0.5, 0.25, 0.125]))
    else {
        panic!("tensors")
    };
    assert_eq!(outputs, [named("m", Value::Sequence(vec![Value::Map { keys, values }]))]);

    let dict = session(&environment, &models::dict_vectorizer());
    let (Value::Tensor(keys), Value::Tensor(values)) = (strings(&[2], &["c", "a"]), floats(&[2], &[7., 8.]))
    else {
        panic!("tensors")
    };
    let outputs = run(&dict, &[named("m", Value::Map { keys, values })]);
    assert_eq!(outputs, [named("y", floats(&[1, 3], &[8., 0., 7.]))]);
}

#[test]
fn control_flow_and_odd_signatures() {
    let Some(environment) = environment() else { return };
    let branches = session(&environment, &models::branches());
    let truth = |value: u8| {
        Value::Tensor(Tensor {
            element: ElementType::Bool,
            dims: vec![],
            data: TensorData::Bytes(vec![value]),
        })
    };
    let x = floats(&[2], &[3., 4.]);
    let outputs = run(&branches, &[named("c", truth(1)), named("x", x.clone())]);
    assert_eq!(outputs, [named("y", floats(&[2], &[6., 8.]))]);
    let outputs = run(&branches, &[named("c", truth(0)), named("x", x)]);
    assert_eq!(outputs, [named("y", floats(&[2], &[9., 16.]))]);

    let odd = session(&environment, &models::optional_and_unranked());
    assert_eq!(odd.inputs()[0].value_type.to_string(), "optional float32[n]");
    if environment.runtime().minor() >= 24 {
        assert_eq!(odd.outputs()[0].value_type.to_string(), "float32[...]");
    }
}

/// Every type that this library's Identity takes comes back bit for bit; the others are refused with an error.
#[test]
fn every_element_type() {
    let Some(environment) = environment() else { return };
    let mut passed = Vec::new();
    for element in ELEMENT_TYPES {
        // The newest types need newer models, which older libraries refuse.
        for (ir, opset) in [(8, 13), (9, 19), (10, 21), (11, 23), (13, 25)] {
            let model = models::identity(element as i32, ir, opset);
            let Ok(session) = Session::from_bytes(&environment, &model, &SessionOptions::default()) else {
                continue;
            };
            let data = match element.bytes_for(6) {
                Some(len) => TensorData::Bytes((0..len as u8).map(|byte| byte % 2).collect()),
                None => TensorData::Strings(vec!["s".to_owned(); 6]),
            };
            let value = Value::Tensor(Tensor { element, dims: vec![6], data });
            assert_eq!(session.inputs()[0].value_type.to_string(), format!("{element}[n]"));
            assert_eq!(run(&session, &[named("x", value.clone())]), [named("y", value)], "{element}");
            passed.push(element);
            break;
        }
    }
    assert!(passed.len() >= 14, "{passed:?}");
}

/// Identity does not take the packed types, Cast does; the values show that nothing is packed the wrong way round.
#[test]
fn packed_element_types() {
    use ElementType::{Float4E2M1, Float8E8M0, Int2, Int4, Uint2, Uint4};
    let Some(environment) = environment() else { return };
    let minor = environment.runtime().minor();
    let cases: [(ElementType, u32, &[u8], [f32; 3]); 6] = [
        (Uint4, 23, &[0x21, 0x0f], [1., 2., 15.]),
        (Int4, 23, &[0xf1, 0x08], [1., -1., -8.]),
        (Float4E2M1, 99, &[0x42, 0x09], [1., 2., -0.5]),
        (Float8E8M0, 28, &[127, 128, 126], [1., 2., 0.5]),
        (Uint2, 24, &[0b11_10_01], [1., 2., 3.]),
        (Int2, 24, &[0b10_11_01], [1., -1., -2.]),
    ];
    for (element, since, bytes, expected) in cases {
        let loaded = [(10, 21), (11, 23), (12, 24), (13, 25)].into_iter().find_map(|(ir, opset)| {
            let model = models::cast_to_float(element as i32, ir, opset);
            Session::from_bytes(&environment, &model, &SessionOptions::default()).ok()
        });
        let Some(session) = loaded else {
            assert!(minor < since, "1.{minor} should take {element}");
            continue;
        };
        let data = TensorData::Bytes(bytes.to_vec());
        let value = Value::Tensor(Tensor { element, dims: vec![3], data });
        assert_eq!(run(&session, &[named("x", value)]), [named("y", floats(&[3], &expected))], "{element}");
    }
}

#[test]
fn invalid_inputs_are_errors() {
    let Some(environment) = environment() else { return };
    let session = session(&environment, &models::add());
    let x = floats(&[2, 3], &[0.; 6]);
    assert!(matches!(session.bind(&[named("unknown", x.clone())]), Err(OrtError::Call { .. })));
    let mut missing = session.bind(&[named("x", x.clone())]).expect("binds what there is");
    assert!(matches!(missing.run(), Err(OrtError::Call { .. })));
    let short =
        Tensor { element: ElementType::Float32, dims: vec![2, 3], data: TensorData::Bytes(vec![0; 4]) };
    assert!(matches!(session.bind(&[named("x", Value::Tensor(short))]), Err(OrtError::Unsupported(_))));
    let huge =
        Tensor { element: ElementType::Float32, dims: vec![1 << 62, 8], data: TensorData::Bytes(vec![]) };
    assert!(session.bind(&[named("x", Value::Tensor(huge))]).is_err());
    let mut bad = session.run_plain(&[named("x", x)]).expect("prepared");
    let error = bad.run().expect_err("an input is missing");
    assert!(matches!(error, OrtError::Call { function: "Run", .. }), "{error:?}");
}

#[test]
fn models_that_do_not_load() {
    let Some(environment) = environment() else { return };
    let options = SessionOptions::default();
    let directory = tempfile::tempdir().expect("a directory");
    let missing =
        Session::create(&environment, &directory.path().join("missing.onnx"), &options).expect_err("missing");
    assert!(matches!(missing, OrtError::Call { code: ErrorCode::NoSuchFile, .. }), "{missing:?}");
    let garbage = directory.path().join("garbage.onnx");
    std::fs::write(&garbage, b"this is no protobuf").expect("written");
    let error = Session::create(&environment, &garbage, &options).expect_err("garbage");
    assert!(matches!(error, OrtError::Call { code: ErrorCode::InvalidProtobuf, .. }), "{error:?}");
    let entry = ("session.use_ort_model_bytes_directly".to_owned(), "1".to_owned());
    let borrowing = SessionOptions { config_entries: [entry].into(), ..SessionOptions::default() };
    let error = Session::from_bytes(&environment, &models::add(), &borrowing).expect_err("would dangle");
    assert!(matches!(error, OrtError::Unsupported(_)), "{error:?}");
    let nul = Session::create(&environment, std::path::Path::new("a\0b"), &options).expect_err("NUL");
    assert!(matches!(nul, OrtError::Nul { .. }), "{nul:?}");
}

#[test]
fn a_missing_provider_is_an_error_or_a_recorded_fallback() {
    let Some(environment) = environment() else { return };
    if environment.runtime().available_providers().iter().any(|name| name == "CUDAExecutionProvider") {
        return;
    }
    let model = models::add();
    for name in [
        "cuda", "trt", "dml", "openvino", "qnn", "webgpu", "coreml", "vitisai", "migraphx", "rocm", "dnnl",
        "cann", "abacus",
    ] {
        let mut options =
            SessionOptions { providers: vec![ProviderRequest::named(name)], ..SessionOptions::default() };
        let error = Session::from_bytes(&environment, &model, &options).expect_err("not in the CPU library");
        let OrtError::ProviderUnavailable { available, reason, .. } = &error else {
            panic!("{name}: {error:?}")
        };
        assert!(available.contains(&"CPUExecutionProvider".to_owned()));
        assert!(!reason.is_empty(), "{name}");

        options.fallback = FallbackPolicy::ContinueOnCpu;
        let session = Session::from_bytes(&environment, &model, &options).expect("goes on");
        assert_eq!(session.fallbacks().len(), 1, "{name}");
        assert_eq!(session.fallbacks()[0].reason, *reason);
        assert!(session.providers().is_empty());
    }
    let options =
        SessionOptions { providers: vec![ProviderRequest::named("cpu")], ..SessionOptions::default() };
    let session = Session::from_bytes(&environment, &model, &options).expect("the CPU is there");
    assert_eq!(session.providers(), ["CPUExecutionProvider"]);
}

#[test]
fn session_descriptions() {
    let Some(environment) = environment() else { return };
    let minor = environment.runtime().minor();
    let directory = tempfile::tempdir().expect("a directory");
    let options = SessionOptions {
        profiling_prefix: Some(directory.path().join("profile")),
        optimized_model_path: Some(directory.path().join("optimized.onnx")),
        ..SessionOptions::default()
    };
    let path = directory.path().join("Ωmodel.onnx");
    std::fs::write(&path, models::matmul()).expect("written");
    let mut session = Session::create(&environment, &path, &options).expect("loads");
    let metadata = session.metadata().expect("metadata");
    assert_eq!(
        (metadata.producer.as_str(), metadata.description.as_str()),
        ("ortscope-tests", "a test model")
    );
    assert_eq!(metadata.custom, [("color".to_owned(), "green".to_owned())].into());

    run(&session, &[named("x", floats(&[1, 3], &[1., 1., 1.]))]);
    match session.placement() {
        Ok(placement) => {
            assert!(minor >= 24);
            assert_eq!(placement[0].provider, "CPUExecutionProvider");
            assert_eq!(placement[0].nodes[0].op_type, "MatMul");
        }
        Err(error) => assert!(matches!(error, OrtError::NeedsVersion { needs_minor: 24, .. }), "{error}"),
    }
    match session.allocator_stats() {
        Ok(stats) => assert!(minor >= 23 && stats.expect("an arena").contains_key("InUse")),
        Err(error) => assert!(matches!(error, OrtError::NeedsVersion { needs_minor: 23, .. }), "{error}"),
    }
    assert!(session.profiling_start_ns().expect("a clock") > 0);
    let profile = session.end_profiling().expect("a profile");
    assert!(std::fs::read_to_string(&profile).expect("written").contains("MatMul"));
    assert!(directory.path().join("optimized.onnx").exists());
}

#[test]
fn the_library_and_its_devices() {
    let Some(environment) = environment() else { return };
    let runtime = environment.runtime();
    assert!(runtime.version().starts_with(&format!("1.{}.", runtime.minor())));
    assert!(runtime.build_info().starts_with("ORT Build Info"), "{}", runtime.build_info());
    assert!(runtime.available_providers().contains(&"CPUExecutionProvider".to_owned()));
    match environment.devices() {
        Ok(devices) => {
            assert!(runtime.minor() >= 22);
            let cpu = devices.iter().find(|device| device.ep_name == "CPUExecutionProvider");
            // 1.22 has the function, but does not list the built-in providers yet.
            assert!(cpu.is_some() || runtime.minor() == 22, "{devices:?}");
            assert!(cpu.is_none_or(|cpu| cpu.kind == DeviceKind::Cpu));
            let json = serde_json::to_string(&cpu).expect("serializes");
            assert!(cpu.is_none() || json.contains("\"kind\":\"CPU\""), "{json}");
        }
        Err(error) => assert!(matches!(error, OrtError::NeedsVersion { needs_minor: 22, .. }), "{error}"),
    }
    let missing =
        environment.register_provider_library("unknown", std::path::Path::new("/nonexistent/provider.so"));
    assert!(missing.is_err());
    let options = SessionOptions {
        providers: vec![ProviderRequest {
            name: "qnn".to_owned(),
            library: Some("/nonexistent/provider.so".into()),
            ..ProviderRequest::default()
        }],
        ..SessionOptions::default()
    };
    let error = Session::from_bytes(&environment, &models::add(), &options).expect_err("no such plug-in");
    assert!(matches!(error, OrtError::ProviderUnavailable { .. }), "{error:?}");
}

/// A plain `cargo nextest run` must find what `cargo xtask run` has set up.
#[test]
fn test_env_is_found_from_a_test_program_below_the_target_directory() {
    let target = tempfile::tempdir().expect("a temporary directory");
    let deps = target.path().join("llvm-cov-target/debug/deps");
    std::fs::create_dir_all(&deps).expect("a directory");
    std::fs::create_dir_all(target.path().join("ortscope-env")).expect("a directory");
    let program = deps.join("it-0123");
    let set_up = |name| support::skips::set_up(&program, name);
    assert_eq!(set_up("ORTSCOPE_TEST_MODELS"), None);
    let list = format!("ORTSCOPE_TEST_ORT=/gone\nORTSCOPE_TEST_MODELS={}\n", deps.display());
    std::fs::write(target.path().join("ortscope-env/test.env"), list).expect("the list is written");
    assert_eq!(set_up("ORTSCOPE_TEST_MODELS"), Some(deps));
    assert_eq!(set_up("ORTSCOPE_TEST_ORT"), None, "a path that no longer exists is not set up");
}
