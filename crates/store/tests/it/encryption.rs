//! Encrypted recordings: nothing of them can be read without the key, and everything with it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ortscope_core::random::Random;
use ortscope_core::schema::{AnnotationRow, TableId};
use ortscope_core::tables::Scan;
use ortscope_store::{
    Key, NewRecording, PackOptions, Recording, Retention, Store, StoreError, StoreErrorKind, pack, repair,
};

use crate::support::*;

/// Texts and a number that must be found nowhere.
const SUBJECT: &str = "planted-subject-of-a-model";
const COMMAND: &str = "planted-command-line";
const TEXT: &str = "planted-text-of-an-annotation";
const DOCUMENT: &str = "planted-document";
const NUMBER: u64 = 0x5eed_cafe_f00d_1234;

fn encrypted(key: Key) -> NewRecording {
    NewRecording {
        name: Some("planted-name".into()),
        command: Some(COMMAND.into()),
        host: Some("planted-host".into()),
        key: Some(key),
        ..new_recording(SUBJECT)
    }
}

fn annotation(number: u64) -> AnnotationRow {
    let text = format!("{TEXT} {number}").into();
    AnnotationRow { timestamp_ns: NUMBER.wrapping_add(number), kind: "planted-kind".into(), text }
}

/// A recording with planted texts in all its parts, and its store; not finished if `is_cut_off`.
fn planted(key: Key, is_cut_off: bool) -> (tempfile::TempDir, Store, PathBuf) {
    let (place, store) = store();
    let writer = store.begin(encrypted(key)).expect("begun");
    for start in (0..6000).step_by(500) {
        writer.append(&inferences(start..start + 500)).expect("kept");
    }
    writer.append(&batch(&(0..50).map(annotation).collect::<Vec<_>>())).expect("kept");
    writer.write_document("run.json", format!("{{\"text\": \"{DOCUMENT}\"}}").as_bytes()).expect("written");
    writer.settle();
    let directory = writer.directory().to_owned();
    if is_cut_off {
        drop(writer);
    } else {
        drop(writer.finish("finished").expect("finished"));
    }
    (place, store, directory)
}

/// The planted secrets that an encrypted recording must not reveal.
fn needles() -> Vec<(&'static str, Vec<Vec<u8>>)> {
    let names = TableId::ALL.iter().map(|table| table.def().name).filter(|name| name.len() > 8);
    vec![
        ("texts", vec![b"planted".to_vec()]),
        ("sessions", vec![b"a-session".to_vec()]),
        ("a number", vec![NUMBER.to_le_bytes()[1..].to_vec()]),
        ("numbers", (0..4).map(|number| noise(number).to_le_bytes().to_vec()).collect()),
        ("tables", names.map(|name| name.as_bytes().to_vec()).collect()),
    ]
}

/// Which kinds of needles are in the files below, with one file of each.
fn found_in_files(root: &Path) -> BTreeMap<&'static str, PathBuf> {
    let mut found = BTreeMap::new();
    for (path, bytes) in snapshot(root) {
        for (kind, needles) in needles() {
            let has = |needle: &Vec<u8>| bytes.windows(needle.len()).any(|window| window == &needle[..]);
            if needles.iter().any(has) {
                found.insert(kind, path.clone());
            }
        }
    }
    found
}

#[track_caller]
fn assert_nothing_readable(root: &Path) {
    assert_eq!(found_in_files(root), BTreeMap::new());
}

fn texts(recording: &Recording) -> usize {
    let rows = rows::<AnnotationRow>(recording, &Scan::all());
    assert!(rows.iter().all(|row| row.text.starts_with(TEXT)));
    rows.len()
}

#[test]
fn the_needles_are_found_without_encryption() {
    let (place, store) = store();
    let writer = store.begin(NewRecording { key: None, ..encrypted(test_key()) }).expect("begun");
    writer.append(&inferences(0..10)).expect("kept");
    writer.append(&batch(&[annotation(0)])).expect("kept");
    let kinds: Vec<_> = found_in_files(place.path()).into_keys().collect();
    assert_eq!(kinds, ["a number", "numbers", "sessions", "tables", "texts"]);
}

