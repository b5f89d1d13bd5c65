//! May ONNX Runtime open the files beside a model that hold its weights?
//!
//! A model names such files freely, and ONNX Runtime has opened `../../etc/passwd`, absolute paths, links and even
//! memory addresses for models that asked (CVE-2022-25882, CVE-2024-27318, CVE-2025-51480, CVE-2026-27489). The rule: a
//! regular file with one name, below the model's directory, reached through no link, long enough for what the model
//! reads. The file is opened later by ONNX Runtime itself, so whoever can write to the model's directory in between
//! can still exchange it.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use ortscope_decode::onnx::Model;
use serde::Serialize;

use crate::os;

/// What was found to be in order.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct ExternalReport {
    pub files: Vec<ExternalFile>,
    /// Bytes that the model reads from all of them.
    pub bytes: u64,
    /// Files that only the override let pass, each with the rule that it breaks; to be shown to the user.
    pub overridden: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExternalFile {
    /// As the model spells it.
    pub location: String,
    pub path: PathBuf,
    pub file_bytes: u64,
    pub tensors: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExternalDataError {
    #[error("the model's directory cannot be read: {why}")]
    Directory { why: String },
    /// A broken rule that the user may override.
    #[error(
        "external data '{location}' of tensor '{tensor}' is refused: {why} (--allow-external-data overrides)"
    )]
    Refused { location: String, tensor: String, why: String },
    /// Nothing overrides this.
    #[error("external data '{location}' of tensor '{tensor}' cannot be used: {why}")]
    Impossible { location: String, tensor: String, why: String },
    #[error("external data '{location}' is missing: no such file as {}", path.display())]
    Missing { location: String, path: PathBuf },
    #[error(
        "external data '{location}' is too short: tensor '{tensor}' reads up to byte {needed}, the file has {has}; is it cut off?"
    )]
    TooShort { location: String, tensor: String, needed: u64, has: u64 },
}

/// Checks every file that the model refers to. With `allow_outside` the place of a file does not matter, and what
/// would have been refused is reported instead.
pub fn check(
    model_path: &Path,
    model: &Model,
    allow_outside: bool,
) -> Result<ExternalReport, ExternalDataError> {
    let mut report = ExternalReport::default();
    if model.external.is_empty() {
        return Ok(report);
    }
    let parent =
        model_path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let directory =
        parent.canonicalize().map_err(|error| ExternalDataError::Directory { why: error.to_string() })?;
    let mut files: BTreeMap<&str, ExternalFile> = BTreeMap::new();
    for tensor in &model.external {
        let location = tensor.data.location.as_str();
        if !files.contains_key(location) {
            let name = || (location.to_owned(), tensor.tensor.clone());
            if let Some(why) = impossible(location) {
                let (location, tensor) = name();
                return Err(ExternalDataError::Impossible { location, tensor, why: why.to_owned() });
            }
            if let Some(why) = misplaced(&directory, location) {
                let (location, tensor) = name();
                if !allow_outside {
                    return Err(ExternalDataError::Refused { location, tensor, why });
                }
                report.overridden.push(format!("'{location}': {why}"));
            }
            let file = open(&directory, location, &tensor.tensor)?;
            files.insert(location, file);
        }
        let Some(file) = files.get_mut(location) else {
            continue;
        };
        let length = tensor.data.length.unwrap_or(tensor.bytes);
        let needed = tensor.data.offset.saturating_add(length);
        if needed > file.file_bytes {
            let (location, tensor) = (location.to_owned(), tensor.tensor.clone());
            return Err(ExternalDataError::TooShort { location, tensor, needed, has: file.file_bytes });
        }
        file.tensors += 1;
        report.bytes = report.bytes.saturating_add(length);
    }
    report.files = files.into_values().collect();
    Ok(report)
}

