//! One NVIDIA card: its available and unavailable figures.

use std::collections::BTreeMap;

use nvml_wrapper::enum_wrappers::device::{Clock, PcieUtilCounter, PerformancePolicy, TemperatureSensor};
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::enums::gpm::GpmMetricId;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::gpm::{GpmSample, gpm_metrics_get};
use nvml_wrapper::{Device, Nvml};
use ortscope_decode::energy_counter::{EnergyCounter, Step};

/// Interval for figures that change slowly or are expensive to query.
const SLOW_NS: u64 = 1_000_000_000;
/// Limit for reported processes per card.
const MAX_PROCESSES: usize = 64;

/// Figures of Hopper and newer cards, in percent.
const GPM: [(GpmMetricId, &str); 4] = [
    (GpmMetricId::SmUtil, "sm_active_ratio"),
    (GpmMetricId::SmOccupancy, "sm_occupancy_ratio"),
    (GpmMetricId::AnyTensorUtil, "tensor_core_ratio"),
    (GpmMetricId::DramBwUtil, "memory_bandwidth_ratio"),
];

/// One value of the card or of a process on it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct CardReading {
    pub pid: Option<u32>,
    pub metric: &'static str,
    pub value: f64,
}

/// Unavailable figures, with the library's reasons.
pub(super) type Absent = BTreeMap<&'static str, String>;

pub(super) struct Card<'a> {
    nvml: &'a Nvml,
    device: Device<'a>,
    energy: EnergyCounter,
    throttled: [EnergyCounter; 2],
    gpm: Option<GpmSample<'a>>,
    slow_ns: Option<u64>,
    /// Timestamp of the newest process sample, on the driver's clock.
    newest_sample: Option<u64>,
}

impl<'a> Card<'a> {
    pub fn new(nvml: &'a Nvml, device: Device<'a>) -> Self {
        let counter = EnergyCounter::new(None);
        Self {
            nvml,
            device,
            energy: counter,
            throttled: [counter; 2],
            gpm: None,
            slow_ns: None,
            newest_sample: None,
        }
    }

    /// Reconnects a lost card. The counters continue: restarting at 0 would decrease the total energy.
    pub fn renew(&mut self, device: Device<'a>) {
        (self.device, self.gpm, self.newest_sample, self.slow_ns) = (device, None, None, None);
    }

    pub fn name(&self) -> String {
        self.device.name().unwrap_or_else(|_| "NVIDIA GPU".to_owned())
    }

    /// Unsupported figures are added to `absent`; an error means that the card is gone.
    pub fn read(
        &mut self,
        at_ns: u64,
        absent: &mut Absent,
        out: &mut dyn FnMut(CardReading),
    ) -> Result<(), NvmlError> {
        let mut emit = |metric, value: f64| out(CardReading { pid: None, metric, value });
        let device = &self.device;
        if let Some(busy) = available("utilization", device.utilization_rates(), absent)? {
            emit("utilization_ratio", f64::from(busy.gpu) / 100.0);
            emit("memory_busy_ratio", f64::from(busy.memory) / 100.0);
        }
        if let Some(memory) = available("memory", device.memory_info(), absent)? {
            emit("memory_used_bytes", memory.used as f64);
            emit("memory_total_bytes", memory.total as f64);
        }
        if let Some(milliwatts) = available("power", device.power_usage(), absent)? {
            emit("power_watts", f64::from(milliwatts) / 1e3);
        }
        if let Some(millijoules) = available("energy", device.total_energy_consumption(), absent)?
            && let Step::Used(_) = self.energy.advance(millijoules)
        {
            emit("energy_joules", self.energy.total() as f64 / 1e3);
        }
        if let Some(celsius) = available("temperature", device.temperature(TemperatureSensor::Gpu), absent)? {
            emit("temperature_celsius", f64::from(celsius));
        }
        if let Some(megahertz) = available("clock", device.clock_info(Clock::SM), absent)? {
            emit("frequency_hertz", f64::from(megahertz) * 1e6);
        }
        if let Some(reasons) = available("throttle reasons", device.current_throttle_reasons(), absent)? {
            emit("throttle_reasons", reasons.bits() as f64);
        }
        let policies = [
            (PerformancePolicy::Power, "throttle_power_milliseconds"),
            (PerformancePolicy::Thermal, "throttle_thermal_milliseconds"),
        ];
        for ((policy, metric), counter) in policies.into_iter().zip(&mut self.throttled) {
            if let Some(time) = available("throttle times", device.violation_status(policy), absent)? {
                counter.advance(time.violation_time);
                emit(metric, counter.total() as f64 / 1e6);
            }
        }
        if self.slow_ns.is_none_or(|last_ns| at_ns.saturating_sub(last_ns) >= SLOW_NS) {
            self.slow_ns = Some(at_ns);
            self.read_slow(absent, out)?;
        }
        Ok(())
    }

