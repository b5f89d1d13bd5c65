//! ONNX Runtime libraries of several versions, for tests of what differs between them.
//!
//! The npm package `onnxruntime-node` carries the plain library of every version for every platform; Python packages
//! carry it from 1.19 on and are the second choice.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::environment::Environment;
use crate::models::{only_file, pip_download};
use crate::process::{self, Unavailable, capture, find_program};

/// The oldest supported version.
pub(crate) const OLDEST: &str = "1.15.1";
/// Versions where something that ortscope reads has changed.
pub(crate) const MATRIX: &[&str] = &["1.17.3", "1.20.1", "1.24.3"];

/// A provider that is a library of its own, in a Python package.
#[derive(Debug)]
pub(crate) struct Plugin {
    pub(crate) name: &'static str,
    package: &'static str,
    platform: &'static str,
    /// Directories of the package that have libraries; those of one find those of another beside them.
    folders: &'static [&'static str],
    library: &'static str,
}

/// Qualcomm's provider with the simulator of its NPU: the one accelerator that any x86-64 Linux can run.
pub(crate) const QNN: Plugin = Plugin {
    name: "qnn",
    package: "onnxruntime-qnn==2.7.0",
    platform: "--platform=manylinux_2_35_x86_64",
    folders: &["onnxruntime_qnn.libs", "onnxruntime_qnn"],
    library: "onnxruntime_qnn/libonnxruntime_providers_qnn.so",
};

/// Intel's provider, which also runs on its processors.
pub(crate) const OPENVINO: Plugin = Plugin {
    name: "openvino",
    package: "onnxruntime-ep-openvino==1.8.1",
    platform: "--platform=manylinux_2_28_x86_64",
    folders: &["onnxruntime_ep_openvino"],
    library: "onnxruntime_ep_openvino/libonnxruntime_providers_openvino_plugin.so",
};

/// ONNX Runtime with OpenVINO inside, which runs on processors of every maker.
pub(crate) const OPENVINO_INSIDE: Plugin = Plugin {
    name: "openvino-inside",
    package: "onnxruntime-openvino==1.24.1",
    platform: "--platform=manylinux_2_28_x86_64",
    folders: &["onnxruntime/capi"],
    library: "onnxruntime/capi/libonnxruntime.so.1.24.1",
};

/// From here on Python's Linux packages contain the library.
const FIRST_MINOR_ON_PYPI: u32 = 19;

/// The platform a library is for, in npm's and in pip's words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Platform {
    npm_folder: &'static str,
    /// `None` is the platform that pip runs on.
    pip: Option<&'static str>,
}

impl Platform {
    pub(crate) const WINDOWS: Self = Self { npm_folder: "win32/x64", pip: Some("win_amd64") };

    pub(crate) fn host() -> Result<Self> {
        let npm_folder = match (std::env::consts::OS, std::env::consts::ARCH) {
            ("linux", "x86_64") => "linux/x64",
            ("linux", "aarch64") => "linux/arm64",
            ("windows", "x86_64") => "win32/x64",
            ("windows", "aarch64") => "win32/arm64",
            ("macos", "x86_64") => "darwin/x64",
            ("macos", "aarch64") => "darwin/arm64",
            (os, arch) => bail!("onnxruntime-node has no library for {os} on {arch}"),
        };
        Ok(Self { npm_folder, pip: None })
    }
}

/// The ONNX Runtime library in a directory: not the providers beside it.
pub(crate) fn library_in(dir: &Path) -> Option<PathBuf> {
    let mut libraries: Vec<PathBuf> = fs::read_dir(dir)
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.file_name().and_then(OsStr::to_str).is_some_and(is_library_name))
        .collect();
    // `libonnxruntime.so.1` and `.so.1.20.1` may both be there; the longest name tells most.
    libraries.sort_by_key(|path| path.as_os_str().len());
    libraries.pop()
}

fn is_library_name(name: &str) -> bool {
    name == "onnxruntime.dll"
        || name.starts_with("libonnxruntime.so")
        || (name.starts_with("libonnxruntime.") && name.ends_with(".dylib"))
}

