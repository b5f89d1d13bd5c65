//! Tests with a substitute for NVIDIA's library that is built here: it answers, loses its card, or hangs.

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

/// Polls ten times a second, like the program, until `is_done`.
pub fn poll(found: &mut Found, is_done: impl Fn(&[String], &[String]) -> bool) -> (Vec<String>, Vec<String>) {
    let (mut readings, mut lost, begin) = (Vec::new(), Vec::new(), Instant::now());
    while begin.elapsed() < Duration::from_secs(20) && !is_done(&readings, &lost) {
        let mut missing = Vec::new();
        for reader in &mut found.readers {
            let mut out = |reading: ortscope_sources::devices::Reading<'_>| {
                readings.push(format!("{} {} {}", reading.device, reading.metric, reading.value));
            };
            reader.read(now_ns(), &mut out, &mut missing);
        }
        lost.extend(missing.into_iter().map(|missing| missing.why));
        std::thread::sleep(Duration::from_millis(20));
    }
    (readings, lost)
}

fn open(mode: &str) -> Option<(tempfile::TempDir, Found)> {
    let directory = tempfile::tempdir().unwrap();
    let library = library(directory.path(), mode)?;
    let found = find_in(directory.path(), &NvmlLibrary::At(library));
    Some((directory, found))
}

#[test]
fn energy_survives_a_driver_reload() {
    let Some((_directory, mut found)) = open("normal") else { return };
    assert_eq!(found.readers[0].describe(), "gpu0 Fake RTX (NVML)");
    let (readings, lost) =
        poll(&mut found, |readings, _| readings.iter().filter(|line| line.contains("energy")).count() >= 8);
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
        assert!(readings.iter().any(|reading| reading == line), "{line} in {readings:?}");
    }
    let joules: Vec<f64> = readings
        .iter()
        .filter_map(|line| line.strip_prefix("gpu0 energy_joules "))
        .map(|value| value.parse().unwrap())
        .collect();
    // Nothing is known about a reset except that it happened: the total stays the same.
    assert_eq!(joules[..8], [2.5, 5.0, 7.5, 10.0, 12.5, 15.0, 17.5, 20.0]);
    assert!(readings.iter().all(|line| !line.contains("throttle")), "this driver lacks them");
    let why = |word: &str| found.missing.iter().any(|missing| missing.why.contains(word));
    assert!(why("throttle reasons") && why("this version of the library lacks it"), "{found:?}");
}

#[test]
fn a_card_without_power_reports_everything_else() {
    let Some((_directory, mut found)) = open("wddm") else { return };
    let (readings, _) = poll(&mut found, |readings, _| readings.len() > 20);
    assert!(
        readings.iter().all(|line| !line.contains("power_watts") && !line.contains("energy")),
        "{readings:?}"
    );
    // Each missing figure has a reason, and figures that Windows provides say where.
    let reasons: Vec<&str> = found.missing.iter().map(|missing| missing.why.as_str()).collect();
    let has = |words: &[&str]| reasons.iter().any(|why| words.iter().all(|word| why.contains(word)));
    assert!(has(&["gpu0 does not report its energy, power"]), "{reasons:?}");
    assert!(has(&["memory by process", "GPU Process Memory"]), "{reasons:?}");
    assert!(has(&["(GPM)", "Hopper"]), "{reasons:?}");
    assert!(readings.iter().any(|line| line.contains("temperature_celsius 64")), "{readings:?}");
}

#[test]
fn a_lost_card_and_a_hanging_call_are_reported_once_without_blocking() {
    for (mode, expected) in
        [("lost", "gpu0 no longer answers"), ("hang", "NVIDIA's library has not answered for")]
    {
        let Some((_directory, mut found)) = open(mode) else { return };
        let (readings, lost) = poll(&mut found, |_, lost| !lost.is_empty());
        assert!(lost[0].starts_with(expected), "{mode}: {lost:?}");
        assert!(readings.len() > 20, "{mode}: earlier readings are kept");
        let begin = Instant::now();
        let (_, again) = poll(&mut found, |_, _| begin.elapsed() > Duration::from_millis(300));
        assert_eq!(again, Vec::<String>::new(), "{mode}");
    }
}

