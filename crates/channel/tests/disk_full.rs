//! A full disk gives an error, never a signal, and writing continues when there is space again.
//!
//! A limit on the size of files simulates the full disk; this test binary is started again under it. The system kills
//! a process that exceeds the limit, so a write without space does not go unnoticed.
#![cfg(target_os = "linux")]

mod support;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use ortscope_channel::journal::{JournalOptions, JournalWriter};
use ortscope_channel::{ChannelError, ChannelWriter, FrameKind, RingReader, RingWriter};
use ortscope_core::identity::ProcessIdentity;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use support::{read_all, samples};

const DIRECTORY: &str = "ORTSCOPE_TEST_DIRECTORY";
const FILE_BYTES: u64 = 1 << 20;
const OWNER: ProcessIdentity = ProcessIdentity { pid: 1, start: 0 };

fn limit_files_to(bytes: Option<u64>) {
    let maximum = getrlimit(Resource::Fsize).maximum;
    setrlimit(Resource::Fsize, Rlimit { current: bytes, maximum }).expect("a lower limit");
}

fn files_in(directory: &Path) -> usize {
    std::fs::read_dir(directory).expect("readable").count()
}

#[test]
#[ignore = "started by the other test, without room"]
fn process_without_room() {
    let Some(directory) = std::env::var_os(DIRECTORY) else {
        return;
    };
    let directory = Path::new(&directory);
    let options = || JournalOptions { file_bytes: FILE_BYTES, sync_period: Duration::from_millis(1) };
    let mut journal = JournalWriter::create(&directory.join("journal"), options()).unwrap();
    let channel = ChannelWriter::new(&directory.join("channel"), 1 << 20, || OWNER).unwrap();

    limit_files_to(Some(FILE_BYTES / 2));
    let refused = JournalWriter::create(&directory.join("other"), options()).unwrap_err();
    assert!(matches!(refused, ChannelError::Io(_)), "{refused}");
    assert_eq!(files_in(&directory.join("other")), 0, "nothing half made is left");
    let refused = RingWriter::create(&directory.join("other"), "ring", 1 << 20, OWNER).unwrap_err();
    assert!(refused.to_string().contains("cannot allocate"), "{refused}");
    assert!(!channel.write(FrameKind::INFERENCE, b"lost"));

    let mut kept = 0;
    let error = loop {
        match journal.append(&samples(kept, 100)) {
            Ok(()) => kept += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, ChannelError::NoNextFile(_)), "{error}");
    assert!(kept > 10, "what there was room for is kept");
    assert!(journal.append(&samples(99, 100)).is_err(), "still no room");
    journal.sync().unwrap();

    limit_files_to(None);
    // The next file is tried again in the background.
    while journal.append(&samples(kept, 100)).is_err() {
        std::thread::yield_now();
    }
    assert_eq!(journal.file_number(), 2);
    journal.seal().unwrap();
    let (batches, outcomes) = read_all(&directory.join("journal"));
    assert_eq!(batches.len() as u64, kept + 1);
    assert!(outcomes.iter().all(|outcome| outcome.damaged_frames == 0));

    while !channel.write(FrameKind::INFERENCE, b"kept") {}
    let path = std::fs::read_dir(directory.join("channel")).unwrap().next().unwrap().unwrap().path();
    let losses = RingReader::open(&path).unwrap().take_new_losses();
    assert!(losses[&FrameKind::INFERENCE] >= 1, "records without a ring are counted in the ring");
}

#[test]
fn a_full_disk_is_an_error_without_a_signal() {
    let directory = tempfile::tempdir().unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "process_without_room", "--ignored", "--nocapture", "--test-threads=1"])
        .env(DIRECTORY, directory.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    assert!(directory.path().join("journal").exists(), "the other process ran");
}
