//! The crash journal of a recording.
//!
//! A directory of files `journal-00000001.frames`, `journal-00000002.frames` and so on. A file is a header page
//! followed by the frames of [`crate::frame`]: first the schema of the writer, then batches ([`crate::batch_frame`]).
//! Frames are copied into memory that maps the file, so that they survive a kill of the writer; a thread writes them to
//! the disk at least once a second, so that a power loss takes no more than that.
//!
//! All blocks of a file are allocated before it is used, and the next file is created in the background: an append is a
//! copy, never a wait for the disk, and a full disk is an error, never a signal.
//!
//! The frames of an encrypted recording are encrypted one by one ([`crate::seal`]); lengths, kinds and numbers stay
//! readable.

mod background;
mod file;
mod header;
mod reader;
mod scan;
mod window;
mod writer;

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::seal::SEAL_HEADER_BYTES;
use crate::{ChannelError, private_files};

pub use reader::{JournalFileReader, JournalOutcome};
pub use writer::JournalWriter;

/// The sizes a journal file may have.
const FILE_BYTES: std::ops::RangeInclusive<u64> = 256 << 10..=64 << 20;
/// Allowed sync periods: data older than the longest survives a power loss.
const SYNC_PERIOD: std::ops::RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(1);
const PREFIX: &str = "journal-";
const EXTENSION: &str = "frames";

/// How a journal is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalOptions {
    /// Size of a file. Default 8 MiB, 256 KiB to 64 MiB. When one is full, the next is used.
    pub file_bytes: u64,
    /// How often new data is written to the disk. Default 500 ms; clamped to 1 ms to 1 s.
    pub sync_period: Duration,
}

impl Default for JournalOptions {
    fn default() -> Self {
        Self { file_bytes: 8 << 20, sync_period: Duration::from_millis(500) }
    }
}

/// A file of a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalFile {
    pub number: u64,
    pub path: PathBuf,
    /// Its writer was done with it. A file that is not sealed is being written, or its writer was killed.
    pub sealed: bool,
}

/// The files of a journal, in order. Other files are ignored, and so is a file that was made in advance and not used.
pub fn journal_files(directory: &Path) -> Result<Vec<JournalFile>, ChannelError> {
    let mut files = Vec::new();
    for entry in fs_err::read_dir(directory)? {
        let path = entry?.path();
        let Some(number) = number_of(&path).filter(|_| path.is_file()) else {
            continue;
        };
        let state = match header::state_of(&path) {
            Ok(state) => state,
            // The writer has just removed it.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error.into()),
        };
        if state != header::State::Spare {
            files.push(JournalFile { number, path, sealed: state == header::State::Sealed });
        }
    }
    files.sort_by_key(|file| file.number);
    Ok(files)
}

/// The unencrypted key description of a journal file; `None` if it is not encrypted or not a journal file.
pub fn journal_seal(path: &Path) -> Result<Option<[u8; SEAL_HEADER_BYTES]>, ChannelError> {
    if number_of(path).is_none() || !path.is_file() {
        return Ok(None);
    }
    let page = header::read_page(&mut crate::disk::open_to_read(path)?)?;
    Ok(header::seal_of(&page))
}

/// Removes files that were created in advance and never used, as left by a killed writer, and returns their number.
/// The directory must have no active writer.
pub fn remove_unused_files(directory: &Path) -> Result<u64, ChannelError> {
    let mut removed = 0;
    for entry in fs_err::read_dir(directory)? {
        let path = entry?.path();
        if number_of(&path).is_some() && path.is_file() && header::state_of(&path)? == header::State::Spare {
            private_files::remove_file(&path)?;
            removed += 1;
        }
    }
    Ok(removed)
}

fn file_path(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{PREFIX}{number:08}.{EXTENSION}"))
}

/// The name that binds a file to its number: under another number it cannot be decrypted.
fn seal_name(number: u64) -> String {
    format!("{PREFIX}{number:08}")
}

fn number_of(path: &Path) -> Option<u64> {
    let digits =
        path.file_name()?.to_str()?.strip_prefix(PREFIX)?.strip_suffix(EXTENSION)?.strip_suffix('.')?;
    let is_number = digits.len() >= 8 && digits.bytes().all(|digit| digit.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_agree() {
        for number in [1, 99_999_999, 100_000_000, u64::MAX] {
            assert_eq!(number_of(&file_path(Path::new("x"), number)), Some(number));
        }
        for foreign in
            ["journal-1.frames", "journal-0000000a.frames", "journal-00000001.new", "00000001.frames"]
        {
            assert_eq!(number_of(Path::new(foreign)), None, "{foreign}");
        }
    }
}
