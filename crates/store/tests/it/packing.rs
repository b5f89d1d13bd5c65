//! Packed recordings contain the data without identifying anyone.

use std::io::{Read, Write};

use ortscope_core::schema::{AnnotationRow, FindingRow, InferenceRow, ProcessRow, SessionRow, TableId};
use ortscope_core::tables::{Scan, Tables};
use ortscope_store::{NewRecording, PackOptions, Recording, Store, StoreErrorKind, pack};

use crate::support::*;

const SECRETS: &[&str] = &["jane", "hidden-project", "workstation-9", "s3cr3t", "/srv/models"];

/// A recording with private data in every possible place.
fn identifying(store: &Store) -> ortscope_store::RecordingWriter {
    let new = NewRecording {
        subject: "/srv/models/hidden-project/net.onnx".into(),
        command: Some("ortscope run /home/jane/net.onnx --key s3cr3t".into()),
        fingerprint: [
            ("cpu_model".to_owned(), "Fast CPU 3000".to_owned()),
            ("hostname".to_owned(), "workstation-9".to_owned()),
            ("user".to_owned(), "jane".to_owned()),
        ]
        .into(),
        ..new_recording("")
    };
    let writer = store.begin(new).expect("begun");
    writer
        .append(&batch(&[ProcessRow {
            pid: 7,
            name: "python".into(),
            event: "seen".into(),
            command_line: Some("python /home/jane/hidden-project/serve.py --token s3cr3t".into()),
            ..ProcessRow::default()
        }]))
        .expect("kept");
    writer
        .append(&batch(&[SessionRow {
            session_id: "a-session".into(),
            model_name: "/srv/models/hidden-project/net.onnx".into(),
            options: Some(r#"{"model":"C:\\Users\\jane\\hidden-project\\net.onnx","threads":4}"#.into()),
            ..SessionRow::default()
        }]))
        .expect("kept");
    let text = "jane opened '/srv/models/hidden-project/my net.onnx' on workstation-9";
    writer
        .append(&batch(&[AnnotationRow { kind: "log".into(), text: text.into(), ..Default::default() }]))
        .expect("kept");
    let finding = FindingRow {
        id: "x".into(),
        evidence: "3 of 5 runs read /srv/models/hidden-project/net.data".into(),
        command: Some("ortscope run /srv/models/hidden-project/net.onnx".into()),
        ..FindingRow::default()
    };
    writer.append(&batch(&[finding])).expect("kept");
    writer.append(&inferences(0..5000)).expect("kept");
    let document = r#"{"model": {"path": "/srv/models/hidden-project/net.onnx", "size": 12},
        "environment": {"HOME": "/home/jane"}, "command": "x s3cr3t", "hostname": "workstation-9", "p50_ms": 4.5}"#;
    writer.write_document("run.json", document.as_bytes()).expect("kept");
    writer.write_document("notes.txt", b"ran by jane in /srv/models/hidden-project/x").expect("kept");
    writer.write_document("tensor.npy", &[0x93, b'N', 0xff, 0xfe]).expect("kept");
    writer
}

/// Everything a reader could see in a packed file, as one text.
fn all_text(path: &std::path::Path) -> String {
    let mut archive = zip::ZipArchive::new(std::fs::File::open(path).expect("a file")).expect("a zip");
    let mut text = String::new();
    for index in 0..archive.len() {
        let mut bytes = Vec::new();
        archive.by_index(index).expect("an entry").read_to_end(&mut bytes).expect("read");
        text.push_str(&String::from_utf8_lossy(&bytes));
    }
    let recording = Recording::open(path).expect("opens");
    for table in TableId::ALL {
        for batch in recording.scan(*table, &Scan::all()) {
            text.push_str(&format!("{:?}", batch.expect("readable").columns()));
        }
    }
    text
}

