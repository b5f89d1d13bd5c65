//! NVIDIA's library, replaced by one that is built here: it answers, loses its card, or hangs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ortscope_core::batch::Batch;
use ortscope_core::clock::now_ns;
use ortscope_core::pipeline::{FlushError, Sink, SinkError};
use ortscope_sources::devices::{DeviceSource, Found, NvmlLibrary, find_in};

fn library(directory: &Path, mode: &str) -> Option<PathBuf> {
    let (source, library) = (
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/devices/fake_nvml.c"),
        directory.join("libnvidia-ml.so.1"),
    );
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source);
    compiler.arg(format!("-DFAKE_MODE=\"{mode}\""));
    if ["gpm", "gpm-fails", "returns", "wddm"].contains(&mode) {
        compiler.arg("-DFAKE_FULL");
    }
    match compiler.status() {
        Ok(status) if status.success() => Some(library),
        _ => {
            println!("skipped: no C compiler to build a stand-in for NVIDIA's library");
            None
        }
    }
}

/// Asks ten times a second, as the program does, until `is_done`.
pub fn ask(found: &mut Found, is_done: impl Fn(&[String], &[String]) -> bool) -> (Vec<String>, Vec<String>) {
    let (mut told, mut lost, begin) = (Vec::new(), Vec::new(), Instant::now());
    while begin.elapsed() < Duration::from_secs(20) && !is_done(&told, &lost) {
        let mut missing = Vec::new();
        for reader in &mut found.readers {
            let mut out = |reading: ortscope_sources::devices::Reading<'_>| {
                told.push(format!("{} {} {}", reading.device, reading.metric, reading.value));
            };
            reader.read(now_ns(), &mut out, &mut missing);
        }
        lost.extend(missing.into_iter().map(|missing| missing.why));
        std::thread::sleep(Duration::from_millis(20));
    }
    (told, lost)
}

fn open(mode: &str) -> Option<(tempfile::TempDir, Found)> {
    let directory = tempfile::tempdir().unwrap();
    let library = library(directory.path(), mode)?;
    let found = find_in(directory.path(), &NvmlLibrary::At(library));
    Some((directory, found))
}

#[test]
fn a_card_is_read_and_its_energy_survives_a_new_driver() {
    let Some((_directory, mut found)) = open("normal") else { return };
    assert_eq!(found.readers[0].describe(), "gpu0 Fake RTX (NVML)");
    let (told, lost) =
        ask(&mut found, |told, _| told.iter().filter(|line| line.contains("energy")).count() >= 8);
    assert_eq!(lost, Vec::<String>::new());
    let expected = [
        "gpu0 utilization_ratio 0.73",
        "gpu0 memory_busy_ratio 0.41",
        "gpu0 memory_used_bytes 2147483648",
        "gpu0 memory_total_bytes 8589934592",
        "gpu0 power_watts 123.5",
        "gpu0 temperature_celsius 64",
        "gpu0 frequency_hertz 1410000000",
    ];
    for line in expected {
        assert!(told.iter().any(|told| told == line), "{line} in {told:?}");
    }
    let joules: Vec<f64> = told
        .iter()
        .filter_map(|line| line.strip_prefix("gpu0 energy_joules "))
        .map(|value| value.parse().unwrap())
        .collect();
    // Of a reset nothing is known but that it happened: the total stays where it was.
    assert_eq!(joules[..8], [2.5, 5.0, 7.5, 10.0, 12.5, 15.0, 17.5, 20.0]);
    assert!(told.iter().all(|line| !line.contains("throttle")), "this driver does not have them");
    let why = |word: &str| found.missing.iter().any(|missing| missing.why.contains(word));
    assert!(why("throttle reasons") && why("this version of the library does not have it"), "{found:?}");
}

