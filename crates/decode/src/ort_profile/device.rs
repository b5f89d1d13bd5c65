//! The kind of device that an execution provider uses.

/// CPU, GPU or NPU; empty for providers that may use any of them, and for unknown ones.
pub fn device_of(provider: &str) -> &'static str {
    let short = provider.strip_suffix("ExecutionProvider").unwrap_or(provider);
    match short {
        "CPU" | "Dnnl" | "XNNPACK" | "Xnnpack" | "ACL" | "ArmNN" => "CPU",
        "CUDA" | "CUDANHWC" | "Tensorrt" | "NvTensorRTRTX" | "ROCM" | "MIGraphX" | "Dml" | "WebGpu"
        | "JS" | "Js" => "GPU",
        "QNN" | "VitisAI" | "Rknpu" | "CANN" | "VSINPU" | "SNPE" => "NPU",
        // OpenVINO, CoreML, NNAPI, WebNN and TVM support several devices.
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::device_of;

    #[test]
    fn providers_have_their_devices() {
        assert_eq!(device_of("CPUExecutionProvider"), "CPU");
        assert_eq!(device_of("TensorrtExecutionProvider"), "GPU");
        assert_eq!(device_of("DmlExecutionProvider"), "GPU");
        assert_eq!(device_of("QNNExecutionProvider"), "NPU");
        assert_eq!(device_of("OpenVINOExecutionProvider"), "");
        assert_eq!(device_of("MyExecutionProvider"), "");
        assert_eq!(device_of(""), "");
    }
}
