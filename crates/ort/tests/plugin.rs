//! A real plug-in provider. `ORTSCOPE_TEST_OPENVINO_PLUGIN` is `libonnxruntime_providers_openvino_plugin.so` of the
//! PyPI package onnxruntime-ep-openvino, which needs ONNX Runtime 1.24 or newer.

mod support;

use std::path::PathBuf;

use ortscope_core::tensor::Value;
use ortscope_ort::ep::DeviceClass;
use ortscope_ort::{OrtError, ProviderRequest, Session, SessionOptions};
use support::{environment, floats, models, named};

fn options(library: &std::path::Path, device_type: &str) -> SessionOptions {
    let provider = ProviderRequest {
        name: "openvino".to_owned(),
        options: [("device_type".to_owned(), device_type.to_owned())].into(),
        library: Some(library.to_owned()),
    };
    SessionOptions {
        providers: vec![provider],
        ..SessionOptions::default()
    }
}

#[test]
fn openvino_runs_as_a_plug_in() {
    let Some(library) = std::env::var_os("ORTSCOPE_TEST_OPENVINO_PLUGIN").map(PathBuf::from) else {
        return support::skipped("ORTSCOPE_TEST_OPENVINO_PLUGIN");
    };
    let Some(environment) = environment() else { return };
    let model = models::matmul();
    // Twice, because the second session finds the library registered.
    for _ in 0..2 {
        let session = Session::from_bytes(&environment, &model, &options(&library, "CPU")).expect("loads");
        assert_eq!(session.providers(), ["OpenVINOExecutionProvider"]);
        assert_eq!(session.device_classes(), [DeviceClass::Cpu]);
        assert_eq!(session.fallbacks(), []);
        let placement = session.placement().expect("placement");
        assert_eq!(
            placement[0].provider, "OpenVINOExecutionProvider",
            "{placement:?}"
        );
        let mut binding = session
            .bind(&[named("x", floats(&[1, 3], &[1., 1., 1.]))])
            .expect("binds");
        for _ in 0..3 {
            binding.copy_inputs().expect("copies");
            binding.run().expect("runs");
            binding.copy_outputs().expect("copies");
        }
        let Value::Tensor(tensor) = &binding.outputs().expect("outputs")[0].1 else {
            panic!("a tensor")
        };
        assert_eq!(tensor.dims, [1, 2]);
        assert_eq!(Value::Tensor(tensor.clone()), floats(&[1, 2], &[9., 12.]));
    }
    assert!(
        environment
            .devices()
            .expect("devices")
            .iter()
            .any(|device| device.ep_vendor.contains("Intel"))
    );

    let error =
        Session::from_bytes(&environment, &model, &options(&library, "NPU")).expect_err("no NPU here");
    let OrtError::ProviderUnavailable { reason, .. } = &error else {
        panic!("{error:?}")
    };
    assert!(reason.contains("no device of type NPU"), "{reason}");
}
