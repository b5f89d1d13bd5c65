//! The commands that need no measurement.

use crate::support::{Place, library, models, small_model};

#[test]
fn inspect_describes_a_model() {
    let place = Place::new();
    let model = small_model(&place);
    insta::assert_snapshot!(place.ortscope(&["inspect", &model]).expect_code(0).stdout(), @r"
    small.onnx  202 B
    opset       13, ai.onnx.ml 2  IR 8
    producer    ortscope-tests
    nodes       1
    parameters  6 in 1 tensors, 24 B
    inputs      x  float32[batch,3]
    outputs     y  float32[batch,2]
    operators   MatMul ×1
    ");
}

#[test]
fn inspect_as_json_has_a_schema_and_the_signature() {
    let place = Place::new();
    let model = small_model(&place);
    let document = place.ortscope(&["inspect", &model, "--json"]).expect_code(0).json();
    assert_eq!(document["schema"], "ortscope.inspect/1");
    assert_eq!(document["inputs"][0]["name"], "x");
    assert_eq!(document["inputs"][0]["type"]["tensor"]["shape"][0], "batch");
    assert_eq!(document["operators"]["MatMul"], 1);
}

#[test]
fn the_template_of_a_model_is_accepted_as_its_input() {
    let Some(library) = library() else { return };
    let place = Place::new();
    place.file("map.onnx", models::dict_vectorizer());
    let template = place.ortscope(&["inspect", "map.onnx", "--template"]).expect_code(0).stdout();
    place.file("inputs.json", template);
    place.with_library(&library, &["run", "map.onnx", "--input", "inputs.json", "-n", "20"]).expect_code(0);
}

#[test]
fn config_init_writes_a_file_that_is_accepted_and_not_overwritten() {
    let place = Place::new();
    place.ortscope(&["config", "init"]).expect_code(0);
    let shown = place.ortscope(&["config", "show"]).expect_code(0).stdout();
    assert!(shown.contains("sampling_hz = 50"), "{shown}");
    place.ortscope(&["config", "init"]).expect_error(2, &["already there", "--force"]);
    place.ortscope(&["config", "init", "--force", "--template", "critical"]).expect_code(0);
    let shown = place.ortscope(&["config", "show", "--json"]).expect_code(0).json();
    assert_eq!(shown["monitoring"]["overhead_limit"], 2.0);
    let path = place.ortscope(&["config", "path"]).expect_code(0).stdout();
    assert!(path.trim().ends_with("ortscope.toml"), "{path}");
}

#[test]
fn the_local_file_wins_over_the_users() {
    let place = Place::new();
    std::fs::create_dir_all(place.directory.path().join("user-config/ortscope")).unwrap();
    place.file("user-config/ortscope/ortscope.toml", "[run]\nseed = 1\nthreads = 7\n");
    place.file("ortscope.toml", "[run]\nseed = 2\n");
    let shown = place.ortscope(&["config", "show", "--json"]).expect_code(0).json();
    assert_eq!(shown["run"]["seed"], 2);
    assert_eq!(shown["run"]["threads"], 7);
}

#[test]
fn completions_exist_for_every_shell() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = place.ortscope(&["completions", shell]).expect_code(0).stdout();
        assert!(script.contains("ortscope"), "{shell}");
        assert!(script.contains("inspect"), "{shell}");
    }
}

/// What `--provider` would load is named before anybody tries it.
#[test]
fn doctor_names_plug_ins_that_lie_beside_the_library() {
    let Some(library) = library() else { return };
    let place = Place::new();
    let at = |path: &str| {
        let path = place.directory.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    };
    let copy = at("packages/onnxruntime/capi").join(library.file_name().unwrap());
    std::fs::create_dir_all(copy.parent().unwrap()).unwrap();
    std::fs::copy(&library, &copy).unwrap();
    let plugin =
        ["libonnxruntime_providers_qnn.so", "onnxruntime_providers_qnn.dll"][usize::from(cfg!(windows))];
    std::fs::write(at("packages/onnxruntime_qnn/x").with_file_name(plugin), b"").unwrap();
    let document = place.with_library(&copy, &["doctor", "--json"]).expect_code(0).json();
    let found = document["ort"]["plug_ins"]["QNNExecutionProvider"].as_str().unwrap_or_default();
    assert!(found.ends_with(plugin), "{document}");
    let text = place.with_library(&copy, &["doctor"]).expect_code(0).stdout();
    assert!(text.contains("QNNExecutionProvider at ") && !text.contains("runs on the CPU only"), "{text}");
    assert!(text.contains("QNNExecutionProvider reports its version only to a session"), "{text}");
}

#[test]
fn doctor_finds_the_library_and_says_how() {
    let Some(library) = library() else { return };
    let place = Place::new();
    let document = place.with_library(&library, &["doctor", "--json"]).expect_code(0).json();
    assert_eq!(document["schema"], "ortscope.doctor/1");
    assert_eq!(document["ort_search"]["found"]["how"], "ORTSCOPE_ORT_LIBRARY");
    let providers = document["ort"]["providers"].as_array().unwrap();
    assert!(providers.iter().any(|name| name == "CPUExecutionProvider"));
    let text = place.with_library(&library, &["doctor"]).expect_code(0).stdout();
    for word in ["onnxruntime", "clock", "noise", "looked for"] {
        assert!(text.contains(word), "{word} in {text}");
    }
}

#[test]
fn help_starts_with_what_it_is_and_has_examples() {
    let place = Place::new();
    for command in
        [vec!["--help"], vec!["run", "--help"], vec!["inspect", "--help"], vec!["doctor", "--help"]]
    {
        let help = place.ortscope(&command).expect_code(0).stdout();
        assert!(help.contains("Examples:"), "{command:?}");
        assert!(!help.contains("worker-process"), "a worker process is not a command");
    }
}

#[test]
fn an_unknown_command_is_a_usage_error_with_a_suggestion() {
    let place = Place::new();
    let run = place.ortscope(&["inspct", "x.onnx"]).expect_code(2);
    assert!(run.stderr().contains("inspect"), "{}", run.stderr());
}

/// docs/COMPLIANCE.md names a test for every claim, as `file::function`; each must be there and be a test.
#[test]
fn compliance_names_tests_that_exist() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/COMPLIANCE.md")).expect("the page");
    let named: Vec<(&str, &str)> = page
        .split('`')
        .skip(1)
        .step_by(2)
        .filter_map(|code| code.split_once("::"))
        .filter(|(file, _)| file.ends_with(".rs") || file.ends_with(".py"))
        .collect();
    assert!(named.len() > 40, "{}", named.len());
    for (file, function) in named {
        let text = std::fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let (definition, marked) = if file.ends_with(".py") {
            (format!("def {function}("), function.starts_with("test_"))
        } else {
            let definition = format!("fn {function}(");
            let at = lines.iter().position(|line| line.contains(&definition));
            let before = at.map(|at| &lines[at.saturating_sub(4)..at]).unwrap_or_default();
            let is_test = before.iter().any(|line| line.contains("test]") || line.contains("test("));
            (definition, is_test && !before.iter().any(|line| line.starts_with("#[ignore")))
        };
        assert!(lines.iter().any(|line| line.contains(&definition)), "{file} has no {function}");
        assert!(marked, "{function} in {file} is no test that runs");
    }
}
