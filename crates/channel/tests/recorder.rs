//! End to end: a worker writes inferences into rings, a recorder journals them, and either or both are killed at any
//! time. Journal and rings together contain every inference exactly once.
//!
//! Worker and recorder are this test binary itself, started again.

mod support;

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ortscope_channel::journal::{JournalOptions, JournalWriter};
use ortscope_channel::{
    ChannelWriter, ControlPage, FrameKind, InferenceRecord, JournaledChannel, Phase, RingWriter,
};
use ortscope_core::batch::Batch;
use ortscope_core::identity::ProcessIdentity;
use ortscope_core::pipeline::{Journal, JournalError, Pipeline};
use ortscope_core::schema::{AnnotationRow, InferenceRow, TableId};
use ortscope_sources::{ChannelSource, MESSAGE_KIND};
use support::{Random, read_all};

const DIRECTORY: &str = "ORTSCOPE_TEST_DIRECTORY";
const KILLS: usize = if cfg!(windows) { 10 } else { 30 };
const THREADS: u16 = 2;
/// Small, so that every ring is overwritten many times before the kill: space freed too early would be lost rows.
const RING_BYTES: u64 = 1 << 16;

fn record(stream: u16, sequence: u64) -> InferenceRecord {
    InferenceRecord {
        start_ns: 1 + sequence,
        planned_ns: 1 + sequence,
        copy_in_ns: 0,
        run_ns: 1,
        copy_out_ns: 0,
        sequence,
        batch_size: 1,
        queue_depth: None,
        token: None,
        stream,
        session: 0,
        phase: Phase::Steady,
        ok: true,
    }
}

#[test]
#[ignore = "started by the other tests"]
fn worker() {
    let Some(directory) = std::env::var_os(DIRECTORY) else {
        return;
    };
    let directory = Path::new(&directory).join("channel");
    let identity = || ProcessIdentity { pid: std::process::id(), start: 0 };
    let channel = ChannelWriter::new(&directory, RING_BYTES, identity).unwrap();
    let mut messages = RingWriter::create(&directory, "messages", 4096, identity()).unwrap();
    std::thread::scope(|scope| {
        for stream in 0..THREADS {
            let channel = &channel;
            scope.spawn(move || {
                for sequence in 0.. {
                    // A full ring drops and counts; here every record is tried until it is in.
                    while !channel.write_inference(&record(stream, sequence)) {
                        std::thread::yield_now();
                    }
                    if sequence % 64 == 0 {
                        println!("\nstream-{stream} {sequence}");
                    }
                }
            });
        }
        for number in 0.. {
            let text = format!("message {number}");
            messages.write_or_wait(FrameKind::MESSAGE, text.as_bytes(), std::time::Duration::from_secs(3600));
        }
    });
}

#[test]
#[ignore = "started by the other tests"]
fn recorder() {
    /// Tells the test that the recorder works.
    struct Telling(JournalWriter);
    impl Journal for Telling {
        fn append(&mut self, batch: &Batch) -> Result<(), JournalError> {
            self.0.append(batch).map_err(|error| JournalError::Failed(error.to_string()))?;
            println!("\njournaled {}", batch.len());
            Ok(())
        }
        fn finish(&mut self) -> Result<(), JournalError> {
            Ok(())
        }
    }
    let Some(directory) = std::env::var_os(DIRECTORY) else {
        return;
    };
    let directory = Path::new(&directory);
    let options = JournalOptions { file_bytes: 256 << 10, ..JournalOptions::default() };
    let journal = JournalWriter::create(&directory.join("journal"), options).unwrap();
    let never = Arc::new(AtomicBool::new(false));
    let source = ChannelSource::new(&directory.join("channel"), vec!["session".into()], never);
    let report = Pipeline::default().source(source).journal(Telling(journal)).start().unwrap().join();
    panic!("it ended: {report:?}");
}

