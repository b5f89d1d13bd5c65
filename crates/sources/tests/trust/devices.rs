//! Sensors that disappear and return, hang, or report impossible values: other readings continue, and each case is an
//! event.

use std::path::Path;
use std::time::{Duration, Instant};

use ortscope_core::pipeline::Pipeline;
use ortscope_core::schema::{AnnotationRow, DeviceSampleRow, UnavailabilityRow};
use ortscope_sources::devices::{
    DeviceSource, Found, Missing, NvmlLibrary, Reader, Reading, Recovered, find_in,
};

use crate::world::{Collect, Seen};

const SECOND: u64 = 1_000_000_000;
const ENERGY: &str = "sys/class/powercap/intel-rapl:0/energy_uj";
const HEAT: &str = "sys/class/hwmon/hwmon0/temp1_input";
const BUSY: &str = "sys/class/accel/accel0/device/npu_busy_time_us";

struct Tree(tempfile::TempDir);

impl Tree {
    fn new() -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        tree.set("sys/class/powercap/intel-rapl:0/name", "package-0");
        tree.set(ENERGY, "1000");
        tree.set("sys/class/hwmon/hwmon0/name", "k10temp");
        tree.set(HEAT, "50000");
        tree.set(BUSY, "100");
        tree
    }

    fn path(&self, file: &str) -> std::path::PathBuf {
        self.0.path().join(file)
    }

    /// Written atomically because it may be read at any moment.
    fn set(&self, file: &str, text: &str) {
        let path = self.path(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let made = path.with_extension("new");
        std::fs::write(&made, format!("{text}\n")).unwrap();
        std::fs::rename(made, path).unwrap();
    }

    fn remove(&self, file: &str) {
        std::fs::remove_file(self.path(file)).unwrap();
    }

    fn found(&self) -> Found {
        find_in(self.0.path(), &NvmlLibrary::None)
    }
}

/// One poll of all readers.
fn read(found: &mut Found, at_ns: u64) -> (Vec<String>, Vec<String>, Vec<Recovered>) {
    let (mut readings, mut lost, mut back) = (Vec::new(), Vec::new(), Vec::new());
    for reader in &mut found.readers {
        let mut out = |reading: Reading<'_>| {
            readings.push(format!("{} {} {:.3}", reading.device, reading.metric, reading.value));
        };
        reader.read(at_ns, &mut out, &mut lost);
        reader.take_recovered(&mut back);
    }
    (readings, lost.into_iter().map(|missing: Missing| missing.why).collect(), back)
}

/// Regression: sensors that disappeared were ignored for the rest of the run.
#[test]
fn lost_sensors_are_reported_once_and_read_again_after_they_return() {
    let tree = Tree::new();
    let mut found = tree.found();
    read(&mut found, SECOND);
    for file in [ENERGY, HEAT, BUSY] {
        tree.remove(file);
    }
    let (readings, lost, _) = read(&mut found, 2 * SECOND);
    assert_eq!((readings.len(), lost.len()), (0, 3), "{readings:?} {lost:?}");
    let (readings, lost, back) = read(&mut found, 3 * SECOND);
    assert_eq!((readings.len(), lost.len(), back.len()), (0, 0, 0), "each is reported once");
    tree.set(ENERGY, "5001000");
    tree.set(HEAT, "51000");
    tree.set(BUSY, "200");
    let (readings, lost, back) = read(&mut found, 4 * SECOND);
    assert_eq!(lost, Vec::<String>::new());
    assert_eq!(back.len(), 3, "{back:?}");
    assert!(back.iter().all(|back| (back.from_ns, back.to_ns) == (2 * SECOND, 4 * SECOND)), "{back:?}");
    let expected = ["package-0 energy_joules 5.000", "k10temp/temp1 temperature_celsius 51.000"];
    assert!(expected.iter().all(|line| readings.iter().any(|reading| reading == line)), "{readings:?}");
}

#[test]
fn a_counter_jump_adds_no_energy() {
    let tree = Tree::new();
    let mut found = tree.found();
    read(&mut found, SECOND);
    // A million joules in a second.
    tree.set(ENERGY, "1000000001000");
    let (readings, lost, _) = read(&mut found, 2 * SECOND);
    assert!(readings.iter().all(|line| !line.starts_with("package-0")), "{readings:?}");
    assert!(lost[0].starts_with("package-0 has an energy counter that jumped"), "{lost:?}");
    tree.set(ENERGY, "1000030001000");
    let (readings, _, back) = read(&mut found, 3 * SECOND);
    assert!(readings.iter().any(|line| line == "package-0 energy_joules 30.000"), "{readings:?}");
    assert!(readings.iter().any(|line| line == "package-0 power_watts 30.000"), "{readings:?}");
    assert_eq!(back.len(), 1);
}

