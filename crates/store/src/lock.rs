//! One writer at a time. The system gives a lock back when its process ends, however it ends.

use std::fs::TryLockError;
use std::path::Path;

use fs_err::{File, OpenOptions};
use ortscope_channel::disk::{Change, change};

use crate::StoreError;
use crate::files::LOCK;

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

/// Whether somebody writes the recording now. Where the system cannot tell, nobody does.
pub(crate) fn is_written(recording: &Path) -> bool {
    let Ok(file) = File::open(recording.join(LOCK)) else {
        return false;
    };
    // Given back at once, when the file is closed.
    matches!(file.file().try_lock_shared(), Err(TryLockError::WouldBlock))
}
