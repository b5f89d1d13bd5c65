//! Checks whether ONNX Runtime may open the files next to a model that hold its weights.
//!
//! A model names such files freely, and ONNX Runtime has opened `../../etc/passwd`, absolute paths, links and even
//! memory addresses for malicious models (CVE-2022-25882, CVE-2024-27318, CVE-2025-51480, CVE-2026-27489). The rule:
//! a regular file with one name, below the model's directory, reached through no link, long enough for the model's
//! reads. ONNX Runtime opens the file later, so anyone who can write to the model's directory in between can still
//! exchange it.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use ortscope_decode::onnx::{Model, harmless, shown};
use serde::Serialize;

use crate::os;

/// Summary of the accepted files.
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
        "external data '{}' of tensor '{}' is refused: {why} (--allow-external-data overrides)",
        shown(location),
        shown(tensor)
    )]
    Refused { location: String, tensor: String, why: String },
    /// Nothing overrides this.
    #[error("external data '{}' of tensor '{}' cannot be used: {why}", shown(location), shown(tensor))]
    Impossible { location: String, tensor: String, why: String },
    #[error("external data '{}' is missing: no such file as {}", shown(location), harmless(&path.display().to_string()))]
    Missing { location: String, path: PathBuf },
    #[error(
        "external data '{}' is too short: tensor '{}' reads up to byte {needed}, the file has {has}; is it cut off?",
        shown(location),
        shown(tensor)
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
                report.overridden.push(format!("'{}': {why}", shown(&location)));
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

/// Locations that cannot be file names, or that ONNX Runtime does not treat as files.
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
    // Windows takes dots and blanks off the end of a name: it would open another file than the one that was judged.
    if parts.iter().any(|part| *part != "." && part.ends_with(['.', ' '])) {
        return Some("a part of it ends with a dot or a blank".to_owned());
    }
    if let Some(device) = parts.iter().find(|part| is_device(part)) {
        return Some(format!("'{}' is a device on Windows", shown(device)));
    }
    let mut path = directory.to_owned();
    for part in Path::new(location).components() {
        let Component::Normal(part) = part else { continue };
        path.push(part);
        match path.symlink_metadata() {
            Ok(found) if found.is_symlink() => {
                return Some(format!("{} is a symbolic link", harmless(&path.display().to_string())));
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
    // Also with the superscript digits of Latin 1.
    let numbered = |prefix: &str| {
        let rest = stem.strip_prefix(prefix).unwrap_or_default();
        rest.chars().count() == 1 && rest.chars().all(|c| c.is_ascii_digit() || matches!(c, '¹' | '²' | '³'))
    };
    matches!(stem.as_str(), "CON" | "PRN" | "AUX" | "NUL" | "CONIN$" | "CONOUT$")
        || numbered("COM")
        || numbered("LPT")
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
    fn every_escape_is_rejected() {
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
            ("LPT²", "device on Windows"),
            ("conin$", "device on Windows"),
            ("\\\\?\\C:\\w.bin", "network path"),
            ("\\\\.\\PhysicalDrive0", "network path"),
            ("w.bin.", "ends with a dot"),
            (".. /secret", "ends with a dot or a blank"),
            ("sub/.../w.bin", "ends with a dot"),
        ] {
            let error = refusal(&directory, location);
            assert!(
                error.contains(why) && error.ends_with("(--allow-external-data overrides)"),
                "{location}: {error}"
            );
        }
    }

    #[test]
    fn non_files_are_rejected_regardless_of_options() {
        let directory = directory();
        for (location, why) in [
            ("w\0.bin", "NUL character"),
            ("*/_ORT_MEM_ADDR_/*", "address in memory"),
            ("sub", "is a directory"),
            (&"x".repeat(5000), "cannot be used"),
            (&"x/".repeat(3000), "cannot be used"),
        ] {
            for allow in [false, true] {
                let error =
                    check(&directory.model, &model(location, 0, None), allow).unwrap_err().to_string();
                // On Windows paths may have 32,767 characters: there is no such file.
                let is_allowed = std::env::consts::OS == "windows" && location.starts_with('x');
                let why = if is_allowed { "is missing" } else { why };
                assert!(error.contains(why), "{location:?}: {error}");
            }
        }
        let error = refusal(&directory, "absent.bin");
        assert!(error.starts_with("external data 'absent.bin' is missing: no such file as "), "{error}");
    }

    #[test]
    fn short_files_are_rejected() {
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
    fn links_and_devices_are_rejected_unless_allowed() {
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
        // An entry next to the model may not be a file; opening a pipe would wait forever.
        let _socket = std::os::unix::net::UnixListener::bind(inside.join("socket")).unwrap();
        let made = std::process::Command::new("mkfifo").arg(inside.join("pipe")).status();
        assert!(made.is_ok_and(|status| status.success()));
        std::os::unix::fs::symlink("/dev/zero", inside.join("device")).unwrap();
        for (location, why) in
            [("socket", "not a regular file"), ("pipe", "not a regular file"), ("device", "symbolic")]
        {
            assert!(refusal(&directory, location).contains(why), "{location}");
        }
        let error = check(&directory.model, &model("device", 0, None), true).unwrap_err().to_string();
        assert!(error.contains("not a regular file"), "{error}");
    }

    /// A link back into the directory is still a link: it can lead elsewhere a moment later.
    #[cfg(unix)]
    #[test]
    fn a_link_to_a_valid_file_is_rejected() {
        let directory = directory();
        let inside = directory.model.parent().unwrap();
        std::os::unix::fs::symlink("w.bin", inside.join("inner")).unwrap();
        std::os::unix::fs::symlink("inner", inside.join("outer")).unwrap();
        std::os::unix::fs::symlink("loop", inside.join("loop")).unwrap();
        for location in ["inner", "outer", "loop", "./inner"] {
            assert!(refusal(&directory, location).contains("is a symbolic link"), "{location}");
        }
        assert!(check(&directory.model, &model("loop", 0, None), true).is_err());
        // The model itself may be reached by a link; its directory is that of the link.
        let elsewhere = directory.keep.path().join("linked.onnx");
        std::os::unix::fs::symlink(&directory.model, &elsewhere).unwrap();
        assert!(check(&elsewhere, &model("w.bin", 0, None), false).is_err());
    }

    /// Names out of a model must not write lines of their own, nor fill the screen.
    #[test]
    fn names_stay_on_their_line() {
        let directory = directory();
        let error = refusal(&directory, &format!("\u{1b}[2J\n{}", "x".repeat(3000)));
        assert!(!error.chars().any(char::is_control), "{error:?}");
        assert!(error.chars().count() < 400, "{error}");
    }
}