/// Regressions: a card used to stay lost after a reset, and later its counters restarted at 0, which gave negative
/// energy for a measurement across the outage.
#[test]
fn a_recovered_card_is_read_again_and_keeps_its_counters() {
    let Some((_directory, mut found)) = open("returns") else { return };
    let (mut back, mut lost, mut readings) = (Vec::new(), Vec::new(), 0);
    let mut totals: [Vec<f64>; 2] = Default::default();
    let begin = Instant::now();
    while back.is_empty() && begin.elapsed() < Duration::from_secs(30) {
        for reader in &mut found.readers {
            let mut out = |reading: ortscope_sources::devices::Reading<'_>| {
                readings += 1;
                match reading.metric {
                    "energy_joules" => totals[0].push(reading.value),
                    "throttle_power_milliseconds" => totals[1].push(reading.value),
                    _ => {}
                }
            };
            reader.read(now_ns(), &mut out, &mut lost);
            reader.take_recovered(&mut back);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(lost.len(), 1, "{lost:?}");
    assert!(lost[0].why.starts_with("gpu0 no longer answers"), "{lost:?}");
    assert_eq!((back.len(), &back[0].missing), (1, &lost[0]));
    assert!(back[0].to_ns > back[0].from_ns);
    let before = readings;
    let (again, _) = poll(&mut found, |readings, _| readings.len() > 60);
    assert!(before > 0 && again.iter().any(|line| line.contains("utilization_ratio 0.73")), "{again:?}");
    for (metric, totals) in ["energy_joules", "throttle_power_milliseconds"].into_iter().zip(&mut totals) {
        let values = again.iter().filter_map(|line| line.strip_prefix(&format!("gpu0 {metric} ")));
        totals.extend(values.map(|value| value.parse::<f64>().unwrap()));
        assert!(totals.len() > 10 && totals.is_sorted(), "{metric}: {totals:?}");
    }
}

/// A card with every figure: processes, throttling, PCIe and multiprocessor metrics.
#[test]
fn processes_throttling_and_multiprocessor_metrics_are_read() {
    let Some((_directory, mut found)) = open("gpm") else { return };
    assert_eq!(found.readers[0].describe(), "gpu0 Fake RTX (NVML, driver 570.86, CUDA 12.8)");
    let is_done = |readings: &[String], _: &[String]| {
        readings.iter().any(|line| line.contains("sm_occupancy"))
            && readings.iter().any(|line| line.contains("reasons 4"))
    };
    let (readings, lost) = poll(&mut found, is_done);
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
        assert!(readings.iter().any(|reading| reading == line), "{line} in {readings:?}");
    }
    assert!(readings.iter().all(|line| !line.contains("memory_bandwidth_ratio")), "this card lacks it");
    let held: Vec<&String> =
        readings.iter().filter(|line| line.contains("throttle_power_milliseconds")).collect();
    assert_eq!(
        (held[0].as_str(), held[1].as_str()),
        ("gpu0 throttle_power_milliseconds 5", "gpu0 throttle_power_milliseconds 10")
    );
    assert_eq!(lost, Vec::<String>::new());
}

#[test]
fn failing_gpm_samples_leave_the_other_readings() {
    let Some((_directory, mut found)) = open("gpm-fails") else { return };
    let why = &found.missing.iter().find(|missing| missing.why.contains("GPM")).unwrap().why;
    assert!(why.contains("gpu0 does not report its SM occupancy"), "{why}");
    let (readings, lost) = poll(&mut found, |readings, _| readings.len() > 30);
    assert!(readings.iter().any(|line| line.contains("utilization_ratio 0.73")), "{readings:?}");
    assert!(readings.iter().all(|line| !line.contains("sm_occupancy")) && lost.is_empty(), "{lost:?}");
}

#[test]
fn a_driver_without_a_card_is_reported() {
    let Some((_directory, found)) = open("empty") else { return };
    assert!(found.missing.iter().any(|missing| missing.why == "NVIDIA's driver lists no GPU"), "{found:?}");
}

#[test]
fn an_unusable_or_missing_library_has_a_reason() {
    let Some((_directory, found)) = open("init") else { return };
    let why = &found.missing.iter().find(|missing| missing.what == "gpu").unwrap().why;
    assert!(why.starts_with("NVIDIA's library cannot be initialized"), "{why}");
    let directory = tempfile::tempdir().unwrap();
    let text = directory.path().join("libnvidia-ml.so.1");
    std::fs::write(&text, "not a library").unwrap();
    for library in [text, directory.path().join("absent.so")] {
        let found = find_in(directory.path(), &NvmlLibrary::At(library));
        let why = &found.missing.iter().find(|missing| missing.what == "gpu").unwrap().why;
        assert_eq!(why, "no GPU driver is loaded");
    }
}

/// Prints the cost of polling NVIDIA's library ten times a second, including the pipeline:
/// `cargo test -p ortscope-sources --test devices -- --ignored --nocapture polling_cost`.
#[test]
#[ignore = "a measurement, not a test"]
fn polling_cost() {
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
        let (used, passed, readings) =
            ((nanos() - before) as f64, begin.elapsed().as_nanos() as f64, sink.rows() - rows);
        running.control().stop();
        running.join();
        println!(
            "{mode}: {:.3} % of a core, {:.1} readings/s, 10 polls/s for {SECONDS} s",
            used / passed * 100.0,
            readings as f64 / SECONDS
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
