//! One card of NVIDIA: what its library tells of it, and what it does not.

use std::collections::BTreeMap;

use nvml_wrapper::enum_wrappers::device::{Clock, PcieUtilCounter, PerformancePolicy, TemperatureSensor};
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::enums::gpm::GpmMetricId;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::gpm::{GpmSample, gpm_metrics_get};
use nvml_wrapper::{Device, Nvml};
use ortscope_decode::energy_counter::{EnergyCounter, Step};

/// What changes slowly, or costs the driver time, is asked so often.
const SLOW_NS: u64 = 1_000_000_000;
/// Processes of a card that are told.
const MAX_PROCESSES: usize = 64;

/// Figures of Hopper and newer cards, in percent.
const GPM: [(GpmMetricId, &str); 4] = [
    (GpmMetricId::SmUtil, "sm_active_ratio"),
    (GpmMetricId::SmOccupancy, "sm_occupancy_ratio"),
    (GpmMetricId::AnyTensorUtil, "tensor_core_ratio"),
    (GpmMetricId::DramBwUtil, "memory_bandwidth_ratio"),
];

/// One number: of the card, or of a process on it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Told {
    pub pid: Option<u32>,
    pub metric: &'static str,
    pub value: f64,
}

/// What a card does not tell, and what its library says of it.
pub(super) type Absent = BTreeMap<&'static str, String>;

pub(super) struct Card<'a> {
    nvml: &'a Nvml,
    device: Device<'a>,
    energy: EnergyCounter,
    held_down: [EnergyCounter; 2],
    gpm: Option<GpmSample<'a>>,
    slow_ns: Option<u64>,
    /// Of the newest sample of processes, on the driver's own clock.
    seen: Option<u64>,
}

impl<'a> Card<'a> {
    pub fn new(nvml: &'a Nvml, device: Device<'a>) -> Self {
        let counter = EnergyCounter::new(None);
        Self { nvml, device, energy: counter, held_down: [counter; 2], gpm: None, slow_ns: None, seen: None }
    }

    /// After it was lost. What was counted stays: a total that began at 0 again would take energy back.
    pub fn renew(&mut self, device: Device<'a>) {
        (self.device, self.gpm, self.seen, self.slow_ns) = (device, None, None, None);
    }

    pub fn name(&self) -> String {
        self.device.name().unwrap_or_else(|_| "NVIDIA GPU".to_owned())
    }

    /// What a card does not support goes into `absent`; the error is that the card is gone.
    pub fn read(
        &mut self,
        at_ns: u64,
        absent: &mut Absent,
        out: &mut dyn FnMut(Told),
    ) -> Result<(), NvmlError> {
        let mut tell = |metric, value: f64| out(Told { pid: None, metric, value });
        let device = &self.device;
        if let Some(busy) = there("utilization", device.utilization_rates(), absent)? {
            tell("utilization_ratio", f64::from(busy.gpu) / 100.0);
            tell("memory_busy_ratio", f64::from(busy.memory) / 100.0);
        }
        if let Some(memory) = there("memory", device.memory_info(), absent)? {
            tell("memory_used_bytes", memory.used as f64);
            tell("memory_total_bytes", memory.total as f64);
        }
        if let Some(milliwatts) = there("power", device.power_usage(), absent)? {
            tell("power_watts", f64::from(milliwatts) / 1e3);
        }
        if let Some(millijoules) = there("energy", device.total_energy_consumption(), absent)?
            && let Step::Used(_) = self.energy.advance(millijoules)
        {
            tell("energy_joules", self.energy.total() as f64 / 1e3);
        }
        if let Some(celsius) = there("temperature", device.temperature(TemperatureSensor::Gpu), absent)? {
            tell("temperature_celsius", f64::from(celsius));
        }
        if let Some(megahertz) = there("clock", device.clock_info(Clock::SM), absent)? {
            tell("frequency_hertz", f64::from(megahertz) * 1e6);
        }
        if let Some(reasons) = there("throttle reasons", device.current_throttle_reasons(), absent)? {
            tell("throttle_reasons", reasons.bits() as f64);
        }
        let policies = [
            (PerformancePolicy::Power, "throttle_power_milliseconds"),
            (PerformancePolicy::Thermal, "throttle_thermal_milliseconds"),
        ];
        for ((policy, metric), counter) in policies.into_iter().zip(&mut self.held_down) {
            if let Some(time) = there("throttle times", device.violation_status(policy), absent)? {
                counter.advance(time.violation_time);
                tell(metric, counter.total() as f64 / 1e6);
            }
        }
        if self.slow_ns.is_none_or(|last_ns| at_ns.saturating_sub(last_ns) >= SLOW_NS) {
            self.slow_ns = Some(at_ns);
            self.read_slow(absent, out)?;
        }
        Ok(())
    }

