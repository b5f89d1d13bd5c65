//! `bench`, `compare` and `gate` as processes. Nothing here asserts how fast anything is: sides that differ do so by far,
//! and what is asserted about equal sides holds whatever the machine does.

use serde_json::Value;

use crate::altered;
use crate::support::onnx::{Dim, Graph, initializer, node, tensor_type};
use crate::support::{Place, library, models, skips, small_model};

const BRIEF: [&str; 4] = ["--runs", "60", "--profile", "off"];

/// A shell command, for the shell of this system.
fn fails() -> &'static str {
    "exit 7"
}

/// Commands are for the shell of the system.
fn by_system(sh: &'static str, cmd: &'static str) -> &'static str {
    if std::env::consts::OS == "windows" { cmd } else { sh }
}

/// The small model with other numbers in it.
fn other_weights() -> Vec<u8> {
    const FLOAT: i32 = 1;
    let weights: Vec<u8> = [7f32; 6].iter().flat_map(|value| value.to_le_bytes()).collect();
    Graph::default()
        .node(&node("MatMul", &["x", "w"], &["y"]))
        .initializer(&initializer("w", FLOAT, &[3, 2], &weights))
        .input("x", &tensor_type(FLOAT, &[Dim::Named("batch"), Dim::Fixed(3)]))
        .output("y", &tensor_type(FLOAT, &[Dim::Named("batch"), Dim::Fixed(2)]))
        .model()
}

#[test]
fn the_same_model_twice_is_measured_in_turns() {
    let Some(library) = library() else { return };
    let place = Place::new();
    let model = small_model(&place);
    let arguments = [
        &["bench", &model, &model, "--json", "-q", "--metric", "memory", "--margin", "memory=50%"][..],
        &BRIEF,
    ]
    .concat();
    let document = place.with_library(&library, &arguments).expect_code(0).json();
    assert_eq!(document["schema"], "ortscope.bench/1");
    let rounds = document["rounds"].as_array().unwrap();
    let orders: Vec<&str> = rounds.iter().map(|round| round["order"].as_str().unwrap()).collect();
    assert_eq!(
        orders,
        ["AB", "BA", "AB", "BA", "AB", "BA"],
        "memory within 50 % is decided at the first look"
    );
    assert_eq!(document["verdict"], "pass");
    assert_eq!(document["verdicts"][0]["metric"], "memory");
    assert!(rounds.iter().all(|round| round["a"]["runs"].as_u64().unwrap()
        + round["a"]["warm_up_runs"].as_u64().unwrap()
        == 60));
    assert!(document["side_failure"].is_null());
}

#[test]
fn other_answers_are_a_regression_however_fast() {
    let Some(library) = library() else { return };
    let place = Place::new();
    place.file("a.onnx", models::matmul());
    place.file("b.onnx", other_weights());
    let arguments = [
        &["bench", "a.onnx", "b.onnx", "--check-outputs", "--metric", "memory", "--margin", "50%", "-q"][..],
        &BRIEF,
    ]
    .concat();
    let run = place.with_library(&library, &arguments).expect_code(10);
    assert!(run.stdout().contains("answers differently"), "{}", run.stdout());
}

#[test]
fn models_with_different_inputs_are_refused() {
    let Some(library) = library() else { return };
    let place = Place::new();
    place.file("a.onnx", models::matmul());
    place.file("b.onnx", models::add());
    place
        .with_library(&library, &["bench", "a.onnx", "b.onnx"])
        .expect_error(4, &["different inputs", "A has", "B has"]);
}

