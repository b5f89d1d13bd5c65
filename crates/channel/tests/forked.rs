//! A child of `fork` never writes into its parent's ring.
//!
//! The forking process is this test binary itself, started again with one thread: a fork copies only the thread that
//! calls it.
#![cfg(target_os = "linux")]
#![expect(unsafe_code, reason = "there is no safe fork")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use ortscope_channel::{ChannelWriter, FrameKind, RingReader, RingWriter};
use ortscope_core::identity::ProcessIdentity;
use rustix::process::{Pid, WaitOptions, waitpid};

const DIRECTORY: &str = "ORTSCOPE_TEST_DIRECTORY";
const EACH: usize = 100;

fn identity() -> ProcessIdentity {
    ProcessIdentity { pid: std::process::id(), start: 0 }
}

fn say(channel: &ChannelWriter, who: &str, numbers: std::ops::Range<usize>) -> bool {
    numbers.into_iter().all(|number| channel.write(FrameKind::MESSAGE, format!("{who} {number}").as_bytes()))
}

/// The child, in the parent; `None` in the child.
fn fork() -> Option<Pid> {
    // SAFETY: this process has one thread, so the child's memory is consistent.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "the system refuses to fork");
    Pid::from_raw(child)
}

/// Ends a child at once: what its parent still has to do must not be done twice.
fn exit(good: bool) -> ! {
    // SAFETY: ends the process without running anything.
    unsafe { libc::_exit(i32::from(!good)) }
}

fn wait_for(child: Pid) -> bool {
    let (_, status) = waitpid(Some(child), WaitOptions::empty()).expect("waited").expect("ended");
    status.exit_status() == Some(0)
}

#[test]
#[ignore = "started by the other test"]
fn process_that_forks() {
    let Some(directory) = std::env::var_os(DIRECTORY) else {
        return;
    };
    let channel = ChannelWriter::new(Path::new(&directory), 1 << 16, identity).unwrap();
    let mut plain = RingWriter::create(Path::new(&directory), "plain", 1 << 16, identity()).unwrap();
    assert!(plain.try_write(FrameKind::MESSAGE, b"before 0"));
    assert!(say(&channel, "parent", 0..EACH));
    let Some(child) = fork() else {
        let mut good = say(&channel, "child", 0..EACH);
        good &= !plain.try_write(FrameKind::MESSAGE, b"into my parent's ring") && !plain.is_own();
        // Its destructor must not close the parent's ring either.
        drop(plain);
        let grandchild = fork();
        match grandchild {
            None => exit(say(&channel, "grandchild", 0..EACH)),
            Some(grandchild) => good &= wait_for(grandchild),
        }
        good &= say(&channel, "child", EACH..2 * EACH);
        exit(good);
    };
    assert!(say(&channel, "parent", EACH..2 * EACH), "while the child writes as well");
    assert!(wait_for(child), "the child, or its child, could not write");
    assert!(say(&channel, "parent", 2 * EACH..3 * EACH));
    assert!(plain.try_write(FrameKind::MESSAGE, b"before 1"));
    std::mem::forget(plain);
}

#[test]
fn parent_child_and_grandchild_have_their_own_rings() {
    let directory = tempfile::tempdir().unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "process_that_forks", "--ignored", "--nocapture", "--test-threads=1"])
        .env(DIRECTORY, directory.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut counts = BTreeMap::new();
    let mut owners = Vec::new();
    for entry in std::fs::read_dir(directory.path()).unwrap() {
        let mut ring = RingReader::open(&entry.unwrap().path()).unwrap();
        let mut words = Vec::new();
        let outcome = ring.read(|_, payload| words.push(String::from_utf8(payload.to_vec()).unwrap()));
        assert!(!outcome.damaged);
        let who = words[0].split(' ').next().unwrap().to_owned();
        for (number, word) in words.iter().enumerate() {
            assert_eq!(*word, format!("{who} {number}"), "frames are mixed");
        }
        assert!(ring.take_new_losses().is_empty());
        if who == "before" {
            assert!(!ring.is_closed(), "only its maker closes a ring");
        } else {
            owners.push(ring.owner().pid);
        }
        assert!(counts.insert(who, words.len()).is_none(), "one ring each");
    }
    let wanted = [("before", 2), ("child", 2 * EACH), ("grandchild", EACH), ("parent", 3 * EACH)];
    assert_eq!(counts.iter().map(|(who, count)| (who.as_str(), *count)).collect::<Vec<_>>(), wanted);
    owners.sort_unstable();
    owners.dedup();
    assert_eq!(owners.len(), 3, "three processes");
}