/// What no file can be called, or what ONNX Runtime does not take for a file.
fn impossible(location: &str) -> Option<&'static str> {
    if location.contains('\0') {
        Some("its name contains a NUL character")
    } else if location.contains("_ORT_MEM_ADDR_") {
        Some("it names an address in memory, not a file")
    } else {
        None
    }
}

/// The rule of the place that is broken, if any. Windows' ways of spelling are refused everywhere, so that a model is
/// judged alike on every system.
fn misplaced(directory: &Path, location: &str) -> Option<String> {
    if location.starts_with("\\\\") || location.starts_with("//") {
        return Some("it is a network path".to_owned());
    }
    if location.contains(':') {
        return Some("it names a drive or a stream".to_owned());
    }
    if location.starts_with(['/', '\\']) || Path::new(location).is_absolute() {
        return Some("it is an absolute path".to_owned());
    }
    let parts: Vec<&str> = location.split(['/', '\\']).collect();
    if parts.contains(&"..") {
        return Some("it leaves the model's directory with '..'".to_owned());
    }
    if let Some(device) = parts.iter().find(|part| is_device(part)) {
        return Some(format!("'{device}' is a device on Windows"));
    }
    let mut path = directory.to_owned();
    for part in Path::new(location).components() {
        let Component::Normal(part) = part else { continue };
        path.push(part);
        match path.symlink_metadata() {
            Ok(found) if found.is_symlink() => {
                return Some(format!("{} is a symbolic link", path.display()));
            }
            Ok(found) if found.is_file() && os::link_count(&found) > 1 => {
                return Some("it has more than one name (hard links)".to_owned());
            }
            Ok(_) => {}
            // Missing files are reported as such by `open`.
            Err(_) => return None,
        }
    }
    match path.canonicalize() {
        Ok(real) if !real.starts_with(directory) => Some("it is outside the model's directory".to_owned()),
        _ => None,
    }
}

fn is_device(part: &str) -> bool {
    let stem = part.split('.').next().unwrap_or_default().trim_end().to_ascii_uppercase();
    let numbered = |prefix: &str| {
        stem.strip_prefix(prefix)
            .is_some_and(|rest| rest.len() == 1 && rest.chars().all(|c| c.is_ascii_digit()))
    };
    matches!(stem.as_str(), "CON" | "PRN" | "AUX" | "NUL") || numbered("COM") || numbered("LPT")
}

