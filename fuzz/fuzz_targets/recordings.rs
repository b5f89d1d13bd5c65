//! Any bytes as the files of a recording: journals, batches, segments, manifests, rings and packed recordings. Each opens
//! or says why not; everything that opened can be read; a repair ends and leaves something that opens.
//!
//! The first byte chooses what the rest is. Where checksums would stop every input at the door, the target writes them
//! right, so that what lies behind them is tried too. The files lie in memory and are used again for each input.

#![no_main]

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use flate2::Compression;
use flate2::write::DeflateEncoder;
use libfuzzer_sys::fuzz_target;
use ortscope_channel::batch_frame::Decoder;
use ortscope_channel::frame::{FrameKind, Header};
use ortscope_channel::journal::JournalFileReader;
use ortscope_channel::recover_rings;
use ortscope_core::tables::{Scan, Tables};
use ortscope_store::{Recording, repair};
use serde_json::Value;

const PAGE: usize = 4096;
/// Directories of a recording.
const BELOW: [&str; 4] = ["journal", "segments", "channel", "documents"];

/// A directory of this process, with one recording for each kind of file.
static PLACE: LazyLock<PathBuf> = LazyLock::new(|| {
    allow_panics_that_are_caught();
    let made = tempfile::Builder::new().prefix("ortscope-fuzz-").tempdir_in("/dev/shm");
    let place = made.or_else(|_| tempfile::tempdir()).expect("a directory").keep();
    for below in ["segment/segments", "manifest/segments", "journal/journal", "ring/channel"] {
        fs::create_dir_all(place.join(below)).expect("made");
    }
    place
});

/// A column that cannot be unpacked is a panic of the library that unpacks it, and the store takes that for damage. All
/// other panics end the process, as they should here.
fn allow_panics_that_are_caught() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let place = panic.location().map_or("", |location| location.file());
        if !place.contains("/pco-") && !place.contains("/better_io-") {
            before(panic);
            std::process::abort();
        }
    }));
}

fn put(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).expect("written");
}

fn read_all(path: &Path) -> bool {
    match Recording::open(path) {
        Ok(recording) => {
            for summary in recording.tables() {
                let every_tick = Scan { every_tick: true, ..Scan::all() };
                // A few rows can claim many ticks; the first batches show as much as all.
                for batch in recording.scan(summary.table, &every_tick).take(16) {
                    let sentence = batch.err().map(|error| error.to_string());
                    assert!(sentence.is_none_or(|sentence| !sentence.is_empty()));
                }
            }
            assert!(recording.condition().sentences().iter().all(|sentence| !sentence.is_empty()));
            let _ = recording.document("run.json").is_ok();
            let _ = recording.verify().is_ok();
            true
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            false
        }
    }
}

/// Frames as the input lists them: a kind, a mark, a length, a payload. Their numbers and checksums are right unless the
/// mark says otherwise.
fn frames(mut input: &[u8], into: &mut Vec<u8>) {
    let mut sequence = 0_u32;
    while let Some((&[kind, mark, low, high], behind)) = input.split_first_chunk::<4>() {
        let (payload, next) = behind.split_at(usize::from(u16::from_le_bytes([low, high])).min(behind.len()));
        input = next;
        sequence = sequence.wrapping_add(u32::from(mark & 0x0f == 1));
        let mut header = Header::new(FrameKind(u16::from(kind % 6)), sequence, payload);
        header.checksum ^= u32::from(mark >> 4 == 1);
        into.extend_from_slice(&header.to_bytes());
        into.extend_from_slice(payload);
        into.resize(into.len().next_multiple_of(8), 0);
        sequence = sequence.wrapping_add(1);
    }
}

fn journal(input: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; PAGE];
    bytes[..8].copy_from_slice(b"ORTSJRNL");
    bytes[8] = 1;
    bytes[16] = 1;
    let checksum = u64::from(crc32c::crc32c(&bytes[..40]));
    bytes[40..48].copy_from_slice(&checksum.to_le_bytes());
    frames(input, &mut bytes);
    let head = bytes.len() as u64;
    bytes[128..136].copy_from_slice(&head.to_le_bytes());
    bytes[192] = 2;
    bytes
}

/// The first words are those of the header that a writer and a reader change; then frames.
fn ring(input: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; PAGE];
    bytes[..8].copy_from_slice(b"ORTSRING");
    bytes[8] = 1;
    bytes[16..24].copy_from_slice(&(PAGE as u64).to_le_bytes());
    let (words, rest) = input.split_at(input.len().min(24));
    for (at, word) in [128, 192, 320].into_iter().zip(words.chunks_exact(8)) {
        bytes[at..at + 8].copy_from_slice(word);
    }
    frames(rest, &mut bytes);
    bytes.resize(2 * PAGE, 0);
    bytes
}

