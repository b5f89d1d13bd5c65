//! Devices that this machine may not have: a tree of files stands in for them, and its counters count.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::support::{Place, library, skips, small_model};

const COUNTER: &str = "sys/class/powercap/intel-rapl:0/energy_uj";

/// A processor that draws 40 watts until it is dropped.
pub struct Meter {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

fn put(root: &Path, file: &str, text: &str) {
    let path = root.join(file);
    std::fs::create_dir_all(path.parent().expect("a directory")).expect("a directory can be made");
    // Whole or not at all: it is read at any moment.
    let made = path.with_extension("new");
    std::fs::write(&made, text).expect("a file can be written");
    // Windows replaces no file while it is read, which it is for a moment only.
    let begin = Instant::now();
    while let Err(error) = std::fs::rename(&made, &path) {
        let may_pass = std::env::consts::OS == "windows" && begin.elapsed() < Duration::from_secs(10);
        assert!(may_pass, "a file can be renamed: {error}");
        thread::sleep(Duration::from_micros(200));
    }
}

impl Meter {
    pub fn start(root: &Path) -> Self {
        put(root, "sys/class/powercap/intel-rapl:0/name", "package-0\n");
        put(root, "sys/class/powercap/intel-rapl:0/max_energy_range_uj", "262143328850\n");
        put(root, COUNTER, "1000\n");
        let (stop, root, begin) = (Arc::new(AtomicBool::new(false)), root.to_owned(), Instant::now());
        let seen = Arc::clone(&stop);
        let count = move || {
            while !seen.load(Ordering::Relaxed) {
                put(&root, COUNTER, &format!("{}\n", 1000 + begin.elapsed().as_micros() * 40));
                thread::sleep(Duration::from_millis(2));
            }
        };
        let thread = thread::Builder::new().name("meter".to_owned()).spawn(count).expect("a thread");
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

#[test]
fn a_run_tells_what_it_drew_and_an_inference_cost() {
    let Some(library) = library() else { return };
    let (place, tree) = (Place::new(), tempfile::tempdir().expect("a directory"));
    let _meter = Meter::start(tree.path());
    let model = small_model(&place);
    let run = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        command.env("ORTSCOPE_ORT_LIBRARY", &library).env("ORTSCOPE_TEST_DEVICES", tree.path());
        command.output().expect("ortscope starts")
    };
    // Long enough for ten readings a second on a machine with other work, and with a warm-up that ends at once.
    let output = run(&["run", &model, "--warm-up", "100", "--duration", "6s", "--json", "-q"]);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    let result = &document["results"][0];
    let energy = &result["energy"];
    assert_eq!((&energy["method"], &energy["source"]), (&"measured".into(), &"rapl".into()), "{result}");
    assert_eq!(energy["scope"], serde_json::json!(["package-0"]));
    let number = |name: &str| energy[name].as_f64().expect("a number");
    // The counter is exact; only the moments at both ends are not.
    assert!((number("power_w") - 40.0).abs() < 8.0, "{energy}");
    assert!((number("power_w") * number("window_seconds") - number("joules")).abs() < 1e-6, "{energy}");
    assert!(number("joules_per_inference") > 0.0, "{energy}");
    assert!(result["unavailable"]["energy.power_w"].is_null());
    // Three readings are no figure.
    let output = run(&["run", &model, "--runs", "30", "--json", "-q"]);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    let why = document["results"][0]["unavailable"]["energy.power_w"].as_str().unwrap_or_default().to_owned();
    assert!(document["results"][0]["energy"].is_null() && why.contains("too few"), "{why}");
}

#[test]
fn without_counters_the_reason_and_the_remedy_stand_in_the_result() {
    let Some(library) = library() else { return };
    let (place, tree) = (Place::new(), tempfile::tempdir().expect("a directory"));
    let model = small_model(&place);
    let mut command = place.command(&["run", &model, "--runs", "30", "--json", "-q"]);
    command.env("ORTSCOPE_ORT_LIBRARY", &library).env("ORTSCOPE_TEST_DEVICES", tree.path());
    let output = command.output().expect("ortscope starts");
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    let result = &document["results"][0];
    let why = result["unavailable"]["energy.power_w"].as_str().unwrap_or_default();
    assert!(
        why.starts_with("this machine exposes no processor energy counters") && why.contains("modprobe"),
        "{why}"
    );
    assert_eq!(result["notes"], serde_json::json!([]), "what a machine does not have is no trouble");
}

#[test]
fn doctor_names_every_device_or_the_reason_and_the_remedy() {
    let (place, tree) = (Place::new(), tempfile::tempdir().expect("a directory"));
    let doctor = |place: &Place| {
        let mut command = place.command(&["doctor"]);
        let output = command.env("ORTSCOPE_TEST_DEVICES", tree.path()).output().expect("ortscope starts");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let text = doctor(&place);
    let names =
        ["energy", "battery", "temperature", "throttling", "cpu_frequency", "memory_bandwidth", "gpu", "npu"];
    for name in names {
        let line = text.lines().position(|line| line.starts_with("warning") && line.contains(name));
        let line = line.unwrap_or_else(|| panic!("{name} in\n{text}"));
        assert!(text.lines().nth(line + 1).is_some_and(|next| next.contains("hint:")), "{name} in\n{text}");
    }
    let _meter = Meter::start(tree.path());
    assert!(doctor(&place).contains("package-0 (RAPL)"));
}

/// Everything that is asked for beside the watts, and a clock that is held down in the middle.
#[test]
fn joules_above_idle_carbon_and_heat_stand_beside_the_latency() {
    let Some(library) = library() else { return };
    let (place, tree) = (Place::new(), tempfile::tempdir().expect("a directory"));
    let _meter = Meter::start(tree.path());
    let throttle = "sys/devices/system/cpu/cpu0/thermal_throttle";
    put(tree.path(), &format!("{throttle}/core_throttle_count"), "3\n");
    put(tree.path(), &format!("{throttle}/package_throttle_count"), "5\n");
    put(tree.path(), "sys/devices/system/cpu/cpu0/topology/physical_package_id", "0\n");
    let model = small_model(&place);
    let measured = ["run", &model, "--warm-up", "100", "--duration", "6s", "--idle", "2s"];
    let mut command = place.command(&[&measured[..], &["--country", "SWE", "--json", "-q"]].concat());
    command.env("ORTSCOPE_ORT_LIBRARY", &library).env("ORTSCOPE_TEST_DEVICES", tree.path());
    let (root, stop) = (tree.path().to_owned(), Arc::new(AtomicBool::new(false)));
    let seen = Arc::clone(&stop);
    let heat = thread::Builder::new().name("heat".to_owned()).spawn(move || {
        let (begin, mut count) = (Instant::now(), 5);
        while !seen.load(Ordering::Relaxed) && begin.elapsed() < Duration::from_secs(60) {
            thread::sleep(Duration::from_millis(300));
            count += 1;
            put(&root, &format!("{throttle}/package_throttle_count"), &format!("{count}\n"));
        }
    });
    let output = command.output().expect("ortscope starts");
    stop.store(true, Ordering::Relaxed);
    heat.expect("a thread").join().ok();
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    let result = &document["results"][0];
    let energy = &result["energy"];
    assert!(energy["idle"]["before_w"].is_number() && energy["idle"]["after_w"].is_number(), "{energy}");
    assert_eq!(energy["carbon"]["intensity"]["country"], "Sweden", "{energy}");
    assert!(energy["carbon"]["intensity"]["year"].is_number(), "{energy}");
    assert_eq!(energy["process"]["method"], "attributed", "{energy}");
    let throttled = result["heat"]["throttled"].as_array().expect("a list");
    assert!(throttled.iter().any(|device| device["device"] == "package-0"), "{}", result["heat"]);
    let findings = result["findings"].as_array().expect("a list");
    assert!(findings.iter().any(|finding| finding["id"] == "throttled"), "{findings:?}");
}

#[test]
fn an_estimate_is_asked_for_and_never_looks_like_a_measurement() {
    let Some(library) = library() else { return };
    let (place, tree) = (Place::new(), tempfile::tempdir().expect("a directory"));
    let model = small_model(&place);
    let run = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        command.env("ORTSCOPE_ORT_LIBRARY", &library).env("ORTSCOPE_TEST_DEVICES", tree.path());
        command.output().expect("ortscope starts")
    };
    let output = run(&["run", &model, "--duration", "2s", "--estimate-energy", "65", "--json", "-q"]);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    let result = &document["results"][0];
    assert!(result["energy"].is_null(), "{result}");
    let estimate = &result["energy_estimate"];
    assert_eq!(
        (&estimate["method"], &estimate["error_percent"]),
        (&"estimated".into(), &37.0.into()),
        "{result}"
    );
    let text = String::from_utf8_lossy(
        &run(&["run", &model, "--duration", "2s", "--estimate-energy", "65", "--profile", "off"]).stdout,
    )
    .into_owned();
    let line = text.lines().find(|line| line.contains("estimated")).unwrap_or_else(|| panic!("{text}"));
    assert!(line.contains('~') && line.contains("±37 %"), "{line}");
    for (flags, why) in [
        (["--estimate-energy", "-3"], "watts"),
        (["--country", "Atlantis"], "Atlantis"),
        (["--carbon-intensity", "nan"], "grams"),
        (["--idle", "5ms"], "--idle"),
    ] {
        let output = run(&["run", &model, &format!("{}={}", flags[0], flags[1])]);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && text.contains(why), "{flags:?}: {text}");
    }
}

#[test]
fn the_inventory_has_a_value_or_a_reason_and_a_remedy() {
    let place = Place::new();
    let output = place.command(&["doctor", "--json"]).output().expect("ortscope starts");
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    let items = document["inventory"].as_array().expect("a list");
    for name in [
        "device type",
        "processor",
        "memory",
        "system",
        "accelerators",
        "drivers",
        "onnxruntime",
        "providers",
        "clocks",
        "timer",
        "noise floor",
    ] {
        assert!(items.iter().any(|item| item["name"] == name), "{name} in {items:?}");
    }
    for item in items {
        let filled = |key: &str| item[key].as_str().is_some_and(|text| !text.is_empty() && text != "0");
        assert!(filled("value") || (filled("unavailable") && filled("remedy")), "{item}");
    }
}

/// A stand-in for NVIDIA's library; `None` where nothing can build it.
fn fake_nvml(directory: &Path, mode: &str) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sources/tests/devices/fake_nvml.c");
    let library = directory.join("libnvidia-ml.so.1");
    let mut compiler = Command::new("cc");
    // Three seconds: the model is being measured by then.
    compiler
        .args(["-shared", "-fPIC", "-O1", "-DFAKE_FULL", "-DFAKE_ROUNDS=30", "-o"])
        .arg(&library)
        .arg(source);
    match compiler.arg(format!("-DFAKE_MODE=\"{mode}\"")).status() {
        Ok(status) if status.success() => Some(library),
        _ => {
            skips::skipped("no C compiler to build a stand-in for NVIDIA's library");
            None
        }
    }
}

