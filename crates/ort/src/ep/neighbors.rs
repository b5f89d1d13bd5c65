//! Plug-ins that pip installed next to ONNX Runtime, so that `--provider qnn` finds the library of `pip install
//! onnxruntime-qnn`. Only known packages next to the loaded library are considered: nothing else is ever loaded.

use std::path::{Path, PathBuf};

use super::ProviderOptions;

/// ONNX Runtime's name, the package's directory, and the plug-in on Linux and on Windows.
const PLUGINS: &[(&str, &str, [&str; 2])] = &[
    (
        "QNNExecutionProvider",
        "onnxruntime_qnn",
        ["libonnxruntime_providers_qnn.so", "onnxruntime_providers_qnn.dll"],
    ),
    (
        "OpenVINOExecutionProvider",
        "onnxruntime_ep_openvino",
        ["libonnxruntime_providers_openvino_plugin.so", "onnxruntime_providers_openvino_plugin.dll"],
    ),
];

/// Backends of QNN for an NPU, or its simulator.
const QNN_BACKENDS: [&str; 2] = ["libQnnHtp.so", "QnnHtp.dll"];

/// The plug-in of a provider in the Python environment that `runtime` lies in (`site-packages/onnxruntime/capi/`).
pub(super) fn plugin_beside(runtime: &Path, ort_name: &str) -> Option<PathBuf> {
    let (_, package, files) = PLUGINS.iter().find(|(name, ..)| *name == ort_name)?;
    let packages = runtime.parent()?.parent()?.parent()?;
    files.iter().map(|file| packages.join(package).join(file)).find(|path| path.is_file())
}

/// The plug-ins next to a runtime: ONNX Runtime's name of the provider, and the library.
pub fn plugins_beside(runtime: &Path) -> Vec<(&'static str, PathBuf)> {
    PLUGINS.iter().filter_map(|(name, ..)| Some((*name, plugin_beside(runtime, name)?))).collect()
}

/// QNN wants the path of its backend where it cannot ask a device: the one that came with the plug-in.
pub(super) fn with_backend(ort_name: &str, library: &Path, options: &ProviderOptions) -> ProviderOptions {
    let mut options = options.clone();
    let is_named = ["backend_path", "backend_type"].iter().any(|key| options.contains_key(*key));
    if ort_name == "QNNExecutionProvider" && !is_named {
        let backend =
            QNN_BACKENDS.iter().map(|file| library.with_file_name(file)).find(|path| path.is_file());
        if let Some(path) = backend.as_ref().and_then(|path| path.to_str()) {
            options.insert("backend_path".to_owned(), path.to_owned());
        }
    }
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plug_ins_are_found_only_next_to_the_runtime() {
        let packages = tempfile::tempdir().expect("a directory");
        let at = |path: &str| {
            let path = packages.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            std::fs::write(&path, b"").expect("written");
            path
        };
        let runtime = at("onnxruntime/capi/libonnxruntime.so.1.31.1");
        assert_eq!(plugin_beside(&runtime, "QNNExecutionProvider"), None);
        let plugin = at("onnxruntime_qnn/libonnxruntime_providers_qnn.so");
        assert_eq!(plugin_beside(&runtime, "QNNExecutionProvider"), Some(plugin.clone()));
        assert_eq!(plugins_beside(&runtime), [("QNNExecutionProvider", plugin.clone())]);
        assert_eq!(plugin_beside(&runtime, "SomeExecutionProvider"), None);
        assert_eq!(plugin_beside(Path::new("libonnxruntime.so"), "QNNExecutionProvider"), None);

        let nothing = ProviderOptions::new();
        assert_eq!(with_backend("QNNExecutionProvider", &plugin, &nothing), nothing);
        let backend = at("onnxruntime_qnn/libQnnHtp.so");
        let found = with_backend("QNNExecutionProvider", &plugin, &nothing);
        // As paths: Windows writes a separator in two ways.
        assert_eq!(found.get("backend_path").map(Path::new), Some(backend.as_path()));
        let own = ProviderOptions::from([("backend_type".to_owned(), "gpu".to_owned())]);
        assert_eq!(with_backend("QNNExecutionProvider", &plugin, &own), own);
        assert_eq!(with_backend("OpenVINOExecutionProvider", &plugin, &nothing), nothing);
    }
}
