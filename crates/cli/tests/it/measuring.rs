//! `ortscope run` against a real ONNX Runtime. Nothing here asserts how fast anything is.

use serde_json::Value;

use crate::support::{Place, library, models, onnx, skips, small_model};

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("a number expected, got {value}"))
}

#[test]
fn a_run_without_settings_gives_a_summary_of_at_most_24_lines() {
    let Some(library) = library() else { return };
    let place = Place::new();
    let model = small_model(&place);
    let run = place.with_library(&library, &["run", &model, "--duration", "1s"]).expect_code(0);
    let text = run.stdout();
    assert!(text.lines().count() <= 24, "{text}");
    for word in [
        "small.onnx",
        "ONNX Runtime",
        "seed 42",
        "batch=1",
        "cold",
        "p50",
        "p99",
        "jitter",
        "memory",
        "stability",
    ] {
        assert!(text.contains(word), "{word:?} in\n{text}");
    }
    assert!(!text.contains('\u{1b}'), "no colours when stdout is not a terminal");
}

#[test]
fn the_json_document_is_complete_and_consistent() {
    let Some(library) = library() else { return };
    let place = Place::new();
    let model = small_model(&place);
    let document = place
        .with_library(&library, &["run", &model, "--runs", "4000", "--json", "-q"])
        .expect_code(0)
        .json();
    assert_eq!(document["schema"], "ortscope.run/1");
    let result = &document["results"][0];
    assert_eq!(result["model"]["nodes"], 1);
    assert!(result["failure"].is_null());
    assert_eq!(result["losses"], Value::Array(vec![]), "nothing may be lost");
    let inference = &result["latency"]["inference"];
    let discarded = number(&result["warm_up"]["discarded"]);
    assert_eq!(
        number(&inference["runs"]) + discarded,
        4000.0,
        "every run is counted, or discarded and counted"
    );
    // A percentile that noise keeps unknown is null; the others rise.
    let known: Vec<f64> = ["p50", "p90", "p95", "p99", "p99_9"]
        .iter()
        .filter_map(|name| inference["percentiles"][name].as_f64())
        .collect();
    assert!(known.len() >= 2 && known.is_sorted(), "{known:?}");
    let (p50, interval) = (known[0], &inference["intervals"]["p50"]);
    assert!(number(&interval[0]) <= p50 && p50 <= number(&interval[1]));
    assert!(number(&result["latency"]["end_to_end"]["median_ms"]) >= number(&inference["min_ms"]));
    assert!(number(&result["cold"]["session_first_ms"]) > 0.0);
    assert!(number(&result["cold"]["session_again_ms"]) > 0.0);
    assert!(number(&result["cold"]["first_run_ms"]) > 0.0);
    assert!(number(&result["memory"]["peak_bytes"]) > 1e6);
    assert!(result["unavailable"].as_object().unwrap().contains_key("energy.power_w"), "a value or a reason");
    assert_eq!(result["stop_reason"], "runs");
    assert_eq!(result["placement"]["providers"][0], "CPUExecutionProvider");
    assert_eq!(result["inputs"]["seed"], 42);
}

#[test]
fn too_few_runs_are_said_instead_of_numbers() {
    let Some(library) = library() else { return };
    let place = Place::new();
    let model = small_model(&place);
    let document =
        place.with_library(&library, &["run", &model, "-n", "50", "--json", "-q"]).expect_code(0).json();
    let inference = &document["results"][0]["latency"]["inference"];
    assert!(inference["percentiles"]["p99"].is_null());
    assert!(number(&inference["needs_runs"]["p99"]) >= 368.0);
    let text = place.with_library(&library, &["run", &model, "-n", "50", "-q"]).expect_code(0).stdout();
    assert!(text.contains("p99 n/a (needs ≥"), "{text}");
}

