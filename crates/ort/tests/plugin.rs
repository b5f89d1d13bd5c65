//! A real plug-in provider: Qualcomm's QNN with the simulator of its NPU, which runs on any x86-64 CPU.
//! `ORTSCOPE_TEST_QNN_PLUGIN` is `libonnxruntime_providers_qnn.so` of the PyPI package onnxruntime-qnn, which needs
//! ONNX Runtime 1.24.2 or newer.

mod support;

use std::path::Path;

use ortscope_core::tensor::{Tensor, TensorData, Value};
use ortscope_ort::ep::DeviceClass;
use ortscope_ort::{DeviceKind, FallbackPolicy, OrtError, ProviderRequest, Session, SessionOptions};
use support::{environment, floats, models, named};

fn options(library: &Path, more: &[(&str, &str)]) -> SessionOptions {
    let backend = library.with_file_name("libQnnHtp.so");
    // Without a chip, the simulator needs to know which one to simulate.
    let chip = [
        ("backend_path", backend.to_str().expect("UTF-8")),
        ("soc_model", "60"),
        ("htp_arch", "73"),
        ("vtcm_mb", "8"),
    ];
    let pairs = chip.iter().chain(more).map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    let provider = ProviderRequest {
        name: "qnn".to_owned(),
        options: pairs.collect(),
        library: Some(library.to_owned()),
    };
    SessionOptions { providers: vec![provider], ..SessionOptions::default() }
}

#[test]
fn qnn_runs_as_a_plug_in() {
    let Some(library) = support::skips::variable("ORTSCOPE_TEST_QNN_PLUGIN") else { return };
    let Some(environment) = environment() else { return };
    let model = models::add();
    // Twice, because the second session finds the library registered.
    for _ in 0..2 {
        let session = Session::from_bytes(&environment, &model, &options(&library, &[])).expect("loads");
        assert_eq!(session.providers(), ["QNNExecutionProvider"]);
        assert_eq!(session.device_classes(), [DeviceClass::Npu]);
        assert_eq!(session.fallbacks(), []);
        let placement = session.placement().expect("placement");
        assert_eq!(placement[0].provider, "QNNExecutionProvider", "{placement:?}");
        let x = floats(&[2, 3], &[1., 2., 3., 4., 5., 6.]);
        let mut binding = session.bind(&[named("x", x.clone()), named("y", x)]).expect("binds");
        for _ in 0..2 {
            binding.copy_inputs().expect("copies");
            binding.run().expect("runs");
            binding.synchronize().expect("synchronises");
            binding.copy_outputs().expect("copies");
        }
        let Value::Tensor(Tensor { data: TensorData::Bytes(bytes), .. }) =
            &binding.outputs().expect("outputs")[0].1
        else {
            panic!("a tensor of numbers")
        };
        let (sums, _) = bytes.as_chunks();
        for (sum, expected) in sums.iter().zip([2f32, 4., 6., 8., 10., 12.]) {
            // The NPU computes with 16 bits.
            assert!((f32::from_le_bytes(*sum) - expected).abs() < 0.01, "{bytes:?}");
        }
    }
    let devices = environment.devices().expect("devices");
    let qnn = devices.iter().find(|device| device.ep_name == "QNNExecutionProvider").expect("a device");
    assert_eq!(qnn.kind, DeviceKind::Cpu, "the simulator runs on the CPU");

    let mut options = options(&library, &[("device_type", "GPU")]);
    let error = Session::from_bytes(&environment, &model, &options).expect_err("no GPU here");
    let OrtError::ProviderUnavailable { reason, .. } = &error else { panic!("{error:?}") };
    assert!(reason.contains("no device of type GPU"), "{reason}");
    options.fallback = FallbackPolicy::ContinueOnCpu;
    let session = Session::from_bytes(&environment, &model, &options).expect("the CPU takes over");
    assert_eq!(session.fallbacks()[0].reason, *reason);
    assert_eq!(session.placement().expect("placement")[0].provider, "CPUExecutionProvider");
}
