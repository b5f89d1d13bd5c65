//! GPUs and NPUs that the kernel exposes in files: AMD and Intel GPUs, Intel NPUs.

use std::path::{Path, PathBuf};

use ortscope_decode::energy_counter::{EnergyCounter, Step};

use super::clients::{self, Named, Names};
use super::energy_meter::{EnergyDomain, EnergyMeter};
use super::files::{entries, name_of, number, text};
use super::{AmdLibrary, Found, Missing, Presence, Reader, Reading, Recovered, amd_smi, amdxdna};

/// Recommended by the driver: more frequent polling slows down jobs.
const NPU_PERIOD_NS: u64 = 1_000_000_000;

/// A file and the meaning of its value.
#[derive(Debug)]
struct Sensor {
    metric: &'static str,
    file: PathBuf,
    /// Factor from the file's value to the metric's unit.
    scale: f64,
    presence: Presence,
}

#[derive(Debug)]
struct Gpu {
    device: String,
    driver: String,
    sensors: Vec<Sensor>,
    /// Energy counter in microjoules, on cards that have one.
    energy: Option<(PathBuf, EnergyMeter)>,
    back: Vec<Recovered>,
}

#[derive(Debug)]
struct Npu {
    device: String,
    directory: PathBuf,
    busy: EnergyCounter,
    read_ns: Option<u64>,
    presence: Presence,
    back: Vec<Recovered>,
}

/// `nvidia`: the number of GPUs that already have names; `None` if NVIDIA's library was not found.
pub(super) fn find(root: &Path, nvidia: Option<usize>, amd: &AmdLibrary, found: &mut Found) {
    let first = nvidia.unwrap_or(0);
    let (mut gpus, mut names, mut of_amd) = (first, Names::new(), Vec::new());
    for card in entries(&root.join("sys/class/drm"), "card") {
        // card0, but not its connectors such as card0-HDMI-A-1.
        if name_of(&card).contains('-') {
            continue;
        }
        let directory = card.join("device");
        let Some(driver) = driver_name(&directory) else { continue };
        let gpu = Gpu::open(&card, &driver, gpus);
        if gpu.is_none() && !CLIENT_DRIVERS.contains(&driver.as_str()) {
            continue;
        }
        let reports_utilization = gpu.as_ref().is_some_and(|gpu| gpu.reports("utilization_ratio"));
        let named = Named { device: format!("gpu{gpus}"), reports_utilization };
        let address = pci_address(&directory);
        of_amd.extend(address.clone().filter(|_| driver == "amdgpu"));
        names.insert(address.unwrap_or(driver), named);
        gpus += 1;
        if let Some(gpu) = gpu {
            found.readers.push(Box::new(gpu));
        }
    }
    if gpus == first && nvidia.is_none() {
        let driver = root.join("proc/driver/nvidia/version").exists();
        let (why, hint) = if driver {
            (
                "an NVIDIA driver is loaded, but its library libnvidia-ml.so.1 is missing",
                "install the driver's user-space part; in a container: --gpus all",
            )
        } else {
            (
                "no GPU driver is loaded",
                "amdgpu, i915, xe, msm and NVIDIA's driver report utilization; in a container pass /sys and /dev/dri",
            )
        };
        found.missing.push(Missing::new("gpu", why, hint));
    }
    amd_smi::find(amd, &names, &of_amd, found);
    let mut npus = 0;
    for accelerator in entries(&root.join("sys/class/accel"), "accel") {
        let directory = accelerator.join("device");
        let driver = driver_name(&directory).unwrap_or_default();
        if let "amdxdna" | "amdxdna_accel_driver" = driver.as_str() {
            let device = format!("npu{npus}");
            npus += 1;
            let named = Named { device: device.clone(), reports_utilization: true };
            names.insert(pci_address(&directory).unwrap_or_else(|| "amdxdna_accel_driver".to_owned()), named);
            amdxdna::find(&root.join("dev/accel").join(name_of(&accelerator)), device, found);
            continue;
        }
        if let Ok(microseconds) = number(&directory.join("npu_busy_time_us")) {
            let mut busy = EnergyCounter::new(None);
            busy.advance(microseconds);
            found.readers.push(Box::new(Npu {
                device: format!("npu{npus}"),
                directory,
                busy,
                read_ns: None,
                presence: Presence::default(),
                back: Vec::new(),
            }));
            npus += 1;
        }
    }
    if npus == 0 {
        found.missing.push(Missing::new(
            "npu",
            "no NPU driver reports utilization",
            "Intel's ivpu does since Linux 6.11, AMD's amdxdna since 6.14",
        ));
    }
    clients::find(root, names, found);
}

/// Drivers with client statistics, with or without sensors.
const CLIENT_DRIVERS: &[&str] =
    &["amdgpu", "i915", "xe", "msm", "msm_dpu", "panfrost", "panthor", "v3d", "nouveau"];

fn driver_name(directory: &Path) -> Option<String> {
    fs_err::read_link(directory.join("driver")).ok().map(|target| name_of(&target))
}

/// PCI bus address.
fn pci_address(directory: &Path) -> Option<String> {
    let text = text(&directory.join("uevent")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("PCI_SLOT_NAME=")).map(|address| address.trim().to_owned())
}