/// Regression: one damaged bit in a segment's key description was trusted, and with the manifest lost too, a repair
/// set all others aside.
#[test]
fn a_damaged_file_does_not_determine_the_key() {
    let (_place, _store, directory) = planted(test_key(), false);
    let segments = directory.join("segments");
    let mut files: Vec<_> = fs_err::read_dir(&segments).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() > 1, "{files:?}");
    fs_err::remove_file(directory.join("manifest.json")).expect("gone");
    let whole = fs_err::read(&files[0]).expect("read");
    // Behind the mark and the name of the key: the salt.
    for at in [16, 30, 50] {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        fs_err::write(&files[0], &bytes).expect("written");
        let recording = Recording::open(&directory).expect("opens");
        let rows = sequences(&recording).len();
        assert!((1..6000).contains(&rows), "byte {at}: {rows} rows");
    }
}

/// An encrypted segment in a recording that is not was an error of the system, and nothing of the recording could be read.
#[test]
fn an_encrypted_file_among_others_is_damage() {
    let (_theirs, _, encrypted) = planted(test_key(), false);
    let (_place, store) = store();
    let writer = store.begin(new_recording("in the clear")).expect("begun");
    let directory = writer.directory().to_owned();
    writer.append(&inferences(0..500)).expect("kept");
    writer.finish("finished").expect("finished");
    fs_err::copy(
        encrypted.join("segments/segment-00000001.cols"),
        directory.join("segments/segment-00000009.cols"),
    )
    .expect("copied");
    let recording = Recording::open(&directory).expect("opens");
    assert_eq!(sequences(&recording).len(), 500);
    assert!(!recording.condition().is_whole());
    drop(recording);
    repair(&directory).expect("repaired");
    assert!(Recording::open(&directory).expect("opens").condition().is_whole());
}

#[test]
fn nothing_is_readable_without_the_key_and_everything_with_it() {
    for is_cut_off in [false, true] {
        let (place, store, directory) = planted(test_key(), is_cut_off);
        let entry = store.list().expect("a list").remove(0);
        assert!(entry.encrypted && !entry.damaged && entry.subject == SUBJECT, "{entry:?}");
        assert_eq!(store.resolve("planted-name").expect("by its name"), directory);
        assert_nothing_readable(place.path());
        let recording = Recording::open(&directory).expect("it opens");
        assert!(recording.condition().is_whole() && recording.verify().expect("read").is_empty());
        assert_eq!(recording.condition().finished, !is_cut_off);
        assert_eq!(sequences(&recording), (0..6000).collect::<Vec<_>>());
        assert_eq!(texts(&recording), 50);
        assert_eq!(recording.manifest().command.as_deref(), Some(COMMAND));
        let document = recording.document("run.json").expect("readable").expect("there");
        assert!(String::from_utf8_lossy(&document).contains(DOCUMENT));

        store.tag("planted-name", &["planted-tag".into()], &[]).expect("tagged");
        let report = repair(&directory).expect("repaired");
        assert_eq!(report.actions.is_empty(), !is_cut_off, "{report:?}");
        assert_nothing_readable(place.path());
        assert_eq!(sequences(&Recording::open(&directory).expect("opens")).len(), 6000);
    }
}

/// With the wrong key the error is one sentence that names both keys, nothing is changed, and the recording is
/// listed.
#[test]
fn without_its_key_a_recording_is_rejected_listed_and_removable() {
    test_key();
    let theirs = Key::random().expect("random");
    let (place, store, directory) = planted(theirs.clone(), false);
    let before = snapshot(&directory);
    for refused in [
        Recording::open(&directory).map(drop),
        repair(&directory).map(drop),
        store.tag(&directory.display().to_string(), &["x".into()], &[]).map(drop),
        pack(&directory, &place.path().join("x.ortscope"), PackOptions::default()).map(drop),
    ] {
        let error = refused.expect_err("refused");
        assert_eq!(error.kind(), StoreErrorKind::Permission, "{error}");
        let text = format!("{error} {}", error.hint().expect("a hint"));
        assert!(text.contains(&theirs.id().to_string()) && text.contains("--key-file"), "{text}");
        assert!(!text.contains(&theirs.to_text()[13..]), "{text}");
    }
    let entry = store.list().expect("a list").remove(0);
    assert!(entry.encrypted && !entry.damaged && entry.name.is_none(), "{entry:?}");
    assert!(entry.problem.as_deref().is_some_and(|problem| problem.contains("encrypted")), "{entry:?}");
    // It has a name, which is visible without the key: it is not pruned.
    let all = Retention { max_total_bytes: Some(0), ..Retention::default() };
    assert_eq!(store.prune(&all, false).expect("pruned"), Vec::new());
    assert!(before == snapshot(&directory), "nothing was changed");
    store.remove(&entry.id).expect("removed");
    assert!(!directory.exists());
}

