//! Devices as Linux exposes them, tested on every system with file trees that have the names, units and pitfalls of real
//! ones.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests")]

use std::path::Path;

use ortscope_sources::devices::{Found, Missing, NvmlLibrary, find, find_in};

mod amd;
mod nvidia;

const SECOND: u64 = 1_000_000_000;

fn find_under(root: &Path) -> Found {
    find_in(root, &NvmlLibrary::None)
}

/// A file tree.
struct Tree(tempfile::TempDir);

impl Tree {
    fn new(files: &[(&str, &str)]) -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        files.iter().for_each(|(path, text)| tree.set(path, text));
        tree
    }

    fn root(&self) -> &Path {
        self.0.path()
    }

    fn set(&self, path: &str, text: &str) {
        let path = self.root().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, format!("{text}\n")).unwrap();
    }

    fn remove(&self, path: &str) {
        std::fs::remove_file(self.root().join(path)).unwrap();
    }

    /// A device's driver is the target of this link.
    fn driver(&self, device: &str, driver: &str) {
        self.set(&format!("drivers/{driver}/name"), driver);
        let link = self.root().join(device).join("driver");
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink(self.root().join("drivers").join(driver), link).unwrap();
    }
}

/// One poll of all readers: `device metric value`.
fn read(found: &mut Found, at_ns: u64) -> (Vec<String>, Vec<Missing>) {
    let (mut readings, mut lost) = (Vec::new(), Vec::new());
    for reader in &mut found.readers {
        let mut out = |reading: ortscope_sources::devices::Reading<'_>| {
            readings.push(format!("{} {} {:.3}", reading.device, reading.metric, reading.value));
        };
        reader.read(at_ns, &mut out, &mut lost);
    }
    (readings, lost)
}

fn rapl() -> Tree {
    Tree::new(&[
        ("sys/class/powercap/intel-rapl:0/name", "package-0"),
        ("sys/class/powercap/intel-rapl:0/energy_uj", "262143000000"),
        ("sys/class/powercap/intel-rapl:0/max_energy_range_uj", "262143328850"),
        ("sys/class/powercap/intel-rapl:0:0/name", "core"),
        ("sys/class/powercap/intel-rapl:0:0/energy_uj", "1000000"),
        ("sys/class/powercap/intel-rapl:0:1/name", "dram"),
        ("sys/class/powercap/intel-rapl:0:1/energy_uj", "500"),
        // The same package again, as an MMIO zone.
        ("sys/class/powercap/intel-rapl-mmio:0/name", "package-0"),
        ("sys/class/powercap/intel-rapl-mmio:0/energy_uj", "7"),
    ])
}

#[test]
fn energy_continues_across_a_counter_wrap_and_gives_power() {
    let tree = rapl();
    let mut found = find_under(tree.root());
    assert_eq!(found.readers[0].describe(), "cores-0, dram-0, package-0 (RAPL)");
    assert_eq!(read(&mut found, SECOND), (vec![], vec![]), "a first reading has no energy");
    // 328,850 up to the wrap and 9,671,150 after it: 10 J in half a second.
    tree.set("sys/class/powercap/intel-rapl:0/energy_uj", "9671150");
    tree.set("sys/class/powercap/intel-rapl:0:0/energy_uj", "3000000");
    let (readings, lost) = read(&mut found, SECOND + SECOND / 2);
    assert_eq!(
        readings,
        [
            "cores-0 energy_joules 2.000",
            "cores-0 power_watts 4.000",
            "package-0 energy_joules 10.000",
            "package-0 power_watts 20.000"
        ]
    );
    assert_eq!(lost, []);
}