/// Runs the source until `is_done` returns true.
fn watch(found: Found, is_done: impl Fn(&Collect) -> bool) -> Seen {
    let collect = Collect::default();
    let running = Pipeline::default().source(DeviceSource::new(found)).sink(collect.clone()).start().unwrap();
    let begin = Instant::now();
    while !is_done(&collect) {
        assert!(begin.elapsed() < Duration::from_secs(60), "timed out");
        std::thread::sleep(Duration::from_millis(20));
    }
    running.control().stop();
    let report = running.join();
    assert_eq!(report.source_errors, []);
    collect.into_seen(report, ortscope_sources::sampler::OwnCost::default())
}

fn has_event(collect: &Collect, kind: &str) -> bool {
    collect.rows_so_far::<AnnotationRow>().iter().any(|row| &*row.kind == kind)
}

/// A sensor with garbage values.
#[derive(Debug)]
struct Garbage(Vec<f64>);

impl Reader for Garbage {
    fn describe(&self) -> String {
        "gpu0 (test)".to_owned()
    }

    fn read(&mut self, at_ns: u64, out: &mut dyn FnMut(Reading<'_>), _lost: &mut Vec<Missing>) {
        let value = if self.0.len() > 1 { self.0.remove(0) } else { self.0[0] };
        out(Reading { at_ns, device: "gpu0", metric: "power_watts", value, source: "test" });
        out(Reading { at_ns, device: "gpu0", metric: "temperature_celsius", value: 64.0, source: "test" });
    }
}

#[test]
fn implausible_values_are_dropped_and_reported_with_their_end() {
    let values = vec![40.0, f64::NAN, -5.0, 4e9, f64::INFINITY, 41.0];
    let found = Found { readers: vec![Box::new(Garbage(values))], missing: Vec::new() };
    let seen = watch(found, |collect| has_event(collect, "device_back"));
    let rows = seen.rows::<DeviceSampleRow>();
    let of =
        |metric: &'static str| rows.iter().filter(move |row| &*row.metric == metric).map(|row| row.value);
    assert!(of("power_watts").all(|watts| watts == 40.0 || watts == 41.0));
    assert!(of("temperature_celsius").count() >= of("power_watts").count() + 4, "other readings continue");
    let gaps = seen.rows::<UnavailabilityRow>();
    let readings: Vec<(&str, bool)> = gaps.iter().map(|row| (&*row.track, row.to_ns.is_some())).collect();
    assert_eq!(readings, [("gpu0/power_watts", false), ("gpu0/power_watts", true)]);
    assert!(gaps[1].to_ns > Some(gaps[1].from_ns) && gaps[0].reason == gaps[1].reason, "{gaps:?}");
    let events = seen.rows::<AnnotationRow>();
    let texts: Vec<&str> = events.iter().map(|row| &*row.text).collect();
    assert_eq!(texts[0], "gpu0 reports NaN or infinity as power_watts");
    assert!(texts[1].contains("is plausible again; 4 readings were dropped"), "{texts:?}");
}

fn make_fifo(path: &Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success());
}

/// Opening a FIFO blocks until it is written to, like the file of a hanging driver. Regression: it used to block every
/// other sensor and the end of the run.
#[test]
fn a_hanging_sensor_affects_only_itself_and_recovers() {
    let tree = Tree::new();
    let found = tree.found();
    tree.remove(HEAT);
    make_fifo(&tree.path(HEAT));
    let mut energy = 1000;
    let mut others_continued = false;
    let count = |collect: &Collect| {
        collect.rows_so_far::<DeviceSampleRow>().iter().filter(|row| &*row.device == "package-0").count()
    };
    let (before, is_freed) = (std::cell::Cell::new(None), std::cell::Cell::new(false));
    let cell = std::cell::RefCell::new((&mut energy, &mut others_continued));
    let seen = watch(found, |collect| {
        let (energy, others) = &mut *cell.borrow_mut();
        **energy += 400_000;
        tree.set(ENERGY, &energy.to_string());
        if has_event(collect, "device") && !is_freed.get() {
            let before = before.get().unwrap_or_else(|| {
                before.set(Some(count(collect)));
                count(collect)
            });
            **others = count(collect) > before + 3;
            if **others {
                // The driver answers again.
                std::fs::write(tree.path(HEAT), "52000\n").unwrap();
                tree.set(HEAT, "52000");
                is_freed.set(true);
            }
        }
        has_event(collect, "device_back")
    });
    assert!(others_continued);
    let events = seen.rows::<AnnotationRow>();
    assert!(events[0].text.contains("temperature of k10temp/temp1 has not answered for"), "{events:?}");
    assert!(events.iter().any(|row| row.text.starts_with("available again after")), "{events:?}");
    assert!(seen.rows::<UnavailabilityRow>().iter().any(|row| &*row.track == "devices"));
}

#[test]
fn a_permanently_hanging_sensor_does_not_block_the_end() {
    let tree = Tree::new();
    let found = tree.found();
    tree.remove(ENERGY);
    make_fifo(&tree.path(ENERGY));
    let seen = watch(found, |collect| has_event(collect, "device"));
    assert!(seen.rows::<AnnotationRow>()[0].text.contains("package-0 (RAPL) has not answered"));
}