/// A card that is lost, and a call that hangs, in the middle of a run: it ends as always, and its report says when.
#[test]
fn a_gpu_that_is_lost_or_hangs_does_not_end_a_run() {
    let Some(ort) = library() else { return };
    for (mode, why) in [("lost", "gpu0 no longer answers"), ("hang", "NVIDIA's library has not answered")] {
        let (place, tree) = (Place::new(), tempfile::tempdir().expect("a directory"));
        let Some(nvml) = fake_nvml(tree.path(), mode) else { return };
        let model = small_model(&place);
        let run = |json: &[&str]| {
            // With a warm-up that ends at once: how long one is that is detected depends on the machine, and a card that is
            // lost before the first measured run is none of the measurement's.
            let flags =
                ["run", &model, "--warm-up", "100", "--duration", "7s", "--profile", "off", "--no-save"];
            let mut command = place.command(&[&flags[..], json].concat());
            command.env("ORTSCOPE_ORT_LIBRARY", &ort).env("ORTSCOPE_TEST_DEVICES", tree.path());
            command.env("ORTSCOPE_TEST_NVML", &nvml).output().expect("ortscope starts")
        };
        let output = run(&["--json", "-q"]);
        assert_eq!(output.status.code(), Some(0), "{mode}: {}", String::from_utf8_lossy(&output.stderr));
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
        let result = &document["results"][0];
        let notes = result["notes"].as_array().expect("a list");
        let note = notes.iter().filter_map(|note| note.as_str()).find(|note| note.starts_with(why));
        let note = note.unwrap_or_else(|| panic!("{mode}: {notes:?}"));
        assert!(note.contains("the first measured run)"), "{mode}: {note}");
        // What it told before is kept.
        let gpu = &result["devices"][0];
        let rounded = |key: &str| gpu[key].as_f64().expect("a number").round();
        assert_eq!(gpu["device"], "gpu0", "{gpu}");
        assert_eq!((rounded("gpu_util"), rounded("mem_util")), (73.0, 41.0), "{gpu}");
        assert_eq!((rounded("mem_used_mb"), rounded("mem_total_mb")), (2147.0, 8590.0), "{gpu}");
        let text = String::from_utf8_lossy(&run(&["--country", "DEU"]).stdout).into_owned();
        assert!(text.contains(why) && text.contains("gpu0 73 % busy"), "{mode}: {text}");
    }
}