#[test]
fn a_stuck_counter_is_not_zero_joules() {
    let tree = Tree::new(&[
        ("sys/class/powercap/intel-rapl:1/name", "psys"),
        ("sys/class/powercap/intel-rapl:1/energy_uj", "0"),
    ]);
    let mut found = find_under(tree.root());
    let mut reasons = Vec::new();
    for tick in 1..=40 {
        let (readings, lost) = read(&mut found, tick * SECOND / 10);
        assert_eq!(readings, Vec::<String>::new());
        reasons.extend(lost.into_iter().map(|missing| missing.why));
    }
    assert_eq!(reasons, ["psys has an energy counter that does not advance"], "reported once");
    // It disappears during a run.
    tree.remove("sys/class/powercap/intel-rapl:1/energy_uj");
    let (_, lost) = read(&mut found, 5 * SECOND);
    assert!(lost[0].why.starts_with("psys can no longer be read"), "{lost:?}");
    assert_eq!(read(&mut found, 6 * SECOND), (vec![], vec![]));
}

#[test]
fn dies_that_mirror_one_counter_are_counted_once() {
    let zone = |number: u32, energy: &str, tree: &Tree| {
        tree.set(&format!("sys/class/powercap/intel-rapl:{number}/name"), &format!("package-{number}"));
        tree.set(&format!("sys/class/powercap/intel-rapl:{number}/energy_uj"), energy);
    };
    let tree = Tree::new(&[]);
    [0, 1].iter().for_each(|&number| zone(number, "1000", &tree));
    let mut found = find_under(tree.root());
    read(&mut found, SECOND);
    [0, 1].iter().for_each(|&number| zone(number, "9000", &tree));
    let (_, lost) = read(&mut found, 2 * SECOND);
    assert!(lost[0].why.starts_with("package-1 mirrors the counter of another package"), "{lost:?}");
    [0, 1].iter().for_each(|&number| zone(number, "10000", &tree));
    let (readings, _) = read(&mut found, 3 * SECOND);
    assert_eq!(readings.len(), 2, "{readings:?}");
}

#[test]
fn package_temperatures_and_throttling_are_reported_once() {
    let tree = Tree::new(&[
        ("sys/class/hwmon/hwmon0/name", "acpitz"),
        ("sys/class/hwmon/hwmon0/temp1_input", "27800"),
        ("sys/class/hwmon/hwmon1/name", "coretemp"),
        ("sys/class/hwmon/hwmon1/temp1_input", "61500"),
        ("sys/class/hwmon/hwmon1/temp1_label", "Package id 0"),
        ("sys/class/hwmon/hwmon1/temp2_input", "-3000"),
    ]);
    for cpu in 0..2 {
        let directory = format!("sys/devices/system/cpu/cpu{cpu}");
        for (file, value) in [
            ("core_throttle_count", "3"),
            ("package_throttle_count", "7"),
            ("package_throttle_total_time_ms", "250"),
        ] {
            tree.set(&format!("{directory}/thermal_throttle/{file}"), value);
        }
        tree.set(&format!("{directory}/topology/physical_package_id"), "0");
    }
    let mut found = find_under(tree.root());
    let (readings, lost) = read(&mut found, SECOND);
    assert_eq!(
        readings,
        [
            "coretemp/Package id 0 temperature_celsius 61.500",
            "coretemp/temp2 temperature_celsius -3.000",
            "cpu0 throttle_count 3.000",
            "package-0 throttle_count 7.000",
            "package-0 throttle_milliseconds 250.000",
            "cpu1 throttle_count 3.000"
        ]
    );
    assert_eq!(lost, []);
}

