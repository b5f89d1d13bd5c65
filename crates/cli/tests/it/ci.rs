//! The GitHub Action, the Azure template and the samples: parsed, and their commands run as those systems run them, with
//! a `python` that only notes what it was asked to install.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::support::onnx::{Dim, Graph, node, tensor_type};
use crate::support::{Place, library, models, skips};

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A YAML file as a JSON value, by a parser that is none of ours; `None` after saying why the test is skipped.
fn yaml(path: &str) -> Option<Value> {
    let python = skips::python_with(&["yaml"])?;
    let script =
        "import json, sys, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1], encoding='utf-8'))))";
    let output =
        Command::new(python).args(["-c", script]).arg(workspace().join(path)).output().expect("it runs");
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{path} is no YAML: {words}");
    Some(serde_json::from_slice(&output.stdout).expect("it is JSON"))
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().map(|object| object.keys().map(String::as_str).collect()).unwrap_or_default()
}

/// A model with the size that the sample sets.
fn encoder() -> Vec<u8> {
    const FLOAT: i32 = 1;
    let type_of = || tensor_type(FLOAT, &[Dim::Named("seq"), Dim::Fixed(3)]);
    Graph::default()
        .node(&node("Relu", &["x"], &["y"]))
        .input("x", &type_of())
        .output("y", &type_of())
        .model()
}

/// A repository with the models and the configuration of the sample, whose baseline is its last commit.
fn repository() -> Option<Place> {
    let place = Place::new();
    std::fs::create_dir(place.directory.path().join("models")).expect("it can be written");
    place.file("models/detector.onnx", models::matmul());
    place.file("models/encoder.onnx", encoder());
    let sample =
        std::fs::read_to_string(workspace().join("examples/ci/ortscope.toml")).expect("it can be read");
    // As it stands but for what makes it quick, and deaf to the noise of the machine that runs the tests.
    let quick: Vec<&str> = sample
        .lines()
        .map(|line| match line {
            line if line.starts_with("margins") => {
                "margins = { p50 = 99.0, p90 = 99.0, memory = 99.0 }\nblock_seconds = 0.1\nmax_rounds = 6"
            }
            line => line,
        })
        .collect();
    assert!(quick.iter().any(|line| line.starts_with("margins")), "{sample}");
    place.file("ortscope.toml", quick.join("\n"));
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=t", "-c", "user.email=t@example.org"]).args(arguments);
        command.current_dir(place.directory.path()).output().is_ok_and(|output| output.status.success())
    };
    let made = git(&["init", "-q"])
        && git(&["add", "models", "ortscope.toml"])
        && git(&["commit", "-qm", "a"])
        && git(&["update-ref", "refs/remotes/origin/main", "HEAD"]);
    if !made {
        skips::skipped("git is not there");
        return None;
    }
    // What the steps find on their path.
    let bin = place.directory.path().join("bin");
    std::fs::create_dir(&bin).expect("it can be written");
    place.file("bin/ortscope", format!("#!/bin/sh\nexec '{}' \"$@\"\n", env!("CARGO_BIN_EXE_ortscope")));
    place.file("bin/python", "#!/bin/sh\necho \"$@\" >> \"$PIP_LOG\"\n");
    for name in ["ortscope", "python"] {
        let made = Command::new("chmod").arg("755").arg(bin.join(name)).status();
        assert!(made.is_ok_and(|status| status.success()), "chmod");
    }
    Some(place)
}

/// Runs the script of a step by bash, as both systems do, with its `env` after `expressions` are filled in.
fn step(place: &Place, script: &str, env: &Value, expressions: &BTreeMap<String, String>) -> Output {
    let filled = |text: &str| {
        let mut text = text.to_owned();
        for (expression, value) in expressions {
            text = text.replace(expression, value);
        }
        assert!(!text.contains("${{"), "an expression was not filled in: {text}");
        text
    };
    let root = place.directory.path();
    let path = format!("{}:{}", root.join("bin").display(), std::env::var("PATH").expect("there is a PATH"));
    let mut command = Command::new("bash");
    // As GitHub calls it; a step that goes on after an error would be found here.
    command.args(["--noprofile", "--norc", "-e", "-o", "pipefail", "-c", &filled(script)]);
    command
        .current_dir(root)
        .env("PATH", path)
        .env("PIP_LOG", root.join("pip.log"))
        .env("ORTSCOPE_STORE", root.join("runs"))
        .env("XDG_CONFIG_HOME", root.join("user-config"))
        .env("ORTSCOPE_ORT_LIBRARY", library().expect("asked before"));
    for (name, value) in env.as_object().into_iter().flatten() {
        command.env(name, filled(value.as_str().expect("text")));
    }
    for name in ["RUNNER_TEMP", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"] {
        command.env(name, root.join(name.to_lowercase()));
    }
    command.output().expect("bash starts")
}

