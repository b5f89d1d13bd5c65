//! Tests with substitutes for AMD's management libraries that are built here: they answer, lose their card, hang, or
//! have an unknown version. The card itself is a file tree like the driver's.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use ortscope_sources::devices::{AmdLibrary, Found, NvmlLibrary, Recovered, find_with};

use super::nvidia::poll;

fn library(directory: &Path, name: &str, mode: &str, more: &[&str]) -> Option<PathBuf> {
    if std::env::consts::OS != "linux" {
        println!("skipped: AMD's libraries are read on Linux");
        return None;
    }
    let (source, library) =
        (Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/devices/fake_amd_smi.c"), directory.join(name));
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).args(more);
    compiler.arg(format!("-DFAKE_MODE=\"{mode}\""));
    match compiler.status() {
        Ok(status) if status.success() => Some(library),
        _ => {
            println!("skipped: no C compiler to build a stand-in for AMD's library");
            None
        }
    }
}

/// An amdgpu card at 0000:03:00.0 that reports its utilization.
fn tree(directory: &Path) {
    let card = directory.join("sys/class/drm/card0/device");
    std::fs::create_dir_all(&card).unwrap();
    std::fs::create_dir_all(directory.join("drivers/amdgpu")).unwrap();
    symlink(&directory.join("drivers/amdgpu"), &card.join("driver"));
    std::fs::write(card.join("uevent"), "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:03:00.0\n").unwrap();
    std::fs::write(card.join("gpu_busy_percent"), "37\n").unwrap();
}

fn symlink(to: &Path, at: &Path) {
    // Only Linux has these trees.
    let made = Command::new("ln").arg("-s").arg(to).arg(at).status().unwrap();
    assert!(made.success());
}

fn open(name: &str, mode: &str, more: &[&str]) -> Option<(tempfile::TempDir, Found)> {
    let directory = tempfile::tempdir().unwrap();
    let library = library(directory.path(), name, mode, more)?;
    tree(directory.path());
    let found = find_with(directory.path(), &NvmlLibrary::None, &AmdLibrary::At(library));
    Some((directory, found))
}

const LIBRARIES: [(&str, &[&str]); 2] = [("libamd_smi.so", &[]), ("librocm_smi64.so.7", &["-DFAKE_ROCM"])];

fn joules(readings: &[String]) -> Vec<f64> {
    let values = readings.iter().filter_map(|line| line.strip_prefix("gpu0 energy_joules "));
    values.map(|value| value.parse().unwrap()).collect()
}

#[test]
fn both_libraries_report_energy_cap_and_processes() {
    for ((name, more), source) in LIBRARIES.into_iter().zip(["amdsmi", "rocm-smi"]) {
        let Some((_directory, mut found)) = open(name, "normal", more) else { return };
        let described: Vec<String> = found.readers.iter().map(|reader| reader.describe()).collect();
        assert!(described.contains(&format!("energy and processes of gpu0 ({source})")), "{described:?}");
        let (readings, lost) = poll(&mut found, |readings, _| joules(readings).len() >= 3);
        assert_eq!(lost, Vec::<String>::new());
        // 200,000 steps of 10 µJ per poll; the first one was read when the card was opened.
        assert_eq!(joules(&readings)[..3], [2.0, 4.0, 6.0], "{readings:?}");
        let expected = [
            "gpu0 utilization_ratio 0.37",
            "gpu0 power_limit_watts 300",
            "process-4242/gpu0 compute_memory_bytes 536870912",
            "process-4242/gpu0 compute_unit_ratio 0.4",
        ];
        for line in expected {
            assert!(readings.iter().any(|readings| readings == line), "{line} in {readings:?}");
        }
        // Regression: zeros in the process list, and for a process that does not use the card, were reported as
        // measured.
        assert!(readings.iter().all(|line| !line.starts_with("process-4243")), "{readings:?}");
    }
}