    fn read_slow(&mut self, absent: &mut Absent, out: &mut dyn FnMut(Told)) -> Result<(), NvmlError> {
        let device = &self.device;
        let mut tell = |metric, value: f64| out(Told { pid: None, metric, value });
        if let Some(megahertz) = there("memory clock", device.clock_info(Clock::Memory), absent)? {
            tell("memory_frequency_hertz", f64::from(megahertz) * 1e6);
        }
        if let Some(milliwatts) = there("power limit", device.enforced_power_limit(), absent)? {
            tell("power_limit_watts", f64::from(milliwatts) / 1e3);
        }
        // Each waits 20 ms in the driver.
        for (way, metric) in [
            (PcieUtilCounter::Send, "pcie_send_bytes_per_second"),
            (PcieUtilCounter::Receive, "pcie_receive_bytes_per_second"),
        ] {
            if let Some(kilobytes) = there("PCIe", device.pcie_throughput(way), absent)? {
                tell(metric, f64::from(kilobytes) * 1e3);
            }
        }
        self.read_gpm(absent, out)?;
        self.read_processes(absent, out)
    }

    /// Figures of the time between two samples, which lie a second apart.
    fn read_gpm(&mut self, absent: &mut Absent, out: &mut dyn FnMut(Told)) -> Result<(), NvmlError> {
        let what = "SM occupancy, tensor cores and memory bandwidth (GPM)";
        match there(what, self.device.gpm_support(), absent)? {
            Some(true) => {}
            Some(false) => {
                absent.insert(what, "this card has none: Hopper and newer do".to_owned());
                return Ok(());
            }
            None => return Ok(()),
        }
        let Some(sample) = there(what, self.device.gpm_sample(), absent)? else { return Ok(()) };
        let Some(before) = self.gpm.replace(sample) else { return Ok(()) };
        let Some(now) = &self.gpm else { return Ok(()) };
        let asked = gpm_metrics_get(self.nvml, &before, now, &GPM.map(|(id, _)| id));
        let Some(answers) = there(what, asked, absent)? else { return Ok(()) };
        for (answer, (_, metric)) in answers.into_iter().zip(GPM) {
            if let Some(answer) = there(metric, answer, absent)?.filter(|answer| answer.value.is_finite()) {
                out(Told { pid: None, metric, value: (answer.value / 100.0).clamp(0.0, 1.0) });
            }
        }
        Ok(())
    }

    fn read_processes(&mut self, absent: &mut Absent, out: &mut dyn FnMut(Told)) -> Result<(), NvmlError> {
        let answer = match self.device.process_utilization_stats(self.seen) {
            // Nothing new: nobody worked since.
            Err(NvmlError::NotFound) => Ok(Vec::new()),
            answer => answer,
        };
        // The newest of each process.
        let mut newest: BTreeMap<u32, (u64, u32)> = BTreeMap::new();
        for sample in there("use by process", answer, absent)?.unwrap_or_default() {
            self.seen = self.seen.max(Some(sample.timestamp));
            let place = newest.entry(sample.pid).or_default();
            *place = (*place).max((sample.timestamp, sample.sm_util));
        }
        for (pid, (_, percent)) in newest.into_iter().take(MAX_PROCESSES) {
            let value = f64::from(percent.min(100)) / 100.0;
            out(Told { pid: Some(pid), metric: "utilization_ratio", value });
        }
        let compute = there("processes", self.device.running_compute_processes(), absent)?;
        let graphics = there("processes", self.device.running_graphics_processes(), absent)?;
        // A process that computes and draws is in both lists, with the same memory.
        let mut bytes: BTreeMap<u32, u64> = BTreeMap::new();
        for process in compute.into_iter().chain(graphics).flatten() {
            match process.used_gpu_memory {
                UsedGpuMemory::Used(used) => {
                    let known = bytes.entry(process.pid).or_default();
                    *known = used.max(*known);
                }
                UsedGpuMemory::Unavailable => {
                    let why = "Windows manages it and tells it by its own counters (GPU Process Memory)";
                    absent.insert("memory by process", why.to_owned());
                }
            }
        }
        for (pid, used) in bytes.into_iter().take(MAX_PROCESSES) {
            out(Told { pid: Some(pid), metric: "memory_used_bytes", value: used as f64 });
        }
        Ok(())
    }
}

/// A value, nothing where this card or this driver does not have it, or that the card is gone.
fn there<T>(
    what: &'static str,
    answer: Result<T, NvmlError>,
    absent: &mut Absent,
) -> Result<Option<T>, NvmlError> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error @ (NvmlError::GpuLost | NvmlError::Uninitialized | NvmlError::ResetRequired)) => Err(error),
        Err(NvmlError::FailedToLoadSymbol(_)) => {
            absent.insert(what, "this version of the library does not have it".to_owned());
            Ok(None)
        }
        Err(error) => {
            absent.insert(what, error.to_string());
            Ok(None)
        }
    }
}