/// Waits until the recording that is being written has an annotation of a kind.
fn wait_for_mark(place: &Place, kind: &str) {
    let begin = Instant::now();
    loop {
        let report = place.ortscope(&["report", "last", "--json"]).expect_code(0).json();
        let mut marks = report["annotations"].as_array().into_iter().flatten();
        if marks.any(|mark| mark["kind"] == kind) {
            return;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "{kind} in {}", report["annotations"]);
        thread::sleep(Duration::from_millis(200));
    }
}

/// A thermometer that vanishes in the middle of a run and comes back: the run ends as always, its report says both with their
/// moments, and so does the recording.
#[test]
fn a_sensor_that_vanishes_and_comes_back_is_told_with_both_moments() {
    let Some(ort) = library() else { return };
    let (place, tree) = (Place::new(), tempfile::tempdir().expect("a directory"));
    let chip = "sys/class/hwmon/hwmon0";
    put(tree.path(), &format!("{chip}/name"), "k10temp\n");
    put(tree.path(), &format!("{chip}/temp1_input"), "51000\n");
    let _meter = Meter::start(tree.path());
    let model = small_model(&place);
    // Not as fast as it can: on a machine without a free processor for seconds, hundreds of thousands of inferences a second found no
    // room, which is told by another exit code and is none of the sensor's.
    let pace = ["--scenario", "server:500"];
    // Long enough for what follows on a busy machine; where a signal can end it, it takes as long as it has to.
    let duration = if cfg!(unix) { "180s" } else { "30s" };
    let flags = ["run", &model, "--duration", duration, "--profile", "off", "--save", "s", "--json", "-q"];
    let mut command = place.command(&[&flags[..], &pace].concat());
    command.env("ORTSCOPE_ORT_LIBRARY", &ort).env("ORTSCOPE_TEST_DEVICES", tree.path());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("ortscope starts");
    place.wait_for_rows("device_samples", 1);
    place.wait_for_rows("inferences", 1);
    std::fs::remove_file(tree.path().join(chip).join("temp1_input")).expect("it is there");
    wait_for_mark(&place, "device");
    put(tree.path(), &format!("{chip}/temp1_input"), "52000\n");
    wait_for_mark(&place, "device_back");
    if cfg!(unix) {
        let interrupt = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        assert!(interrupt.expect("kill starts").success());
    }
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    let notes = document["results"][0]["notes"].as_array().expect("a list").clone();
    let has = |words: &str| notes.iter().filter_map(|note| note.as_str()).any(|note| note.contains(words));
    assert!(has("k10temp/temp1 can no longer be read") && has("available again after"), "{notes:?}");
    let report = place.ortscope(&["report", "s", "--json"]).expect_code(0).json();
    let marks = report["annotations"].as_array().cloned().unwrap_or_default();
    let at = |kind: &str| marks.iter().find(|mark| mark["kind"] == kind)?["offset_seconds"].as_f64();
    assert!(at("device").zip(at("device_back")).is_some_and(|(lost, back)| lost < back), "{marks:?}");
    // The counter of energy told its watts all the time.
    assert_eq!(document["results"][0]["energy"]["method"], "measured", "{}", document["results"][0]);
}

