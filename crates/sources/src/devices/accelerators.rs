//! GPUs and NPUs of which the kernel itself tells: AMD's and Intel's graphics, Intel's NPU.

use std::path::{Path, PathBuf};

use ortscope_decode::energy_counter::{EnergyCounter, Step};

use super::clients::{self, Named, Names};
use super::counted::{CountedEnergy, Of};
use super::files::{entries, name_of, number, text};
use super::presence::Presence;
use super::{AmdLibrary, Back, Found, Missing, Reader, Reading, amd_smi, amdxdna};

/// The driver's advice for the NPU: asked more often, jobs are slowed down.
const NPU_PERIOD_NS: u64 = 1_000_000_000;

/// A file and what its number means.
#[derive(Debug)]
struct Sensor {
    metric: &'static str,
    file: PathBuf,
    /// The number times this is the value.
    scale: f64,
    presence: Presence,
}

#[derive(Debug)]
struct Gpu {
    device: String,
    driver: String,
    sensors: Vec<Sensor>,
    /// In microjoules, of cards that count them.
    energy: Option<(PathBuf, CountedEnergy)>,
    back: Vec<Back>,
}

#[derive(Debug)]
struct Npu {
    device: String,
    directory: PathBuf,
    busy: EnergyCounter,
    read_ns: Option<u64>,
    presence: Presence,
    back: Vec<Back>,
}

/// `nvidia`: as many GPUs have names already; `None`: nobody asked NVIDIA's library.
pub(super) fn find(root: &Path, nvidia: Option<usize>, amd: &AmdLibrary, found: &mut Found) {
    let first = nvidia.unwrap_or(0);
    let (mut gpus, mut names, mut of_amd) = (first, Names::new(), Vec::new());
    for card in entries(&root.join("sys/class/drm"), "card") {
        // card0, not its connectors card0-HDMI-A-1.
        if name_of(&card).contains('-') {
            continue;
        }
        let directory = card.join("device");
        let Some(driver) = driver_of(&directory) else { continue };
        let gpu = Gpu::open(&card, &driver, gpus);
        if gpu.is_none() && !CLIENT_DRIVERS.contains(&driver.as_str()) {
            continue;
        }
        let tells_use = gpu.as_ref().is_some_and(|gpu| gpu.tells("utilization_ratio"));
        let named = Named { device: format!("gpu{gpus}"), tells_use };
        let address = address_of(&directory);
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
                "there is an NVIDIA driver without its library libnvidia-ml.so.1",
                "install the driver's user part; in a container: --gpus all",
            )
        } else {
            (
                "no driver of a GPU is loaded",
                "amdgpu, i915, xe, msm and NVIDIA's tell their use; in a container pass /sys and /dev/dri",
            )
        };
        found.missing.push(Missing { what: "gpu", why: why.to_owned(), hint: hint.to_owned() });
    }
    amd_smi::find(amd, &names, &of_amd, found);
    let mut npus = 0;
    for accelerator in entries(&root.join("sys/class/accel"), "accel") {
        let directory = accelerator.join("device");
        let driver = driver_of(&directory).unwrap_or_default();
        if let "amdxdna" | "amdxdna_accel_driver" = driver.as_str() {
            let device = format!("npu{npus}");
            npus += 1;
            let named = Named { device: device.clone(), tells_use: true };
            names.insert(address_of(&directory).unwrap_or_else(|| "amdxdna_accel_driver".to_owned()), named);
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
        found.missing.push(Missing {
            what: "npu",
            why: "no driver of an NPU tells its use".to_owned(),
            hint: "Intel's driver ivpu does since Linux 6.11, AMD's amdxdna since 6.14".to_owned(),
        });
    }
    clients::find(root, names, found);
}

/// Drivers that tell of their clients, with or without sensors of the card.
const CLIENT_DRIVERS: &[&str] =
    &["amdgpu", "i915", "xe", "msm", "msm_dpu", "panfrost", "panthor", "v3d", "nouveau"];

fn driver_of(directory: &Path) -> Option<String> {
    fs_err::read_link(directory.join("driver")).ok().map(|target| name_of(&target))
}

/// On the PCI bus.
fn address_of(directory: &Path) -> Option<String> {
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
            // 0 or 1: something holds the clock down.
            ("throttled_ratio", Some(card.join("gt/gt0/throttle_reason_status")), 1.0),
            ("throttled_ratio", Some(directory.join("tile0/gt0/freq0/throttle/status")), 1.0),
        ];
        let mut sensors: Vec<Sensor> = Vec::new();
        for (metric, file, scale) in candidates {
            let Some(file) = file.filter(|file| number(file).is_ok()) else { continue };
            // The first file that tells it.
            if sensors.iter().all(|sensor| sensor.metric != metric) {
                sensors.push(Sensor { metric, file, scale, presence: Presence::default() });
            }
        }
        let energy = at("energy1_input").filter(|file| number(file).is_ok());
        let energy = energy.map(|file| (file, CountedEnergy::new(Of::Gpu, None, 1e-6)));
        (!sensors.is_empty() || energy.is_some()).then(|| Self {
            device: format!("gpu{ordinal}"),
            driver: driver.to_owned(),
            sensors,
            energy,
            back: Vec::new(),
        })
    }

    fn tells(&self, metric: &str) -> bool {
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
                // A card that sleeps does not answer, and wakes up again.
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {}
                Err(_) => {
                    let why = || format!("{device} does not tell its {metric} any more");
                    let hint = "was the card removed, or its driver?".to_owned();
                    presence.lose(at_ns, || Missing { what: "gpu", why: why(), hint }, lost);
                }
            }
        }
        let tells_power = self.tells("power_watts");
        if let Some((file, energy)) = &mut self.energy
            && let Ok(reading) = number(file)
            && let Some(used) = energy.take(at_ns, reading, device, lost, &mut self.back)
        {
            out(Reading { at_ns, device, metric: "energy_joules", value: used.joules, source });
            if let Some(value) = used.watts.filter(|_| !tells_power) {
                out(Reading { at_ns, device, metric: "power_watts", value, source });
            }
        }
    }

    fn came_back(&mut self, back: &mut Vec<Back>) {
        back.append(&mut self.back);
    }
}

impl Reader for Npu {
    fn describe(&self) -> String {
        let name = text(&self.directory.join("device")).unwrap_or_default();
        format!("{} (ivpu {name})", self.device)
    }

    fn read(&mut self, at_ns: u64, out: &mut dyn FnMut(Reading<'_>), lost: &mut Vec<Missing>) {
        let mut tell =
            |metric, value| out(Reading { at_ns, device: &self.device, metric, value, source: "ivpu" });
        let Ok(microseconds) = number(&self.directory.join("npu_busy_time_us")) else {
            let why = format!("{} does not answer", self.device);
            let hint = "its driver says more: dmesg | grep vpu".to_owned();
            self.presence.lose(at_ns, || Missing { what: "npu", why, hint }, lost);
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
                tell("utilization_ratio", (busy as f64 * 1e3 / (at_ns - since_ns) as f64).min(1.0));
            }
        }
        if let Ok(bytes) = number(&self.directory.join("npu_memory_utilization")) {
            tell("memory_used_bytes", bytes as f64);
        }
        // 0 while it sleeps.
        if let Ok(megahertz @ 1..) = number(&self.directory.join("npu_current_frequency_mhz")) {
            tell("frequency_hertz", megahertz as f64 * 1e6);
        }
    }

    fn came_back(&mut self, back: &mut Vec<Back>) {
        back.append(&mut self.back);
    }

    fn period_ns(&self) -> u64 {
        NPU_PERIOD_NS
    }
}