/// In a container with its own process ids the libraries return the largest number for "unknown".
#[test]
fn processes_with_unknown_ids_have_a_reason_and_no_values() {
    for (name, more) in LIBRARIES {
        let Some((_directory, mut found)) = open(name, "namespace", more) else { return };
        let reasons: Vec<&str> = found.missing.iter().map(|missing| missing.why.as_str()).collect();
        let reason = "gpu0's processes: the driver's process ids differ from those in this container";
        assert!(reasons.iter().any(|why| why.contains(reason)), "{reasons:?}");
        let (readings, lost) = poll(&mut found, |readings, _| joules(readings).len() >= 3);
        assert!(readings.iter().all(|line| !line.starts_with("process-")), "{readings:?}");
        assert_eq!(lost, Vec::<String>::new());
    }
}

/// Polls until an outage has ended.
fn poll_until_recovered(found: &mut Found) -> (Vec<String>, Vec<String>, Vec<Recovered>) {
    let (mut readings, mut lost, mut back, begin) = (Vec::new(), Vec::new(), Vec::new(), Instant::now());
    while back.is_empty() && begin.elapsed() < Duration::from_secs(20) {
        let (more_readings, more_lost) = poll(found, |readings, lost| readings.len() + lost.len() > 0);
        readings.extend(more_readings);
        lost.extend(more_lost);
        found.readers.iter_mut().for_each(|reader| reader.take_recovered(&mut back));
    }
    (readings, lost, back)
}

/// Regression: one failed call used to lose the card for the rest of the run.
#[test]
fn a_recovered_card_is_read_again_and_keeps_its_counters() {
    for (mode, why) in [
        ("returns", "gpu0 no longer answers: the card cannot be read"),
        ("busy", "gpu0 no longer reports its energy: the card is busy"),
    ] {
        let Some((_directory, mut found)) = open("libamd_smi.so", mode, &[]) else { return };
        let (mut readings, lost, back) = poll_until_recovered(&mut found);
        assert_eq!(lost, [why], "{mode}");
        assert_eq!((back.len(), back[0].missing.why.as_str()), (1, why), "{mode}");
        let before = joules(&readings).len();
        readings.extend(poll(&mut found, |readings, _| joules(readings).len() >= 3).0);
        let joules = joules(&readings);
        assert!(before >= 3 && joules.is_sorted() && joules[before] > 5.0, "{mode}: {joules:?}");
    }
    // A card that was busy when it was opened is queried again.
    let Some((_directory, mut found)) = open("libamd_smi.so", "busy-start", &[]) else { return };
    let why = "amdsmi does not report gpu0's energy: the card is busy";
    assert!(found.missing.iter().any(|missing| missing.why == why), "{found:?}");
    let (_, lost, back) = poll_until_recovered(&mut found);
    assert_eq!((lost.len(), back[0].missing.why.as_str()), (0, why), "{lost:?}");
    let (readings, _) = poll(&mut found, |readings, _| joules(readings).len() >= 3);
    assert!(joules(&readings).len() >= 3, "{readings:?}");
}

/// Regression: a counter that jumped added unused energy, and one that stopped had no reason.
#[test]
fn jumping_and_stuck_counters_have_a_reason() {
    for (mode, why) in [
        ("jumps", "gpu0 has an energy counter that jumped: the energy used meanwhile is unknown"),
        ("still", "gpu0 has an energy counter that does not advance"),
    ] {
        let Some((_directory, mut found)) = open("libamd_smi.so", mode, &[]) else { return };
        let (readings, lost) = poll(&mut found, |_, lost| !lost.is_empty());
        assert_eq!(lost, [why], "{mode}");
        assert!(joules(&readings).iter().all(|joules| *joules < 1000.0), "{mode}: {readings:?}");
    }
}

#[test]
fn a_reloaded_driver_does_not_decrease_energy() {
    let Some((_directory, mut found)) = open("libamd_smi.so", "reset", &[]) else { return };
    let (readings, _) = poll(&mut found, |readings, _| joules(readings).len() >= 5);
    let joules = joules(&readings);
    assert!(joules.is_sorted() && joules.windows(2).all(|pair| pair[1] - pair[0] < 10.0), "{joules:?}");
}

