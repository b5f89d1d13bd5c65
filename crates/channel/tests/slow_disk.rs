//! With a slow disk, or one that fails to sync, appending continues, and neither memory nor open files grow.
#![cfg(target_os = "linux")]

mod support;

use std::io::ErrorKind;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use ortscope_channel::disk::{Change, Witness, watch};
use ortscope_channel::journal::{JournalOptions, JournalWriter};
use support::{read_all, samples};

const FILE_BYTES: u64 = 256 << 10;

/// Refuses the syncs of the background, as a disk does that is about to fail.
#[derive(Debug)]
struct NeverSyncs;

impl Witness for NeverSyncs {
    fn before(&self, change: &Change<'_>) -> std::io::Result<()> {
        let is_background = std::thread::current().name() == Some("journal-sync");
        match change {
            Change::Sync(_) if is_background => Err(ErrorKind::Other.into()),
            _ => Ok(()),
        }
    }

    fn after(&self, _: &Change<'_>) {}
}

/// A slow disk: background syncs wait until released.
#[derive(Debug, Default)]
struct Stuck {
    is_free: Mutex<bool>,
    freed: Condvar,
}

impl Witness for Stuck {
    fn before(&self, change: &Change<'_>) -> std::io::Result<()> {
        let is_background = std::thread::current().name() == Some("journal-sync");
        if matches!(change, Change::Sync(_)) && is_background {
            let (free, patience) = (self.is_free.lock().expect("no panic"), Duration::from_secs(60));
            drop(self.freed.wait_timeout_while(free, patience, |is_free| !*is_free).expect("no panic"));
        }
        Ok(())
    }

    fn after(&self, _: &Change<'_>) {}
}

/// (mapped journal files, resident bytes of them) of this process.
fn mapped(directory: &Path) -> (u64, u64) {
    let maps = std::fs::read_to_string("/proc/self/smaps").expect("Linux has it");
    let (mut files, mut bytes, mut is_ours) = (0, 0, false);
    for line in maps.lines() {
        // The line of a mapping begins with its addresses.
        if line.split(' ').next().is_some_and(|first| first.contains('-') && !first.ends_with(':')) {
            is_ours = line.contains(&*directory.to_string_lossy());
            files += u64::from(is_ours);
        } else if let Some(rest) = line.strip_prefix("Rss:").filter(|_| is_ours) {
            let number = rest.trim().trim_end_matches("kB").trim();
            bytes += number.parse::<u64>().expect("a number") * 1024;
        }
    }
    (files, bytes)
}

/// Regression: full but unsynced files stayed mapped with all their pages: 105 MB for a day of recording on a machine
/// with a slow disk instead of 63 MB, and without a bound on a disk that fails every sync.
#[test]
fn files_waiting_for_the_disk_use_no_memory_and_are_bounded() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal");
    let options = JournalOptions { file_bytes: FILE_BYTES, sync_period: Duration::from_millis(1) };
    let watched = watch(directory.path(), Arc::new(NeverSyncs));
    let mut journal = JournalWriter::create(&path, options).unwrap();
    let mut batches = 0;
    let mut most = (0, 0);
    while journal.file_number() < 160 {
        let before = journal.file_number();
        journal.append(&samples(batches, 200)).unwrap();
        batches += 1;
        if journal.file_number() != before {
            let now = mapped(&path);
            most = (most.0.max(now.0), most.1.max(now.1));
        }
    }
    // 32 that wait, the one in use, the next; and as many of those that were let go while a sync that is under way has them.
    assert!(most.0 <= 34 + 33, "{} files are mapped", most.0);
    // The one in use, the next, the one that is being filled meanwhile; those that wait have no page here.
    assert!(most.1 <= 3 * FILE_BYTES, "{} bytes are resident", most.1);
    drop(watched);
    // The first error is returned once; then the rest is safe.
    let error = journal.sync().unwrap_err();
    assert!(error.to_string().contains("other error") && !error.to_string().contains('\n'), "{error}");
    // A sync that the background thread began earlier may still return its own error.
    assert!((0..10).any(|_| journal.sync().is_ok()), "the disk is in order again");
    journal.seal().unwrap();
    let (read, outcomes) = read_all(&path);
    assert_eq!(read.len() as u64, batches, "nothing is lost");
    assert!(outcomes.iter().all(|outcome| outcome.damaged_frames == 0));
}

/// Files that are released are reported as possibly not durable.
#[test]
fn a_hanging_disk_is_reported_with_its_backlog() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal");
    let options = JournalOptions { file_bytes: FILE_BYTES, sync_period: Duration::from_millis(1) };
    let stuck = Arc::new(Stuck::default());
    let _watched = watch(directory.path(), Arc::clone(&stuck) as Arc<dyn Witness>);
    let mut journal = JournalWriter::create(&path, options).unwrap();
    let mut batches = 0;
    while journal.file_number() < 50 {
        journal.append(&samples(batches, 200)).unwrap();
        batches += 1;
    }
    *stuck.is_free.lock().unwrap() = true;
    stuck.freed.notify_all();
    let error = journal.sync().unwrap_err().to_string();
    assert!(error.contains("the disk is 32 files behind: file 1 is not safe"), "{error}");
    journal.sync().unwrap();
    journal.seal().unwrap();
    assert_eq!(read_all(&path).0.len() as u64, batches, "nothing is lost");
}
