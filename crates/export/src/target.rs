//! Where an export goes: files that get their names only when all of them are complete.

use std::io::Write;
use std::path::{Path, PathBuf};

use flate2::write::GzEncoder;
use fs_err as fs;
use ortscope_core::schema::TableId;
use serde::{Serialize, Serializer};
use tempfile::{NamedTempFile, TempPath};

use crate::error::ExportError;

/// A file that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExportedFile {
    pub path: PathBuf,
    /// `None` if it holds more than one table.
    #[serde(serialize_with = "table_name")]
    pub table: Option<TableId>,
    pub rows: u64,
    pub bytes: u64,
}

fn table_name<S: Serializer>(table: &Option<TableId>, serializer: S) -> Result<S::Ok, S::Error> {
    table.map(|table| table.def().name).serialize(serializer)
}

/// Files being written under temporary names beside their final ones. Dropping it removes them.
pub(crate) struct Staged {
    overwrite: bool,
    files: Vec<(TempPath, ExportedFile)>,
    /// Directories that did not exist before, the outer ones first.
    created: Vec<PathBuf>,
}

impl Staged {
    pub(crate) fn new(overwrite: bool) -> Self {
        Self { overwrite, files: Vec::new(), created: Vec::new() }
    }

    /// Makes the directory for several files.
    pub(crate) fn create_directory(&mut self, path: &Path) -> Result<(), ExportError> {
        if path.is_dir() {
            return Ok(());
        }
        if path.exists() {
            let hint = "several tables go into a directory: give the name of one, or choose one table";
            return Err(ExportError::usage(format!("{} is not a directory", path.display()), hint));
        }
        let missing = path.ancestors().take_while(|path| !path.as_os_str().is_empty() && !path.exists());
        let mut missing: Vec<PathBuf> = missing.map(Path::to_owned).collect();
        missing.reverse();
        self.created.append(&mut missing);
        fs::create_dir_all(path)?;
        Ok(())
    }

    /// Refuses what exists before any work is done.
    pub(crate) fn check(&self, path: &Path) -> Result<(), ExportError> {
        if path.is_dir() {
            let message = format!("{} is a directory", path.display());
            return Err(ExportError::usage(message, "give the name of a file"));
        }
        // Also a link to nowhere is somebody's.
        if !self.overwrite && fs::symlink_metadata(path).is_ok() {
            return Err(ExportError::exists(path));
        }
        Ok(())
    }

    /// An empty file that will be `path`. It is readable by its owner only, as the recording is.
    pub(crate) fn begin(&self, path: &Path) -> Result<NamedTempFile, ExportError> {
        self.check(path)?;
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = directory.unwrap_or(Path::new("."));
        tempfile::Builder::new()
            .prefix(".ortscope-export-")
            .suffix(".partial")
            .tempfile_in(directory)
            .map_err(|error| ExportError::file(path, &error))
    }

    /// The file is complete but for its name.
    pub(crate) fn add(
        &mut self,
        file: NamedTempFile,
        path: &Path,
        table: Option<TableId>,
        rows: u64,
    ) -> Result<(), ExportError> {
        // Otherwise a power cut could leave an empty file under the final name.
        file.as_file().sync_all().map_err(|error| ExportError::file(path, &error))?;
        let bytes = file.as_file().metadata().map_err(|error| ExportError::file(path, &error))?.len();
        let exported = ExportedFile { path: path.to_owned(), table, rows, bytes };
        self.files.push((file.into_temp_path(), exported));
        Ok(())
    }

    /// Gives every file its name.
    pub(crate) fn commit(mut self) -> Result<Vec<ExportedFile>, ExportError> {
        self.created.clear();
        let mut done = Vec::new();
        for (temporary, file) in self.files.drain(..) {
            let named = if self.overwrite {
                temporary.persist(&file.path).map_err(|error| error.error)
            } else {
                temporary.persist_noclobber(&file.path).map_err(|error| error.error)
            };
            match named {
                Ok(()) => done.push(file),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                    return Err(ExportError::exists(&file.path));
                }
                Err(error) => return Err(ExportError::file(&file.path, &error)),
            }
        }
        Ok(done)
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        self.files.clear();
        for created in self.created.iter().rev() {
            // Only an empty directory goes: somebody else may have put something there by now.
            fs::remove_dir(created).ok();
        }
    }
}

/// Measured on operator rows: level 6 takes 2.5 times as long and is 2.5 % smaller.
const GZIP_LEVEL: u32 = 4;

/// Runs `write` on the output, through gzip if asked.
pub(crate) fn compressed<T>(
    out: &mut (dyn Write + Send),
    gzip: bool,
    write: impl FnOnce(&mut (dyn Write + Send)) -> Result<T, ExportError>,
) -> Result<T, ExportError> {
    if !gzip {
        return write(out);
    }
    let mut encoder = GzEncoder::new(out, flate2::Compression::new(GZIP_LEVEL));
    let result = write(&mut encoder)?;
    encoder.finish()?;
    Ok(result)
}