#[test]
fn the_same_seed_gives_the_same_inputs_and_sizes_can_be_set() {
    let Some(library) = library() else { return };
    let place = Place::new();
    let model = small_model(&place);
    let document = place
        .with_library(
            &library,
            &["run", &model, "-n", "30", "--shape", "batch=5", "--seed", "7", "--json", "-q"],
        )
        .expect_code(0)
        .json();
    let inputs = &document["results"][0]["inputs"];
    assert_eq!(inputs["described"][0], "x float32[5,3]");
    assert_eq!(inputs["batch_size"], 5);
    assert_eq!(inputs["seed"], 7);
}

#[test]
fn a_batch_sweep_is_a_table_with_advice() {
    let Some(library) = library() else { return };
    let place = Place::new();
    let model = small_model(&place);
    let run =
        place.with_library(&library, &["run", &model, "--batch", "1,4,16", "-n", "300", "-q"]).expect_code(0);
    let text = run.stdout();
    for word in ["batch", "samples/s", "per sample", "peak memory", "advice"] {
        assert!(text.contains(word), "{word:?} in\n{text}");
    }
    assert!(text.lines().count() <= 24, "{text}");
}

#[test]
fn a_settings_sweep_recommends_and_gives_the_command() {
    let Some(library) = library() else { return };
    let place = Place::new();
    let model = small_model(&place);
    let arguments =
        ["run", &model, "--sweep", "threads=1,2", "--sweep", "opt=basic,all", "-n", "300", "--json", "-q"];
    let document = place.with_library(&library, &arguments).expect_code(0).json();
    assert_eq!(document["results"].as_array().unwrap().len(), 5, "the default and four combinations");
    assert!(document["sweep"]["analysis"]["recommended"].is_u64());
    // The command is there when something else than the default is best, and only then.
    let best_is_default = document["sweep"]["analysis"]["recommended"] == 0;
    match document["sweep"]["command"].as_str() {
        Some(command) => {
            assert!(!best_is_default && command.starts_with("ortscope run small.onnx --"), "{command}");
        }
        None => assert!(best_is_default),
    }
}

#[test]
fn every_scenario_runs() {
    let Some(library) = library() else { return };
    let place = Place::new();
    let model = small_model(&place);
    for scenario in ["multi:3", "offline:2"] {
        let document = place
            .with_library(&library, &["run", &model, "-s", scenario, "-n", "600", "--json", "-q"])
            .expect_code(0)
            .json();
        let result = &document["results"][0];
        let runs = number(&result["latency"]["inference"]["runs"]) + number(&result["warm_up"]["discarded"]);
        assert_eq!(runs, 600.0, "{scenario}: all streams together make the runs asked for");
        assert!(number(&result["throughput"]["requests_per_second"]) > 0.0);
    }
    let document = place
        .with_library(&library, &["run", &model, "-s", "server:200", "-d", "2s", "--json", "-q"])
        .expect_code(0)
        .json();
    let server = &document["results"][0]["server"];
    // A Poisson process of 400 expected arrivals: five standard deviations either way.
    let requests = number(&server["requests"]);
    assert!((300.0..=500.0).contains(&requests), "{requests}");
    assert_eq!(server["target_per_second"], 200.0);
    assert!(server["queue_depth_max"].is_u64());
    assert!(server["from_planned_start_ms"]["p50"].is_f64());
}

#[test]
fn several_sessions_and_several_models_run_at_once() {
    let Some(library) = library() else { return };
    let place = Place::new();
    let model = small_model(&place);
    place.file("add.onnx", models::add());
    let arguments =
        ["run", &model, "add.onnx", &model, "--together", "-n", "300", "--sessions", "2", "--json", "-q"];
    let document = place.with_library(&library, &arguments).expect_code(0).json();
    let results = document["results"].as_array().unwrap();
    assert_eq!(results.len(), 3);
    assert_eq!(results[1]["model"]["name"], "add.onnx");
    assert!(results.iter().all(|result| result["session_ids"].as_array().unwrap().len() == 2));
}