#[test]
fn what_cannot_be_compared_is_told_before_anything_runs() {
    let place = Place::new();
    let model = small_model(&place);
    for (arguments, code, words) in [
        (vec!["bench"], 2, vec!["nothing to compare"]),
        (vec!["bench", &model], 2, vec!["same thing twice"]),
        (vec!["bench", &model, &model, "--metric", "speed"], 2, vec!["'speed' is no metric", "p50"]),
        (vec!["bench", &model, &model, "--metric", "p99.9"], 2, vec!["never judged"]),
        (vec!["bench", &model, &model, "--margin", "0%"], 2, vec!["makes no sense"]),
        (vec!["bench", &model, &model, "--margin", "energy=5%"], 2, vec!["not judged"]),
        (vec!["bench", &model, &model, "--sweep", "threads=1,2"], 2, vec!["--sweep"]),
        (vec!["bench", &model, "missing.onnx"], 3, vec!["missing.onnx"]),
        (vec!["bench", "--ab", "true", "true", "--metric", "p50"], 2, vec!["by their time"]),
        (vec!["compare", "nothing", "last"], 2, vec!["nothing"]),
        (vec!["gate"], 2, vec!["[[gate.models]]"]),
    ] {
        place.ortscope(&arguments).expect_error(code, &words);
    }
    place.file("bad.toml", "[gate]\nmargins = { p50 = 200.0 }\n");
    place.ortscope(&["gate", "--config", "bad.toml"]).expect_error(2, &["gate.margins.p50"]);
    place.file("unknown.toml", "[gate]\nmetrics = [\"speed\"]\n[[gate.models]]\npath = \"small.onnx\"\n");
    place.ortscope(&["gate", "--config", "unknown.toml"]).expect_error(2, &["gate.metrics", "speed"]);
    place.file("none.toml", "[gate]\n[[gate.models]]\npath = \"small.onnx\"\n");
    place.ortscope(&["gate", "--config", "none.toml"]).expect_error(12, &["no baseline"]);
}

#[test]
fn a_command_that_fails_is_a_result() {
    let place = Place::new();
    let run = place
        .ortscope(&["bench", "--ab", "echo a", fails(), "--json"])
        .expect_error(3, &["B cannot run", "exit 7"]);
    let document = run.json();
    assert_eq!(document["side_failure"]["side"], "B");
    assert_eq!(document["side_failure"]["round"], 0);
}

#[test]
fn a_side_that_fails_half_way_keeps_what_was_measured() {
    let place = Place::new();
    // Fails from its fourth execution on: the trial and rounds 1 and 2 are fine.
    let command = by_system(
        "echo x >> count; test $(wc -l < count) -lt 4",
        "if exist c3 (exit 7) else if exist c2 (echo x>c3) else if exist c1 (echo x>c2) else (echo x>c1)",
    );
    let run = place
        .ortscope(&["bench", "--ab", "echo a", command, "--json"])
        .expect_error(3, &["B failed in round 3"]);
    let document = run.json();
    assert_eq!(document["rounds"].as_array().unwrap().len(), 2);
    assert_eq!(document["verdict"], "inconclusive");
}

/// The same for models: a provider that aborts the worker in its third round.
#[test]
fn a_model_that_crashes_half_way_is_a_result() {
    let Some(real) = library() else { return };
    let place = Place::new();
    let model = small_model(&place);
    let counter = place.directory.path().join("counter").display().to_string();
    // Its first process is the trial, so that round 3 is its fourth.
    let defect =
        [("ALTERED_DIES_AFTER", "30"), ("ALTERED_DIES_IN", "4"), ("ALTERED_COUNTER", counter.as_str())];
    let Some(dying) = altered::library(&place, &real, "dying", &defect) else { return };
    let side = format!("ort-library={}", dying.display());
    let arguments = [&["bench", &model, "--b", &side, "--metric", "memory", "--json"][..], &BRIEF].concat();
    let run = place.with_library(&real, &arguments).expect_error(
        3,
        &[
            "B failed in round 3",
            "the worker process died",
            "after",
            "its last words: altered: the defect strikes",
        ],
    );
    let document = run.json();
    assert_eq!(document["side_failure"]["side"], "B");
    assert_eq!(document["side_failure"]["round"], 3);
    assert_eq!(document["rounds"].as_array().unwrap().len(), 2, "what was measured before stands");
    assert_eq!(document["verdict"], "inconclusive");
    // In a gate it is a result too, and the files for CI are written.
    std::fs::remove_file(&counter).unwrap();
    let config = format!(
        "[ort]\nlibrary = {:?}\n[gate]\nmetrics = [\"memory\"]\nblock_seconds = 0.2\n[[gate.models]]\npath = \"small.onnx\"\n\
         baseline = \"small.onnx\"\n",
        dying.display().to_string()
    );
    place.file("ortscope.toml", config);
    let gate = place.ortscope(&["gate", "--junit", "gate.xml", "--summary", "gate.md"]);
    let gate = gate.expect_error(3, &["failed in round", "the defect strikes"]);
    assert!(gate.stdout().contains("failed    "), "{}", gate.stdout());
    let read = |name: &str| std::fs::read_to_string(place.directory.path().join(name)).unwrap();
    assert!(read("gate.xml").contains("<error message=") && read("gate.md").contains("**failed**"));
}

