//! An ONNX Runtime whose defect is known (`tests/altered/library.rs`).

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Place, skips};

/// Builds it in the place; `None` after saying why the test is skipped.
pub fn library(place: &Place, real: &Path, name: &str, defects: &[(&str, &str)]) -> Option<PathBuf> {
    if std::env::consts::OS != "linux" {
        skips::skipped("the altered ONNX Runtime is made for Linux");
        return None;
    }
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/altered");
    let library = place.directory.path().join(format!("{name}.so"));
    let built = Command::new("rustc")
        .args(["--edition", "2024", "--crate-type", "cdylib", "-C", "opt-level=2", "-C", "panic=abort", "-o"])
        .arg(&library)
        .arg(directory.join("library.rs"))
        .env("ALTERED_REAL", real)
        .envs(defects.iter().copied())
        .current_dir(&directory)
        .output();
    match built {
        Err(error) => {
            skips::skipped(&format!("rustc cannot be started: {error}"));
            None
        }
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Some(library)
        }
    }
}