#[test]
fn a_card_without_power_has_the_rest() {
    let Some((_directory, mut found)) = open("wddm") else { return };
    let (told, _) = ask(&mut found, |told, _| told.len() > 20);
    assert!(told.iter().all(|line| !line.contains("power_watts") && !line.contains("energy")), "{told:?}");
    // Each has its reason, and what Windows knows better says where.
    let reasons: Vec<&str> = found.missing.iter().map(|missing| missing.why.as_str()).collect();
    let has = |words: &[&str]| reasons.iter().any(|why| words.iter().all(|word| why.contains(word)));
    assert!(has(&["gpu0 does not tell its energy, power"]), "{reasons:?}");
    assert!(has(&["memory by process", "GPU Process Memory"]), "{reasons:?}");
    assert!(has(&["(GPM)", "Hopper"]), "{reasons:?}");
    assert!(told.iter().any(|line| line.contains("temperature_celsius 64")), "{told:?}");
}

#[test]
fn a_card_that_is_lost_and_a_call_that_hangs_are_told_once_and_nothing_waits() {
    for (mode, expected) in
        [("lost", "gpu0 does not answer any more"), ("hang", "NVIDIA's library has not answered for")]
    {
        let Some((_directory, mut found)) = open(mode) else { return };
        let (told, lost) = ask(&mut found, |_, lost| !lost.is_empty());
        assert!(lost[0].starts_with(expected), "{mode}: {lost:?}");
        assert!(told.len() > 20, "{mode}: what was read before is kept");
        let begin = Instant::now();
        let (_, again) = ask(&mut found, |_, _| begin.elapsed() > Duration::from_millis(300));
        assert_eq!(again, Vec::<String>::new(), "{mode}");
    }
}

