//! Shared test helpers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use ortscope_core::batch::Batch;
use ortscope_core::random::Random;
use ortscope_core::schema::{InferenceRow, ProcessSampleRow, Row, TableId};
use ortscope_core::tables::{Scan, Tables};
use ortscope_store::{
    JournalOptions, KEY_VARIABLE, Key, KeySources, NewRecording, Recording, RecordingWriter, Store,
    set_key_sources,
};
use tempfile::TempDir;

/// The smallest journal files there can be, so that a test has many.
pub fn small_files() -> JournalOptions {
    JournalOptions { file_bytes: 256 << 10, sync_period: Duration::from_millis(100) }
}

/// A key that this process finds when it needs one. With `ORTSCOPE_KEY` set, every recording of the tests is encrypted.
pub fn test_key() -> Key {
    static KEY: OnceLock<Key> = OnceLock::new();
    let make = || {
        let key = Key::random().expect("random numbers");
        // Nothing runs at the end of a process that could remove it: it stays among what the build made.
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("store-{}.key", std::process::id()));
        std::fs::remove_file(&file).ok();
        key.write_file(&file).expect("a file");
        set_key_sources(KeySources { file: Some(file), system: None });
        key
    };
    KEY.get_or_init(make).clone()
}

pub fn new_recording(subject: &str) -> NewRecording {
    NewRecording {
        origin: "test".into(),
        subject: subject.into(),
        ortscope_version: "0.0.0".into(),
        journal: small_files(),
        key: std::env::var_os(KEY_VARIABLE).map(|_| KeySources::current().first().expect("a key")),
        ..NewRecording::default()
    }
}

/// A store in a temporary directory.
pub fn store() -> (TempDir, Store) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let store = Store::open(directory.path().join("runs"));
    (directory, store)
}

pub fn begin(store: &Store) -> RecordingWriter {
    store.begin(new_recording("a test")).expect("a new recording")
}

pub fn batch<R: Row>(rows: &[R]) -> Batch {
    let mut batch = Batch::new(R::TABLE);
    for row in rows {
        batch.push(row);
    }
    batch
}

/// A number that belongs to another one and looks random, so that it cannot be compressed away.
pub fn noise(number: u64) -> u64 {
    Random::new(number).next_u64()
}

/// Distinguishable inferences. About 50 bytes of each are noise: 5000 fill a small journal file.
pub fn inferences(numbers: std::ops::Range<u64>) -> Batch {
    let row = |number: u64| InferenceRow {
        timestamp_ns: 1_000_000_000 + number * 1_000_000,
        planned_ns: noise(number ^ 1 << 32),
        session_id: "a-session".into(),
        sequence: number,
        phase: "steady".into(),
        copy_in_ns: noise(number ^ 2 << 32),
        run_ns: noise(number),
        copy_out_ns: noise(number ^ 3 << 32),
        batch_size: Some(noise(number ^ 4 << 32)),
        queue_depth: Some(noise(number ^ 5 << 32)),
        token: Some(noise(number ^ 6 << 32)),
        ok: true,
        ..InferenceRow::default()
    };
    batch(&numbers.map(row).collect::<Vec<_>>())
}

/// Ticks of twenty processes of which half do something at each tick; 100 fill a small journal file.
pub fn busy_ticks(ticks: u64) -> Vec<Batch> {
    let mut processes: Vec<ProcessSampleRow> = (0..20)
        .map(|pid| ProcessSampleRow { pid, process_start: 1, ..ProcessSampleRow::default() })
        .collect();
    let mut random = Random::new(4);
    let tick = |tick: u64| {
        for row in &mut processes {
            row.timestamp_ns = 1_000_000_000 + tick * 10_000_000;
            if random.chance(500) {
                row.cpu_time_ns = random.next_u64();
                row.working_set_bytes = random.next_u64();
                let columns = [
                    &mut row.user_time_ns,
                    &mut row.kernel_time_ns,
                    &mut row.cpu_cycles,
                    &mut row.context_switches,
                    &mut row.private_bytes,
                    &mut row.virtual_bytes,
                    &mut row.page_faults,
                    &mut row.read_bytes,
                    &mut row.write_bytes,
                ];
                columns.into_iter().for_each(|column| *column = Some(random.next_u64()));
            }
        }
        batch(&processes)
    };
    (0..ticks).map(tick).collect()
}

pub fn rows<R: Row>(tables: &dyn Tables, scan: &Scan) -> Vec<R> {
    let batches = tables.scan(R::TABLE, scan);
    batches.flat_map(|batch| batch.expect("it can be read").rows::<R>().collect::<Vec<_>>()).collect()
}

/// Rows of all batches that can be read, and how many places cannot.
pub fn readable<R: Row>(tables: &dyn Tables) -> (Vec<R>, usize) {
    let (mut rows, mut damaged) = (Vec::new(), 0);
    for batch in tables.scan(R::TABLE, &Scan::all()) {
        match batch {
            Ok(batch) => rows.extend(batch.rows::<R>()),
            Err(_) => damaged += 1,
        }
    }
    (rows, damaged)
}

pub fn sequences(recording: &Recording) -> Vec<u64> {
    let mut numbers: Vec<u64> =
        rows::<InferenceRow>(recording, &Scan::all()).iter().map(|row| row.sequence).collect();
    numbers.sort_unstable();
    numbers
}

/// A finished recording with this many inferences, in several segments.
pub fn finished(store: &Store, inferences_wanted: u64) -> PathBuf {
    let writer = begin(store);
    for start in (0..inferences_wanted).step_by(500) {
        writer.append(&inferences(start..(start + 500).min(inferences_wanted))).expect("kept");
    }
    writer.finish("finished").expect("finished").directory
}

pub fn segments(recording: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs_err::read_dir(recording.join("segments"))
        .expect("segments")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    paths
}

pub fn row_counts(recording: &Recording) -> BTreeMap<&'static str, u64> {
    recording.tables().iter().map(|table| (table.table.def().name, table.rows)).collect()
}

pub fn count(recording: &Recording, table: TableId) -> u64 {
    recording.row_count(table)
}

/// Every file below a directory with its bytes, to see that nothing was changed.
pub fn snapshot(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs_err::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files.extend(snapshot(&path));
        } else {
            let bytes = fs_err::read(&path).expect("a file");
            files.insert(path, bytes);
        }
    }
    files
}

pub fn flip_bit(path: &Path, bit: usize) {
    let mut bytes = fs_err::read(path).expect("a file");
    let bit = bit % (bytes.len() * 8);
    bytes[bit / 8] ^= 1 << (bit % 8);
    fs_err::write(path, bytes).expect("written");
}
