//! ONNX Runtime and inputs for the benchmarks that run a model in their own process.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use ortscope_core::tensor::{Value, element_count};
use ortscope_decode::onnx::InputHints;
use ortscope_ort::inputs::{InputRequest, resolve};
use ortscope_ort::{Environment, LogLevel, Runtime, Session, SessionOptions};

/// Telemetry of ONNX Runtime starts with the library, before its API can switch it off.
const TELEMETRY_SWITCH: &str = "ORT_DISABLE_TELEMETRY";

#[derive(Debug, clap::Args)]
pub struct OrtArgs {
    /// The model to run; its inputs must be small tensors
    #[arg(long)]
    pub model: PathBuf,
    /// Shared library of ONNX Runtime
    #[arg(long)]
    pub ort_library: PathBuf,
}

pub fn load(args: &OrtArgs) -> Result<(Runtime, Environment)> {
    let is_off = std::env::var_os(TELEMETRY_SWITCH).is_some_and(|value| value == "1");
    ensure!(is_off, "set {TELEMETRY_SWITCH}=1, so that ONNX Runtime sends nothing");
    let runtime = Runtime::load(&args.ort_library)?;
    let environment = Environment::new(&runtime, LogLevel::Error)?;
    Ok((runtime, environment))
}

/// Creates a session with one thread, and inputs for it.
pub fn session(environment: &Environment, model: &Path) -> Result<(Session, Vec<(String, Value)>)> {
    let options = SessionOptions { intra_op_threads: Some(1), ..SessionOptions::default() };
    let session = Session::create(environment, model, &options)?;
    let resolved = resolve(&InputRequest {
        signature: session.inputs(),
        hints: &InputHints::default(),
        given: Vec::new(),
        shapes: BTreeMap::new(),
        batch: None,
        seed: 42,
        max_bytes: 1 << 30,
    })
    .context("cannot make inputs for the model")?;
    let are_small = resolved.values.iter().all(|(_, value)| match value {
        Value::Tensor(tensor) => element_count(&tensor.dims).is_some_and(|elements| elements < 1_000_000),
        _ => false,
    });
    ensure!(are_small, "the model is not trivial: its inputs must be small tensors");
    Ok((session, resolved.values))
}
