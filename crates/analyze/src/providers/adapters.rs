//! The providers: which devices each uses, what it reports, and how its operators share the device's time.

use super::{Attribution, DeviceWindow, DividedBy, OperatorTime};

/// The specifics of one execution provider.
#[derive(Debug)]
pub struct ProviderAdapter {
    /// ONNX Runtime's name; empty for the adapter of unknown ones.
    pub name: &'static str,
    /// Prefixes of the devices it may use in the table of device samples, the likeliest first.
    pub devices: &'static [&'static str],
    /// Where its own profile comes from.
    pub own_profile: &'static str,
    /// How to obtain device times if none are reported.
    pub remedy: &'static str,
    attribute: Attribute,
}

impl ProviderAdapter {
    /// The device time of one operator within a window. An estimate is a weight until [`super::split`] has seen all.
    pub fn attribute(&self, operator: &OperatorTime, window: &DeviceWindow) -> Attribution {
        (self.attribute)(operator, window)
    }
}

const ITS_OWN: &str = "ONNX Runtime's profile is its own";
const NEVER_MISSING: &str = "nothing to do: its operators run in the calling thread";
const KERNELS: &str = "events of kernels in ONNX Runtime's profile";
const BUILD_WITH_KERNELS: &str = "released packages of ONNX Runtime have no events of kernels; a build with \
                                  onnxruntime_ENABLE_CUDA_PROFILING has them, and the vendor's profiler does without";
const BUSY: &str = "a driver that reports device utilization ('ortscope doctor' lists it) allows an estimate";

static KNOWN: [ProviderAdapter; 12] = [
    ProviderAdapter {
        name: "CPUExecutionProvider",
        devices: &["package", "cpu"],
        own_profile: ITS_OWN,
        remedy: NEVER_MISSING,
        attribute: in_the_call,
    },
    ProviderAdapter {
        name: "XnnpackExecutionProvider",
        devices: &["package", "cpu"],
        own_profile: ITS_OWN,
        remedy: NEVER_MISSING,
        attribute: in_the_call,
    },
    ProviderAdapter {
        name: "CUDAExecutionProvider",
        devices: &["gpu"],
        own_profile: KERNELS,
        remedy: BUILD_WITH_KERNELS,
        attribute: by_kernels,
    },
    ProviderAdapter {
        name: "TensorrtExecutionProvider",
        devices: &["gpu"],
        own_profile: KERNELS,
        remedy: BUILD_WITH_KERNELS,
        attribute: by_kernels,
    },
    ProviderAdapter {
        name: "NvTensorRTRTXExecutionProvider",
        devices: &["gpu"],
        own_profile: KERNELS,
        remedy: BUILD_WITH_KERNELS,
        attribute: by_kernels,
    },
    ProviderAdapter {
        name: "DmlExecutionProvider",
        devices: &["gpu", "npu"],
        own_profile: "none: it hands packets to the device and reports how long that took",
        remedy: "packets of the device stand in an event trace (provider Microsoft-Windows-DxgKrnl, 'ortscope import \
                 trace.etl'); counters of the device allow an estimate",
        attribute: by_kernels,
    },
    ProviderAdapter {
        name: "QNNExecutionProvider",
        devices: &["npu", "gpu"],
        own_profile: "a CSV file with the cycles of every node (profiling_level=detailed)",
        remedy: "leave profiling_level to ortscope, or set it to detailed and import the file",
        attribute: by_cycles,
    },
    ProviderAdapter {
        name: "OpenVINOExecutionProvider",
        devices: &["package", "gpu", "npu"],
        own_profile: "times of its primitives in ONNX Runtime's profile, or files of counters",
        remedy: "its plug-in (package onnxruntime-ep-openvino, with ONNX Runtime 1.25 or newer, on hardware of Intel) tells \
                 the times of primitives, and newer providers inside of ONNX Runtime write counters; the one inside of \
                 onnxruntime-openvino 1.24 does neither",
        attribute: by_device_or_call,
    },
    ProviderAdapter {
        name: "VitisAIExecutionProvider",
        devices: &["npu"],
        own_profile: KERNELS,
        remedy: BUSY,
        attribute: by_kernels,
    },
    ProviderAdapter {
        name: "MIGraphXExecutionProvider",
        devices: &["gpu"],
        own_profile: "none",
        remedy: BUSY,
        attribute: by_kernels,
    },
    ProviderAdapter {
        name: "ROCMExecutionProvider",
        devices: &["gpu"],
        own_profile: KERNELS,
        remedy: "released packages of ONNX Runtime have no events of kernels; a build with \
                 onnxruntime_ENABLE_ROCM_PROFILING has them",
        attribute: by_kernels,
    },
    ProviderAdapter {
        name: "CoreMLExecutionProvider",
        devices: &["npu", "gpu", "package"],
        own_profile: "none that a program may read",
        remedy: "Instruments of Xcode shows its devices",
        attribute: by_device_or_call,
    },
];

