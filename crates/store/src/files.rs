//! The layout of a recording, and atomic writing of files.

use std::fs::TryLockError;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use fs_err::{File, OpenOptions};
use ortscope_channel::disk::{
    Change, Overwritten, change, open_to_read, overwritten, patiently, remove_kept_file,
};
use tempfile::NamedTempFile;

use crate::StoreError;

pub(crate) use ortscope_channel::disk::sync_directory;

pub(crate) const MANIFEST: &str = "manifest.json";
pub(crate) const LOCK: &str = "lock";
pub(crate) const JOURNAL: &str = "journal";
pub(crate) const SEGMENTS: &str = "segments";
pub(crate) const CHANNEL: &str = "channel";
pub(crate) const DOCUMENTS: &str = "documents";
pub(crate) const DAMAGED: &str = "damaged";
/// Ending of packed recordings.
pub(crate) const PACKED_EXTENSION: &str = "ortscope";

/// The longest small file (manifest, document) that is read into memory.
pub(crate) const MAX_DOCUMENT_BYTES: u64 = 256 << 20;

pub(crate) fn segment_name(number: u64) -> String {
    format!("segment-{number:08}.cols")
}

pub(crate) fn segment_path(recording: &Path, number: u64) -> PathBuf {
    recording.join(SEGMENTS).join(segment_name(number))
}

/// The number of a segment by its file name.
pub(crate) fn segment_number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("segment-")?.strip_suffix(".cols")?;
    let is_number = digits.len() >= 8 && digits.bytes().all(|digit| digit.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number)
}

/// The segments of a recording in order; none if the directory does not exist.
pub(crate) fn segment_files(recording: &Path) -> std::io::Result<Vec<(u64, PathBuf)>> {
    let mut files = Vec::new();
    for path in entries(&recording.join(SEGMENTS))? {
        if let Some(number) = path.file_name().and_then(|name| segment_number(name.to_str()?)) {
            files.push((number, path));
        }
    }
    files.sort();
    Ok(files)
}

/// The last part of a path.
pub(crate) fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The paths in a directory, sorted; none if it does not exist.
pub(crate) fn entries(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let listing = match fs_err::read_dir(directory) {
        Ok(listing) => listing,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut paths = listing.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

/// Makes a directory unless it is there.
pub(crate) fn make_directory(path: &Path) -> Result<(), StoreError> {
    if path.is_dir() {
        return Ok(());
    }
    Ok(change(Change::MakeDirectory(path), || fs_err::create_dir_all(path))?)
}

/// A written file without its final name. It is removed when dropped.
#[derive(Debug)]
pub(crate) struct NewFile(NamedTempFile);

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let Self(file) = self;
        let path = file.path().to_owned();
        change(Change::Write(&path, bytes.len() as u64), || file.write(bytes))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

impl Seek for NewFile {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        self.0.seek(to)
    }
}

/// Creates a private file next to `path`; [`put_in_place`] renames it.
pub(crate) fn new_file_for(path: &Path) -> Result<NewFile, StoreError> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let named = || format!("cannot write in '{}'", directory.display());
    // Its real name is random.
    change(Change::MakeFile(&directory.join(".new-")), || {
        tempfile::Builder::new().prefix(".new-").tempfile_in(directory)
    })
    .map(NewFile)
    .map_err(|error| std::io::Error::new(error.kind(), format!("{}: {error}", named())).into())
}

/// Synced first, then renamed: readers see the complete file or the previous one.
pub(crate) fn put_in_place(NewFile(file): NewFile, path: &Path) -> Result<(), StoreError> {
    let from = file.path().to_owned();
    change(Change::Sync(&from), || file.as_file().sync_all())?;
    let rename = Change::Rename { from: &from, to: path };
    change(rename, || give_name(file, path))?;
    if let Some(directory) = path.parent() {
        sync_directory(directory);
    }
    Ok(())
}

/// Windows does not replace a file that is being read, except by a newer call that `std` uses and `persist` does not;
/// its temporary attribute is removed first.
fn give_name(file: NamedTempFile, path: &Path) -> std::io::Result<()> {
    if std::env::consts::OS != "windows" {
        return file.persist(path).map(drop).map_err(|error| error.error);
    }
    let (_, from) = file.keep().map_err(|error| error.error)?;
    patiently(|| std::fs::rename(&from, path)).inspect_err(|_| {
        std::fs::remove_file(&from).ok();
    })
}

pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let mut file = new_file_for(path)?;
    file.write_all(bytes)?;
    put_in_place(file, path)
}

/// The bytes of a small file; `None` if it is not there.
pub(crate) fn read_small(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    let file = match open_to_read(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mut bytes = Vec::new();
    file.take(MAX_DOCUMENT_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_DOCUMENT_BYTES {
        return Err(StoreError::damaged(path, "it is far too long"));
    }
    Ok(Some(bytes))
}

/// Bytes of all files below a path. Files that vanish meanwhile are ignored.
pub(crate) fn bytes_below(path: &Path) -> u64 {
    let Ok(metadata) = std::fs::symlink_metadata(path) else {
        return 0;
    };
    if metadata.is_dir() {
        entries(path).unwrap_or_default().iter().map(|path| bytes_below(path)).sum()
    } else {
        metadata.len()
    }
}

/// Removes a directory with all it has; fine if it is not there.
pub(crate) fn remove_directory(path: &Path) -> std::io::Result<()> {
    if !path.exists() {
        return Ok(());
    }
    let remove = || {
        // Rings are never encrypted.
        let is_channel = path.file_name().is_some_and(|name| name == CHANNEL);
        let what = if is_channel { Overwritten::Temporary } else { Overwritten::Everything };
        let path = overwritten(path, what);
        patiently(|| std::fs::remove_dir_all(&path)).or_else(|_| fs_err::remove_dir_all(&path))
    };
    match change(Change::RemoveDirectory(path), remove) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

pub(crate) fn remove_file(path: &Path) -> std::io::Result<()> {
    change(Change::RemoveFile(path), || remove_kept_file(path))
}

pub(crate) fn rename(from: &Path, to: &Path) -> std::io::Result<()> {
    let rename = || patiently(|| std::fs::rename(from, to)).or_else(|_| fs_err::rename(from, to));
    change(Change::Rename { from, to }, rename)
}

/// Whether a name is valid for a file in a recording: no path, not hidden.
pub(crate) fn is_plain_name(name: &str) -> bool {
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '_');
    !name.is_empty() && name.len() <= 100 && !name.starts_with('.') && name.chars().all(allowed)
}

/// Held as long as a recording is written.
#[derive(Debug)]
pub(crate) struct WriterLock {
    _file: File,
}

impl WriterLock {
    pub fn take(recording: &Path) -> Result<Self, StoreError> {
        let path = recording.join(LOCK);
        let open = || OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let file = if path.exists() { open()? } else { change(Change::MakeFile(&path), open)? };
        match file.file().try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => {
                let name = recording.file_name().unwrap_or(recording.as_os_str());
                Err(StoreError::InUse(name.to_string_lossy().into()))
            }
            Err(TryLockError::Error(error)) => Err(error.into()),
        }
    }
}

/// Whether the recording is being written. Assumed false where the system does not report it.
pub(crate) fn is_written(recording: &Path) -> bool {
    let Ok(file) = File::open(recording.join(LOCK)) else {
        return false;
    };
    // Given back at once, when the file is closed.
    matches!(file.file().try_lock_shared(), Err(TryLockError::WouldBlock))
}
