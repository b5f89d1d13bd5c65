//! `[monitoring.*]`: which data is sampled, how often, and where samples are kept.

use serde::{Deserialize, Serialize};

use super::overhead::UseCase;

/// `[monitoring]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Monitoring {
    /// Percent of one core that observing may take before rates are lowered.
    pub overhead_limit: f64,
    pub cpu: CpuMonitoring,
    pub memory: MemoryMonitoring,
    pub gpu: GpuMonitoring,
    pub npu: NpuMonitoring,
    pub disk_io: RateMonitoring,
    pub network: RateMonitoring,
    pub storage: Storage,
}

/// How the samples of a window become one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Aggregation {
    #[default]
    Avg,
    Max,
    P95,
    P99,
}

/// `[monitoring.cpu]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CpuMonitoring {
    /// `auto` takes the most exact backend that works here; `ortscope doctor` names them.
    pub backend: String,
    pub sampling_hz: f64,
    pub aggregation: Aggregation,
}

/// `[monitoring.memory]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MemoryMonitoring {
    pub sampling_hz: f64,
    pub track_allocations: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GpuMetric {
    Utilization,
    Memory,
    Temperature,
    Power,
    Clocks,
}

/// `[monitoring.gpu]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GpuMonitoring {
    pub backend: String,
    pub sampling_hz: f64,
    pub metrics: Vec<GpuMetric>,
}

/// `[monitoring.npu]`: event based, so it has no rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NpuMonitoring {
    pub backend: String,
    pub enable_profiling: bool,
    pub event_based: bool,
}

/// `[monitoring.disk_io]` and `[monitoring.network]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RateMonitoring {
    pub sampling_hz: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StorageType {
    /// The newest samples in memory; the oldest go when it is full.
    #[default]
    CircularBuffer,
    /// A recording on disk.
    Recording,
}

/// `[monitoring.storage]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Storage {
    #[serde(rename = "type")]
    pub storage_type: StorageType,
    /// Samples kept per track; the oldest go first.
    pub max_samples: u64,
    pub persist_to_disk: bool,
}

impl Default for Monitoring {
    fn default() -> Self {
        Self {
            overhead_limit: UseCase::Production.overhead_limit_percent(),
            cpu: CpuMonitoring::default(),
            memory: MemoryMonitoring::default(),
            gpu: GpuMonitoring::default(),
            npu: NpuMonitoring::default(),
            disk_io: RateMonitoring::default(),
            network: RateMonitoring::default(),
            storage: Storage::default(),
        }
    }
}

impl Default for CpuMonitoring {
    fn default() -> Self {
        Self { backend: "auto".into(), sampling_hz: 50.0, aggregation: Aggregation::Avg }
    }
}

impl Default for MemoryMonitoring {
    fn default() -> Self {
        Self { sampling_hz: 10.0, track_allocations: false }
    }
}

impl Default for GpuMonitoring {
    fn default() -> Self {
        let metrics = vec![GpuMetric::Utilization, GpuMetric::Memory, GpuMetric::Temperature];
        Self { backend: "auto".into(), sampling_hz: 10.0, metrics }
    }
}

impl Default for NpuMonitoring {
    fn default() -> Self {
        Self { backend: "onnx_runtime".into(), enable_profiling: true, event_based: true }
    }
}

impl Default for RateMonitoring {
    fn default() -> Self {
        Self { sampling_hz: 1.0 }
    }
}

impl Default for Storage {
    fn default() -> Self {
        Self { storage_type: StorageType::CircularBuffer, max_samples: 100_000, persist_to_disk: false }
    }
}

impl Monitoring {
    pub(super) fn check(&self) -> Result<(), String> {
        let rates = [
            ("monitoring.cpu", self.cpu.sampling_hz),
            ("monitoring.memory", self.memory.sampling_hz),
            ("monitoring.gpu", self.gpu.sampling_hz),
            ("monitoring.disk_io", self.disk_io.sampling_hz),
            ("monitoring.network", self.network.sampling_hz),
        ];
        for (section, hertz) in rates {
            if !(0.01..=1000.0).contains(&hertz) {
                return Err(format!("{section}.sampling_hz is {hertz}: it must lie between 0.01 and 1000"));
            }
        }
        if !(self.overhead_limit > 0.0 && self.overhead_limit <= 100.0) {
            return Err(format!(
                "monitoring.overhead_limit is {}: it must be above 0 and at most 100 percent of a core",
                self.overhead_limit
            ));
        }
        if !(1..=1_000_000_000).contains(&self.storage.max_samples) {
            return Err(format!(
                "monitoring.storage.max_samples is {}: it must lie between 1 and 1,000,000,000",
                self.storage.max_samples
            ));
        }
        Ok(())
    }
}
