//! The providers: which devices each uses, what it tells itself, and how its operators share the device's time.

use super::{Attribution, DeviceWindow, OperatorTime};

/// What is particular to one execution provider.
pub trait ProviderAdapter: Sync {
    /// ONNX Runtime's name.
    fn name(&self) -> &'static str;

    /// Devices it may use, as names in the table of samples begin; the likeliest first.
    fn devices(&self) -> &'static [&'static str];

    /// Where its own profile comes from, in words; how to get it where it is not there.
    fn own_profile(&self) -> &'static str;

    /// The device time of one operator within a window.
    fn attribute(&self, operator: &OperatorTime, window: &DeviceWindow) -> Attribution;
}

/// A provider by one of the ways below.
struct Known {
    name: &'static str,
    devices: &'static [&'static str],
    own_profile: &'static str,
    way: fn(&OperatorTime, &DeviceWindow) -> Attribution,
}

impl ProviderAdapter for Known {
    fn name(&self) -> &'static str {
        self.name
    }

    fn devices(&self) -> &'static [&'static str] {
        self.devices
    }

    fn own_profile(&self) -> &'static str {
        self.own_profile
    }

    fn attribute(&self, operator: &OperatorTime, window: &DeviceWindow) -> Attribution {
        (self.way)(operator, window)
    }
}

/// Computes in the calling thread: the time in the profile is the device's.
fn in_the_call(operator: &OperatorTime, _window: &DeviceWindow) -> Attribution {
    Attribution::Measured { ns: operator.host_ns }
}

/// Hands work over: kernels that name the operator, otherwise its part of the device's busy time by FLOPs, a guess.
fn by_kernels(operator: &OperatorTime, window: &DeviceWindow) -> Attribution {
    if let Some(ns) = operator.device_ns {
        return Attribution::Measured { ns };
    }
    // The shares are made equal to the whole in `split`, which knows all operators.
    match (window.busy_ns, operator.flops) {
        (Some(_), Some(flops)) => Attribution::Estimated { ns: flops, by: "share of the FLOPs" },
        _ => Attribution::Unknown,
    }
}

/// The device counts cycles by node.
fn by_cycles(operator: &OperatorTime, window: &DeviceWindow) -> Attribution {
    match (operator.cycles, window.cycles, window.busy_ns) {
        (Some(cycles), Some(all @ 1..), Some(busy_ns)) => {
            let ns = u128::from(busy_ns) * u128::from(cycles) / u128::from(all);
            let ns = u64::try_from(ns).unwrap_or(u64::MAX);
            Attribution::Attributed { ns, by: "share of the device's cycles" }
        }
        _ => by_kernels(operator, window),
    }
}

/// Runs on the CPU in the call, or hands over: who tells its device decides.
fn by_device_or_call(operator: &OperatorTime, window: &DeviceWindow) -> Attribution {
    if window.busy_ns.is_some() { by_kernels(operator, window) } else { in_the_call(operator, window) }
}

const KERNELS: &str = "events of kernels, in builds of ONNX Runtime with onnxruntime_ENABLE_CUDA_PROFILING; released packages have none";

static KNOWN: [Known; 12] = [
    Known {
        name: "CPUExecutionProvider",
        devices: &["package", "cpu"],
        own_profile: "the profile of ONNX Runtime is its own",
        way: in_the_call,
    },
    Known {
        name: "XnnpackExecutionProvider",
        devices: &["package", "cpu"],
        own_profile: "the profile of ONNX Runtime is its own",
        way: in_the_call,
    },
    Known { name: "CUDAExecutionProvider", devices: &["gpu"], own_profile: KERNELS, way: by_kernels },
    Known { name: "TensorrtExecutionProvider", devices: &["gpu"], own_profile: KERNELS, way: by_kernels },
    Known {
        name: "NvTensorRTRTXExecutionProvider",
        devices: &["gpu"],
        own_profile: KERNELS,
        way: by_kernels,
    },
    Known {
        name: "DmlExecutionProvider",
        devices: &["gpu", "npu"],
        own_profile: "none; packets of the device by event tracing (Microsoft-Windows-DxgKrnl)",
        way: by_kernels,
    },
    Known {
        name: "QNNExecutionProvider",
        devices: &["npu", "gpu"],
        own_profile: "profiling_level=detailed with profiling_file_path: cycles by node; optrace and its viewer: QHAS",
        way: by_cycles,
    },
    Known {
        name: "OpenVINOExecutionProvider",
        devices: &["package", "gpu", "npu"],
        own_profile: "ORT_OPENVINO_PERF_COUNT with PERF_COUNT=YES: times by layer",
        way: by_device_or_call,
    },
    Known {
        name: "VitisAIExecutionProvider",
        devices: &["npu"],
        own_profile: "events of kernels in the profile of ONNX Runtime",
        way: by_kernels,
    },
    Known {
        name: "MIGraphXExecutionProvider",
        devices: &["gpu"],
        own_profile: "none; events of kernels with the ROCm provider's profiler",
        way: by_kernels,
    },
    Known { name: "ROCMExecutionProvider", devices: &["gpu"], own_profile: KERNELS, way: by_kernels },
    Known {
        name: "CoreMLExecutionProvider",
        devices: &["npu", "gpu", "package"],
        own_profile: "none that a program may read",
        way: by_device_or_call,
    },
];

/// For mixed sessions, and for providers that nobody knows: what a profile tells decides.
static ADAPTIVE: Known = Known {
    name: "",
    devices: &["npu", "gpu", "package"],
    own_profile: "not known; events of kernels are taken from the profile of ONNX Runtime",
    way: by_cycles,
};

/// All known ones.
pub fn adapters() -> impl Iterator<Item = &'static dyn ProviderAdapter> {
    KNOWN.iter().map(|known| known as &dyn ProviderAdapter)
}

/// The adapter of a provider; one that adapts itself for others.
pub fn adapter(execution_provider: &str) -> &'static dyn ProviderAdapter {
    adapters().find(|adapter| adapter.name().eq_ignore_ascii_case(execution_provider)).unwrap_or(&ADAPTIVE)
}