fn open(directory: &Path, location: &str, tensor: &str) -> Result<ExternalFile, ExternalDataError> {
    let path = directory.join(location);
    let name = || (location.to_owned(), tensor.to_owned());
    let found = path.metadata().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            ExternalDataError::Missing { location: location.to_owned(), path: path.clone() }
        }
        _ => {
            let (location, tensor) = name();
            ExternalDataError::Impossible { location, tensor, why: error.to_string() }
        }
    })?;
    if !found.is_file() {
        let why = if found.is_dir() { "it is a directory" } else { "it is not a regular file" };
        let (location, tensor) = name();
        return Err(ExternalDataError::Impossible { location, tensor, why: why.to_owned() });
    }
    Ok(ExternalFile { location: location.to_owned(), path, file_bytes: found.len(), tensors: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ortscope_decode::onnx::{ExternalData, ExternalTensor};

    fn model(location: &str, offset: u64, length: Option<u64>) -> Model {
        let data = ExternalData { location: location.to_owned(), offset, length };
        let external = vec![ExternalTensor { tensor: "w".to_owned(), bytes: 8, data }];
        Model { external, ..Model::default() }
    }

    struct Directory {
        keep: tempfile::TempDir,
        model: PathBuf,
    }

    fn directory() -> Directory {
        let keep = tempfile::tempdir().expect("a temporary directory");
        let inside = keep.path().join("model");
        std::fs::create_dir_all(inside.join("sub")).expect("a directory");
        std::fs::write(inside.join("w.bin"), [0; 16]).expect("a file");
        std::fs::write(inside.join("sub/w.bin"), [0; 16]).expect("a file");
        std::fs::write(keep.path().join("secret"), [0; 16]).expect("a file");
        Directory { model: inside.join("model.onnx"), keep }
    }

    fn refusal(directory: &Directory, location: &str) -> String {
        check(&directory.model, &model(location, 0, None), false).unwrap_err().to_string()
    }

    #[test]
    fn files_beside_and_below_the_model_are_fine() {
        let directory = directory();
        for location in ["w.bin", "./w.bin", "sub/w.bin"] {
            let report = check(&directory.model, &model(location, 8, None), false).unwrap();
            assert_eq!((report.bytes, report.files.len(), report.files[0].tensors), (8, 1, 1), "{location}");
            assert!(report.overridden.is_empty());
        }
        assert_eq!(
            check(Path::new("nowhere/m.onnx"), &Model::default(), false),
            Ok(ExternalReport::default())
        );
    }

    #[test]
    fn every_way_out_is_refused() {
        let directory = directory();
        let outside = directory.keep.path().join("secret");
        let absolute = outside.to_str().unwrap();
        for (location, why) in [
            ("../secret", "leaves the model's directory with '..'"),
            ("sub/../../secret", "leaves the model's directory"),
            ("sub\\..\\..\\secret", "leaves the model's directory"),
            ("/etc/passwd", "absolute path"),
            (absolute, ""),
            ("\\windows\\win.ini", "absolute path"),
            ("\\\\server\\share\\w.bin", "network path"),
            ("//server/share/w.bin", "network path"),
            ("C:\\w.bin", "drive or a stream"),
            ("C:w.bin", "drive or a stream"),
            ("w.bin:hidden", "drive or a stream"),
            ("NUL", "device on Windows"),
            ("sub/com1.txt", "device on Windows"),
        ] {
            let error = refusal(&directory, location);
            assert!(
                error.contains(why) && error.ends_with("(--allow-external-data overrides)"),
                "{location}: {error}"
            );
        }
    }

    #[test]
    fn what_is_no_file_is_refused_whatever_the_user_says() {
        let directory = directory();
        for (location, why) in [
            ("w\0.bin", "NUL character"),
            ("*/_ORT_MEM_ADDR_/*", "address in memory"),
            ("sub", "is a directory"),
        ] {
            for allow in [false, true] {
                let error =
                    check(&directory.model, &model(location, 0, None), allow).unwrap_err().to_string();
                assert!(error.contains(why), "{location:?}: {error}");
            }
        }
        let error = refusal(&directory, "absent.bin");
        assert!(error.starts_with("external data 'absent.bin' is missing: no such file as "), "{error}");
    }

    #[test]
    fn short_files_are_refused() {
        let directory = directory();
        let error = check(&directory.model, &model("w.bin", 8, Some(9)), false).unwrap_err();
        assert_eq!(
            error.to_string(),
            "external data 'w.bin' is too short: tensor 'w' reads up to byte 17, the file has 16; is it cut off?"
        );
        assert!(check(&directory.model, &model("w.bin", u64::MAX, Some(2)), false).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn links_and_devices_are_refused_unless_allowed() {
        let directory = directory();
        let inside = directory.model.parent().unwrap();
        std::os::unix::fs::symlink("../secret", inside.join("link")).unwrap();
        std::os::unix::fs::symlink(directory.keep.path(), inside.join("up")).unwrap();
        std::fs::hard_link(directory.keep.path().join("secret"), inside.join("hard")).unwrap();
        assert!(refusal(&directory, "link").contains("is a symbolic link"));
        assert!(refusal(&directory, "up/secret").contains("is a symbolic link"));
        assert!(refusal(&directory, "hard").contains("more than one name"));
        for location in ["link", "up/secret", "hard", "../secret"] {
            let report = check(&directory.model, &model(location, 0, None), true).unwrap();
            assert_eq!(report.overridden.len(), 1, "{location}");
        }
        let error = check(&directory.model, &model("/dev/zero", 0, None), true).unwrap_err().to_string();
        assert!(error.contains("not a regular file"), "{error}");
    }
}
