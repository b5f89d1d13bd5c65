//! The three records that other tools read: an inference, an operation, a system sample. Names and units are
//! fixed; an unknown value is `null`, and `"unavailable"` has the reason under the path of the field.
//!
//! Times are monotonic nanoseconds; the recording relates them to wall time. 1 MB is 1,000,000 bytes.

mod figures;
pub(crate) mod records;
mod sensors;
mod unavailable;

use ortscope_core::schema::{InferenceRow, OperatorRow, SystemSampleRow, Text};
use schemars::JsonSchema;
use serde::Serialize;

pub use figures::{LatencyFigures, Percentiles};
pub use sensors::{ProcessMemory, Sensors};
use unavailable::Missing;
pub use unavailable::{Reasons, Unavailable};

/// One inference.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct InferenceRecord {
    pub timestamp_ns: u64,
    pub model_name: Option<String>,
    pub session_id: Text,
    /// Derived from the session and the inference number, so that it is the same in every export.
    pub inference_id: String,
    pub latency: LatencyRecord,
    pub energy: EnergyRecord,
    pub hardware: HardwareRecord,
    pub batch_context: BatchRecord,
    pub unavailable: Unavailable,
}

#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LatencyRecord {
    /// Latency as seen by the caller: from the planned start to the end, in milliseconds.
    pub end_to_end_ms: f64,
    /// The call into ONNX Runtime alone.
    pub inference_only_ms: f64,
    #[serde(flatten)]
    pub figures: LatencyFigures,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct EnergyRecord {
    pub power_w: Option<f64>,
    /// Power times end-to-end time.
    pub joules: Option<f64>,
    /// 1 / joules.
    pub inferences_per_watt: Option<f64>,
    /// FLOP per second and watt.
    pub flops_per_watt: Option<f64>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct HardwareRecord {
    pub npu_percent: Option<f64>,
    pub gpu_sm_occupancy: Option<f64>,
    pub tensor_core_usage: Option<f64>,
    pub cache_hit_rates: CacheHitRates,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct CacheHitRates {
    pub l1: Option<f64>,
    pub l2: Option<f64>,
    pub l3: Option<f64>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct BatchRecord {
    pub batch_size: Option<u64>,
    pub padding_ratio: Option<f64>,
    pub queue_depth: Option<u64>,
}

/// Everything that an inference record needs in addition to its row.
#[derive(Debug, Clone, Copy)]
pub struct InferenceContext<'a> {
    pub model_name: Option<&'a str>,
    /// Percentiles and jitter of the series that the inference belongs to.
    pub figures: Option<&'a LatencyFigures>,
    /// Device readings at that time.
    pub sensors: &'a Sensors,
    /// Floating-point operations of one inference.
    pub flops: Option<f64>,
    pub padding_ratio: Option<f64>,
    pub reasons: &'a Reasons,
}

pub fn inference_record(row: &InferenceRow, context: &InferenceContext<'_>) -> InferenceRecord {
    let end_to_end_ns = end_to_end_ns(row);
    let seconds = end_to_end_ns as f64 / 1e9;
    let power_w = context.sensors.power_w(row.timestamp_ns);
    let joules = power_w.map(|power| power * seconds);
    let positive = |value: f64| (value > 0.0 && value.is_finite()).then_some(value);
    let energy = EnergyRecord {
        power_w,
        joules,
        inferences_per_watt: joules.and_then(positive).map(|joules| 1.0 / joules),
        flops_per_watt: joules.and_then(positive).zip(context.flops).map(|(joules, flops)| flops / joules),
    };
    let hardware = context.sensors.hardware(row.timestamp_ns);
    let batch_context = BatchRecord {
        batch_size: row.batch_size,
        padding_ratio: context.padding_ratio,
        queue_depth: row.queue_depth,
    };
    let figures = context.figures.cloned().unwrap_or_default();

    let mut missing = Missing::new(context.reasons, row.timestamp_ns);
    missing.check("model_name", context.model_name.is_some(), "the session was not recorded");
    for (name, value) in figures.percentiles.named() {
        let why = figures.why(name);
        missing.check(&format!("latency.percentiles.{name}"), value.is_some(), &why);
    }
    missing.check("latency.jitter", figures.jitter.is_some(), "too few inferences");
    missing.check("energy.power_w", energy.power_w.is_some(), "no power was recorded");
    missing.check("energy.joules", energy.joules.is_some(), "no power was recorded");
    missing.check(
        "energy.inferences_per_watt",
        energy.inferences_per_watt.is_some(),
        "no power was recorded",
    );
    let why =
        if context.flops.is_none() { "the model's FLOPs are not known" } else { "no power was recorded" };
    missing.check("energy.flops_per_watt", energy.flops_per_watt.is_some(), why);
    missing.check("hardware.npu_percent", hardware.npu_percent.is_some(), "no NPU was recorded");
    missing.check(
        "hardware.gpu_sm_occupancy",
        hardware.gpu_sm_occupancy.is_some(),
        "no GPU counters were recorded",
    );
    missing.check(
        "hardware.tensor_core_usage",
        hardware.tensor_core_usage.is_some(),
        "no GPU counters were recorded",
    );
    let caches = &hardware.cache_hit_rates;
    for (name, value) in [("l1", caches.l1), ("l2", caches.l2), ("l3", caches.l3)] {
        let field = format!("hardware.cache_hit_rates.{name}");
        missing.check(&field, value.is_some(), "no hardware counters were recorded");
    }
    missing.check("batch_context.batch_size", row.batch_size.is_some(), "the inputs have no batch dimension");
    missing.check("batch_context.padding_ratio", context.padding_ratio.is_some(), "padding was not counted");
    missing.check(
        "batch_context.queue_depth",
        row.queue_depth.is_some(),
        "requests did not queue in this scenario",
    );

    InferenceRecord {
        timestamp_ns: row.timestamp_ns,
        model_name: context.model_name.map(str::to_owned),
        session_id: row.session_id.clone(),
        inference_id: inference_id(&row.session_id, row.sequence),
        latency: LatencyRecord {
            end_to_end_ms: end_to_end_ns as f64 / 1e6,
            inference_only_ms: row.run_ns as f64 / 1e6,
            figures,
        },
        energy,
        hardware,
        batch_context,
        unavailable: missing.reasons,
    }
}

/// Latency as seen by the caller: from the planned start to the end.
pub fn end_to_end_ns(row: &InferenceRow) -> u64 {
    let waited = row.timestamp_ns.saturating_sub(row.planned_ns);
    [row.copy_in_ns, row.run_ns, row.copy_out_ns].iter().fold(waited, |sum, part| sum.saturating_add(*part))
}

/// A UUID (version 8, custom) that is the same whenever the same inference is exported.
fn inference_id(session_id: &str, sequence: u64) -> String {
    // FNV-1a: the ids only have to differ, they are no secret.
    let mut hash: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    for byte in session_id.bytes().chain([0xff]).chain(sequence.to_le_bytes()) {
        hash = (hash ^ u128::from(byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013b);
    }
    let version_and_variant = (hash & !(0xf << 76) & !(0x3 << 62)) | (0x8 << 76) | (0x2 << 62);
    let hex = format!("{version_and_variant:032x}");
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// One operator of a profiled run.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct OperationRecord {
    pub operation_id: Text,
    pub operation_type: Text,
    /// CPU, GPU, NPU or Mixed.
    pub provider: Option<Text>,
    /// ONNX Runtime's name of the provider.
    pub execution_provider: Option<Text>,
    pub session_id: Text,
    pub run: Option<u64>,
    pub start_time_ns: u64,
    pub duration_ms: f64,
    pub cycles: Option<u64>,
    pub input_shapes: Option<Vec<Vec<i64>>>,
    pub output_shapes: Option<Vec<Vec<i64>>>,
    /// Sum of inputs, parameters and outputs, as far as they are known.
    pub memory_bytes: Option<u64>,
    pub unavailable: Unavailable,
}

pub fn operation_record(row: &OperatorRow, reasons: &Reasons) -> OperationRecord {
    let text = |text: &Text| (!text.is_empty()).then(|| text.clone());
    let shapes = |text: &Option<Text>| text.as_deref().and_then(|text| serde_json::from_str(text).ok());
    let parts = [row.activation_bytes, row.parameter_bytes, row.output_bytes];
    let known = parts.iter().flatten().copied();
    let record = OperationRecord {
        operation_id: row.name.clone(),
        operation_type: row.op_type.clone(),
        provider: text(&row.device),
        execution_provider: text(&row.execution_provider),
        session_id: row.session_id.clone(),
        run: row.run,
        start_time_ns: row.timestamp_ns,
        duration_ms: row.duration_ns as f64 / 1e6,
        cycles: row.cycles,
        input_shapes: shapes(&row.input_shapes),
        output_shapes: shapes(&row.output_shapes),
        memory_bytes: known.reduce(u64::saturating_add),
        unavailable: Unavailable::default(),
    };
    let mut missing = Missing::new(reasons, row.timestamp_ns);
    missing.check("provider", record.provider.is_some(), "the kind of device is not known");
    missing.check("execution_provider", record.execution_provider.is_some(), "the profile does not name it");
    missing.check("run", record.run.is_some(), "it was outside of runs");
    missing.check("cycles", record.cycles.is_some(), "the provider does not report cycles");
    missing.check("input_shapes", record.input_shapes.is_some(), "the profile has no readable shapes");
    missing.check("output_shapes", record.output_shapes.is_some(), "the profile has no readable shapes");
    missing.check("memory_bytes", record.memory_bytes.is_some(), "the profile has no sizes");
    OperationRecord { unavailable: missing.reasons, ..record }
}

/// The machine at one point in time.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SystemRecord {
    pub timestamp_ns: u64,
    /// Load of all processors, 0 to 100.
    pub cpu_percent: Option<f64>,
    pub memory_percent: Option<f64>,
    /// Load of the busiest GPU.
    pub gpu_percent: Option<f64>,
    /// Load of the busiest NPU.
    pub npu_percent: Option<f64>,
    /// Memory in use on all GPUs.
    pub gpu_memory_mb: Option<f64>,
    /// Resident memory of the processes with a session.
    pub process_memory_mb: Option<f64>,
    pub unavailable: Unavailable,
}

pub fn system_record(
    row: &SystemSampleRow,
    sensors: &Sensors,
    process_memory_bytes: Option<u64>,
    reasons: &Reasons,
) -> SystemRecord {
    let total = row.memory_total_bytes.filter(|total| *total > 0);
    let time_ns = row.timestamp_ns;
    let record = SystemRecord {
        timestamp_ns: time_ns,
        cpu_percent: row.cpu_percent.filter(|percent| percent.is_finite()),
        memory_percent: row
            .memory_used_bytes
            .zip(total)
            .map(|(used, total)| 100.0 * used as f64 / total as f64),
        gpu_percent: sensors.busy_percent("gpu", time_ns),
        npu_percent: sensors.busy_percent("npu", time_ns),
        gpu_memory_mb: sensors.memory_bytes("gpu", time_ns).map(|bytes| bytes / 1e6),
        process_memory_mb: process_memory_bytes.map(|bytes| bytes as f64 / 1e6),
        unavailable: Unavailable::default(),
    };
    let mut missing = Missing::new(reasons, time_ns);
    missing.check("cpu_percent", record.cpu_percent.is_some(), "it needs the sample before");
    missing.check("memory_percent", record.memory_percent.is_some(), "the system did not report it");
    missing.check("gpu_percent", record.gpu_percent.is_some(), "no GPU was recorded");
    missing.check("npu_percent", record.npu_percent.is_some(), "no NPU was recorded");
    missing.check("gpu_memory_mb", record.gpu_memory_mb.is_some(), "no GPU was recorded");
    missing.check(
        "process_memory_mb",
        record.process_memory_mb.is_some(),
        "no process with a session was sampled",
    );
    SystemRecord { unavailable: missing.reasons, ..record }
}

#[cfg(test)]
mod tests;
