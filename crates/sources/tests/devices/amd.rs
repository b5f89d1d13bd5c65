//! AMD's management libraries, replaced by ones that are built here: they answer, lose their card, hang, or speak another
//! version of their language. The card itself is a tree of files as the driver has them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use ortscope_sources::devices::{AmdLibrary, Back, Found, NvmlLibrary, find_with};

use super::nvidia::ask;

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

/// A card of the driver amdgpu at 0000:03:00.0 that tells how busy it is.
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

fn joules(told: &[String]) -> Vec<f64> {
    let values = told.iter().filter_map(|line| line.strip_prefix("gpu0 energy_joules "));
    values.map(|value| value.parse().unwrap()).collect()
}

#[test]
fn both_libraries_tell_energy_cap_and_processes_of_the_drivers_card() {
    for ((name, more), source) in LIBRARIES.into_iter().zip(["amdsmi", "rocm-smi"]) {
        let Some((_directory, mut found)) = open(name, "normal", more) else { return };
        let described: Vec<String> = found.readers.iter().map(|reader| reader.describe()).collect();
        assert!(described.contains(&format!("energy and processes of gpu0 ({source})")), "{described:?}");
        let (told, lost) = ask(&mut found, |told, _| joules(told).len() >= 3);
        assert_eq!(lost, Vec::<String>::new());
        // 200,000 steps of 10 µJ in each round; the first one was asked when the card was opened.
        assert_eq!(joules(&told)[..3], [2.0, 4.0, 6.0], "{told:?}");
        let expected = [
            "gpu0 utilization_ratio 0.37",
            "gpu0 power_limit_watts 300",
            "process-4242/gpu0 compute_memory_bytes 536870912",
            "process-4242/gpu0 compute_unit_ratio 0.4",
        ];
        for line in expected {
            assert!(told.iter().any(|told| told == line), "{line} in {told:?}");
        }
        // The list of processes has zeros for all of them, and of one that does not use the card the library has zeros
        // too: both used to be told as measured.
        assert!(told.iter().all(|line| !line.starts_with("process-4243")), "{told:?}");
    }
}

/// In a container with process ids of its own the libraries say "not known" as the largest of all numbers.
#[test]
fn processes_that_the_driver_does_not_know_have_a_reason_and_no_numbers() {
    for (name, more) in LIBRARIES {
        let Some((_directory, mut found)) = open(name, "namespace", more) else { return };
        let reasons: Vec<&str> = found.missing.iter().map(|missing| missing.why.as_str()).collect();
        let words = "gpu0's processes: the driver knows them by other ids than this container does";
        assert!(reasons.iter().any(|why| why.contains(words)), "{reasons:?}");
        let (told, lost) = ask(&mut found, |told, _| joules(told).len() >= 3);
        assert!(told.iter().all(|line| !line.starts_with("process-")), "{told:?}");
        assert_eq!(lost, Vec::<String>::new());
    }
}

/// Asks until something is back.
fn until_back(found: &mut Found) -> (Vec<String>, Vec<String>, Vec<Back>) {
    let (mut told, mut lost, mut back, begin) = (Vec::new(), Vec::new(), Vec::new(), Instant::now());
    while back.is_empty() && begin.elapsed() < Duration::from_secs(20) {
        let (more_told, more_lost) = ask(found, |told, lost| told.len() + lost.len() > 0);
        told.extend(more_told);
        lost.extend(more_lost);
        found.readers.iter_mut().for_each(|reader| reader.came_back(&mut back));
    }
    (told, lost, back)
}

/// One call that failed used to lose the card for the rest of the run.
#[test]
fn a_card_that_comes_back_is_read_again_and_keeps_what_it_has_counted() {
    for (mode, why) in [
        ("returns", "gpu0 does not answer any more: the card cannot be read"),
        ("busy", "gpu0 does not tell its energy any more: the card is busy"),
    ] {
        let Some((_directory, mut found)) = open("libamd_smi.so", mode, &[]) else { return };
        let (mut told, lost, back) = until_back(&mut found);
        assert_eq!(lost, [why], "{mode}");
        assert_eq!((back.len(), back[0].missing.why.as_str()), (1, why), "{mode}");
        let before = joules(&told).len();
        told.extend(ask(&mut found, |told, _| joules(told).len() >= 3).0);
        let joules = joules(&told);
        assert!(before >= 3 && joules.is_sorted() && joules[before] > 5.0, "{mode}: {joules:?}");
    }
    // One that was busy when it was opened is asked again.
    let Some((_directory, mut found)) = open("libamd_smi.so", "busy-start", &[]) else { return };
    let why = "amdsmi does not tell gpu0's energy: the card is busy";
    assert!(found.missing.iter().any(|missing| missing.why == why), "{found:?}");
    let (_, lost, back) = until_back(&mut found);
    assert_eq!((lost.len(), back[0].missing.why.as_str()), (0, why), "{lost:?}");
    let (told, _) = ask(&mut found, |told, _| joules(told).len() >= 3);
    assert!(joules(&told).len() >= 3, "{told:?}");
}

