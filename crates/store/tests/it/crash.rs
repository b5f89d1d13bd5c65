//! After a kill at any time, acknowledged rows are there exactly once and consistent.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::simulation::Simulation;
use ortscope_channel::{ChannelReader, InferenceRecord, Phase, RingWriter};
use ortscope_core::identity::ProcessIdentity;
use ortscope_core::random::Random;
use ortscope_core::schema::{
    AnnotationRow, ChannelPositionRow, InferenceRow, ProcessSampleRow, TableId, Text, TickRow,
};
use ortscope_core::tables::Scan;
use ortscope_store::{KEY_VARIABLE, Key, Recording, Store, repair};

use crate::support::*;

const CHILD: &str = "ORTSCOPE_STORE_TEST_CHILD";
const SEED: u64 = 11;
/// Small enough that a child is killed while it makes segments too.
const PROCESSES: usize = 40;

/// Not a test of its own but the process that is killed. It writes, and prints what is stored after each step.
#[test]
#[ignore = "is started by the test below"]
fn child() {
    let Some(root) = std::env::var_os(CHILD) else {
        return;
    };
    let store = Store::open(root);
    let writer = begin(&store);
    let mut simulation = Simulation::new(SEED, PROCESSES, 100);
    println!("directory {}", writer.directory().display());
    for step in 0..u64::MAX {
        writer.append(&inferences(step * 10..(step + 1) * 10)).expect("kept");
        writer.append(&simulation.next_tick()).expect("kept");
        println!("kept {step}");
    }
}

/// Starts a child and kills it after this many printed steps; returns its directory and the last printed step.
fn killed_after(root: &Path, steps: u64, key: Option<&Key>) -> (PathBuf, u64) {
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    match key {
        Some(key) => command.env(KEY_VARIABLE, key.to_text()),
        None => command.env_remove(KEY_VARIABLE),
    };
    let mut child = command
        .args(["--exact", "crash::child", "--ignored", "--nocapture"])
        .env(CHILD, root)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("a child");
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let (mut directory, mut kept) = (None, None);
    while let Some(Ok(line)) = lines.next() {
        if let Some(path) = line.split_once("directory ") {
            directory = Some(PathBuf::from(path.1));
        }
        if let Some(step) = line.strip_prefix("kept ").and_then(|step| step.parse().ok()) {
            kept = Some(step);
            if step == steps {
                child.kill().expect("killed");
            }
        }
    }
    child.wait().expect("ended");
    (directory.expect("it said where"), kept.expect("it said something"))
}

fn check(directory: &Path, last_step: u64) {
    let recording = Recording::open(directory).expect("it opens");
    let condition = recording.condition();
    assert!(!condition.finished && !condition.being_written && condition.is_whole(), "{condition:?}");
    let numbers = sequences(&recording);
    let expected: Vec<u64> = (0..numbers.len() as u64).collect();
    assert!(numbers == expected, "each inference once, none left out");
    assert!(numbers.len() as u64 >= (last_step + 1) * 10, "{} < {last_step}", numbers.len());

    // Every stored tick is reconstructed exactly; the last one was not complete.
    let mut simulation = Simulation::new(SEED, PROCESSES, 100);
    let ticks: Vec<u64> =
        rows::<TickRow>(&recording, &Scan::all()).iter().map(|row| row.timestamp_ns).collect();
    assert!(ticks.len() as u64 >= last_step, "{} ticks < {last_step}", ticks.len());
    let mut reconstructed: BTreeMap<u64, Vec<ProcessSampleRow>> = BTreeMap::new();
    for row in rows::<ProcessSampleRow>(&recording, &Scan { every_tick: true, ..Scan::all() }) {
        reconstructed.entry(row.timestamp_ns).or_default().push(row);
    }
    for tick in ticks {
        let mut original: Vec<ProcessSampleRow> = simulation.next_tick().rows().collect();
        let mut again = reconstructed.remove(&tick).expect("the tick is reconstructed");
        original.sort_by_key(|row| row.pid);
        again.sort_by_key(|row| row.pid);
        assert_eq!(again, original);
    }
}

#[test]
fn acknowledged_rows_survive_a_kill_of_the_writer() {
    kill_and_look(None);
    // Every frame is encrypted separately, so a kill costs no more. Not a separate test: a starting child briefly holds
    // its parent's locks.
    kill_and_look(Some(&test_key()));
}

fn kill_and_look(key: Option<&Key>) {
    let root = tempfile::tempdir().expect("a directory");
    let mut random = Random::new(std::process::id().into());
    for round in 0..12 {
        // Few and many steps, so that it dies in its first file and while files become segments.
        let (directory, last_step) = killed_after(root.path(), random.below(4_u64.pow(2 + round % 5)), key);
        let before = snapshot(&directory);
        check(&directory, last_step);
        assert_eq!(
            Recording::open(&directory).expect("opens").manifest().encryption.is_some(),
            key.is_some()
        );
        assert!(before == snapshot(&directory), "reading changes nothing");

        let rows_before = row_counts(&Recording::open(&directory).expect("opens"));
        let report = repair(&directory).expect("repaired");
        let recording = Recording::open(&directory).expect("opens");
        assert!(recording.condition().finished && recording.condition().is_whole(), "{report:?}");
        assert_eq!(row_counts(&recording), rows_before);
        assert!(!directory.join("journal").exists());
        assert_eq!(repair(&directory).expect("again").actions, Vec::<String>::new());
    }
    let list = Store::open(root.path()).list().expect("a list");
    assert!(list.len() == 12 && list.iter().all(|entry| entry.finished && !entry.damaged));
}

