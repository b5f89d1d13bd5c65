//! Writes a recording while its disk operations are recorded, and checks the result.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use ortscope_core::batch::Batch;
use ortscope_core::random::Random;
use ortscope_core::schema::{AnnotationRow, TableId};
use ortscope_core::tables::{Scan, Tables};
use ortscope_store::{
    Condition, JournalOptions, Key, KeySources, Manifest, NewRecording, Recording, RecordingWriter, Store,
    StoreError, set_key_sources,
};

/// Rows of about 1 KiB, so that a few hundred fill several of the smallest journal files.
pub fn row(seed: u64, number: u64) -> AnnotationRow {
    let mut random = Random::new(seed.rotate_left(32) ^ number);
    let length = 20 + random.below(120);
    let letters = |word: u64| (0..16).map(move |at| char::from(b'a' + (word >> (4 * at)) as u8 % 16));
    let noise: String = (0..length).flat_map(|_| letters(random.next_u64())).collect();
    AnnotationRow {
        timestamp_ns: 1_000_000_000 + number * 1_000_000,
        kind: "trust".into(),
        text: format!("{seed}:{number}:{noise}").into(),
    }
}

pub fn batch(seed: u64, numbers: std::ops::Range<u64>) -> Batch {
    let mut batch = Batch::new(TableId::Annotations);
    for number in numbers {
        batch.push(&row(seed, number));
    }
    batch
}

/// A key that this process finds when it needs one.
fn test_key() -> Key {
    static KEY: OnceLock<Key> = OnceLock::new();
    let make = || {
        let key = Key::random().expect("random numbers");
        // Nothing runs at the end of a process that could remove it: it stays among what the build made.
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("trust-{}.key", std::process::id()));
        std::fs::remove_file(&file).ok();
        key.write_file(&file).expect("a file");
        set_key_sources(KeySources { file: Some(file), system: None });
        key
    };
    KEY.get_or_init(make).clone()
}

/// Begins a recording. Every third one is encrypted, by its seed.
pub fn begin_seeded(store: &Store, seed: u64) -> Result<RecordingWriter, StoreError> {
    begin_with(store, seed.is_multiple_of(3).then(test_key))
}

pub fn begin(store: &Store) -> Result<RecordingWriter, StoreError> {
    begin_with(store, None)
}

fn begin_with(store: &Store, key: Option<Key>) -> Result<RecordingWriter, StoreError> {
    store.begin(NewRecording {
        origin: "test".into(),
        subject: "trust".into(),
        ortscope_version: "0.0.0".into(),
        journal: JournalOptions { file_bytes: 256 << 10, sync_period: Duration::from_secs(1) },
        key,
        ..NewRecording::default()
    })
}

/// The document that a workload keeps, in its first or second form.
pub fn document(second: bool) -> Vec<u8> {
    format!("{{\"form\": {}}}", if second { "\"second\"" } else { "1" }).into_bytes()
}

/// The readable content of a recording.
#[derive(Debug)]
pub struct Seen {
    pub rows: BTreeSet<u64>,
    pub condition: Condition,
    pub manifest: Manifest,
    pub document: Option<Vec<u8>>,
    /// Places that could not be read, besides those of the condition.
    pub unreadable: u64,
}

impl Seen {
    /// Whether the user learns that something is missing.
    pub fn reports_damage(&self) -> bool {
        !self.condition.is_whole() || self.unreadable > 0
    }
}

/// Reads everything, which must be exactly what was written.
///
/// # Panics
/// If a row is wrong or appears twice.
pub fn look(directory: &Path, seed: u64) -> Result<Seen, StoreError> {
    let recording = Recording::open(directory)?;
    let mut rows = BTreeSet::new();
    let mut unreadable = recording.verify()?.len() as u64;
    for found in recording.scan(TableId::Annotations, &Scan::all()) {
        let Ok(found) = found else {
            unreadable += 1;
            continue;
        };
        for found in found.rows::<AnnotationRow>() {
            let number: u64 =
                found.text.split(':').nth(1).and_then(|number| number.parse().ok()).expect("a number");
            assert_eq!(found, row(seed, number), "a row that was never written");
            assert!(rows.insert(number), "row {number} is there twice");
        }
    }
    for table in TableId::ALL {
        let every_tick = Scan { every_tick: true, ..Scan::all() };
        unreadable += recording.scan(*table, &every_tick).filter(|batch| batch.is_err()).count() as u64;
    }
    let document = recording.document("run.json").unwrap_or_else(|_| {
        unreadable += 1;
        None
    });
    let (condition, manifest) = (recording.condition().clone(), recording.manifest().clone());
    Ok(Seen { rows, condition, manifest, document, unreadable })
}

/// The only recording of a store, if its directory is there.
pub fn recording_in(store: &Path) -> Option<PathBuf> {
    let entries = fs_err::read_dir(store).ok()?;
    entries.map(|entry| entry.expect("an entry").path()).find(|path| path.is_dir())
}
