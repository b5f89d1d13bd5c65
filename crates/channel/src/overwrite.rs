//! Overwriting what is removed, for who asks for it: once, with zeros.
//!
//! On a disk that writes new blocks for old ones (SSDs, copy-on-write file systems, snapshots) the old ones can survive this.
//! Whoever must be sure encrypts, and destroys the key.

use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use fs_err::{OpenOptions, symlink_metadata};

static IS_WANTED: AtomicBool = AtomicBool::new(false);
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// From now on this process overwrites what it removes of recordings, journals, rings and temporary files.
pub fn overwrite_before_removal(is_wanted: bool) {
    IS_WANTED.store(is_wanted, Ordering::Relaxed);
}

/// Overwrites a file, or all files below a directory, if that is wanted. What cannot be overwritten is removed all the same.
pub fn overwrite(path: &Path) {
    if IS_WANTED.load(Ordering::Relaxed) {
        // The removal that follows says what is wrong with the place.
        overwrite_all(path).ok();
    }
}

fn overwrite_all(path: &Path) -> std::io::Result<()> {
    // Never through a link: what it leads to is not ours.
    let found = symlink_metadata(path)?;
    if found.is_dir() {
        for entry in fs_err::read_dir(path)? {
            overwrite_all(&entry?.path())?;
        }
        return Ok(());
    }
    if !found.is_file() {
        return Ok(());
    }
    let mut file = OpenOptions::new().write(true).open(path)?;
    let mut left = found.len();
    while left > 0 {
        let part = left.min(ZEROS.len() as u64);
        file.write_all(&ZEROS[..part as usize])?;
        left -= part;
    }
    file.sync_data()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_zeros_before_they_go_and_links_are_left_alone() {
        let place = tempfile::tempdir().expect("a directory");
        let outside = place.path().join("outside");
        let inside = place.path().join("inside");
        fs_err::create_dir_all(inside.join("deeper")).expect("a directory");
        for path in [&outside, &inside.join("a"), &inside.join("deeper/b")] {
            fs_err::write(path, vec![7; 100_000]).expect("written");
        }
        let hard = place.path().join("also-b");
        fs_err::hard_link(inside.join("deeper/b"), &hard).expect("a second name");
        overwrite(&inside);
        assert!(fs_err::read(inside.join("a")).expect("read").contains(&7), "only if it is wanted");
        overwrite_all(&inside).expect("overwritten");
        assert!(fs_err::read(inside.join("a")).expect("read") == vec![0; 100_000]);
        assert!(fs_err::read(&hard).expect("read") == vec![0; 100_000], "in place, not in a new file");
        assert!(fs_err::read(&outside).expect("read") == vec![7; 100_000]);
    }
}