#[test]
fn too_noisy_a_machine_is_told() {
    if std::env::consts::FAMILY != "unix" {
        skips::skipped("the command is one for sh");
        return;
    }
    let place = Place::new();
    // Now much slower than A, now much faster: the bounds lie on both sides of every margin.
    let noisy = "echo x >> count; test $(( $(wc -l < count) % 2 )) -eq 0 && sleep 0.3; true";
    let arguments = ["bench", "--ab", "sleep 0.06", noisy, "--max-rounds", "6"];
    let run = place.ortscope(&arguments).expect_code(0);
    assert!(run.stdout().contains("verdict   inconclusive: time ["), "{}", run.stdout());
    assert!(run.stdout().contains("a quieter machine"), "{}", run.stdout());
    assert!(
        run.stderr().contains("warning:") && run.stderr().contains("--fail-on inconclusive"),
        "{}",
        run.stderr()
    );
    place.ortscope(&[&arguments[..], &["--fail-on", "inconclusive", "-q"]].concat()).expect_code(11);
}

#[test]
fn recordings_that_cannot_be_compared_say_why() {
    let Some(library) = library() else { return };
    let place = Place::new();
    let model = small_model(&place);
    let run = |name: &str, more: &[&str]| {
        let words = ["run", &model, "--save", name, "-q", "--runs", "60", "--profile", "off"];
        place.with_library(&library, &[&words[..], more].concat()).expect_code(0);
    };
    run("one", &[]);
    run("wide", &["--batch", "8"]);
    place
        .ortscope(&["compare", "one", "wide"])
        .expect_error(4, &["have different inputs", "one with x float32[1,3]", "wide with x float32[8,3]"]);
    // A recording of a program that ran no model.
    let program = env!("CARGO_BIN_EXE_ortscope");
    place.ortscope(&["record", "--save", "empty", "--", program, "--version"]).expect_code(0);
    place.ortscope(&["compare", "one", "empty"]).expect_error(12, &["'empty' has no measured inferences"]);
    place.ortscope(&["compare", "one", "never-made"]).expect_error(2, &["never-made"]);
    let few = "[gate]\n[[gate.models]]\npath = \"small.onnx\"\nbaseline_runs = [\"one\"]\n";
    place.file("ortscope.toml", few);
    place.with_library(&library, &["gate"]).expect_error(12, &["has 1 recordings, 5 are needed"]);
    place.file("ortscope.toml", few.replace("one", "gone"));
    place.with_library(&library, &["gate"]).expect_error(12, &["there is no baseline", "gone"]);
}

#[test]
fn commands_that_differ_by_far_are_judged() {
    let place = Place::new();
    // Windows has no command that sleeps for less than a second: one that starts a dozen others takes long.
    let quick = by_system("sleep 0.01", "ver");
    let long = by_system("sleep 0.3", "for /L %i in (1,1,12) do @cmd /c ver");
    let slower = place.ortscope(&["bench", "--ab", quick, long, "--json", "-q"]).expect_code(10);
    assert_eq!(slower.json()["verdicts"][0]["verdict"], "regression");
    let faster = place.ortscope(&["bench", "--ab", long, quick, "-q"]).expect_code(0);
    assert!(faster.stdout().contains("improvement"), "{}", faster.stdout());
}