#[test]
fn the_github_action_does_what_it_says() {
    if library().is_none() || std::env::consts::FAMILY != "unix" {
        return;
    }
    let (Some(action), Some(workflow)) = (yaml("action.yml"), yaml("examples/ci/github.yml")) else { return };
    let Some(place) = repository() else { return };
    assert_eq!(action["runs"]["using"], "composite");
    let mut expressions = BTreeMap::new();
    for (name, input) in action["inputs"].as_object().unwrap() {
        assert!(input["description"].is_string(), "{name}");
        let value = input["default"].as_str().expect("every input has a default");
        expressions.insert(format!("${{{{ inputs.{name} }}}}"), value.to_owned());
    }
    let steps = action["runs"]["steps"].as_array().unwrap();
    for one in steps {
        assert_eq!(one["shell"], "bash", "a composite step names its shell");
        let script = one["run"].as_str().unwrap();
        assert!(!script.contains("${{"), "inputs reach a script through its environment only: {script}");
        let output = step(&place, script, &one["env"], &expressions);
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{}: {words}", one["name"]);
    }
    let read = |name: &str| std::fs::read_to_string(place.directory.path().join(name)).unwrap();
    assert_eq!(read("pip.log").trim(), "-m pip install --quiet ortscope onnxruntime");
    // Every output that the action declares was set, and its file is there.
    let outputs = read("github_output");
    for (name, output) in action["outputs"].as_object().unwrap() {
        assert_eq!(output["value"], format!("${{{{ steps.gate.outputs.{name} }}}}"));
        let file = outputs.lines().find_map(|line| line.strip_prefix(&format!("{name}="))).expect(name);
        assert!(Path::new(file).is_file(), "{file}");
    }
    let document: Value = serde_json::from_str(&read("runner_temp/ortscope/gate.json")).unwrap();
    assert_eq!(document["models"].as_array().unwrap().len(), 2);
    assert!(document["models"][0]["baseline"].as_str().unwrap().starts_with("commit "));

    // The sample gives it inputs that it has, and uses outputs that it has.
    let sample = workflow["jobs"]["gate"]["steps"].as_array().unwrap();
    let uses = sample.iter().find(|one| one["uses"].as_str().unwrap().starts_with("ortscope/")).unwrap();
    for name in keys(&uses["with"]) {
        assert!(keys(&action["inputs"]).contains(&name), "the action has no input {name}");
    }
    let text = sample.iter().map(ToString::to_string).collect::<String>();
    for part in text.split("steps.ortscope.outputs.").skip(1) {
        let name: String = part.chars().take_while(char::is_ascii_alphanumeric).collect();
        assert!(keys(&action["outputs"]).contains(&name.as_str()), "the action has no output {name}");
    }
    assert_eq!(uses["id"], "ortscope");
}

#[test]
fn a_failed_gate_fails_the_step_and_keeps_its_files() {
    if library().is_none() || std::env::consts::FAMILY != "unix" {
        return;
    }
    let Some(action) = yaml("action.yml") else { return };
    let Some(place) = repository() else { return };
    // The detector has lost its file: exit code 3, and the other model is judged all the same.
    std::fs::remove_file(place.directory.path().join("models/detector.onnx")).unwrap();
    let expressions = action["inputs"].as_object().unwrap().iter().map(|(name, input)| {
        (format!("${{{{ inputs.{name} }}}}"), input["default"].as_str().unwrap().to_owned())
    });
    let gate = action["runs"]["steps"].as_array().unwrap().iter().find(|one| one["id"] == "gate").unwrap();
    let output = step(&place, gate["run"].as_str().unwrap(), &gate["env"], &expressions.collect());
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
    let text =
        std::fs::read_to_string(place.directory.path().join("runner_temp/ortscope/gate.json")).unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    assert!(document["models"][0]["failure"]["message"].as_str().unwrap().contains("detector.onnx"));
    assert!(document["models"][1]["failure"].is_null() && document["models"][1]["summary"].is_string());
    assert!(place.directory.path().join("runner_temp/ortscope/gate.xml").is_file());
}

#[test]
fn the_azure_template_does_what_it_says() {
    if library().is_none() || std::env::consts::FAMILY != "unix" {
        return;
    }
    let (Some(template), Some(pipeline)) =
        (yaml("examples/ci/azure-template.yml"), yaml("examples/ci/azure-pipelines.yml"))
    else {
        return;
    };
    let Some(place) = repository() else { return };
    let temporary = place.directory.path().join("agent");
    std::fs::create_dir(&temporary).unwrap();
    let mut expressions =
        BTreeMap::from([("$(Agent.TempDirectory)".to_owned(), temporary.display().to_string())]);
    let parameters = template["parameters"].as_array().unwrap();
    for parameter in parameters {
        let name = parameter["name"].as_str().unwrap();
        let value = parameter["default"].as_str().unwrap();
        expressions.insert(format!("${{{{ parameters.{name} }}}}"), value.to_owned());
    }
    let mut printed = String::new();
    for one in template["steps"].as_array().unwrap() {
        let Some(script) = one["bash"].as_str() else { continue };
        let mut env = one["env"].clone();
        env["TF_BUILD"] = "True".into();
        let output = step(&place, script, &env, &expressions);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        printed += &String::from_utf8_lossy(&output.stdout);
    }
    assert!(printed.contains("##vso[task.uploadsummary]"), "{printed}");
    let publish = template["steps"].as_array().unwrap().iter().find(|one| one["task"].is_string()).unwrap();
    assert!(publish["task"].as_str().unwrap().starts_with("PublishTestResults@"));
    let junit = publish["inputs"]["testResultsFiles"].as_str().unwrap();
    let junit = junit.replace("$(Agent.TempDirectory)", &temporary.display().to_string());
    assert!(std::fs::read_to_string(&junit).unwrap().contains("models/encoder.onnx"));
    // The sample uses this file, with parameters that it has.
    let uses = pipeline["steps"].as_array().unwrap().iter().find(|one| one["template"].is_string()).unwrap();
    assert!(workspace().join("examples/ci").join(uses["template"].as_str().unwrap()).is_file());
    for name in keys(&uses["parameters"]) {
        assert!(parameters.iter().any(|one| one["name"] == name), "the template has no parameter {name}");
    }
}
