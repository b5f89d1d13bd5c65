//! A process that is killed while it writes: everything it had acknowledged is there, and nothing is corrupt.
//!
//! The child is this test binary itself, started again to run [`child_that_writes`].

mod support;

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use ortscope_channel::journal::{JournalOptions, JournalWriter, journal_files};
use ortscope_channel::{ChannelWriter, InferenceRecord, Phase, recover_rings};
use ortscope_core::identity::ProcessIdentity;
use ortscope_core::schema::InferenceRow;
use support::{Random, read_all, samples};

const DIRECTORY: &str = "ORTSCOPE_TEST_DIRECTORY";
const KILLS: u64 = if cfg!(windows) { 15 } else { 60 };
const ROWS: u64 = 100;

fn record(sequence: u64) -> InferenceRecord {
    InferenceRecord {
        start_ns: sequence,
        planned_ns: sequence,
        copy_in_ns: 0,
        run_ns: 1,
        copy_out_ns: 0,
        sequence,
        batch_size: 1,
        queue_depth: None,
        token: None,
        stream: 0,
        session: 0,
        phase: Phase::Steady,
        ok: true,
    }
}

#[test]
#[ignore = "started by the other test, and killed by it"]
fn child_that_writes() {
    let Some(directory) = std::env::var_os(DIRECTORY) else {
        return;
    };
    let directory = Path::new(&directory);
    let identity = || ProcessIdentity { pid: std::process::id(), start: 0 };
    let channel = ChannelWriter::new(&directory.join("channel"), 1 << 22, identity).unwrap();
    let options = JournalOptions { file_bytes: 256 << 10, ..JournalOptions::default() };
    let mut journal = JournalWriter::create(&directory.join("journal"), options).unwrap();
    let mut out = std::io::stdout().lock();
    for number in 0.. {
        if channel.write_inference(&record(number)) {
            writeln!(out, "\nring {number}").unwrap();
        }
        journal.append(&samples(number, ROWS)).unwrap();
        writeln!(out, "\njournal {number}").unwrap();
        out.flush().unwrap();
    }
}

/// Wine's answer when a new process ended before it began, which happens once in some hundred of them.
const WINE_DID_NOT_START_IT: i32 = 1359;

/// The last numbers that were acknowledged: (ring, journal).
fn run_and_kill(directory: &Path, acknowledged_until_kill: usize) -> (Option<u64>, Option<u64>) {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command
        .args(["--exact", "child_that_writes", "--ignored", "--nocapture", "--test-threads=1"])
        .env(DIRECTORY, directory)
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit());
    let mut child = match command.spawn() {
        Err(refused) if refused.raw_os_error() == Some(WINE_DID_NOT_START_IT) => command.spawn(),
        result => result,
    }
    .expect("a child");
    let (mut ring, mut journal) = (None, None);
    let mut lines = 0;
    for line in BufReader::new(child.stdout.take().expect("its output")).lines() {
        // The last line may be cut short by the kill; it then acknowledges nothing.
        let Ok(line) = line else { break };
        let number = |name: &str| line.strip_prefix(name).and_then(|rest| rest.trim().parse::<u64>().ok());
        ring = number("ring").max(ring);
        journal = number("journal").max(journal);
        lines += 1;
        if lines == acknowledged_until_kill {
            child.kill().expect("killed");
        }
    }
    assert!(!child.wait().expect("its end").success(), "it writes until it is killed");
    (ring, journal)
}

#[test]
fn acknowledged_records_survive_a_kill() {
    let random = &mut Random::new(0x5eed);
    let mut files = 0;
    for _ in 0..KILLS {
        let directory = tempfile::tempdir().unwrap();
        // From a few kilobytes up to several files; the pipe holds more, so that the kill is not synchronized with
        // reading.
        let magnitude = random.below(13);
        let until = 8 + random.below(1 << magnitude);
        let (ring, journal) = run_and_kill(directory.path(), until);

        let (batches, outcomes) = read_all(&directory.path().join("journal"));
        for (number, batch) in batches.iter().enumerate() {
            assert!(*batch == samples(number as u64, ROWS), "batch {number} is another one");
        }
        assert!(
            batches.len() as u64 > journal.unwrap_or(0),
            "acknowledged {journal:?}, there {}",
            batches.len()
        );
        assert!(outcomes.iter().all(|outcome| outcome.damaged_frames == 0), "{outcomes:?}");
        let listed = journal_files(&directory.path().join("journal")).unwrap();
        assert!(listed.iter().rev().skip(1).all(|file| file.sealed));
        files = files.max(listed.len());

        let recovered = recover_rings(&directory.path().join("channel"), &BTreeMap::new(), &[]).unwrap();
        assert_eq!(recovered.damaged, 0);
        let rows: Vec<InferenceRow> = recovered.batches.iter().flat_map(|batch| batch.rows()).collect();
        assert!(rows.iter().map(|row| row.sequence).eq(0..rows.len() as u64));
        assert!(rows.len() as u64 > ring.unwrap_or(0), "acknowledged {ring:?}, there {}", rows.len());
    }
    assert!(files > 2, "some were killed after many files");
}