fn record(sequence: u64) -> InferenceRecord {
    InferenceRecord {
        start_ns: 1_000_000_000 + sequence * 1_000_000,
        planned_ns: 1_000_000_000 + sequence * 1_000_000,
        copy_in_ns: 1,
        run_ns: noise(sequence),
        copy_out_ns: 2,
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

/// The files of a recording as they are now, in a directory of their own.
fn copied(from: &Path) -> (tempfile::TempDir, PathBuf) {
    fn copy(from: &Path, to: &Path) {
        std::fs::create_dir_all(to).expect("a directory");
        for entry in std::fs::read_dir(from).expect("a list") {
            let entry = entry.expect("an entry");
            let target = to.join(entry.file_name());
            if entry.file_type().expect("its type").is_dir() {
                copy(&entry.path(), &target);
            } else {
                std::fs::copy(entry.path(), target).expect("a copy");
            }
        }
    }
    let place = tempfile::tempdir().expect("a directory");
    let to = place.path().join(from.file_name().expect("a name"));
    copy(from, &to);
    (place, to)
}

/// The recorder and the observed process are killed together: the journal has some rows, the rings have the rest, and
/// some are in both because the position behind them was not written any more.
#[test]
fn rows_that_were_only_in_rings_are_recovered_once() {
    let (_directory, store) = store();
    let writer = store
        .begin(ortscope_store::NewRecording {
            session_ids: vec!["a-session".into()],
            ..new_recording("rings")
        })
        .expect("begun");
    let channel = writer.channel_directory().expect("a channel");
    let owner = ProcessIdentity { pid: 1, start: 2 };
    let mut ring = RingWriter::create(&channel, "stream-0", 1 << 16, owner).expect("a ring");
    let mut messages = RingWriter::create(&channel, "messages", 1 << 16, owner).expect("a ring");
    let message = |text: &str| AnnotationRow { timestamp_ns: 5, kind: "message".into(), text: text.into() };

    let mut reader = ChannelReader::new(&channel);
    for sequence in 0..100 {
        assert!(ring.write_inference(&record(sequence)));
    }
    messages.try_write(ortscope_channel::FrameKind::MESSAGE, b"{\"n\":1}");
    let drained = reader.read(|_, _| {}).expect("read");
    writer.append(&inferences(0..100)).expect("kept");
    writer.append(&batch(&[message("{\"n\":1}")])).expect("kept");
    let positions: Vec<ChannelPositionRow> = drained
        .positions
        .iter()
        .map(|at| ChannelPositionRow { timestamp_ns: 6, ring: Text::clone(&at.ring), position: at.position })
        .collect();
    writer.append(&batch(&positions)).expect("kept");
    reader.mark();
    reader.release();
    for sequence in 100..250 {
        assert!(ring.write_inference(&record(sequence)));
    }
    messages.try_write(ortscope_channel::FrameKind::MESSAGE, b"{\"n\":2}");
    messages.try_write(ortscope_channel::FrameKind::MESSAGE, b"{\"n\":3}");
    // These reached the journal, their positions did not.
    writer.append(&inferences(100..180)).expect("kept");
    writer.append(&batch(&[AnnotationRow { timestamp_ns: 7, ..message("{\"n\":2}") }])).expect("kept");

    let directory = writer.directory().to_owned();
    let live = Recording::open(&directory).expect("readable");
    assert!(live.condition().being_written);
    assert_eq!(live.condition().recovered_rows, 0, "the recorder will read them itself");
    drop(writer);
    // A killed program closes nothing. Ours still maps its rings, which Windows would not let anyone remove, so a
    // copy is used.
    let (_elsewhere, directory) = copied(&directory);
    drop((ring, messages));

    let check = |recording: &Recording| {
        assert_eq!(sequences(recording), (0..250).collect::<Vec<_>>());
        let texts: Vec<Text> =
            rows::<AnnotationRow>(recording, &Scan::all()).into_iter().map(|row| row.text).collect();
        assert_eq!(
            texts.iter().map(|text| &**text).collect::<Vec<_>>(),
            ["{\"n\":1}", "{\"n\":2}", "{\"n\":3}"]
        );
        let sessions: Vec<InferenceRow> = rows(recording, &Scan::all());
        assert!(sessions.iter().all(|row| &*row.session_id == "a-session"));
    };
    let recording = Recording::open(&directory).expect("readable");
    assert_eq!(recording.condition().recovered_rows, 71);
    assert!(recording.condition().is_whole());
    check(&recording);

    let report = repair(&directory).expect("repaired");
    assert!(report.actions.iter().any(|action| action.contains("71 rows from rings")), "{report:?}");
    assert!(!directory.join("channel").exists());
    let recording = Recording::open(&directory).expect("readable");
    assert!(recording.condition().finished && recording.condition().is_whole());
    assert_eq!(count(&recording, TableId::Inferences), 250);
    check(&recording);
}
