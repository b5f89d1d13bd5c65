//! Other users cannot read recordings.
#![cfg(unix)]

mod support;

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use ortscope_channel::journal::{JournalOptions, JournalWriter};
use ortscope_channel::{ChannelWriter, ControlPage, FrameKind};
use ortscope_core::identity::ProcessIdentity;

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("readable").permissions().mode() & 0o777
}

#[test]
fn files_and_directories_are_private() {
    let home = tempfile::tempdir().unwrap();
    let (channel, journal) = (home.path().join("a/channel"), home.path().join("a/journal"));
    let writer = ChannelWriter::new(&channel, 4096, || ProcessIdentity { pid: 1, start: 0 }).unwrap();
    assert!(writer.write(FrameKind::MESSAGE, b"secret"));
    ControlPage::create(&channel).unwrap();
    let mut kept = JournalWriter::create(&journal, JournalOptions::default()).unwrap();
    kept.append(&support::samples(1, 1)).unwrap();
    for directory in [&channel, &journal, &home.path().join("a")] {
        assert_eq!(mode(directory), 0o700, "{}", directory.display());
    }
    let files = |directory: &Path| -> Vec<_> {
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect()
    };
    let all = [files(&channel), files(&journal)].concat();
    assert_eq!(all.len(), 3);
    for file in all {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}