#[test]
fn outputs_are_compared_with_the_cpu() {
    let Some(library) = library() else { return };
    let place = Place::new();
    let model = small_model(&place);
    let run = place
        .with_library(&library, &["run", &model, "-n", "30", "--check-outputs", "cpu", "-q"])
        .expect_code(0);
    assert!(run.stdout().contains("all 1 outputs agree"), "{}", run.stdout());
    // A model whose answers are random cannot agree with itself: the finding must come first.
    place.file("random.onnx", random_model());
    let document = place
        .with_library(&library, &["run", "random.onnx", "-n", "30", "--check-outputs", "cpu", "--json", "-q"])
        .expect_code(0)
        .json();
    assert_eq!(document["results"][0]["findings"][0]["id"], "outputs-differ");
}

fn random_model() -> Vec<u8> {
    let of = onnx::tensor_type(1, &[onnx::Dim::Fixed(64)]);
    onnx::Graph::default()
        .node(&onnx::node("RandomNormalLike", &["x"], &["y"]))
        .input("x", &of)
        .output("y", &of)
        .model()
}

#[test]
fn a_decoder_is_measured_by_token() {
    let Some(library) = library() else { return };
    let Some(model) = skips::model("tinyllm") else { return };
    let place = Place::new();
    let arguments = ["run", &model.display().to_string(), "--generate", "8", "-n", "5", "--json", "-q"];
    let document = place.with_library(&library, &arguments).expect_code(0).json();
    let generation = &document["results"][0]["generation"];
    assert_eq!(generation["sequences"], 5);
    assert_eq!(generation["tokens"], 40);
    assert!(number(&generation["first_token_median_ms"]) > 0.0);
}

#[test]
fn real_models_of_every_kind_have_a_sensible_summary() {
    let Some(library) = library() else { return };
    let Some(models) = skips::variable("ORTSCOPE_TEST_MODELS") else { return };
    let place = Place::new();
    let mut seen = 0;
    for entry in std::fs::read_dir(&models).unwrap() {
        let model = entry.unwrap().path();
        if model.extension().is_none_or(|extension| extension != "onnx") {
            continue;
        }
        let run = place
            .with_library(&library, &["run", &model.display().to_string(), "-n", "30", "-q"])
            .expect_code(0);
        let text = run.stdout();
        assert!(text.lines().count() <= 24, "{text}");
        assert!(text.contains("p50") && text.contains("cold") && text.contains("memory"), "{text}");
        seen += 1;
    }
    assert!(seen >= 6, "only {seen} models in {}", models.display());
}

#[test]
fn a_log_file_has_one_json_object_per_line() {
    let Some(library) = library() else { return };
    let place = Place::new();
    let model = small_model(&place);
    place.with_library(&library, &["run", &model, "-n", "20", "-q", "--log-file", "run.log"]).expect_code(0);
    let log = std::fs::read_to_string(place.directory.path().join("run.log")).unwrap();
    assert!(log.lines().count() >= 1);
    for line in log.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        assert!(event["level"].is_string() && event["timestamp"].is_string());
    }
}

#[test]
fn inputs_come_from_numpy_files() {
    let Some(library) = library() else { return };
    let Some(python) = skips::python_with(&["numpy"]) else { return };
    let place = Place::new();
    let model = small_model(&place);
    let script =
        "import numpy as np; np.savez('in.npz', x=np.ones((4,3),'f')); np.save('x.npy', np.ones((2,3),'f'))";
    let made = std::process::Command::new(python)
        .args(["-c", script])
        .current_dir(place.directory.path())
        .status()
        .unwrap();
    assert!(made.success());
    for (file, shape) in [("in.npz", "x float32[4,3]"), ("x.npy", "x float32[2,3]")] {
        let document = place
            .with_library(&library, &["run", &model, "-n", "20", "--input", file, "--json", "-q"])
            .expect_code(0)
            .json();
        assert_eq!(document["results"][0]["inputs"]["described"][0], shape);
    }
}