#[test]
fn one_recording_a_side_is_shown_and_stays_inconclusive() {
    let Some(library) = library() else { return };
    let place = Place::new();
    let model = small_model(&place);
    for name in ["one", "two"] {
        let arguments =
            [&["run", &model, "--save", name, "-q"][..], &["--runs", "500", "--profile", "off"]].concat();
        place.with_library(&library, &arguments).expect_code(0);
    }
    let document = place.ortscope(&["compare", "one", "two", "--json"]).expect_code(0).json();
    assert_eq!(document["schema"], "ortscope.compare/1");
    assert_eq!(document["verdict"], "inconclusive");
    assert!(document["a"][0]["figures"]["p50"].as_f64().unwrap() > 0.0);
    assert!(document["a"][0]["intervals_ms"]["p50"][0].as_f64().unwrap() > 0.0);
    assert!(document["verdicts"][0]["reason"].as_str().unwrap().contains("at least 5"));
    place.ortscope(&["compare", "one", "two", "--fail-on", "inconclusive"]).expect_code(11);
    // Said five times it is still one process run.
    let five = "one,one,one,one,one";
    let same = place.ortscope(&["compare", five, five, "--json"]).expect_code(0).json();
    assert_eq!(same["verdict"], "inconclusive");
    assert_eq!(same["a"].as_array().unwrap().len(), 1);
    assert!(same["notes"][0].as_str().unwrap().contains("counts once"));
}

#[test]
fn five_recordings_a_side_are_judged() {
    let Some(library) = library() else { return };
    let place = Place::new();
    let model = small_model(&place);
    let names: Vec<String> = (0..10).map(|number| format!("run-{number}")).collect();
    for name in &names {
        let arguments = ["run", &model, "--save", name, "-q", "--runs", "100", "--profile", "off"];
        place.with_library(&library, &arguments).expect_code(0);
    }
    let (a, b) = (names[..5].join(","), names[5..].join(","));
    let arguments = ["compare", &a, &b, "--metric", "memory", "--margin", "50%", "--json"];
    let document = place.ortscope(&arguments).expect_code(0).json();
    assert_eq!(document["verdict"], "pass", "the memory of ten runs of one model lies within 50 %");
    assert!(
        document["verdicts"][0]["low"].as_f64().unwrap() <= document["verdicts"][0]["high"].as_f64().unwrap()
    );
}

#[test]
fn recordings_of_another_machine_are_not_comparable() {
    let Some(library) = library() else { return };
    let place = Place::new();
    let model = small_model(&place);
    let arguments = ["run", &model, "--save", "here", "-q", "--runs", "200", "--profile", "off"];
    place.with_library(&library, &arguments).expect_code(0);
    place
        .with_library(
            &library,
            &["run", &model, "--save", "there", "-q", "--runs", "200", "--profile", "off"],
        )
        .expect_code(0);
    let shown = place.ortscope(&["runs", "show", "there", "--json"]).expect_code(0).json();
    let id = shown["manifest"]["id"].as_str().unwrap();
    let path = place.directory.path().join("runs").join(id).join("manifest.json");
    let mut manifest: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    manifest["fingerprint"]["cpu_model"] = "another processor".into();
    std::fs::write(&path, manifest.to_string()).unwrap();
    place
        .ortscope(&["compare", "here", "there"])
        .expect_error(12, &["not comparable", "cpu model", "another processor"]);
    let forced = place.ortscope(&["compare", "here", "there", "--force", "--json"]).expect_code(0).json();
    assert_eq!(forced["forced"], true);
    let text = place.ortscope(&["compare", "here", "there", "--force"]).expect_code(0).stdout();
    assert!(text.contains("forced    not comparable: cpu model"), "{text}");
    // The same machine with another driver, another ONNX Runtime, or another version of the same provider.
    let here = place.ortscope(&["runs", "show", "here", "--json"]).expect_code(0).json();
    let own = here["manifest"]["fingerprint"].clone();
    for (fact, a, b, words) in [
        (
            "driver_nvidia",
            Some("550.54.14"),
            Some("560.28.03"),
            "driver nvidia (550.54.14 against 560.28.03)",
        ),
        ("driver_nvidia", None, Some("560.28.03"), "driver nvidia (unknown against 560.28.03)"),
        ("provider_QNN", Some("2.31"), Some("2.32"), "provider QNN (2.31 against 2.32)"),
        ("ort_version", Some("1.20.0"), Some("1.31.1"), "ort version (1.20.0 against 1.31.1)"),
    ] {
        for (run, value) in [("here", a), ("there", b)] {
            let id = place.ortscope(&["runs", "show", run, "--json"]).expect_code(0).json();
            let id = id["manifest"]["id"].as_str().unwrap().to_owned();
            let path = place.directory.path().join("runs").join(id).join("manifest.json");
            let mut manifest: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            manifest["fingerprint"] = own.clone();
            if let Some(value) = value {
                manifest["fingerprint"][fact] = value.into();
            }
            std::fs::write(&path, manifest.to_string()).unwrap();
        }
        place.ortscope(&["compare", "here", "there"]).expect_error(12, &["not comparable", words]);
    }
}