fn start(name: &str, directory: &Path) -> Child {
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", name, "--ignored", "--nocapture", "--test-threads=1"])
        .env(DIRECTORY, directory)
        .stdout(Stdio::piped())
        .spawn()
        .expect("a child")
}

/// The last numbers that each stream reported.
fn last_reported(lines: &[String]) -> [u64; THREADS as usize] {
    std::array::from_fn(|stream| {
        let prefix = format!("stream-{stream} ");
        let numbers = lines.iter().filter_map(|line| line.strip_prefix(&prefix)?.trim().parse().ok());
        numbers.max().unwrap_or(0)
    })
}

/// Some microseconds to milliseconds, without giving up the processor.
fn pass_time(turns: usize) {
    for turn in 0..turns {
        std::hint::black_box(turn);
    }
}

/// Kills the recorder after it journaled for a while; the worker before, after or at the same time.
fn run_and_kill(directory: &Path, random: &mut Random) -> [u64; THREADS as usize] {
    std::fs::create_dir(directory.join("channel")).expect("a new directory");
    ControlPage::create(&directory.join("channel")).expect("a control page");
    let mut recorder = start("recorder", directory);
    let mut worker = start("worker", directory);
    let worker_lines = BufReader::new(worker.stdout.take().expect("its output")).lines();
    let worker_lines = std::thread::Builder::new()
        .name("worker-lines".into())
        .spawn(move || worker_lines.map_while(Result::ok).collect::<Vec<_>>())
        .expect("a thread");
    let mut until = 2 + random.below(40);
    let (order, spin) = (random.below(3), random.below(1 << 22));
    // Kept open to the end: a recorder that cannot print would notice.
    let mut recorder_lines =
        BufReader::new(recorder.stdout.take().expect("its output")).lines().map_while(Result::ok);
    for line in recorder_lines.by_ref() {
        until = until.saturating_sub(usize::from(line.starts_with("journaled")));
        if until == 0 {
            // Anywhere between two lines, not right behind one.
            pass_time(spin);
            break;
        }
    }
    assert_eq!(until, 0, "the recorder ended by itself");
    match order {
        0 => {
            recorder.kill().expect("killed");
            // The worker continues until its rings are full.
            std::thread::sleep(std::time::Duration::from_millis(20));
            worker.kill().expect("killed");
        }
        1 => {
            worker.kill().expect("killed");
            pass_time(spin);
            recorder.kill().expect("killed");
        }
        _ => {
            recorder.kill().expect("killed");
            worker.kill().expect("killed");
        }
    }
    recorder.wait().expect("its end");
    worker.wait().expect("its end");
    last_reported(&worker_lines.join().expect("its lines"))
}

#[test]
fn every_inference_is_in_the_journal_or_a_ring_exactly_once() {
    let random = &mut Random::new(0xfeed);
    let (mut from_journal, mut from_rings, mut most) = (0, 0, 0);
    for _ in 0..KILLS {
        let directory = tempfile::tempdir().unwrap();
        let reported = run_and_kill(directory.path(), random);
        let (batches, outcomes) = read_all(&directory.path().join("journal"));
        assert!(outcomes.iter().all(|outcome| outcome.damaged_frames == 0), "{outcomes:?}");
        let mut known = JournaledChannel::default();
        batches.iter().for_each(|batch| known.see(batch));
        let recovered = known.recover(&directory.path().join("channel"), &["session".into()]).unwrap();
        assert_eq!(recovered.damaged, 0);

        let rows =
            |batches: &[Batch]| -> Vec<InferenceRow> { batches.iter().flat_map(Batch::rows).collect() };
        let (journaled, ringed) = (rows(&batches), rows(&recovered.batches));
        from_journal += journaled.len();
        from_rings += ringed.len();
        for stream in 0..THREADS {
            let all = journaled.iter().chain(&ringed).filter(|row| row.stream == u64::from(stream));
            let sequences: Vec<u64> = all.map(|row| row.sequence).collect();
            assert!(sequences.iter().copied().eq(0..sequences.len() as u64), "each once, and in order");
            let last = reported[usize::from(stream)];
            assert!(last == 0 || sequences.len() as u64 > last, "{last} reported, {} found", sequences.len());
            most = most.max(sequences.len());
        }
        let messages =
            batches.iter().chain(&recovered.batches).flat_map(|batch| batch.rows::<AnnotationRow>());
        let messages: Vec<_> = messages.filter(|row| &*row.kind == MESSAGE_KIND).collect();
        for (number, row) in messages.iter().enumerate() {
            assert_eq!(&*row.text, format!("message {number}"));
        }
    }
    assert!(from_journal > 0 && from_rings > 0);
    assert!(most as u64 > 4 * RING_BYTES / 88, "rings went round: {most} records of one stream");
    let mut out = std::io::stderr().lock();
    writeln!(out, "{from_journal} rows from journals, {from_rings} from rings, {KILLS} kills").unwrap();
}

