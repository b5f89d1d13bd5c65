//! Private files with allocated blocks.
//!
//! Access to mapped memory of a file without blocks raises a signal when the disk is full. So blocks are allocated when
//! a file is created, where a full disk is an error.

use std::fs::DirBuilder;
use std::io::Write as _;
use std::path::Path;

use fs_err::{File, OpenOptions};

use crate::disk::{Change, change, remove_kept_file};

/// Makes a file that must not exist yet, of `bytes` zeros, readable and writable by its owner only.
pub fn create_allocated(path: &Path, bytes: u64) -> std::io::Result<File> {
    let file = change(Change::MakeFile(path), || {
        private(OpenOptions::new().read(true).write(true).create_new(true)).open(path)
    })?;
    if bytes > 0
        && let Err(error) = change(Change::Allocate(path, bytes), || allocate(&file, bytes))
    {
        // The incomplete file would only take up space.
        drop(file);
        remove_file(path).ok();
        return Err(error);
    }
    Ok(file)
}

/// Makes a directory, and those above it, unless it is there already; a new one is its owner's only.
pub fn create_directory(path: &Path) -> std::io::Result<()> {
    let mut builder = DirBuilder::new();
    let made =
        change(Change::MakeDirectory(path), || private_directory(builder.recursive(true)).create(path));
    made.map_err(|error| {
        std::io::Error::new(error.kind(), format!("cannot make the directory {}: {error}", path.display()))
    })
}

pub fn remove_file(path: &Path) -> std::io::Result<()> {
    change(Change::RemoveFile(path), || remove_kept_file(path))
}

/// Makes a directory that must not exist yet, its owner's only.
pub fn create_new_directory(path: &Path) -> std::io::Result<()> {
    private_directory(&mut DirBuilder::new()).create(path)
}

/// Makes the names in a directory survive a power loss, where the system can do that.
pub fn sync_directory(path: &Path) {
    if let Ok(directory) = open_directory(path) {
        change(Change::SyncDirectory(path), || directory.sync_all()).ok();
    }
}

/// Writes zeros: every file system allocates for these.
fn fill(file: &File, bytes: u64) -> std::io::Result<()> {
    static ZEROS: [u8; 1 << 16] = [0; 1 << 16];
    let mut file = file;
    let mut left = bytes;
    while left > 0 {
        let part = left.min(ZEROS.len() as u64);
        file.write_all(&ZEROS[..part as usize])?;
        left -= part;
    }
    Ok(())
}

std::cfg_select! {
    target_os = "linux" => {
        fn allocate(file: &File, bytes: u64) -> std::io::Result<()> {
            use rustix::fs::{FallocateFlags, fallocate};
            use rustix::io::Errno;
            let result = match is_within_limit(bytes) {
                true => fallocate(file.file(), FallocateFlags::empty(), 0, bytes),
                false => Err(Errno::FBIG),
            };
            match result {
                Ok(()) => Ok(()),
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => fill(file, bytes),
                Err(error) => {
                    let error = std::io::Error::from(error);
                    let text = format!("cannot allocate {bytes} bytes for {}: {error}", file.path().display());
                    Err(std::io::Error::new(error.kind(), text))
                }
            }
        }

        /// Beyond the user's limit on the size of files the system does not only refuse: it ends the process.
        fn is_within_limit(bytes: u64) -> bool {
            let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
            limit.is_none_or(|limit| bytes <= limit)
        }

        /// Whether a file belongs to the user of this process.
        pub fn is_own(found: &std::fs::Metadata) -> bool {
            use std::os::unix::fs::MetadataExt as _;
            rustix::process::geteuid().as_raw() == found.uid()
        }
    }
    _ => {
        use fill as allocate;

        /// The directories of temporary files are each user's own there.
        pub fn is_own(_found: &std::fs::Metadata) -> bool {
            true
        }
    }
}

std::cfg_select! {
    windows => {
        /// A directory is opened as if to back it up, and only what may be written may be flushed.
        fn open_directory(path: &Path) -> std::io::Result<File> {
            use fs_err::os::windows::fs::OpenOptionsExt as _;
            const BACKUP_SEMANTICS: u32 = 0x0200_0000;
            OpenOptions::new().read(true).write(true).custom_flags(BACKUP_SEMANTICS).open(path)
        }
    }
    _ => {
        fn open_directory(path: &Path) -> std::io::Result<File> {
            File::open(path)
        }
    }
}

std::cfg_select! {
    unix => {
        /// Whether only the owner may read or write a file; true where the system has no permissions.
        pub fn is_private(found: &std::fs::Metadata) -> bool {
            use std::os::unix::fs::PermissionsExt as _;
            found.permissions().mode() & 0o077 == 0
        }

        fn private(options: &mut OpenOptions) -> &mut OpenOptions {
            use fs_err::os::unix::fs::OpenOptionsExt as _;
            options.mode(0o600)
        }

        fn private_directory(builder: &mut DirBuilder) -> &mut DirBuilder {
            use std::os::unix::fs::DirBuilderExt as _;
            builder.mode(0o700)
        }
    }
    _ => {
        /// Rights are lists there that the directory passes on; this does not read them.
        pub fn is_private(_found: &std::fs::Metadata) -> bool {
            true
        }

        // New files have the rights of the directory, which is inside the user's own.
        fn private(options: &mut OpenOptions) -> &mut OpenOptions {
            options
        }

        fn private_directory(builder: &mut DirBuilder) -> &mut DirBuilder {
            builder
        }
    }
}