/// A long run that is measuring. It is paced: as fast as it can, a recorder that gets no processor for seconds would lose
/// inferences, which has an exit code of its own.
#[cfg(unix)]
fn in_the_middle_of_a_run(place: &Place, library: &std::path::Path) -> std::process::Child {
    let model = small_model(place);
    let child = place
        .command(&["run", &model, "--scenario", "server:500", "--duration", "180s", "--json", "-q"])
        .env("ORTSCOPE_ORT_LIBRARY", library)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("ortscope starts");
    place.wait_for_rows("inferences", 100);
    child
}

/// Interrupting like a terminal does needs a signal, which only Unix can send to another process from here.
#[cfg(unix)]
#[test]
fn an_interrupt_still_reports() {
    let Some(library) = library() else { return };
    let place = Place::new();
    let child = in_the_middle_of_a_run(&place, &library);
    let interrupted =
        std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(interrupted.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let result = &document["results"][0];
    assert_eq!(result["stopped"], "interrupted");
    assert!(number(&result["latency"]["inference"]["runs"]) > 10.0);
}

/// An open loop that cannot keep up must not hide the requests it never served.
#[test]
fn an_overloaded_server_counts_what_it_did_not_serve() {
    let Some(library) = library() else { return };
    let place = Place::new();
    let model = small_model(&place);
    let arguments = ["run", &model, "-s", "server:1000000:1", "-d", "1s", "--json", "-q"];
    let document = place.with_library(&library, &arguments).expect_code(0).json();
    let result = &document["results"][0];
    let (served, unserved) = (number(&result["server"]["requests"]), number(&result["server"]["unserved"]));
    // A million arrivals in a second, of a Poisson process: five standard deviations either way.
    assert!((served + unserved - 1e6).abs() < 5000.0, "{served} + {unserved}");
    assert!(unserved > 0.0);
    let ids: Vec<&str> =
        result["findings"].as_array().unwrap().iter().filter_map(|finding| finding["id"].as_str()).collect();
    assert!(ids.contains(&"cannot-keep-up"), "{ids:?}");
}

/// One program for every ONNX Runtime: the same model, the same inputs, the same document.
#[test]
fn every_version_of_onnx_runtime_runs_the_same_model() {
    let Some(matrix) = skips::variable("ORTSCOPE_TEST_ORT_MATRIX") else { return };
    let place = Place::new();
    let model = small_model(&place);
    let mut seen = Vec::new();
    for entry in std::fs::read_dir(&matrix).unwrap() {
        let directory = entry.unwrap().path();
        let Some(version) = directory.file_name().map(|name| name.to_string_lossy().into_owned()) else {
            continue;
        };
        let arguments =
            ["run", &model, "-n", "100", "--check-outputs", "cpu", "--json", "-q", "--ort-library"];
        let directory = directory.display().to_string();
        let document =
            place.ortscope(&[&arguments[..], &[directory.as_str()]].concat()).expect_code(0).json();
        let result = &document["results"][0];
        assert_eq!(result["runtime"]["version"], version.as_str());
        assert_eq!(result["outputs_checked"]["outputs"][0]["comparison"]["verdict"], "same", "{version}");
        seen.push(version);
    }
    assert!(!seen.is_empty(), "no library in {}", matrix.display());
}

/// A provider that aborts takes the worker with it, never the report.
#[cfg(target_os = "linux")]
#[test]
fn a_worker_that_is_killed_leaves_what_it_measured() {
    let Some(library) = library() else { return };
    let place = Place::new();
    let mut child = in_the_middle_of_a_run(&place, &library);
    let children =
        std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id())).unwrap_or_default();
    let Some(worker) = children.split_whitespace().next() else {
        child.kill().and_then(|()| child.wait()).unwrap();
        return skips::skipped("this kernel does not list a process's children");
    };
    assert!(std::process::Command::new("kill").args(["-KILL", worker]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    assert!(stderr.contains("the worker process died") && stderr.contains("hint:"), "{stderr}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let result = &document["results"][0];
    assert!(number(&result["latency"]["inference"]["runs"]) > 10.0);
    assert_eq!(result["stop_reason"], "failed");
    assert!(number(&result["memory"]["peak_bytes"]) > 1e6);
}