#[test]
fn gpus_of_three_drivers_and_an_npu_are_read() {
    if std::env::consts::OS == "windows" {
        return;
    }
    let tree = Tree::new(&[
        ("sys/class/drm/card0/device/gpu_busy_percent", "83"),
        ("sys/class/drm/card0/device/mem_info_vram_used", "1048576"),
        ("sys/class/drm/card0/device/hwmon/hwmon3/power1_average", "45200000"),
        ("sys/class/drm/card0/device/hwmon/hwmon3/temp1_input", "70000"),
        ("sys/class/drm/card0-HDMI-A-1/device/gpu_busy_percent", "1"),
        ("sys/class/drm/card1/device/hwmon/hwmon4/energy1_input", "1000000"),
        ("sys/class/accel/accel0/device/npu_busy_time_us", "5000"),
        ("sys/class/accel/accel0/device/npu_memory_utilization", "4096"),
        ("sys/class/accel/accel0/device/npu_current_frequency_mhz", "0"),
    ]);
    tree.driver("sys/class/drm/card0/device", "amdgpu");
    tree.driver("sys/class/drm/card1/device", "xe");
    let mut found = find_under(tree.root());
    assert!(found.missing.iter().all(|missing| missing.what != "gpu" && missing.what != "npu"), "{found:?}");
    let (readings, _) = read(&mut found, SECOND);
    assert_eq!(
        readings,
        [
            "gpu0 utilization_ratio 0.830",
            "gpu0 memory_used_bytes 1048576.000",
            "gpu0 power_watts 45.200",
            "gpu0 temperature_celsius 70.000",
            "npu0 memory_used_bytes 4096.000"
        ]
    );
    tree.set("sys/class/drm/card1/device/hwmon/hwmon4/energy1_input", "31000000");
    tree.set("sys/class/accel/accel0/device/npu_busy_time_us", "505000");
    tree.set("sys/class/accel/accel0/device/npu_current_frequency_mhz", "1400");
    tree.remove("sys/class/drm/card0/device/gpu_busy_percent");
    let (readings, lost) = read(&mut found, 2 * SECOND);
    assert!(lost[0].why.starts_with("gpu0 no longer reports utilization_ratio"), "{lost:?}");
    let expected = [
        "gpu1 energy_joules 30.000",
        "gpu1 power_watts 30.000",
        "npu0 utilization_ratio 0.500",
        "npu0 frequency_hertz 1400000000.000",
    ];
    assert!(expected.iter().all(|line| readings.iter().any(|reading| reading == line)), "{readings:?}");
}

/// A process with an open device descriptor and its driver statistics.
#[cfg(unix)]
fn client(tree: &Tree, pid: u32, descriptor: u32, text: &str) {
    let link = tree.root().join(format!("proc/{pid}/fd/{descriptor}"));
    std::fs::create_dir_all(link.parent().unwrap()).unwrap();
    if std::fs::symlink_metadata(&link).is_err() {
        std::os::unix::fs::symlink("/dev/dri/renderD128", link).unwrap();
    }
    tree.set(&format!("proc/{pid}/fdinfo/{descriptor}"), text);
}