#[test]
fn positions_come_behind_their_rows() {
    #[derive(Clone, Default)]
    struct Order(Arc<std::sync::Mutex<Vec<Batch>>>);
    impl Journal for Order {
        fn append(&mut self, batch: &Batch) -> Result<(), JournalError> {
            self.0.lock().unwrap().push(batch.clone());
            Ok(())
        }
        fn finish(&mut self) -> Result<(), JournalError> {
            Ok(())
        }
    }
    let directory = tempfile::tempdir().unwrap();
    ControlPage::create(directory.path()).unwrap();
    let owner = ProcessIdentity { pid: 1, start: 0 };
    let mut ring = RingWriter::create(directory.path(), "stream-0", 1 << 20, owner).unwrap();
    let mut messages = RingWriter::create(directory.path(), "messages", 1 << 16, owner).unwrap();
    for sequence in 0..5000 {
        assert!(ring.write_inference(&record(0, sequence)));
    }
    assert!(messages.try_write(FrameKind::MESSAGE, b"done"));
    let order = Order::default();
    let source = ChannelSource::new(directory.path(), vec![], Arc::new(AtomicBool::new(true)));
    let report = Pipeline::default().source(source).journal(order.clone()).start().unwrap().join();
    assert!(report.losses.is_empty() && report.source_errors.is_empty(), "{report:?}");
    let batches = order.0.lock().unwrap();
    let tables: Vec<TableId> = batches.iter().map(Batch::table).collect();
    assert_eq!(tables.last(), Some(&TableId::ChannelPositions));
    assert_eq!(tables.iter().filter(|table| **table == TableId::ChannelPositions).count(), 1);
    assert_eq!(batches.iter().flat_map(Batch::rows::<InferenceRow>).count(), 5000);
    let mut known = JournaledChannel::default();
    batches.iter().for_each(|batch| known.see(batch));
    assert_eq!(known.positions()["stream-0.ring"], 5000 * 88);
    assert_eq!(known.positions()["messages.ring"], 24);
    assert!(known.recover(directory.path(), &[]).unwrap().batches.is_empty());

    // Without the positions, as if the recorder was killed right before them: no row appears twice.
    let mut known = JournaledChannel::default();
    batches.iter().rev().skip(1).rev().for_each(|batch| known.see(batch));
    assert!(known.positions().is_empty());
    assert!(known.recover(directory.path(), &[]).unwrap().batches.is_empty());
    // Killed in the middle of the rows: the rest comes from the ring.
    let mut known = JournaledChannel::default();
    known.see(&batches[0]);
    let rest = known.recover(directory.path(), &[]).unwrap();
    let first_missing = batches[0].len() as u64;
    assert!(
        rest.batches
            .iter()
            .flat_map(Batch::rows::<InferenceRow>)
            .map(|row| row.sequence)
            .eq(first_missing..5000)
    );
}
