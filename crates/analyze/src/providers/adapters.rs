//! The providers: which devices each uses, what it tells itself, and how its operators share the device's time.

use super::ways::{Way, by_cycles, by_device_or_call, by_kernels, by_what_is_there, in_the_call};
use super::{Attribution, DeviceWindow, OperatorTime};

/// What is particular to one execution provider.
pub trait ProviderAdapter: Sync {
    /// ONNX Runtime's name; empty for the adapter of unknown ones.
    fn name(&self) -> &'static str;

    /// Devices it may use, as their names in the table of device samples begin; the likeliest first.
    fn devices(&self) -> &'static [&'static str];

    /// Where its own profile comes from.
    fn own_profile(&self) -> &'static str;

    /// What to do where nothing tells the time of its device.
    fn remedy(&self) -> &'static str;

    /// The device time of one operator within a window. An estimate is a weight until [`super::split`] has seen all.
    fn attribute(&self, operator: &OperatorTime, window: &DeviceWindow) -> Attribution;
}

/// A provider that is told by one line of a table.
struct Known {
    name: &'static str,
    devices: &'static [&'static str],
    own_profile: &'static str,
    remedy: &'static str,
    way: Way,
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

    fn remedy(&self) -> &'static str {
        self.remedy
    }

    fn attribute(&self, operator: &OperatorTime, window: &DeviceWindow) -> Attribution {
        (self.way)(operator, window)
    }
}

const ITS_OWN: &str = "ONNX Runtime's profile is its own";
const NEVER_MISSING: &str = "nothing to do: its operators run in the calling thread";
const KERNELS: &str = "events of kernels in ONNX Runtime's profile";
const BUILD_WITH_KERNELS: &str = "released packages of ONNX Runtime have no events of kernels; a build with \
                                  onnxruntime_ENABLE_CUDA_PROFILING has them, and the vendor's profiler does without";
const BUSY: &str =
    "a driver that tells how busy the device is ('ortscope doctor' lists it) allows an estimate";

static KNOWN: [Known; 12] = [
    Known {
        name: "CPUExecutionProvider",
        devices: &["package", "cpu"],
        own_profile: ITS_OWN,
        remedy: NEVER_MISSING,
        way: in_the_call,
    },
    Known {
        name: "XnnpackExecutionProvider",
        devices: &["package", "cpu"],
        own_profile: ITS_OWN,
        remedy: NEVER_MISSING,
        way: in_the_call,
    },
    Known {
        name: "CUDAExecutionProvider",
        devices: &["gpu"],
        own_profile: KERNELS,
        remedy: BUILD_WITH_KERNELS,
        way: by_kernels,
    },
    Known {
        name: "TensorrtExecutionProvider",
        devices: &["gpu"],
        own_profile: KERNELS,
        remedy: BUILD_WITH_KERNELS,
        way: by_kernels,
    },
    Known {
        name: "NvTensorRTRTXExecutionProvider",
        devices: &["gpu"],
        own_profile: KERNELS,
        remedy: BUILD_WITH_KERNELS,
        way: by_kernels,
    },
    Known {
        name: "DmlExecutionProvider",
        devices: &["gpu", "npu"],
        own_profile: "none: it hands packets to the device and reports how long that took",
        remedy: "packets of the device stand in an event trace (provider Microsoft-Windows-DxgKrnl, 'ortscope import \
                 trace.etl'); counters of the device allow an estimate",
        way: by_kernels,
    },
    Known {
        name: "QNNExecutionProvider",
        devices: &["npu", "gpu"],
        own_profile: "a CSV file with the cycles of every node (profiling_level=detailed)",
        remedy: "leave profiling_level to ortscope, or set it to detailed and import the file",
        way: by_cycles,
    },
    Known {
        name: "OpenVINOExecutionProvider",
        devices: &["package", "gpu", "npu"],
        own_profile: "times of its primitives in ONNX Runtime's profile, or files of counters",
        remedy: "its plug-in (package onnxruntime-ep-openvino, with ONNX Runtime 1.25 or newer, on hardware of Intel) tells \
                 the times of primitives, and newer providers inside of ONNX Runtime write counters; the one inside of \
                 onnxruntime-openvino 1.24 does neither",
        way: by_device_or_call,
    },
    Known {
        name: "VitisAIExecutionProvider",
        devices: &["npu"],
        own_profile: KERNELS,
        remedy: BUSY,
        way: by_kernels,
    },
    Known {
        name: "MIGraphXExecutionProvider",
        devices: &["gpu"],
        own_profile: "none",
        remedy: BUSY,
        way: by_kernels,
    },
    Known {
        name: "ROCMExecutionProvider",
        devices: &["gpu"],
        own_profile: KERNELS,
        remedy: "released packages of ONNX Runtime have no events of kernels; a build with \
                 onnxruntime_ENABLE_ROCM_PROFILING has them",
        way: by_kernels,
    },
    Known {
        name: "CoreMLExecutionProvider",
        devices: &["npu", "gpu", "package"],
        own_profile: "none that a program may read",
        remedy: "Instruments of Xcode shows its devices",
        way: by_device_or_call,
    },
];

/// For mixed sessions, and for providers that nobody knows: what a profile tells decides.
static ADAPTIVE: Known = Known {
    name: "",
    devices: &["npu", "gpu", "package"],
    own_profile: "not known; cycles and events of kernels are taken where ONNX Runtime's profile has them",
    remedy: BUSY,
    way: by_what_is_there,
};

/// All known ones.
pub fn adapters() -> impl Iterator<Item = &'static dyn ProviderAdapter> {
    KNOWN.iter().map(|known| known as &dyn ProviderAdapter)
}

/// The adapter of a provider, whatever the case; one that adapts itself for others.
pub fn adapter(execution_provider: &str) -> &'static dyn ProviderAdapter {
    adapters().find(|adapter| adapter.name().eq_ignore_ascii_case(execution_provider)).unwrap_or(&ADAPTIVE)
}
