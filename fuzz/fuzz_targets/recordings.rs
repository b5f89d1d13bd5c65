//! Any bytes as a file of a recording: a journal, a segment, a manifest, a ring or a packed recording. It opens or says
//! why not; everything it has can be read; a repair ends and leaves something that opens.
//!
//! The first byte chooses what the rest is.

#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use ortscope_core::schema::TableId;
use ortscope_core::tables::{Scan, Tables};
use ortscope_store::{Recording, repair};

fn read_all(path: &Path) -> bool {
    match Recording::open(path) {
        Ok(recording) => {
            for table in TableId::ALL {
                let every_tick = Scan { every_tick: true, ..Scan::all() };
                // A few rows can claim many ticks; the first thousand batches show as much as all.
                let _ = recording.scan(*table, &every_tick).take(1000).flatten().map(|batch| batch.len()).sum::<usize>();
            }
            let _ = recording.condition().sentences();
            let _ = recording.document("run.json");
            true
        }
        Err(error) => {
            let sentence = error.to_string();
            assert!(!sentence.is_empty());
            false
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((kind, bytes)) = data.split_first() else { return };
    let in_memory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let directory = in_memory.expect("a directory");
    let root = directory.path().join("it");
    if kind % 5 == 4 {
        let packed = directory.path().join("it.ortscope");
        std::fs::write(&packed, bytes).expect("written");
        read_all(&packed);
        return;
    }
    let (below, name) = [
        ("journal", "journal-00000001.frames"),
        ("segments", "segment-00000001.cols"),
        ("", "manifest.json"),
        ("channel", "stream-0.ring"),
    ][usize::from(kind % 5)];
    for below in ["journal", "segments", "channel", "documents"] {
        std::fs::create_dir_all(root.join(below)).expect("made");
    }
    std::fs::write(root.join(below).join(name), bytes).expect("written");
    if read_all(&root) {
        match repair(&root) {
            Ok(_) => assert!(read_all(&root), "what was repaired opens"),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
});