/// Joules of a card, and what held its clock down, stand beside the latency.
#[test]
fn a_gpu_has_its_watts_and_its_power_cap() {
    let Some(ort) = library() else { return };
    let (place, tree) = (Place::new(), tempfile::tempdir().expect("a directory"));
    let Some(nvml) = fake_nvml(tree.path(), "gpm") else { return };
    let model = small_model(&place);
    let mut command = place.command(&["run", &model, "--duration", "3s", "--json", "-q", "--no-save"]);
    command.env("ORTSCOPE_ORT_LIBRARY", &ort).env("ORTSCOPE_TEST_DEVICES", tree.path());
    let output = command.env("ORTSCOPE_TEST_NVML", &nvml).output().expect("ortscope starts");
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    let result = &document["results"][0];
    let energy = &result["energy"];
    assert_eq!((&energy["scope"][0], &energy["source"]), (&"gpu0".into(), &"nvml".into()), "{energy}");
    let throttled = &result["heat"]["throttled"][0];
    assert_eq!(throttled["device"], "gpu0", "{}", result["heat"]);
    let reasons = throttled["reasons"].as_array().expect("a list");
    assert!(reasons.iter().any(|reason| reason == "power cap"), "{throttled}");
    let is_time =
        |reason: &serde_json::Value| reason.as_str().is_some_and(|text| text.starts_with("power limit for"));
    assert!(reasons.iter().any(is_time), "{throttled}");
    // The model ran on the processor: what held the card down says nothing about its latency.
    let findings = result["findings"].as_array().expect("a list");
    assert!(findings.iter().all(|finding| finding["id"] != "throttled"), "{findings:?}");
}

