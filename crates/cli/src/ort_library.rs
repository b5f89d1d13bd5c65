//! Which ONNX Runtime to use: flag > environment > configuration > the active Python > the system.

use std::path::PathBuf;

use ortscope_core::config::Config;
use ortscope_ort::search::{EnvironmentVariables, SearchReport, SearchRequest, search};

use crate::args::GlobalArgs;
use crate::exit::Failure;

/// The library to load, or why there is none.
pub fn find(global: &GlobalArgs, config: &Config) -> Result<PathBuf, Failure> {
    let report = look(global, config);
    if let Some(found) = &report.found {
        tracing::info!(path = %found.path.display(), how = %found.how, "ONNX Runtime");
        return Ok(found.path.clone());
    }
    // A library that was named and is not there has its own sentence.
    if let [only] = report.steps.as_slice() {
        return Err(Failure::model(format!("{}: {}", only.place, only.outcome))
            .with_hint("name libonnxruntime.so or onnxruntime.dll, or a directory that has it"));
    }
    let places: Vec<&str> = report.steps.iter().map(|step| step.place.as_str()).collect();
    Err(Failure::model(format!("no ONNX Runtime was found (looked at {})", places.join(", "))).with_hint(
        "pip install onnxruntime, or name its library with --ort-library; 'ortscope doctor' shows every place and why",
    ))
}

/// The whole search, for `doctor`.
pub fn look(global: &GlobalArgs, config: &Config) -> SearchReport {
    let environment = EnvironmentVariables::from_process();
    let from_environment = std::env::var_os("ORTSCOPE_ORT_LIBRARY").is_some_and(|value| !value.is_empty());
    let explicit =
        global.ort_library.clone().or_else(|| config.ort.library.clone().filter(|_| !from_environment));
    search(&SearchRequest { explicit, environment, python: None })
}
