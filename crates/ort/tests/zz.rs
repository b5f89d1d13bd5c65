mod support;
#[test]
fn zz() {
    let environment = support::environment().unwrap();
    environment.register_provider_library("openvino", std::path::Path::new("/tmp/w/plug/ov/onnxruntime_ep_openvino/libonnxruntime_providers_openvino_plugin.so")).unwrap();
    for d in environment.devices().unwrap() { eprintln!("{d:?}"); }
    eprintln!("{:?}", environment.take_logs());
}