/// A counter that jumped added what nobody used, and one that stood still had no reason.
#[test]
fn a_counter_that_jumps_or_stands_still_has_a_reason() {
    for (mode, why) in [
        ("jumps", "gpu0 has a counter that jumps: what it used then is not known"),
        ("still", "gpu0 has a counter that does not count"),
    ] {
        let Some((_directory, mut found)) = open("libamd_smi.so", mode, &[]) else { return };
        let (told, lost) = ask(&mut found, |_, lost| !lost.is_empty());
        assert_eq!(lost, [why], "{mode}");
        assert!(joules(&told).iter().all(|joules| *joules < 1000.0), "{mode}: {told:?}");
    }
}

#[test]
fn a_driver_that_is_loaded_again_takes_no_energy_back() {
    let Some((_directory, mut found)) = open("libamd_smi.so", "reset", &[]) else { return };
    let (told, _) = ask(&mut found, |told, _| joules(told).len() >= 5);
    let joules = joules(&told);
    assert!(joules.is_sorted() && joules.windows(2).all(|pair| pair[1] - pair[0] < 10.0), "{joules:?}");
}

#[test]
fn a_card_that_is_lost_and_a_call_that_hangs_are_told_once_and_the_rest_goes_on() {
    for (mode, expected) in
        [("lost", "gpu0 does not answer any more"), ("hang", "AMD's library has not answered for")]
    {
        let Some((_directory, mut found)) = open("libamd_smi.so", mode, &[]) else { return };
        let (told, lost) = ask(&mut found, |_, lost| !lost.is_empty());
        assert!(lost[0].starts_with(expected), "{mode}: {lost:?}");
        assert!(joules(&told).len() >= 2, "{mode}: what was read before is kept");
        let begin = Instant::now();
        let (told, again) = ask(&mut found, |_, _| begin.elapsed() > Duration::from_millis(300));
        assert_eq!(again, Vec::<String>::new(), "{mode}");
        // The driver's files do not know of the library.
        assert!(told.iter().any(|line| line == "gpu0 utilization_ratio 0.37"), "{mode}: {told:?}");
    }
}

#[test]
fn a_library_that_cannot_be_used_has_a_reason_and_the_driver_is_read() {
    let cases: [(&str, &[&str], &str); 4] = [
        ("init", &[], "AMD's library (amdsmi) does not start: the driver is not loaded"),
        ("foreign", &[], "shows no card that the kernel has at the same address"),
        ("normal", &["-DFAKE_PARTLY"], "has no function amdsmi_get_gpu_compute_process_info"),
        ("start-hangs", &[], "AMD's library did not start within 3 s"),
    ];
    for (mode, more, expected) in cases {
        let Some((_directory, mut found)) = open("libamd_smi.so", mode, more) else { return };
        let reasons: Vec<&str> = found.missing.iter().map(|missing| missing.why.as_str()).collect();
        assert!(reasons.iter().any(|why| why.contains(expected)), "{mode}: {reasons:?}");
        let (told, _) = ask(&mut found, |told, _| !told.is_empty());
        assert!(told.iter().any(|line| line == "gpu0 utilization_ratio 0.37"), "{mode}: {told:?}");
    }
}

/// Numbers that cannot be are not told: no cap of 300 µW, no energy without a unit.
#[test]
fn a_library_of_another_version_is_not_believed() {
    let Some((_directory, mut found)) = open("libamd_smi.so", "wrong", &[]) else { return };
    let reasons: Vec<&str> = found.missing.iter().map(|missing| missing.why.as_str()).collect();
    let has = |words: &str| reasons.iter().any(|why| why.contains(words));
    assert!(has("amdsmi does not tell gpu0's power cap: 300 µW is no cap of power"), "{reasons:?}");
    assert!(has("gpu0's energy: its counter has a resolution of 0 µJ"), "{reasons:?}");
    assert!(has("gpu0's processes: this card does not support it"), "{reasons:?}");
    let begin = Instant::now();
    let (told, _) = ask(&mut found, |_, _| begin.elapsed() > Duration::from_millis(300));
    assert!(told.iter().all(|line| line == "gpu0 utilization_ratio 0.37"), "{told:?}");
}

#[test]
fn a_machine_without_the_library_says_what_it_would_tell() {
    if std::env::consts::OS != "linux" {
        return println!("skipped: AMD's libraries are read on Linux");
    }
    let directory = tempfile::tempdir().unwrap();
    tree(directory.path());
    let nowhere = AmdLibrary::At(directory.path().join("libamd_smi.so"));
    let found = find_with(directory.path(), &NvmlLibrary::None, &nowhere);
    let energy = found.missing.iter().find(|missing| missing.what == "gpu_energy").unwrap();
    assert!(energy.why.contains("not installed") && energy.hint.contains("amd-smi-lib"), "{energy:?}");
    // Without a card of AMD nobody asks for its library.
    let empty = tempfile::tempdir().unwrap();
    let found = find_with(empty.path(), &NvmlLibrary::None, &nowhere);
    assert!(found.missing.iter().all(|missing| missing.what != "gpu_energy"), "{found:?}");
}