#[cfg(unix)]
#[test]
fn gpu_processes_of_three_drivers_are_read() {
    let tree = Tree::new(&[
        ("sys/class/drm/card0/device/uevent", "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:03:00.0"),
        ("sys/class/drm/card0/device/gpu_busy_percent", "50"),
        ("sys/class/drm/card1/device/uevent", "PCI_SLOT_NAME=0000:00:02.0"),
        ("sys/class/drm/card2/device/uevent", "OF_NAME=gpu"),
        ("sys/class/drm/card3/device/uevent", "PCI_SLOT_NAME=0000:09:00.0"),
    ]);
    for (card, driver) in [("card0", "amdgpu"), ("card1", "xe"), ("card2", "msm"), ("card3", "ast")] {
        tree.driver(&format!("sys/class/drm/{card}/device"), driver);
    }
    let amd = |gfx: u64| {
        format!(
            "drm-driver:\tamdgpu\ndrm-client-id:\t5\ndrm-pdev:\t0000:03:00.0\ndrm-engine-gfx:\t{gfx} ns\n\
             drm-engine-compute:\t7 ns\ndrm-resident-vram:\t3 KiB\ndrm-resident-gtt:\t1 KiB"
        )
    };
    let xe = |pid: u32, ticks: u64, total: u64| {
        format!(
            "drm-driver:\txe\ndrm-client-id:\t{pid}\ndrm-pdev:\t0000:00:02.0\ndrm-cycles-ccs:\t{ticks}\n\
             drm-total-cycles-ccs:\t{total}"
        )
    };
    let msm = |nanos: u64| format!("drm-driver:\tmsm\ndrm-client-id:\t9\ndrm-engine-gpu:\t{nanos} ns");
    client(&tree, 100, 7, &amd(1_000_000_000));
    // A duplicated descriptor shows the same client.
    client(&tree, 100, 8, &amd(1_000_000_000));
    client(&tree, 200, 3, &xe(200, 10, 1000));
    client(&tree, 300, 3, &xe(300, 10, 1000));
    client(&tree, 400, 3, &msm(0));
    tree.set("proc/500/fdinfo/1", "pos:\t0");
    let mut found = find_under(tree.root());
    let clients = |readings: Vec<String>| -> Vec<String> {
        readings
            .into_iter()
            .filter(|line| line.starts_with("process-") || line.contains("utilization"))
            .collect()
    };
    let first = clients(read(&mut found, SECOND).0);
    assert_eq!(
        first,
        [
            "gpu0 utilization_ratio 0.500",
            "process-100/gpu0 memory_used_bytes 4096.000",
            "process-100/gpu0 memory_local_bytes 3072.000"
        ]
    );
    let amd_again =
        |gfx: u64| [7, 8].iter().for_each(|descriptor| client(&tree, 100, *descriptor, &amd(gfx)));
    amd_again(1_250_000_000);
    client(&tree, 200, 3, &xe(200, 60, 1100));
    client(&tree, 300, 3, &xe(300, 30, 1100));
    // A count that decreased is neither use nor negative use.
    client(&tree, 400, 3, &msm(0));
    let second = clients(read(&mut found, 2 * SECOND).0);
    let expected = [
        "process-100/gpu0 utilization_ratio 0.250",
        "process-100/gpu0/gfx utilization_ratio 0.250",
        "process-200/gpu1 utilization_ratio 0.500",
        "process-300/gpu1 utilization_ratio 0.200",
        "process-400/gpu2 utilization_ratio 0.000",
        // The card's driver has no figure of its own: both processes together.
        "gpu1 utilization_ratio 0.700",
    ];
    for line in expected {
        assert!(second.iter().any(|reading| reading == line), "{line} in {second:?}");
    }
    amd_again(1_100_000_000);
    let third = clients(read(&mut found, 3 * SECOND).0);
    assert!(
        third.iter().any(|reading| reading == "process-100/gpu0/gfx utilization_ratio 0.000"),
        "{third:?}"
    );
    amd_again(1_350_000_000);
    let fourth = clients(read(&mut found, 4 * SECOND).0);
    assert!(
        fourth.iter().any(|reading| reading == "process-100/gpu0/gfx utilization_ratio 0.100"),
        "{fourth:?}"
    );
}