/// The library of one version under `dir/<version>/`, downloaded if it is not there yet.
pub(crate) fn fetch(
    environment: &Environment,
    version: &str,
    platform: Platform,
    dir: &Path,
) -> Result<PathBuf> {
    let home = dir.join(version);
    if let Some(library) = library_in(&home) {
        return Ok(library);
    }
    process::step(&format!("onnxruntime {version} ({})", platform.npm_folder), || {
        let scratch =
            environment.scratch(&format!("ort-{version}-{}", platform.npm_folder.replace('/', "-")))?;
        let minor = version.split('.').nth(1).and_then(|minor| minor.parse().ok()).unwrap_or(0);
        let (archive, folder) = match from_npm(version, &scratch) {
            Ok(archive) => (archive, platform.npm_folder),
            Err(_) if minor >= FIRST_MINOR_ON_PYPI => {
                (from_pypi(environment, version, platform, &scratch)?, "onnxruntime/capi")
            }
            Err(error) => return Err(error),
        };
        capture(environment.script("extract.py").arg(archive).args(["--libraries", folder]).arg(&home))?;
        fs::remove_dir_all(&scratch).with_context(|| format!("cannot remove {}", scratch.display()))
    })?;
    library_in(&home).with_context(|| format!("the package of onnxruntime {version} has no library"))
}

/// The newest version that Python's packages have for a platform, under `dir/newest/`.
pub(crate) fn fetch_same_as_installed(
    environment: &Environment,
    platform: Platform,
    dir: &Path,
) -> Result<PathBuf> {
    let version = environment.version_of("onnxruntime").to_owned();
    fetch(environment, &version, platform, dir)
}

/// Where the library of a plug-in is, once it was fetched.
pub(crate) fn plugin_library(environment: &Environment, plugin: &Plugin) -> PathBuf {
    environment.plugins_dir().join(plugin.name).join(plugin.library)
}

/// The library of a plug-in, downloaded if it is not there yet.
pub(crate) fn fetch_plugin(environment: &Environment, plugin: &Plugin) -> Result<PathBuf> {
    if (std::env::consts::OS, std::env::consts::ARCH) != ("linux", "x86_64") {
        let why = format!("the plug-in {} is fetched for x86-64 Linux only", plugin.name);
        return Err(anyhow::anyhow!(why.clone()).context(Unavailable(why)));
    }
    let home = environment.plugins_dir().join(plugin.name);
    let library = plugin_library(environment, plugin);
    if library.exists() {
        return Ok(library);
    }
    process::step(plugin.package, || {
        let scratch = environment.scratch(plugin.name)?;
        let options = ["--only-binary=:all:", plugin.platform, "--python-version=3.12"];
        let archive = pip_download(environment, plugin.package, &options, &scratch)?;
        for folder in plugin.folders {
            let mut extract = environment.script("extract.py");
            capture(extract.arg(&archive).args(["--libraries", folder]).arg(home.join(folder)))?;
        }
        fs::remove_dir_all(&scratch).with_context(|| format!("cannot remove {}", scratch.display()))
    })?;
    if library.exists() { Ok(library) } else { bail!("{} has no {}", plugin.package, library.display()) }
}

fn from_npm(version: &str, scratch: &Path) -> Result<PathBuf> {
    let package = format!("onnxruntime-node@{version}");
    let unavailable = || Unavailable(format!("cannot download {package}"));
    let npm = find_program("npm").context("npm is not on the path").with_context(unavailable)?;
    // A package is only downloaded, never installed: no script of it runs.
    capture(
        Command::new(npm).args(["pack", "--loglevel=error", &package, "--pack-destination"]).arg(scratch),
    )
    .with_context(unavailable)?;
    only_file(scratch).with_context(|| format!("npm packed no file for {package}"))
}

fn from_pypi(
    environment: &Environment,
    version: &str,
    platform: Platform,
    scratch: &Path,
) -> Result<PathBuf> {
    let for_platform = platform.pip.map(|name| format!("--platform={name}"));
    let mut options = vec!["--only-binary=:all:"];
    options.extend(for_platform.as_deref());
    pip_download(environment, &format!("onnxruntime=={version}"), &options, scratch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_told_from_its_neighbours() {
        for name in [
            "libonnxruntime.so.1.31.1",
            "libonnxruntime.so",
            "onnxruntime.dll",
            "libonnxruntime.1.15.1.dylib",
        ] {
            assert!(is_library_name(name), "{name}");
        }
        for name in [
            "libonnxruntime_providers_shared.so",
            "onnxruntime_providers_shared.dll",
            "onnxruntime_binding.node",
        ] {
            assert!(!is_library_name(name), "{name}");
        }
    }
}