#[test]
fn a_gate_writes_everything_and_knows_its_machine() {
    let Some(library) = library() else { return };
    let place = Place::new();
    small_model(&place);
    let config = "[gate]\nmetrics = [\"memory\"]\nmargins = { memory = 50.0 }\nblock_seconds = 0.2\n\
                  check_outputs = true\n[[gate.models]]\npath = \"small.onnx\"\nbaseline = \"small.onnx\"\n\
                  require_provider = [\"cpu\"]\n";
    place.file("ortscope.toml", config);
    let mut command = place.command(&["gate", "--junit", "gate.xml", "--summary", "gate.md", "--json", "-q"]);
    command
        .env("ORTSCOPE_ORT_LIBRARY", &library)
        .env("GITHUB_ACTIONS", "true")
        .env("GITHUB_STEP_SUMMARY", place.directory.path().join("step.md"));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["schema"], "ortscope.gate/1");
    assert_eq!(document["models"][0]["verdict"], "pass");
    let read = |name: &str| std::fs::read_to_string(place.directory.path().join(name)).unwrap();
    assert!(read("gate.xml").contains("<testcase classname=\"small.onnx\" name=\"memory\""));
    assert!(read("gate.md").contains("| memory |") && read("step.md").contains("| memory |"));
    let against_itself = place.with_library(&library, &["gate", "--aa", "-q"]).expect_code(0).stdout();
    assert!(against_itself.contains("is found 95 times of 100"), "{against_itself}");
}

#[test]
fn a_gate_takes_its_baseline_from_git() {
    let Some(library) = library() else { return };
    let place = Place::new();
    small_model(&place);
    place.file("ortscope.toml", "[gate]\nmetrics = [\"memory\"]\nmargins = { memory = 50.0 }\nblock_seconds = 0.2\n[[gate.models]]\npath = \"small.onnx\"\n");
    let git = |arguments: &[&str]| {
        let mut command = std::process::Command::new("git");
        command.args(["-c", "user.name=t", "-c", "user.email=t@example.org"]).args(arguments);
        command.current_dir(place.directory.path()).output().is_ok_and(|output| output.status.success())
    };
    if !(git(&["init", "-q"]) && git(&["add", "small.onnx"]) && git(&["commit", "-qm", "a"])) {
        skips::skipped("git is not there");
        return;
    }
    let document = place
        .with_library(&library, &["gate", "--baseline-ref", "HEAD", "--json", "-q"])
        .expect_code(0)
        .json();
    assert!(document["models"][0]["baseline"].as_str().unwrap().starts_with("commit "));
    place
        .with_library(&library, &["gate", "--baseline-ref", "no-such-branch"])
        .expect_error(12, &["no-such-branch"]);
    assert!(git(&["rm", "-q", "--cached", "small.onnx"]) && git(&["commit", "-qm", "b"]));
    place
        .with_library(&library, &["gate", "--baseline-ref", "HEAD"])
        .expect_error(12, &["has no 'small.onnx'"]);
}