/// Its directory (a length, then JSON) and its blocks, with checksums that are right.
fn segment(input: &[u8]) -> Option<Vec<u8>> {
    let (length, rest) = input.split_first_chunk::<2>()?;
    let (directory, blocks) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
    let mut directory: Value = serde_json::from_slice(directory).ok()?;
    let mut bytes = b"ORTSCOLS\x01\0\0\0\0\0\0\0".to_vec();
    bytes.extend_from_slice(blocks);
    for chunk in directory.get_mut("chunks").and_then(Value::as_array_mut).into_iter().flatten() {
        let mut at = chunk.get("at").and_then(Value::as_u64).and_then(|at| usize::try_from(at).ok())?;
        for block in chunk.get_mut("blocks").and_then(Value::as_array_mut).into_iter().flatten() {
            let length =
                block.get("bytes").and_then(Value::as_u64).and_then(|length| usize::try_from(length).ok())?;
            let Some(of_block) = at.checked_add(length).and_then(|end| bytes.get(at..end)) else { break };
            let crc = crc32c::crc32c(of_block);
            block.as_object_mut()?.insert("crc".into(), crc.into());
            at += length;
        }
    }
    let mut deflater = DeflateEncoder::new(Vec::new(), Compression::none());
    deflater.write_all(&serde_json::to_vec(&directory).ok()?).ok()?;
    let directory = deflater.finish().ok()?;
    bytes.extend_from_slice(&directory);
    bytes.extend_from_slice(&crc32c::crc32c(&directory).to_le_bytes());
    bytes.extend_from_slice(&(directory.len() as u64).to_le_bytes());
    bytes.extend_from_slice(b"ORTSDIR1");
    Some(bytes)
}

/// A schema (a length, then JSON) and a batch of it, without files.
fn batch(input: &[u8]) {
    let Some((length, rest)) = input.split_first_chunk::<2>() else { return };
    let (schema, payload) = rest.split_at(usize::from(u16::from_le_bytes(*length)).min(rest.len()));
    let mut payload = payload.to_vec();
    if let Ok(decoder) = Decoder::from_json(schema) {
        if let Some(checksum) = payload.first_chunk_mut::<4>() {
            *checksum = crc32c::crc32c(schema).to_le_bytes();
        }
        let _ = decoder.decode(&payload).map_err(|error| error.to_string());
    }
    if let Some(checksum) = payload.first_chunk_mut::<4>() {
        *checksum = ours_checksum().to_le_bytes();
    }
    let _ = Decoder::current().decode(&payload).map_err(|error| error.to_string());
}

fn ours_checksum() -> u32 {
    static OURS: LazyLock<u32> = LazyLock::new(|| {
        crc32c::crc32c(&ortscope_channel::batch_frame::schema::WrittenSchema::current().to_json())
    });
    *OURS
}

fuzz_target!(|data: &[u8]| {
    let Some((kind, bytes)) = data.split_first() else { return };
    let place = &*PLACE;
    match kind % 8 {
        0 | 1 => batch(bytes),
        2 => {
            let path = place.join("journal/journal/journal-00000001.frames");
            put(&path, &journal(bytes));
            if let Ok(mut reader) = JournalFileReader::open(&path) {
                let mut rows = 0;
                while let Some(batch) = reader.next_batch() {
                    rows += batch.len() as u64;
                }
                assert_eq!(reader.outcome().rows, rows);
            }
        }
        3 => {
            if let Some(bytes) = segment(bytes) {
                put(&place.join("segment/segments/segment-00000001.cols"), &bytes);
                read_all(&place.join("segment"));
            }
        }
        4 => {
            put(&place.join("manifest/manifest.json"), bytes);
            read_all(&place.join("manifest"));
        }
        5 => {
            put(&place.join("ring/channel/stream-0.ring"), &ring(bytes));
            let sessions = ["a".into(), "b".into()];
            let found = recover_rings(&place.join("ring/channel"), &BTreeMap::new(), &sessions);
            let found = found.expect("memory does not fail");
            let again = recover_rings(&place.join("ring/channel"), &found.positions, &sessions);
            assert_eq!(again.expect("memory does not fail").frames, 0, "what was read is read once");
        }
        6 => {
            let packed = place.join("it.ortscope");
            put(&packed, bytes);
            read_all(&packed);
        }
        _ => broken_and_repaired(bytes),
    }
});

/// All kinds at once, as they are, and a repair.
fn broken_and_repaired(input: &[u8]) {
    let root = PLACE.join("whole");
    empty(&root);
    for below in BELOW {
        let _ = fs::create_dir_all(root.join(below));
    }
    let files = [
        "manifest.json",
        "journal/journal-00000001.frames",
        "segments/segment-00000001.cols",
        "channel/stream-0.ring",
    ];
    let mut rest = input;
    for (number, file) in files.into_iter().enumerate() {
        let Some((length, behind)) = rest.split_first_chunk::<2>() else { break };
        let (bytes, next) = behind.split_at(usize::from(u16::from_le_bytes(*length)).min(behind.len()));
        rest = next;
        let bytes = match number {
            1 => Some(journal(bytes)),
            2 => segment(bytes),
            3 => Some(ring(bytes)),
            // A repair follows a manifest to rings elsewhere; this one must stay where it is.
            _ => (!bytes.contains(&b'\\') && !bytes.windows(8).any(|word| word == b"channels"))
                .then(|| bytes.to_vec()),
        };
        if let Some(bytes) = bytes {
            put(&root.join(file), &bytes);
        }
    }
    // What each file holds is read by the kinds above, hundreds of times as fast; here it is what becomes of them together.
    match repair(&root) {
        Ok(_) => assert!(Recording::open(&root).is_ok(), "what was repaired opens"),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Takes all files away, and the directories that not every recording has.
fn empty(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_file()) {
            fs::remove_file(&path).expect("ours");
        } else if BELOW
            .iter()
            .any(|kept| path.strip_prefix(directory).is_ok_and(|name| name == Path::new(kept)))
        {
            empty(&path);
        } else {
            fs::remove_dir_all(&path).expect("ours");
        }
    }
}