/// For mixed sessions and unknown providers: the profile's content decides.
static ADAPTIVE: ProviderAdapter = ProviderAdapter {
    name: "",
    devices: &["npu", "gpu", "package"],
    own_profile: "not known; cycles and events of kernels are taken where ONNX Runtime's profile has them",
    remedy: BUSY,
    attribute: by_best_available,
};

/// All known ones.
pub fn adapters() -> impl Iterator<Item = &'static ProviderAdapter> {
    KNOWN.iter()
}

/// The adapter of a provider, ignoring case; unknown providers get the adaptive one.
pub fn adapter(execution_provider: &str) -> &'static ProviderAdapter {
    adapters().find(|adapter| adapter.name.eq_ignore_ascii_case(execution_provider)).unwrap_or(&ADAPTIVE)
}

/// How an operator's device time is determined: one of the functions below.
type Attribute = fn(&OperatorTime, &DeviceWindow) -> Attribution;

/// Computes in the calling thread: the time in the profile is the device's.
fn in_the_call(operator: &OperatorTime, _window: &DeviceWindow) -> Attribution {
    Attribution::Measured { ns: operator.host_ns }
}

/// For providers that offload: kernels that name the operator, otherwise an estimate by its FLOPs share of the
/// device's busy time.
fn by_kernels(operator: &OperatorTime, window: &DeviceWindow) -> Attribution {
    if let Some(ns) = operator.device_ns {
        return Attribution::Measured { ns };
    }
    // Only a weight here: `split`, which knows all operators, turns weights into times.
    match (window.busy_ns, operator.flops) {
        (Some(_), Some(flops)) => Attribution::Estimated { ns: flops, by: DividedBy::Flops },
        _ => Attribution::Unknown,
    }
}

/// The device counts cycles by node.
fn by_cycles(operator: &OperatorTime, window: &DeviceWindow) -> Attribution {
    match (operator.cycles, window.cycles, window.busy_ns) {
        (Some(cycles), Some(all @ 1..), Some(busy_ns)) => {
            let ns = u128::from(busy_ns) * u128::from(cycles) / u128::from(all);
            let ns = u64::try_from(ns).unwrap_or(u64::MAX);
            Attribution::Attributed { ns, by: DividedBy::DeviceCycles }
        }
        _ => by_kernels(operator, window),
    }
}

/// For providers that compute in the call on a CPU and offload to other devices, depending on the session's device.
fn by_device_or_call(operator: &OperatorTime, window: &DeviceWindow) -> Attribution {
    match operator.device_ns {
        None if window.is_in_call => in_the_call(operator, window),
        _ => by_kernels(operator, window),
    }
}

/// For unknown providers: the most exact data in the profile.
fn by_best_available(operator: &OperatorTime, window: &DeviceWindow) -> Attribution {
    match by_cycles(operator, window) {
        Attribution::Unknown => by_device_or_call(operator, window),
        Attribution::Estimated { .. } if window.is_in_call => in_the_call(operator, window),
        known => known,
    }
}