/// If the manifest is lost, the other files still identify the key.
#[test]
fn a_lost_manifest_costs_names_only() {
    for is_cut_off in [false, true] {
        let (place, _store, directory) = planted(test_key(), is_cut_off);
        fs_err::remove_file(directory.join("manifest.json")).expect("removed");
        let recording = Recording::open(&directory).expect("it opens");
        assert!(!recording.condition().is_whole());
        assert_eq!((sequences(&recording).len(), texts(&recording)), (6000, 50));
        drop(recording);
        repair(&directory).expect("repaired");
        assert_nothing_readable(place.path());
        let repaired = Recording::open(&directory).expect("it opens");
        assert!(repaired.condition().is_whole(), "{:?}", repaired.condition());
        assert_eq!((sequences(&repaired).len(), texts(&repaired)), (6000, 50));
    }
}

/// A file under another name or of another recording is damage, and so is one that is not encrypted.
#[test]
fn swapped_files_are_detected() {
    let (_place, _store, directory) = planted(test_key(), false);
    let (_other_place, _other_store, other) = planted(test_key(), false);
    let (_plain_place, plain_store) = store();
    let plain = finished(&plain_store, 6000);
    let files = segments(&directory);
    let first = fs_err::read(&files[0]).expect("a segment");
    for foreign in [&files[1], &segments(&other)[0], &segments(&plain)[0]] {
        fs_err::copy(foreign, &files[0]).expect("copied");
        let recording = Recording::open(&directory).expect("it opens");
        assert!(!recording.condition().is_whole(), "{}", foreign.display());
        assert!(sequences(&recording).len() < 6000);
    }
    fs_err::write(&files[0], first).expect("written back");
    assert!(Recording::open(&directory).expect("it opens").condition().is_whole());
}

#[test]
fn flipped_bits_are_detected_and_cost_only_their_block() {
    let (_place, _store, directory) = planted(test_key(), false);
    let mut random = Random::new(5);
    for path in segments(&directory).into_iter().chain([directory.join("documents/run.json")]) {
        let good = fs_err::read(&path).expect("a file");
        for _ in 0..40 {
            flip_bit(&path, random.next_u64() as usize);
            let recording = Recording::open(&directory).expect("it opens");
            let damage = recording.condition().damaged.len() + recording.verify().expect("read").len();
            let (read, unreadable) = readable::<AnnotationRow>(&recording);
            assert!(damage + unreadable > 0, "a flipped bit in {} went unnoticed", path.display());
            assert!(read.iter().all(|row| row.text.starts_with(TEXT)));
            fs_err::write(&path, &good).expect("written back");
        }
    }
}

#[test]
fn a_packed_recording_stays_encrypted_by_default() {
    let (place, _store, directory) = planted(test_key(), true);
    let sealed = place.path().join("sealed.ortscope");
    pack(&directory, &sealed, PackOptions::default()).expect("packed");
    let open = place.path().join("open.ortscope");
    pack(&directory, &open, PackOptions { decrypt: true, ..PackOptions::default() }).expect("packed");
    for (path, is_encrypted) in [(&sealed, true), (&open, false)] {
        let recording = Recording::open(path).expect("it opens");
        assert_eq!(recording.manifest().encryption.is_some(), is_encrypted);
        assert!(recording.condition().is_whole(), "{:?}", recording.condition());
        assert_eq!((sequences(&recording).len(), texts(&recording)), (6000, 50));
        assert!(recording.document("run.json").expect("readable").is_some());
    }
}

#[test]
fn a_key_file_readable_by_others_is_rejected_and_never_replaced() {
    let place = tempfile::tempdir().expect("a directory");
    let path = place.path().join("key");
    let key = Key::random().expect("random");
    key.write_file(&path).expect("written");
    assert_eq!(Key::from_file(&path).expect("read"), key);
    assert!(matches!(key.write_file(&path), Err(StoreError::Key { .. })));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        fs_err::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("changed");
        let error = Key::from_file(&path).expect_err("refused");
        assert!(error.to_string().contains("can be read by others"), "{error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("chmod 600")));
    }
    for (name, content) in [("empty", &b""[..]), ("wrong", b"ortscope-key-xyz"), ("bytes", b"\xff\xfe\x00")] {
        let wrong = ortscope_channel::disk::create_private(&place.path().join(name), 0).expect("a file");
        std::io::Write::write_all(&mut &wrong, content).expect("written");
        let error = Key::from_file(&place.path().join(name)).expect_err("no key");
        assert!(matches!(error, StoreError::Key { .. }), "{error}");
    }
    assert!(matches!(Key::from_file(&place.path().join("none")), Err(StoreError::Key { .. })));
}
