//! The known execution providers, one table entry each.

use super::{DeviceClass, ProviderOptions, Target};
use crate::OrtError;

type Append = fn(&Target<'_>, &ProviderOptions) -> Result<(), OrtError>;

/// One execution provider.
#[derive(Debug)]
pub struct ExecutionProvider {
    /// Short names, the usual one first.
    pub aliases: &'static [&'static str],
    /// The name in profiles and in `available_providers`.
    pub ort_name: &'static str,
    class: fn(&ProviderOptions) -> DeviceClass,
    append: Append,
}

impl ExecutionProvider {
    /// The hardware it uses with these options.
    pub fn device_class(&self, options: &ProviderOptions) -> DeviceClass {
        (self.class)(options)
    }

    /// Adds it to a session that is being set up.
    pub(super) fn append(&self, target: &Target<'_>, options: &ProviderOptions) -> Result<(), OrtError> {
        (self.append)(target, options)
    }
}

const fn provider(
    aliases: &'static [&'static str],
    ort_name: &'static str,
    class: fn(&ProviderOptions) -> DeviceClass,
    append: Append,
) -> ExecutionProvider {
    ExecutionProvider { aliases, ort_name, class, append }
}

const CPU: fn(&ProviderOptions) -> DeviceClass = |_| DeviceClass::Cpu;
const GPU: fn(&ProviderOptions) -> DeviceClass = |_| DeviceClass::Gpu;
const NPU: fn(&ProviderOptions) -> DeviceClass = |_| DeviceClass::Npu;

pub(super) static KNOWN: &[ExecutionProvider] = &[
    // Part of every session; ONNX Runtime appends it last by itself.
    provider(&["cpu"], "CPUExecutionProvider", CPU, |_, _| Ok(())),
    provider(&["cuda"], "CUDAExecutionProvider", GPU, |target, options| target.cuda(options)),
    provider(&["trt", "tensorrt"], "TensorrtExecutionProvider", GPU, |target, options| {
        target.tensorrt(options)
    }),
    // The generic function knows DirectML since 1.17.
    provider(&["dml", "directml"], "DmlExecutionProvider", directml_class, |target, options| {
        if target.minor() >= 17 { target.generic("DML", options) } else { target.directml_table(options) }
    }),
    // The generic function knows OpenVINO since 1.16.
    provider(&["openvino"], "OpenVINOExecutionProvider", openvino_class, |target, options| {
        if target.minor() >= 16 {
            target.generic("OpenVINO", options)
        } else {
            target.openvino_struct(options)
        }
    }),
    provider(&["qnn"], "QNNExecutionProvider", qnn_class, |target, options| target.generic("QNN", options)),
    provider(&["webgpu"], "WebGpuExecutionProvider", GPU, |target, options| {
        target.generic_since("the WebGPU provider", 20, "WebGPU", options)
    }),
    provider(&["coreml"], "CoreMLExecutionProvider", coreml_class, |target, options| {
        target.generic_since("the Core ML provider", 21, "CoreML", options)
    }),
    // The generic function knew Vitis AI up to 1.17 and again from 1.20; since 1.18 there is a separate function.
    provider(&["vitisai"], "VitisAIExecutionProvider", NPU, |target, options| {
        if target.minor() >= 18 { target.vitisai(options) } else { target.generic("VitisAI", options) }
    }),
    // Before 1.23 the layout of MIGraphX's options struct changed between versions, so only the device number, which
    // has its own function, can be passed safely.
    provider(&["migraphx"], "MIGraphXExecutionProvider", GPU, |target, options| match target.minor() {
        23.. => target.generic("MIGraphX", options),
        _ => target.exported("OrtSessionOptionsAppendExecutionProvider_MIGraphX", options),
    }),
    // Removed after 1.22. In 1.15 only the device number can be chosen.
    provider(&["rocm"], "ROCMExecutionProvider", GPU, |target, options| match target.minor() {
        16.. => target.rocm(options),
        _ => target.exported("OrtSessionOptionsAppendExecutionProvider_ROCM", options),
    }),
    provider(&["xnnpack"], "XnnpackExecutionProvider", CPU, |target, options| {
        target.generic_since("XnnpackExecutionProvider", 15, "XNNPACK", options)
    }),
    provider(&["snpe"], "SNPEExecutionProvider", NPU, |target, options| {
        target.generic_since("SNPEExecutionProvider", 15, "SNPE", options)
    }),
    provider(&["azure"], "AzureExecutionProvider", CPU, |target, options| {
        target.generic_since("AzureExecutionProvider", 15, "AZURE", options)
    }),
    provider(&["webnn"], "WebNNExecutionProvider", GPU, |target, options| {
        target.generic_since("WebNNExecutionProvider", 16, "WEBNN", options)
    }),
    provider(&["nvtensorrtrtx", "trt-rtx"], "NvTensorRTRTXExecutionProvider", GPU, |target, options| {
        target.generic_since("NvTensorRTRTXExecutionProvider", 22, "NvTensorRtRtx", options)
    }),
    provider(&["dnnl", "onednn"], "DnnlExecutionProvider", CPU, |target, options| target.dnnl(options)),
    provider(&["cann"], "CANNExecutionProvider", NPU, |target, options| target.cann(options)),
];

fn directml_class(options: &ProviderOptions) -> DeviceClass {
    match options.get("device_filter") {
        Some(filter) if filter.eq_ignore_ascii_case("npu") => DeviceClass::Npu,
        _ => DeviceClass::Gpu,
    }
}

fn openvino_class(options: &ProviderOptions) -> DeviceClass {
    // "GPU", "GPU_FP32", "AUTO:NPU,CPU", "HETERO:GPU,CPU": the device preferred to the CPU counts.
    let device = options.get("device_type").map(|device| device.to_ascii_uppercase()).unwrap_or_default();
    if device.contains("NPU") {
        DeviceClass::Npu
    } else if device.contains("GPU") {
        DeviceClass::Gpu
    } else {
        DeviceClass::Cpu
    }
}

fn qnn_class(options: &ProviderOptions) -> DeviceClass {
    // The backend is given by library or, since 1.22, by type; the NPU is the default.
    let backend = options.get("backend_path").or_else(|| options.get("backend_type"));
    let backend = backend.map(|backend| backend.to_ascii_lowercase()).unwrap_or_default();
    let file = backend.rsplit(['/', '\\']).next().unwrap_or_default();
    if file.contains("gpu") {
        DeviceClass::Gpu
    } else if file.contains("cpu") {
        DeviceClass::Cpu
    } else {
        DeviceClass::Npu
    }
}

fn coreml_class(options: &ProviderOptions) -> DeviceClass {
    match options.get("MLComputeUnits").map(String::as_str) {
        Some("CPUOnly") => DeviceClass::Cpu,
        Some("CPUAndGPU") => DeviceClass::Gpu,
        _ => DeviceClass::Npu,
    }
}
