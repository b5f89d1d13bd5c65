//! Devices that this machine may not have: a tree of files stands in for them, and its counters count.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::support::{Place, library, small_model};

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
    let output = run(&["run", &model, "--duration", "3s", "--json", "-q"]);
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
    assert!(why.starts_with("this machine shows no energy counters") && why.contains("modprobe"), "{why}");
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
    for name in ["energy", "temperature", "throttling", "gpu", "npu"] {
        let line = text.lines().position(|line| line.starts_with("warning") && line.contains(name));
        let line = line.unwrap_or_else(|| panic!("{name} in\n{text}"));
        assert!(text.lines().nth(line + 1).is_some_and(|next| next.contains("hint:")), "{name} in\n{text}");
    }
    let _meter = Meter::start(tree.path());
    assert!(doctor(&place).contains("package-0 (RAPL)"));
}