#[test]
fn a_battery_measures_the_machine_only_while_discharging() {
    let tree = Tree::new(&[
        ("sys/class/power_supply/AC/type", "Mains"),
        ("sys/class/power_supply/BAT0/type", "Battery"),
        ("sys/class/power_supply/BAT0/status", "Discharging"),
        ("sys/class/power_supply/BAT0/current_now", "-1500000"),
        ("sys/class/power_supply/BAT0/voltage_now", "12000000"),
        ("sys/class/power_supply/hid-mouse/type", "Battery"),
        ("sys/class/power_supply/hid-mouse/scope", "Device"),
        ("sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "3400000"),
        ("sys/devices/system/cpu/cpufreq/boost", "1"),
    ]);
    let mut found = find_under(tree.root());
    let readings = |found: &mut Found, second: u64| read(found, second * SECOND).0;
    assert_eq!(readings(&mut found, 1), ["system power_watts 18.000", "cpu0 frequency_hertz 3400000000.000"]);
    assert_eq!(
        readings(&mut found, 2),
        ["cpu0 frequency_hertz 3400000000.000"],
        "an unchanged value is not a new reading"
    );
    tree.set("sys/class/power_supply/BAT0/status", "Charging");
    tree.set("sys/class/power_supply/BAT0/current_now", "900000");
    let (readings, lost) = read(&mut found, 3 * SECOND);
    assert_eq!(readings, ["cpu0 frequency_hertz 3400000000.000"], "charging power is not consumption");
    // Regression: it used to stop without a reason.
    assert_eq!((lost[0].what, lost[0].why.as_str()), ("battery", "this machine runs on mains power"));
}

#[test]
fn missing_devices_have_a_reason_and_a_hint() {
    for found in [find_under(Tree::new(&[]).root()), find()] {
        for missing in &found.missing {
            assert!(!missing.why.is_empty() && !missing.hint.is_empty(), "{missing:?}");
        }
    }
    let missing: Vec<&str> =
        find_under(Tree::new(&[]).root()).missing.iter().map(|missing| missing.what).collect();
    assert_eq!(
        missing,
        ["energy", "battery", "temperature", "throttling", "cpu_frequency", "memory_bandwidth", "gpu", "npu"]
    );
}

#[test]
fn garbage_in_files_gives_no_reading() {
    let tree = Tree::new(&[
        ("sys/class/powercap/intel-rapl:0/name", "package-0"),
        ("sys/class/powercap/intel-rapl:0/energy_uj", "NaN"),
        ("sys/class/powercap/intel-rapl:1/name", ""),
        ("sys/class/powercap/intel-rapl:1/energy_uj", "18446744073709551616"),
        ("sys/class/hwmon/hwmon0/name", "k10temp"),
        ("sys/class/hwmon/hwmon0/temp1_input", "warm"),
    ]);
    let mut found = find_under(tree.root());
    assert!(found.readers.is_empty(), "{found:?}");
    assert_eq!(read(&mut found, SECOND), (vec![], vec![]));
}

/// Traffic of each last-level cache; the kernel's status words are not numbers.
#[test]
fn resctrl_reports_memory_bandwidth() {
    let tree = Tree::new(&[
        ("sys/fs/resctrl/mon_data/mon_L3_00/mbm_total_bytes", "1000"),
        ("sys/fs/resctrl/mon_data/mon_L3_00/mbm_local_bytes", "Unavailable"),
        ("sys/fs/resctrl/mon_data/mon_L3_00/llc_occupancy", "4096"),
        ("sys/fs/resctrl/mon_data/mon_L3_01/mbm_total_bytes", "Error"),
    ]);
    let mut found = find_under(tree.root());
    assert!(
        found
            .readers
            .iter()
            .any(|reader| reader.describe() == "memory bandwidth and occupancy of l3-0 (resctrl)"),
        "{found:?}"
    );
    assert_eq!(read(&mut found, SECOND).0, ["l3-0 occupied_bytes 4096.000"]);
    tree.set("sys/fs/resctrl/mon_data/mon_L3_00/mbm_total_bytes", "3000");
    let (readings, _) = read(&mut found, 3 * SECOND);
    assert_eq!(readings, ["l3-0 memory_bytes_per_second 1000.000", "l3-0 occupied_bytes 4096.000"]);
    // The counter was reset: the interval has no value, and no negative one.
    tree.set("sys/fs/resctrl/mon_data/mon_L3_00/mbm_total_bytes", "5");
    assert_eq!(read(&mut found, 4 * SECOND).0, ["l3-0 occupied_bytes 4096.000"]);
    let none = find_under(Tree::new(&[]).root());
    let why = none.missing.iter().find(|missing| missing.what == "memory_bandwidth").unwrap();
    assert!(
        why.why.contains("no memory traffic counters") && why.hint.contains("mount -t resctrl"),
        "{why:?}"
    );
}

/// Root may read everything, so the denial cannot be tested as root.
#[cfg(unix)]
#[test]
fn an_unreadable_counter_is_reported_as_denied() {
    use std::os::unix::fs::PermissionsExt as _;
    let tree = Tree::new(&[
        ("sys/class/powercap/intel-rapl:0/name", "package-0"),
        ("sys/class/powercap/intel-rapl:0/energy_uj", "1"),
    ]);
    let file = tree.root().join("sys/class/powercap/intel-rapl:0/energy_uj");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o000)).unwrap();
    let is_root = std::fs::read_to_string(&file).is_ok();
    let found = find_under(tree.root());
    let why =
        &found.missing.iter().find(|missing| missing.what == "energy").map(|missing| missing.why.clone());
    assert!(is_root || why.as_ref().is_some_and(|why| why.contains("only root")), "{found:?}");
}
