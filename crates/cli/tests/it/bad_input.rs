//! Everything that can be wrong: one clear sentence, a hint, the documented exit code, and what was measured is kept.

use crate::support::{Place, library, models, onnx, skips, small_model};

#[test]
fn files_that_are_not_models() {
    let place = Place::new();
    place.file("empty.onnx", "");
    place.file("text.onnx", "hello, I am not a model\n");
    place.file("page.onnx", "<!DOCTYPE html><html></html>");
    place.file("lfs.onnx", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n");
    place.file("zip.onnx", b"PK\x03\x04aaaaaaaaaaaaaaaaaaaaaaaaaaaa");
    for (file, word) in [
        ("empty.onnx", "empty"),
        ("text.onnx", "not an ONNX model"),
        ("page.onnx", "web page"),
        ("lfs.onnx", "LFS"),
        ("zip.onnx", "zip"),
        ("missing.onnx", "there is no file"),
    ] {
        place.ortscope(&["run", file]).expect_error(3, &[word]);
        place.ortscope(&["inspect", file]).expect_error(3, &[word]);
    }
    std::fs::create_dir(place.directory.path().join("dir.onnx")).unwrap();
    place.ortscope(&["run", "dir.onnx"]).expect_error(3, &["directory"]);
}

#[test]
fn a_truncated_model_is_distinguished_from_a_foreign_file() {
    let place = Place::new();
    let whole = models::matmul();
    for share in 1..16 {
        let name = format!("cut{share}.onnx");
        place.file(&name, &whole[..whole.len() * share / 16]);
        place.ortscope(&["inspect", &name]).expect_error(3, &["hint:"]);
    }
    place.file("cut.onnx", &whole[..whole.len() - 40]);
    place.ortscope(&["run", "cut.onnx"]).expect_error(3, &["truncated"]);
}

#[test]
fn an_unknown_operator_or_opset() {
    let Some(library) = library() else { return };
    let place = Place::new();
    let of = onnx::tensor_type(1, &[onnx::Dim::Fixed(2)]);
    let strange = onnx::Graph::default()
        .node(&onnx::node("FrobnicateGently", &["x"], &["y"]))
        .input("x", &of)
        .output("y", &of);
    place.file("op.onnx", strange.model());
    place.with_library(&library, &["run", "op.onnx"]).expect_error(3, &["FrobnicateGently", "hint:"]);
    let future =
        onnx::Graph::default().node(&onnx::node("Identity", &["x"], &["y"])).input("x", &of).output("y", &of);
    place.file("opset.onnx", future.model_of(8, 9999));
    place.with_library(&library, &["run", "opset.onnx"]).expect_error(3, &["opset", "hint:"]);
    let newer =
        onnx::Graph::default().node(&onnx::node("Identity", &["x"], &["y"])).input("x", &of).output("y", &of);
    place.file("ir.onnx", newer.model_of(9999, 13));
    place.with_library(&library, &["run", "ir.onnx"]).expect_error(3, &["IR version", "hint:"]);
}

#[test]
fn external_data_that_is_missing_or_outside() {
    let place = Place::new();
    for (location, word) in [
        ("weights.bin", "weights.bin"),
        ("../weights.bin", "leaves the model"),
        ("/etc/hostname", "/etc/hostname"),
    ] {
        place.file("external.onnx", model_with_external(location));
        place.ortscope(&["run", "external.onnx"]).expect_error(3, &[word, "hint:"]);
    }
}

fn model_with_external(location: &str) -> Vec<u8> {
    let entry = |key: &str, value: &str| onnx::Message::default().string(1, key).string(2, value);
    let tensor = onnx::Message::default()
        .int(1, 3)
        .int(1, 2)
        .int(2, 1)
        .string(8, "w")
        .message(13, &entry("location", location))
        .int(14, 1);
    onnx::Graph::default()
        .node(&onnx::node("MatMul", &["x", "w"], &["y"]))
        .initializer(&tensor)
        .input("x", &onnx::tensor_type(1, &[onnx::Dim::Fixed(1), onnx::Dim::Fixed(3)]))
        .output("y", &onnx::tensor_type(1, &[onnx::Dim::Fixed(1), onnx::Dim::Fixed(2)]))
        .model()
}

#[test]
fn inputs_that_do_not_fit() {
    let Some(library) = library() else { return };
    let place = Place::new();
    let model = small_model(&place);
    place.file("shape.json", r#"{"x": [[1, 2]]}"#);
    place.file("name.json", r#"{"y": [[1, 2, 3]]}"#);
    place.file("type.json", r#"{"x": [["a", "b", "c"]]}"#);
    place.file("broken.json", r#"{"x": [[1, 2"#);
    place.file("x.txt", "1 2 3");
    for (file, word) in [
        ("shape.json", "axis 1"),
        ("name.json", "no input 'y'"),
        ("type.json", "x"),
        ("broken.json", "broken.json"),
        ("x.txt", "x.txt"),
        ("missing.npz", "missing.npz"),
    ] {
        place.with_library(&library, &["run", &model, "--input", file]).expect_error(4, &[word, "hint:"]);
    }
    place.with_library(&library, &["run", &model, "--shape", "x=1x4"]).expect_error(4, &["axis 1"]);
    place
        .with_library(&library, &["run", &model, "--shape", "bacth=2"])
        .expect_error(4, &["did you mean 'batch'"]);
    place.file("map.onnx", models::dict_vectorizer());
    place.with_library(&library, &["run", "map.onnx"]).expect_error(4, &["--template"]);
}

#[test]
fn no_library_a_wrong_one_or_an_old_one() {
    let place = Place::new();
    let model = small_model(&place);
    let mut command = place.command(&["run", &model]);
    // Nothing to find: no Python, no library path.
    let output = command
        .env("PATH", place.directory.path())
        .env_remove("VIRTUAL_ENV")
        .env_remove("CONDA_PREFIX")
        .output();
    let stderr = String::from_utf8_lossy(&output.unwrap().stderr).into_owned();
    // A machine may have a system-wide library; then this case cannot be shown here.
    if stderr.contains("error:") {
        assert!(stderr.contains("no ONNX Runtime was found") && stderr.contains("hint:"), "{stderr}");
    }
    place.ortscope(&["run", &model, "--ort-library", "nowhere.so"]).expect_error(3, &["nowhere.so", "hint:"]);
    place.file("text.so", "not a library");
    place.ortscope(&["run", &model, "--ort-library", "text.so"]).expect_error(3, &["text.so"]);
}

/// A library with the entry point and the version of an ONNX Runtime that is too old; its table must never be read.
#[test]
fn an_onnx_runtime_older_than_1_15() {
    let place = Place::new();
    let model = small_model(&place);
    place.file(
        "old.c",
        "typedef struct { const void *(*api)(unsigned); const char *(*version)(void); } Base;
         static const void *api(unsigned v) { (void)v; return 0; }
         static const char *version(void) { return \"1.14.1\"; }
         static const Base base = { api, version };
         const Base *OrtGetApiBase(void) { return &base; }",
    );
    let compiled = std::process::Command::new("cc")
        .args(["-shared", "-fPIC", "-o", "libonnxruntime.so", "old.c"])
        .current_dir(place.directory.path())
        .status();
    if !compiled.is_ok_and(|status| status.success()) {
        return skips::skipped("there is no C compiler to make an old library with");
    }
    // A name without a directory is a file of this one.
    for path in ["./libonnxruntime.so", "libonnxruntime.so"] {
        place
            .ortscope(&["run", &model, "--ort-library", path])
            .expect_error(3, &["1.14.1 is too old", "1.15", "hint:"]);
    }
    let doctor = place.ortscope(&["doctor", "--ort-library", "./libonnxruntime.so"]).expect_code(3);
    assert!(doctor.stdout().contains("too old"), "{}", doctor.stdout());
}

#[test]
fn a_provider_that_is_not_there() {
    let Some(library) = library() else { return };
    let place = Place::new();
    let model = small_model(&place);
    place
        .with_library(&library, &["run", &model, "--provider", "cuda"])
        .expect_error(6, &["CUDAExecutionProvider", "hint:", ",cpu"]);
    place
        .with_library(&library, &["run", &model, "--provider", "frobnicator"])
        .expect_error(6, &["frobnicator"]);
    let run = place
        .with_library(&library, &["run", &model, "--provider", "cuda,cpu", "-n", "30", "-q"])
        .expect_code(0);
    assert!(run.stdout().contains("CUDAExecutionProvider was asked for but is not used"), "{}", run.stdout());
}

#[test]
fn usage_errors() {
    let Some(library) = library() else { return };
    let place = Place::new();
    let model = small_model(&place);
    for arguments in [
        vec!["run", &model, "--runs", "0"],
        vec!["run", &model, "--duration", "soon"],
        vec!["run", &model, "--duration", "0s"],
        vec!["run", &model, "--precision", "80%"],
        vec!["run", &model, "--scenario", "rush-hour"],
        vec!["run", &model, "--opt", "most"],
        vec!["run", &model, "--shape", "x"],
        vec!["run", &model, "--batch", "0"],
        vec!["run", &model, "--sweep", "threads="],
        vec!["run", &model, "--sweep", "colour=red"],
        vec!["run", &model, "--sweep", "threads=1,2", "--batch", "1,2"],
        vec!["run", &model, "--runs", "5", "--precision", "1%"],
        vec!["run", &model, "--provider-option", "cuda.x=1"],
        vec!["run", &model, "--generate", "0"],
        vec!["run", &model, "--generate", "4", "--prompt", "0"],
        vec!["run", &model, "--warm-up", "5", "-n", "3"],
    ] {
        let run = place.with_library(&library, &arguments);
        assert_eq!(run.code(), 2, "{arguments:?}\n{}", run.stderr());
        assert!(run.stderr().contains("error:"), "{arguments:?}");
    }
    for arguments in [vec!["run"], vec!["run", &model, "--threads", "0"], vec!["run", &model, "--frobnicate"]]
    {
        assert_eq!(place.ortscope(&arguments).code(), 2, "{arguments:?}");
    }
}

#[test]
fn a_broken_configuration_names_its_line() {
    let place = Place::new();
    let model = small_model(&place);
    place.file("ortscope.toml", "[monitoring.cpu]\nsampling_herz = 5\n");
    place.ortscope(&["run", &model]).expect_error(2, &["ortscope.toml:2", "sampling_herz", "hint:"]);
    place.ortscope(&["config", "show", "--config", "nowhere.toml"]).expect_error(2, &["nowhere.toml"]);
}

/// A model that fails in some later run: what was measured before must still be reported.
#[test]
fn a_model_that_fails_in_the_middle_still_reports() {
    let Some(library) = library() else { return };
    let place = Place::new();
    place.file("fails.onnx", models::fails_after_some_runs());
    let run = place
        .with_library(&library, &["run", "fails.onnx", "-n", "5000", "--json"])
        .expect_error(3, &["run ", "failed"]);
    let document = run.json();
    let result = &document["results"][0];
    let after = result["latency"]["inference"]["runs"].as_u64().unwrap()
        + result["warm_up"]["discarded"].as_u64().unwrap();
    assert!((1..5000).contains(&after), "{after}");
    assert_eq!(document["failure"]["exit"], "model");
    let stderr = run.stderr();
    assert!(stderr.contains(&format!("run {} failed", after + 1)), "{after} runs, but {stderr}");
}

#[test]
fn a_failure_is_a_document_too() {
    let place = Place::new();
    let run = place.ortscope(&["run", "missing.onnx", "--json"]).expect_error(3, &["missing.onnx"]);
    let document = run.json();
    assert_eq!(document["schema"], "ortscope.error/1");
    assert_eq!(document["failure"]["exit"], "model");
}

#[test]
fn a_decoder_is_needed_for_generate() {
    let Some(library) = library() else { return };
    let place = Place::new();
    let model = small_model(&place);
    place.with_library(&library, &["run", &model, "--generate", "4"]).expect_error(4, &["KV cache"]);
}
