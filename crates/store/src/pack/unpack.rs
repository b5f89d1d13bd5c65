//! Opens a packed recording: its files go into a private temporary directory that is removed afterwards.

use std::io::{Read, Write};
use std::path::Path;

use fs_err::File;
use ortscope_channel::disk::overwrite_temporary;
use tempfile::TempDir;
use zip::read::ZipFile;
use zip::{CompressionMethod, ZipArchive};

use crate::StoreError;
use crate::files::{
    DOCUMENTS, MANIFEST, MAX_DOCUMENT_BYTES, SEGMENTS, is_plain_name, make_directory, segment_number,
};

/// Files of the largest packed recording that is accepted.
const MAX_FILES: usize = 100_000;

/// Unpacks into a directory that lives as long as the result.
pub(crate) fn unpack(path: &Path) -> Result<Unpacked, StoreError> {
    let not_packed =
        |problem: String| StoreError::damaged(path, format!("it is not a packed recording: {problem}"));
    let file = File::open(path)?;
    let mut archive =
        ZipArchive::new(std::io::BufReader::new(file)).map_err(|error| not_packed(error.to_string()))?;
    if archive.len() > MAX_FILES {
        return Err(not_packed(format!("it has {} files", archive.len())));
    }
    let directory = tempfile::Builder::new().prefix("ortscope-").tempdir()?;
    for part in [SEGMENTS, DOCUMENTS] {
        make_directory(&directory.path().join(part))?;
    }
    let mut has_manifest = false;
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).map_err(|error| not_packed(error.to_string()))?;
        let name =
            entry.name().map(|name| name.into_owned()).map_err(|error| not_packed(error.to_string()))?;
        let Some(kind) = Kind::of(&name) else {
            // Whatever it is, it is not put anywhere.
            continue;
        };
        has_manifest |= kind == Kind::Manifest;
        extract(&mut entry, kind, &directory.path().join(&name)).map_err(|error| {
            match StoreError::from(error) {
                StoreError::Failed(problem) => StoreError::damaged(path, format!("{name}: {problem}")),
                other => other,
            }
        })?;
    }
    if !has_manifest {
        return Err(not_packed(format!("it has no {MANIFEST}")));
    }
    Ok(Unpacked(directory))
}

/// The files of a packed recording while they are being read.
#[derive(Debug)]
pub(crate) struct Unpacked(TempDir);

impl Unpacked {
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Unpacked {
    fn drop(&mut self) {
        overwrite_temporary(self.0.path());
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Manifest,
    Segment,
    Document,
}

impl Kind {
    /// Only names that a packer writes: nothing leaves the directory.
    fn of(name: &str) -> Option<Self> {
        match name.split_once('/') {
            None if name == MANIFEST => Some(Self::Manifest),
            Some((SEGMENTS, file)) if segment_number(file).is_some() => Some(Self::Segment),
            Some((DOCUMENTS, file)) if is_plain_name(file) => Some(Self::Document),
            _ => None,
        }
    }
}

fn extract<R: Read>(entry: &mut ZipFile<'_, R>, kind: Kind, to: &Path) -> std::io::Result<()> {
    let most = match kind {
        // Stored as they are: no larger than the packed file itself.
        Kind::Segment if entry.compression() == CompressionMethod::Stored => entry.compressed_size(),
        Kind::Segment => return Err(std::io::Error::other("a segment is compressed again")),
        Kind::Manifest | Kind::Document => MAX_DOCUMENT_BYTES,
    };
    let mut file = File::create(to)?;
    let copied = std::io::copy(&mut entry.take(most + 1), &mut file)?;
    if copied > most {
        return Err(std::io::Error::other("it is far too long"));
    }
    file.flush()
}