#[test]
fn a_packed_recording_opens_and_contains_nothing_private() {
    let (directory, store) = store();
    let recording = identifying(&store).finish("finished").expect("finished").directory;
    let before = snapshot(&recording);
    let to = directory.path().join("bug.ortscope");
    let report = pack(&recording, &to, PackOptions::default()).expect("packed");
    assert!(before == snapshot(&recording), "the recording stays as it is");
    assert!(report.bytes > 0 && report.damaged.is_empty());
    let removed = report.removed.join("; ");
    for what in ["command lines", "directories", "user and host names", "environments", "tensor.npy"] {
        assert!(removed.contains(what), "{what} is not in: {removed}");
    }
    let text = all_text(&to);
    for secret in SECRETS {
        assert!(!text.contains(secret), "{secret} is still in it");
    }
    for kept in ["net.onnx", "python", "Fast CPU 3000", "p50_ms", "3 of 5 runs read net.data"] {
        assert!(text.contains(kept), "{kept} is gone");
    }
    let (packed, original) =
        (Recording::open(&to).expect("opens"), Recording::open(&recording).expect("opens"));
    assert!(packed.condition().is_whole() && packed.condition().finished);
    assert_eq!(row_counts(&packed), row_counts(&original));
    assert_eq!(rows::<InferenceRow>(&packed, &Scan::all()), rows::<InferenceRow>(&original, &Scan::all()));
    let session: Vec<SessionRow> = rows(&packed, &Scan::all());
    assert_eq!(session[0].options.as_deref(), Some(r#"{"model":"net.onnx","threads":4}"#));
    assert_eq!(rows::<ProcessRow>(&packed, &Scan::all())[0].command_line, None);
    assert_eq!(packed.document("tensor.npy").expect("readable"), None);
}

#[test]
fn unredacted_packing_is_lossless() {
    let (directory, store) = store();
    let recording = identifying(&store).finish("finished").expect("finished").directory;
    let to = directory.path().join("all.ortscope");
    let report =
        pack(&recording, &to, PackOptions { redact: false, ..PackOptions::default() }).expect("packed");
    assert!(report.removed.is_empty());
    let (packed, original) =
        (Recording::open(&to).expect("opens"), Recording::open(&recording).expect("opens"));
    assert_eq!(packed.manifest(), original.manifest());
    for table in TableId::ALL {
        let rows = |tables: &Recording| {
            tables.scan(*table, &Scan::all()).map(|batch| batch.expect("readable")).collect::<Vec<_>>()
        };
        assert_eq!(rows(&packed), rows(&original));
    }
    assert_eq!(
        packed.document("tensor.npy").expect("readable"),
        original.document("tensor.npy").expect("readable")
    );
}

#[test]
fn an_interrupted_recording_can_be_packed() {
    let (directory, store) = store();
    let writer = identifying(&store);
    let recording = writer.directory().to_owned();
    drop(writer);
    let to = directory.path().join("cut.ortscope");
    pack(&recording, &to, PackOptions::default()).expect("packed");
    let packed = Recording::open(&to).expect("opens");
    assert!(!packed.condition().finished && packed.condition().is_whole());
    assert_eq!(sequences(&packed).len(), 5000);
    let text = all_text(&to);
    assert!(SECRETS.iter().all(|secret| !text.contains(secret)));
}

#[test]
fn packing_rejects_invalid_requests() {
    let (directory, store) = store();
    let recording = finished(&store, 10);
    let there = directory.path().join("there.ortscope");
    fs_err::write(&there, b"mine").expect("written");
    let refused =
        |to: &std::path::Path| pack(&recording, to, PackOptions::default()).expect_err("refused").kind();
    assert_eq!(refused(&there), StoreErrorKind::Usage);
    assert_eq!(fs_err::read(&there).expect("still there"), b"mine");
    assert_eq!(refused(&directory.path().join("x.zip")), StoreErrorKind::Usage);
}

/// A malicious file cannot write outside the directory it is unpacked to.
#[test]
fn a_hostile_packed_file_reaches_nothing() {
    let (directory, store) = store();
    let recording = finished(&store, 10);
    let good = directory.path().join("good.ortscope");
    pack(&recording, &good, PackOptions::default()).expect("packed");
    let hostile = directory.path().join("hostile.ortscope");
    let mut zip = zip::ZipWriter::new(std::fs::File::create(&hostile).expect("a file"));
    let options = zip::write::SimpleFileOptions::default();
    let absolute = directory.path().join("escaped").to_string_lossy().into_owned();
    for name in [
        "../../escaped",
        "../escaped",
        &absolute,
        "documents/../../escaped",
        "segments/x.cols",
        "C:\\escaped",
    ] {
        zip.start_file(name, options).expect("started");
        zip.write_all(b"escaped").expect("written");
    }
    zip.start_file("manifest.json", options).expect("started");
    zip.write_all(&fs_err::read(recording.join("manifest.json")).expect("a manifest")).expect("written");
    // A segment that is deflated could be a thousand times its size.
    zip.start_file("segments/segment-00000001.cols", options).expect("started");
    zip.write_all(&vec![0; 1 << 20]).expect("written");
    zip.finish().expect("finished");
    let error = Recording::open(&hostile).expect_err("refused");
    assert_eq!(error.kind(), StoreErrorKind::Damaged, "{error}");
    assert!(!directory.path().join("escaped").exists());
}