impl Gpu {
    fn open(card: &Path, driver: &str, ordinal: usize) -> Option<Self> {
        let directory = &card.join("device");
        let hwmon = entries(&directory.join("hwmon"), "hwmon").into_iter().next();
        let at = |name: &str| hwmon.as_ref().map(|hwmon| hwmon.join(name));
        let candidates = [
            ("utilization_ratio", Some(directory.join("gpu_busy_percent")), 0.01),
            ("memory_used_bytes", Some(directory.join("mem_info_vram_used")), 1.0),
            ("memory_total_bytes", Some(directory.join("mem_info_vram_total")), 1.0),
            ("power_watts", at("power1_average"), 1e-6),
            ("power_watts", at("power1_input"), 1e-6),
            ("temperature_celsius", at("temp1_input"), 1e-3),
            ("temperature_celsius", at("temp2_input"), 1e-3),
            ("frequency_hertz", at("freq1_input"), 1.0),
            // i915, then xe; in megahertz.
            ("frequency_hertz", Some(card.join("gt_act_freq_mhz")), 1e6),
            ("frequency_hertz", Some(directory.join("tile0/gt0/freq0/act_freq")), 1e6),
            // 0 or 1: whether the frequency is limited.
            ("throttled_ratio", Some(card.join("gt/gt0/throttle_reason_status")), 1.0),
            ("throttled_ratio", Some(directory.join("tile0/gt0/freq0/throttle/status")), 1.0),
        ];
        let mut sensors: Vec<Sensor> = Vec::new();
        for (metric, file, scale) in candidates {
            let Some(file) = file.filter(|file| number(file).is_ok()) else { continue };
            // The first file takes precedence.
            if sensors.iter().all(|sensor| sensor.metric != metric) {
                sensors.push(Sensor { metric, file, scale, presence: Presence::default() });
            }
        }
        let energy = at("energy1_input").filter(|file| number(file).is_ok());
        let energy = energy.map(|file| (file, EnergyMeter::new(EnergyDomain::Gpu, None, 1e-6)));
        (!sensors.is_empty() || energy.is_some()).then(|| Self {
            device: format!("gpu{ordinal}"),
            driver: driver.to_owned(),
            sensors,
            energy,
            back: Vec::new(),
        })
    }

    fn reports(&self, metric: &str) -> bool {
        self.sensors.iter().any(|sensor| sensor.metric == metric)
    }
}

impl Reader for Gpu {
    fn describe(&self) -> String {
        let mut metrics: Vec<&str> = self.sensors.iter().map(|sensor| sensor.metric).collect();
        metrics.extend(self.energy.is_some().then_some("energy_joules"));
        format!("{} ({}): {}", self.device, self.driver, metrics.join(", "))
    }

    fn read(&mut self, at_ns: u64, out: &mut dyn FnMut(Reading<'_>), lost: &mut Vec<Missing>) {
        let (device, source) = (self.device.as_str(), self.driver.as_str());
        for Sensor { metric, file, scale, presence } in &mut self.sensors {
            match number(file) {
                Ok(value) => {
                    presence.find(at_ns, &mut self.back);
                    out(Reading { at_ns, device, metric, value: value as f64 * *scale, source });
                }
                // A sleeping card does not answer, but will wake up.
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {}
                Err(_) => {
                    let why = || format!("{device} no longer reports {metric}");
                    let hint = "was the card removed or its driver unloaded?".to_owned();
                    presence.lose(at_ns, || Missing::new("gpu", why(), hint), lost);
                }
            }
        }
        let reports_power = self.reports("power_watts");
        if let Some((file, energy)) = &mut self.energy
            && let Ok(reading) = number(file)
            && let Some(used) = energy.advance(at_ns, reading, device, lost, &mut self.back)
        {
            out(Reading { at_ns, device, metric: "energy_joules", value: used.joules, source });
            if let Some(value) = used.watts.filter(|_| !reports_power) {
                out(Reading { at_ns, device, metric: "power_watts", value, source });
            }
        }
    }

    fn take_recovered(&mut self, back: &mut Vec<Recovered>) {
        back.append(&mut self.back);
    }
}

impl Reader for Npu {
    fn describe(&self) -> String {
        let name = text(&self.directory.join("device")).unwrap_or_default();
        format!("{} (ivpu {name})", self.device)
    }

    fn read(&mut self, at_ns: u64, out: &mut dyn FnMut(Reading<'_>), lost: &mut Vec<Missing>) {
        let mut emit =
            |metric, value| out(Reading { at_ns, device: &self.device, metric, value, source: "ivpu" });
        let Ok(microseconds) = number(&self.directory.join("npu_busy_time_us")) else {
            let why = format!("{} does not answer", self.device);
            let hint = "see the driver's messages: dmesg | grep vpu".to_owned();
            self.presence.lose(at_ns, || Missing::new("npu", why, hint), lost);
            return;
        };
        self.presence.find(at_ns, &mut self.back);
        let step = self.busy.advance(microseconds);
        if let Some(since_ns) = self.read_ns.replace(at_ns).filter(|since_ns| *since_ns < at_ns) {
            let busy = match step {
                Step::Used(busy) => Some(busy),
                Step::Still => Some(0),
                Step::First | Step::Reset | Step::Jumped => None,
            };
            if let Some(busy) = busy {
                emit("utilization_ratio", (busy as f64 * 1e3 / (at_ns - since_ns) as f64).min(1.0));
            }
        }
        if let Ok(bytes) = number(&self.directory.join("npu_memory_utilization")) {
            emit("memory_used_bytes", bytes as f64);
        }
        // 0 while it sleeps.
        if let Ok(megahertz @ 1..) = number(&self.directory.join("npu_current_frequency_mhz")) {
            emit("frequency_hertz", megahertz as f64 * 1e6);
        }
    }

    fn take_recovered(&mut self, back: &mut Vec<Recovered>) {
        back.append(&mut self.back);
    }

    fn period_ns(&self) -> u64 {
        NPU_PERIOD_NS
    }
}
