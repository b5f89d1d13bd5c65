//! Profile files of the providers themselves: QNN writes one when the session ends, OpenVINO one after every run.

use std::path::{Path, PathBuf};

use ortscope_decode::openvino_counters::FILE_SUFFIX;
use ortscope_ort::{Environment, SessionOptions, ep};

use crate::measure::plan::ProfilePlan;

/// Directory of OpenVINO's files; read when the provider is loaded, and set by the supervisor.
pub const OPENVINO_VARIABLE: &str = "ORT_OPENVINO_PERF_COUNT";
const OPENVINO: &str = "OpenVINOExecutionProvider";
/// OpenVINO's provider as part of ONNX Runtime's package. The plug-in needs no file: it writes to ONNX Runtime's profile.
const OPENVINO_LIBRARIES: [&str; 2] =
    ["libonnxruntime_providers_openvino.so", "onnxruntime_providers_openvino.dll"];
/// Maximum size of all kept files; a run of a large network has about 100 kB.
const MAX_BYTES: u64 = 256 << 20;

/// The directory that OpenVINO writes to.
pub fn openvino_directory(profile: &ProfilePlan) -> PathBuf {
    profile.directory.join("openvino")
}

/// Whether OpenVINO's provider is requested.
pub fn asks_for_openvino(options: &SessionOptions) -> bool {
    options.providers.iter().any(|request| is(&request.name, OPENVINO))
}

fn is(name: &str, ort_name: &str) -> bool {
    ep::find(name).is_some_and(|known| known.ort_name == ort_name)
}

/// Enables QNN's counting of cycles per node, unless the user has configured its profiling.
pub fn with_qnn_profile(options: &SessionOptions, file: &Path) -> Option<SessionOptions> {
    let mut options = options.clone();
    let qnn = options.providers.iter_mut().find(|request| is(&request.name, "QNNExecutionProvider"))?;
    if qnn.options.contains_key("profiling_level") {
        return None;
    }
    qnn.options.insert("profiling_level".into(), "detailed".into());
    qnn.options.insert("profiling_file_path".into(), file.to_str()?.to_owned());
    Some(options)
}

/// OpenVINO counts if the model is compiled for it. `None` if its provider cannot write the counters, or if the user loads
/// their own settings.
pub fn with_openvino_counters(options: &SessionOptions, environment: &Environment) -> Option<SessionOptions> {
    let mut options = options.clone();
    let openvino = options.providers.iter_mut().find(|request| is(&request.name, OPENVINO))?;
    let is_inside = openvino.library.is_none() && !openvino.options.contains_key("load_config");
    if !is_inside || !writes_counters(environment.runtime().path()) {
        return None;
    }
    let device = openvino.options.get("device_type").map_or("CPU", String::as_str);
    openvino.options.insert("load_config".into(), counting(device));
    Some(options)
}

/// Whether the provider of this ONNX Runtime supports the variable: its library then contains the name.
fn writes_counters(runtime: &Path) -> bool {
    let Some(directory) = runtime.parent() else { return false };
    let libraries = OPENVINO_LIBRARIES.iter().map(|name| directory.join(name));
    let name = OPENVINO_VARIABLE.as_bytes();
    libraries
        .filter_map(|library| fs_err::read(library).ok())
        .any(|bytes| bytes.windows(name.len()).any(|window| window == name))
}

/// Settings for every device that `AUTO:GPU,CPU`, `GPU_FP16` or `GPU.1` name.
fn counting(device_type: &str) -> String {
    let names = device_type.split([':', ',']).filter_map(|name| name.split(['.', '_']).next());
    let devices: serde_json::Map<String, serde_json::Value> = names
        .filter(|name| !name.is_empty())
        .map(|name| (name.trim().to_ascii_uppercase(), serde_json::json!({"PERF_COUNT": "YES"})))
        .collect();
    serde_json::Value::Object(devices).to_string()
}

/// Keeps OpenVINO's files of each run before the next run overwrites them.
#[derive(Debug)]
pub struct RunFiles {
    from: PathBuf,
    to: PathBuf,
    kept_bytes: u64,
    kept: bool,
}

impl RunFiles {
    pub fn new(profile: &ProfilePlan) -> Self {
        let (from, to) = (openvino_directory(profile), profile.directory.join("openvino-runs"));
        Self { from, to, kept_bytes: 0, kept: false }
    }

    /// After a run. If a file cannot be moved, its run has no counters.
    pub fn keep(&mut self, run: u64) {
        let Ok(files) = fs_err::read_dir(&self.from) else { return };
        for file in files.flatten() {
            let name = file.file_name();
            if !name.to_string_lossy().ends_with(FILE_SUFFIX) || self.kept_bytes > MAX_BYTES {
                continue;
            }
            self.kept_bytes += file.metadata().map_or(0, |metadata| metadata.len());
            let directory = self.to.join(run.to_string());
            self.kept |= fs_err::create_dir_all(&directory).is_ok()
                && fs_err::rename(file.path(), directory.join(name)).is_ok();
        }
    }

    /// A directory with one directory for each run that has files.
    pub fn finish(self) -> Option<PathBuf> {
        self.kept.then_some(self.to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enables_counters_for_every_device() {
        assert_eq!(counting("CPU"), r#"{"CPU":{"PERF_COUNT":"YES"}}"#);
        assert_eq!(counting("gpu_fp16"), r#"{"GPU":{"PERF_COUNT":"YES"}}"#);
        assert_eq!(
            counting("AUTO:GPU.1,CPU"),
            r#"{"AUTO":{"PERF_COUNT":"YES"},"CPU":{"PERF_COUNT":"YES"},"GPU":{"PERF_COUNT":"YES"}}"#
        );
    }

    #[test]
    fn detects_counter_support_in_the_library() {
        let place = tempfile::tempdir().unwrap();
        let runtime = place.path().join("libonnxruntime.so.1.31.1");
        assert!(!writes_counters(&runtime));
        let library = place.path().join(OPENVINO_LIBRARIES[0]);
        std::fs::write(&library, b"ELF ORT_OPENVINO_ENABLE_CI_LOG").unwrap();
        assert!(!writes_counters(&runtime));
        std::fs::write(&library, b"ELF\0ORT_OPENVINO_PERF_COUNT\0").unwrap();
        assert!(writes_counters(&runtime));
    }

    #[test]
    fn keeps_files_of_each_run_separately() {
        let place = tempfile::tempdir().unwrap();
        let profile = ProfilePlan {
            directory: place.path().to_owned(),
            runs: 2,
            duration_ns: None,
            optimized_model: false,
        };
        let mut files = RunFiles::new(&profile);
        files.keep(0);
        let written = openvino_directory(&profile);
        std::fs::create_dir(&written).unwrap();
        for run in 0..2 {
            std::fs::write(written.join("m-subgraph_1_0_perf_count.csv"), run.to_string()).unwrap();
            std::fs::write(written.join("other.txt"), "x").unwrap();
            files.keep(run);
        }
        let kept = files.finish().expect("files");
        for run in 0..2 {
            let file = kept.join(run.to_string()).join("m-subgraph_1_0_perf_count.csv");
            assert_eq!(std::fs::read_to_string(file).unwrap(), run.to_string());
        }
        assert!(written.join("other.txt").exists());
        assert!(RunFiles::new(&profile).finish().is_none());
    }
}