#[test]
fn a_lost_card_and_a_hanging_call_are_reported_once_and_other_readings_continue() {
    for (mode, expected) in
        [("lost", "gpu0 no longer answers"), ("hang", "AMD's library has not answered for")]
    {
        let Some((_directory, mut found)) = open("libamd_smi.so", mode, &[]) else { return };
        let (readings, lost) = poll(&mut found, |_, lost| !lost.is_empty());
        assert!(lost[0].starts_with(expected), "{mode}: {lost:?}");
        assert!(joules(&readings).len() >= 2, "{mode}: earlier readings are kept");
        let begin = Instant::now();
        let (readings, again) = poll(&mut found, |_, _| begin.elapsed() > Duration::from_millis(300));
        assert_eq!(again, Vec::<String>::new(), "{mode}");
        // The driver's files are independent of the library.
        assert!(readings.iter().any(|line| line == "gpu0 utilization_ratio 0.37"), "{mode}: {readings:?}");
    }
}

#[test]
fn an_unusable_library_has_a_reason_and_the_driver_is_read() {
    let cases: [(&str, &[&str], &str); 4] = [
        ("init", &[], "AMD's library (amdsmi) cannot be initialized: the driver is not loaded"),
        ("foreign", &[], "lists no card with an address known to the kernel"),
        ("normal", &["-DFAKE_PARTLY"], "lacks the function amdsmi_get_gpu_compute_process_info"),
        ("start-hangs", &[], "AMD's library did not start within 3 s"),
    ];
    for (mode, more, expected) in cases {
        let Some((_directory, mut found)) = open("libamd_smi.so", mode, more) else { return };
        let reasons: Vec<&str> = found.missing.iter().map(|missing| missing.why.as_str()).collect();
        assert!(reasons.iter().any(|why| why.contains(expected)), "{mode}: {reasons:?}");
        let (readings, _) = poll(&mut found, |readings, _| !readings.is_empty());
        assert!(readings.iter().any(|line| line == "gpu0 utilization_ratio 0.37"), "{mode}: {readings:?}");
    }
}

/// Impossible values are not reported: no cap of 300 µW, no energy without a unit.
#[test]
fn values_of_an_unknown_library_version_are_rejected() {
    let Some((_directory, mut found)) = open("libamd_smi.so", "wrong", &[]) else { return };
    let reasons: Vec<&str> = found.missing.iter().map(|missing| missing.why.as_str()).collect();
    let has = |reason: &str| reasons.iter().any(|why| why.contains(reason));
    assert!(has("amdsmi does not report gpu0's power cap: 300 µW is not a power cap"), "{reasons:?}");
    assert!(has("gpu0's energy: its counter has a resolution of 0 µJ"), "{reasons:?}");
    assert!(has("gpu0's processes: not supported by this card"), "{reasons:?}");
    let begin = Instant::now();
    let (readings, _) = poll(&mut found, |_, _| begin.elapsed() > Duration::from_millis(300));
    assert!(readings.iter().all(|line| line == "gpu0 utilization_ratio 0.37"), "{readings:?}");
}

#[test]
fn a_missing_library_is_reported_with_its_purpose() {
    if std::env::consts::OS != "linux" {
        return println!("skipped: AMD's libraries are read on Linux");
    }
    let directory = tempfile::tempdir().unwrap();
    tree(directory.path());
    let nowhere = AmdLibrary::At(directory.path().join("libamd_smi.so"));
    let found = find_with(directory.path(), &NvmlLibrary::None, &nowhere);
    let energy = found.missing.iter().find(|missing| missing.what == "gpu_energy").unwrap();
    assert!(energy.why.contains("not installed") && energy.hint.contains("amd-smi-lib"), "{energy:?}");
    // Without an AMD card its library is not loaded.
    let empty = tempfile::tempdir().unwrap();
    let found = find_with(empty.path(), &NvmlLibrary::None, &nowhere);
    assert!(found.missing.iter().all(|missing| missing.what != "gpu_energy"), "{found:?}");
}
