//! numpy's `.npz`: a zip archive of `.npy` files.

use std::io::{Cursor, Read};

use ortscope_core::tensor::{Value, element_count};
use zip::ZipArchive;

use super::{NamedValues, TensorError, TensorLimits, npy};

/// Reads all arrays. Bytes are counted during decompression, regardless of the sizes in the archive.
pub fn read(bytes: &[u8], limits: &TensorLimits) -> Result<NamedValues, TensorError> {
    let mut archive =
        ZipArchive::new(Cursor::new(bytes)).map_err(|error| TensorError::Zip(error.to_string()))?;
    let mut values = NamedValues::new();
    let mut left = limits.max_bytes;
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).map_err(|error| TensorError::Zip(error.to_string()))?;
        if entry.is_dir() {
            continue;
        }
        let name = entry.name().map_err(|error| TensorError::Zip(error.to_string()))?.into_owned();
        let mut unpacked = Vec::new();
        let read = entry.by_ref().take(left.saturating_add(1)).read_to_end(&mut unpacked);
        read.map_err(|error| TensorError::Zip(format!("'{name}': {error}")))?;
        let too_large = || TensorError::TooLarge { limit: limits.max_bytes };
        let unpacked_bytes = unpacked.len() as u64;
        left = left.checked_sub(unpacked_bytes).ok_or_else(too_large)?;
        let tensor = npy::read(&unpacked, limits)
            .map_err(|source| TensorError::Entry { entry: name.clone(), source: Box::new(source) })?;
        let elements = element_count(&tensor.dims).unwrap_or(u64::MAX);
        // In addition to the bytes that were counted above.
        left = left.checked_sub(npy::held_bytes(tensor.element, elements, 0)).ok_or_else(too_large)?;
        let name = name.strip_suffix(".npy").unwrap_or(&name);
        values.push((Some(name.to_owned()), Value::Tensor(tensor)));
    }
    Ok(values)
}