/// `record`, `attach`, `top` and `serve` start the same sources as `run`: all of them show the energy meter.
#[test]
fn every_entry_point_reads_the_devices() {
    let (place, tree) = (Place::new(), tempfile::tempdir().expect("a directory"));
    let _meter = Meter::start(tree.path());
    let ortscope = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        command.env("ORTSCOPE_TEST_DEVICES", tree.path()).env("ORTSCOPE_TEST_NVML", "");
        command
    };
    let run = |arguments: &[&str]| {
        let output = ortscope(arguments).output().expect("ortscope starts");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };

    run(&["record", "--save", "recorded", "-d", "1s", "--", "sleep", "2"]);
    let mut sleeper = Command::new("sleep").arg("20").spawn().expect("it starts");
    run(&["attach", &sleeper.id().to_string(), "--save", "attached", "-d", "1s"]);
    sleeper.kill().and_then(|()| sleeper.wait()).expect("it ends");
    for recording in ["recorded", "attached"] {
        run(&["export", recording, "-o", "rows.jsonl", "--table", "device_samples", "--force"]);
        let rows =
            std::fs::read_to_string(place.directory.path().join("rows.jsonl")).expect("it was written");
        assert!(rows.contains("package-0") && rows.contains("energy_joules"), "{recording}: {rows}");
    }

    let top: serde_json::Value =
        serde_json::from_str(&run(&["top", "--once", "--json"])).expect("one JSON document");
    let has_meter = |devices: &serde_json::Value| {
        devices.as_array().is_some_and(|list| list.iter().any(|one| one["device"] == "package-0"))
    };
    assert!(has_meter(&top["devices"]), "{top}");

    let server = crate::serving::Server::start(&place, |command| {
        command.env("ORTSCOPE_TEST_DEVICES", tree.path());
    });
    let begin = Instant::now();
    while !server.get("/api/v1/energy").contains("package-0") {
        assert!(begin.elapsed() < Duration::from_secs(20), "{}", server.get("/api/v1/energy"));
        thread::sleep(Duration::from_millis(100));
    }
}