/// After a reset a card is there again; it used to stay lost for the rest of the run. Then its counters began at 0 again, and
/// a measurement over the loss had used negative energy.
#[test]
fn a_card_that_comes_back_is_read_again_and_keeps_what_it_has_counted() {
    let Some((_directory, mut found)) = open("returns") else { return };
    let (mut back, mut lost, mut told) = (Vec::new(), Vec::new(), 0);
    let mut totals: [Vec<f64>; 2] = Default::default();
    let begin = Instant::now();
    while back.is_empty() && begin.elapsed() < Duration::from_secs(30) {
        for reader in &mut found.readers {
            let mut out = |reading: ortscope_sources::devices::Reading<'_>| {
                told += 1;
                match reading.metric {
                    "energy_joules" => totals[0].push(reading.value),
                    "throttle_power_milliseconds" => totals[1].push(reading.value),
                    _ => {}
                }
            };
            reader.read(now_ns(), &mut out, &mut lost);
            reader.came_back(&mut back);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(lost.len(), 1, "{lost:?}");
    assert!(lost[0].why.starts_with("gpu0 does not answer any more"), "{lost:?}");
    assert_eq!((back.len(), &back[0].missing), (1, &lost[0]));
    assert!(back[0].to_ns > back[0].from_ns);
    let before = told;
    let (again, _) = ask(&mut found, |told, _| told.len() > 60);
    assert!(before > 0 && again.iter().any(|line| line.contains("utilization_ratio 0.73")), "{again:?}");
    for (metric, totals) in ["energy_joules", "throttle_power_milliseconds"].into_iter().zip(&mut totals) {
        let values = again.iter().filter_map(|line| line.strip_prefix(&format!("gpu0 {metric} ")));
        totals.extend(values.map(|value| value.parse::<f64>().unwrap()));
        assert!(totals.len() > 10 && totals.is_sorted(), "{metric}: {totals:?}");
    }
}

/// A card with everything: processes, what held its clock down, PCIe, and the figures of its multiprocessors.
#[test]
fn processes_throttling_and_the_figures_of_multiprocessors() {
    let Some((_directory, mut found)) = open("gpm") else { return };
    assert_eq!(found.readers[0].describe(), "gpu0 Fake RTX (NVML, driver 570.86, CUDA 12.8)");
    let is_done = |told: &[String], _: &[String]| {
        told.iter().any(|line| line.contains("sm_occupancy"))
            && told.iter().any(|line| line.contains("reasons 4"))
    };
    let (told, lost) = ask(&mut found, is_done);
    let expected = [
        "gpu0 throttle_thermal_milliseconds 0",
        "gpu0 pcie_send_bytes_per_second 1500000",
        "gpu0 pcie_receive_bytes_per_second 2500000",
        "gpu0 power_limit_watts 300",
        "gpu0 sm_occupancy_ratio 0.375",
        "gpu0 tensor_core_ratio 0.81",
        "process-4242/gpu0 memory_used_bytes 268435456",
        "process-4242/gpu0 utilization_ratio 0.62",
    ];
    for line in expected {
        assert!(told.iter().any(|told| told == line), "{line} in {told:?}");
    }
    assert!(told.iter().all(|line| !line.contains("memory_bandwidth_ratio")), "this card has no such figure");
    let held: Vec<&String> =
        told.iter().filter(|line| line.contains("throttle_power_milliseconds")).collect();
    assert_eq!(
        (held[0].as_str(), held[1].as_str()),
        ("gpu0 throttle_power_milliseconds 5", "gpu0 throttle_power_milliseconds 10")
    );
    assert_eq!(lost, Vec::<String>::new());
}

#[test]
fn samples_of_gpm_that_fail_leave_the_rest() {
    let Some((_directory, mut found)) = open("gpm-fails") else { return };
    let why = &found.missing.iter().find(|missing| missing.why.contains("GPM")).unwrap().why;
    assert!(why.contains("gpu0 does not tell its SM occupancy"), "{why}");
    let (told, lost) = ask(&mut found, |told, _| told.len() > 30);
    assert!(told.iter().any(|line| line.contains("utilization_ratio 0.73")), "{told:?}");
    assert!(told.iter().all(|line| !line.contains("sm_occupancy")) && lost.is_empty(), "{lost:?}");
}

#[test]
fn a_driver_without_a_card_says_so() {
    let Some((_directory, found)) = open("empty") else { return };
    assert!(found.missing.iter().any(|missing| missing.why == "NVIDIA's driver shows no GPU"), "{found:?}");
}

#[test]
fn a_library_that_does_not_start_or_is_none_has_a_reason() {
    let Some((_directory, found)) = open("init") else { return };
    let why = &found.missing.iter().find(|missing| missing.what == "gpu").unwrap().why;
    assert!(why.starts_with("NVIDIA's library does not start"), "{why}");
    let directory = tempfile::tempdir().unwrap();
    let text = directory.path().join("libnvidia-ml.so.1");
    std::fs::write(&text, "not a library").unwrap();
    for library in [text, directory.path().join("absent.so")] {
        let found = find_in(directory.path(), &NvmlLibrary::At(library));
        let why = &found.missing.iter().find(|missing| missing.what == "gpu").unwrap().why;
        assert_eq!(why, "no driver of a GPU is loaded");
    }
}

/// Prints what asking NVIDIA's library ten times a second costs here, the pipeline included:
/// `cargo test -p ortscope-sources --test devices -- --ignored --nocapture cost_here`.
#[test]
#[ignore = "a measurement, not a test"]
fn cost_here() {
    const SECONDS: f64 = 20.0;
    for mode in ["normal", "gpm"] {
        let Some((_directory, found)) = open(mode) else { return };
        let sink = Kept::default();
        let pipeline = ortscope_core::pipeline::Pipeline::default();
        let running = pipeline.source(DeviceSource::new(found)).sink(sink.clone()).start().unwrap();
        std::thread::sleep(Duration::from_secs(1));
        let nanos = || ortscope_sources::own_usage().unwrap().cpu_time_ns;
        let (begin, before, rows) = (Instant::now(), nanos(), sink.rows());
        std::thread::sleep(Duration::from_secs_f64(SECONDS));
        let (used, passed, told) =
            ((nanos() - before) as f64, begin.elapsed().as_nanos() as f64, sink.rows() - rows);
        running.control().stop();
        running.join();
        println!(
            "{mode}: {:.3} % of a core, {:.1} readings/s, 10 rounds/s for {SECONDS} s",
            used / passed * 100.0,
            told as f64 / SECONDS
        );
    }
}

/// Counts rows.
#[derive(Clone, Default)]
struct Kept(Arc<AtomicUsize>);

impl Kept {
    fn rows(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Sink for Kept {
    fn name(&self) -> &str {
        "kept"
    }

    fn consume(&mut self, batch: &Batch) -> Result<(), SinkError> {
        self.0.fetch_add(batch.len(), Ordering::Relaxed);
        Ok(())
    }

    fn flush(&mut self, _deadline: Instant) -> Result<(), FlushError> {
        Ok(())
    }
}
