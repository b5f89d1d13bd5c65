//! Reads input values from .npz, .npy, .pb or .json files, or a directory of them.

use std::path::{Path, PathBuf};

use ortscope_core::tensor::ValueInfo;
use ortscope_decode::tensors::{self, NamedValues, TensorLimits};

use ortscope_core::failure::Failure;

/// Larger files are refused, because they would fill the memory.
const MAX_FILE_BYTES: u64 = 8 << 30;

pub fn read(path: &Path, signature: &[ValueInfo]) -> Result<NamedValues, Failure> {
    if !path.is_dir() {
        return read_one(path, signature);
    }
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in fs_err::read_dir(path)? {
        let file = entry?.path();
        if extension(&file).is_some_and(|ending| ["npz", "npy", "pb", "json"].contains(&ending.as_str())) {
            files.push(file);
        }
    }
    if files.is_empty() {
        return Err(Failure::input(format!("'{}' holds no .npz, .npy, .pb or .json file", path.display())));
    }
    files.sort();
    let mut values = NamedValues::new();
    for file in files {
        values.extend(read_one(&file, signature)?);
    }
    Ok(values)
}

fn read_one(path: &Path, signature: &[ValueInfo]) -> Result<NamedValues, Failure> {
    let wrong = |problem: &dyn std::fmt::Display| Failure::input(format!("'{}': {problem}", path.display()));
    let found = std::fs::metadata(path)
        .map_err(|error| wrong(&error).with_hint("inputs are read from .npz, .npy, .pb and .json files"))?;
    // Reading a device or a pipe might never end.
    if !found.is_file() {
        return Err(wrong(&"it is not a regular file"));
    }
    let size = found.len();
    if size > MAX_FILE_BYTES {
        return Err(wrong(&format!("{size} bytes are more than the {MAX_FILE_BYTES} that are read at most")));
    }
    let bytes = fs_err::read(path)?;
    let file_name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let limits = TensorLimits { max_bytes: MAX_FILE_BYTES };
    let mut values = tensors::read(&bytes, &file_name, signature, &limits).map_err(|error| {
        wrong(&error).with_hint("in Python: numpy.savez('inputs.npz', name=array) makes a file that fits")
    })?;
    // A single value may have no name; then the file name is used if the model has an input of that name.
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    if let [(name @ None, _)] = values.as_mut_slice() {
        *name = stem.filter(|stem| signature.iter().any(|input| input.name == *stem));
    }
    Ok(values)
}

fn extension(path: &Path) -> Option<String> {
    path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase())
}