    fn read_slow(&mut self, absent: &mut Absent, out: &mut dyn FnMut(CardReading)) -> Result<(), NvmlError> {
        let device = &self.device;
        let mut emit = |metric, value: f64| out(CardReading { pid: None, metric, value });
        if let Some(megahertz) = available("memory clock", device.clock_info(Clock::Memory), absent)? {
            emit("memory_frequency_hertz", f64::from(megahertz) * 1e6);
        }
        if let Some(milliwatts) = available("power limit", device.enforced_power_limit(), absent)? {
            emit("power_limit_watts", f64::from(milliwatts) / 1e3);
        }
        // Each call waits 20 ms in the driver.
        for (direction, metric) in [
            (PcieUtilCounter::Send, "pcie_send_bytes_per_second"),
            (PcieUtilCounter::Receive, "pcie_receive_bytes_per_second"),
        ] {
            if let Some(kilobytes) = available("PCIe", device.pcie_throughput(direction), absent)? {
                emit(metric, f64::from(kilobytes) * 1e3);
            }
        }
        self.read_gpm(absent, out)?;
        self.read_processes(absent, out)
    }

    /// Figures for the interval between two samples, one second apart.
    fn read_gpm(&mut self, absent: &mut Absent, out: &mut dyn FnMut(CardReading)) -> Result<(), NvmlError> {
        let what = "SM occupancy, tensor cores and memory bandwidth (GPM)";
        match available(what, self.device.gpm_support(), absent)? {
            Some(true) => {}
            Some(false) => {
                absent.insert(what, "only Hopper and newer cards have it".to_owned());
                return Ok(());
            }
            None => return Ok(()),
        }
        let Some(sample) = available(what, self.device.gpm_sample(), absent)? else { return Ok(()) };
        let Some(before) = self.gpm.replace(sample) else { return Ok(()) };
        let Some(now) = &self.gpm else { return Ok(()) };
        let response = gpm_metrics_get(self.nvml, &before, now, &GPM.map(|(id, _)| id));
        let Some(answers) = available(what, response, absent)? else { return Ok(()) };
        for (answer, (_, metric)) in answers.into_iter().zip(GPM) {
            if let Some(answer) = available(metric, answer, absent)?.filter(|answer| answer.value.is_finite())
            {
                out(CardReading { pid: None, metric, value: (answer.value / 100.0).clamp(0.0, 1.0) });
            }
        }
        Ok(())
    }

    fn read_processes(
        &mut self,
        absent: &mut Absent,
        out: &mut dyn FnMut(CardReading),
    ) -> Result<(), NvmlError> {
        let answer = match self.device.process_utilization_stats(self.newest_sample) {
            // No new samples: no process was active.
            Err(NvmlError::NotFound) => Ok(Vec::new()),
            answer => answer,
        };
        // The newest sample of each process.
        let mut newest: BTreeMap<u32, (u64, u32)> = BTreeMap::new();
        for sample in available("utilization by process", answer, absent)?.unwrap_or_default() {
            self.newest_sample = self.newest_sample.max(Some(sample.timestamp));
            let newest_of_process = newest.entry(sample.pid).or_default();
            *newest_of_process = (*newest_of_process).max((sample.timestamp, sample.sm_util));
        }
        for (pid, (_, percent)) in newest.into_iter().take(MAX_PROCESSES) {
            let value = f64::from(percent.min(100)) / 100.0;
            out(CardReading { pid: Some(pid), metric: "utilization_ratio", value });
        }
        let compute = available("processes", self.device.running_compute_processes(), absent)?;
        let graphics = available("processes", self.device.running_graphics_processes(), absent)?;
        // A process with compute and graphics contexts is in both lists with the same memory.
        let mut bytes: BTreeMap<u32, u64> = BTreeMap::new();
        for process in compute.into_iter().chain(graphics).flatten() {
            match process.used_gpu_memory {
                UsedGpuMemory::Used(used) => {
                    let known = bytes.entry(process.pid).or_default();
                    *known = used.max(*known);
                }
                UsedGpuMemory::Unavailable => {
                    let why = "Windows manages it and reports it in its own counters (GPU Process Memory)";
                    absent.insert("memory by process", why.to_owned());
                }
            }
        }
        for (pid, used) in bytes.into_iter().take(MAX_PROCESSES) {
            out(CardReading { pid: Some(pid), metric: "memory_used_bytes", value: used as f64 });
        }
        Ok(())
    }
}

/// Returns the value, or `None` if this card or driver does not have it, or an error if the card is gone.
fn available<T>(
    what: &'static str,
    answer: Result<T, NvmlError>,
    absent: &mut Absent,
) -> Result<Option<T>, NvmlError> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error @ (NvmlError::GpuLost | NvmlError::Uninitialized | NvmlError::ResetRequired)) => Err(error),
        Err(NvmlError::FailedToLoadSymbol(_)) => {
            absent.insert(what, "this version of the library lacks it".to_owned());
            Ok(None)
        }
        Err(error) => {
            absent.insert(what, error.to_string());
            Ok(None)
        }
    }
}
