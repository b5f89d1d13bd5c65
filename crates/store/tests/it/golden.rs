//! Recordings of every format there was open with the same rows. Each lies under `tests/golden`, as it was written then.

use std::path::{Path, PathBuf};

use crate::simulation::Simulation;
use ortscope_core::schema::{DeviceSampleRow, InferenceRow, MemoryRow, Phase, ProcessSampleRow, TableId};
use ortscope_core::tables::Scan;
use ortscope_store::{FORMAT, Recording, Store, repair};

use crate::support::*;

/// Set to write the golden recordings of the present format anew; only before that format is released.
const WRITE: &str = "ORTSCOPE_WRITE_GOLDEN";

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn fill(writer: &ortscope_store::RecordingWriter) {
    let mut simulation = Simulation::new(2026, 12, 100);
    for _ in 0..120 {
        writer.append(&simulation.next_tick()).expect("kept");
    }
    writer.append(&simulation.next_inferences(700)).expect("kept");
    let memory =
        |bytes: i64| MemoryRow { timestamp_ns: 9, scope: "arena".into(), bytes, ..MemoryRow::default() };
    writer.append(&batch(&[memory(-1), memory(i64::MAX), memory(0)])).expect("kept");
    let device =
        |value: f64| DeviceSampleRow { timestamp_ns: 9, device: "gpu0".into(), value, ..Default::default() };
    writer.append(&batch(&[device(f64::NAN)])).expect("kept");
}

#[test]
#[ignore = "writes into the source tree when asked to"]
fn write_golden() {
    if std::env::var_os(WRITE).is_none() {
        return;
    }
    let (_directory, store) = store();
    for (name, finish) in [(format!("v{FORMAT}"), true), (format!("v{FORMAT}-cut-off"), false)] {
        let writer = begin(&store);
        fill(&writer);
        writer.write_document("run.json", b"{\"schema\":\"ortscope.run/1\"}").expect("kept");
        writer.sync().expect("synced");
        let to = golden(&name);
        fs_err::remove_dir_all(&to).ok();
        let from = writer.directory().to_owned();
        if finish {
            writer.finish("finished").expect("finished");
        } else {
            drop(writer);
        }
        for (path, bytes) in snapshot(&from) {
            let path = to.join(path.strip_prefix(&from).expect("inside"));
            fs_err::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            // The unused rest of a journal file is zeros, and need not be kept in the tree.
            let used =
                bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| (last + 1).next_multiple_of(8));
            fs_err::write(path, &bytes[..used.min(bytes.len())]).expect("written");
        }
    }
}

fn check(recording: &Recording) {
    assert!(recording.condition().is_whole(), "{:?}", recording.condition());
    assert_eq!(recording.manifest().subject, "a test");
    assert!(recording.document("run.json").expect("readable").is_some());
    assert_eq!(count(recording, TableId::Inferences), 700);
    let inferences: Vec<InferenceRow> = rows(recording, &Scan::all());
    assert_eq!(inferences.iter().map(|row| row.sequence).sum::<u64>(), 699 * 700 / 2);
    assert_eq!(inferences.iter().map(|row| row.run_ns).sum::<u64>(), SUM_OF_RUN_NS);
    assert!(inferences.iter().all(|row| row.phase == Phase::Steady && row.batch_size == Some(1) && row.ok));
    let memory: Vec<i64> = rows::<MemoryRow>(recording, &Scan::all()).iter().map(|row| row.bytes).collect();
    assert_eq!(memory, [-1, i64::MAX, 0]);
    assert!(rows::<DeviceSampleRow>(recording, &Scan::all())[0].value.is_nan());
}

const SUM_OF_RUN_NS: u64 = 583_327_897;
const CHANGED_SAMPLES: u64 = 103;
const SUM_OF_CPU_TIME_NS: u64 = 7_634_369_228_275;

#[test]
fn format_1_opens() {
    let recording = Recording::open(&golden("v1")).expect("it opens");
    assert!(recording.condition().finished);
    check(&recording);
    assert_eq!(count(&recording, TableId::ProcessSamples), CHANGED_SAMPLES);
    let scan = Scan { every_tick: true, ..Scan::all() };
    let samples: Vec<ProcessSampleRow> = rows(&recording, &scan);
    assert_eq!(samples.len(), 120 * 12);
    assert_eq!(samples.iter().map(|row| row.cpu_time_ns).sum::<u64>(), SUM_OF_CPU_TIME_NS);
}

#[test]
fn an_interrupted_recording_of_format_1_opens() {
    let recording = Recording::open(&golden("v1-cut-off")).expect("it opens");
    assert!(!recording.condition().finished && recording.condition().journal_rows > 700);
    check(&recording);
    assert_eq!(count(&recording, TableId::ProcessSamples), CHANGED_SAMPLES);
}

/// The golden recording under the name that it had, in a store of its own.
fn copied(name: &str, store: &Store) -> PathBuf {
    let from = golden(name);
    let id = Recording::open(&from).expect("it opens").manifest().id.clone();
    let to = store.root().join(id);
    for (path, bytes) in snapshot(&from) {
        let path = to.join(path.strip_prefix(&from).expect("inside"));
        fs_err::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs_err::write(path, bytes).expect("written");
    }
    to
}

fn manifest_text(recording: &Path) -> String {
    fs_err::read_to_string(recording.join("manifest.json")).expect("a manifest")
}

/// Recordings of format 1 were written for a while without checksums in the manifest. They are whole, and the manifest gets
/// its checksum when it is written the next time.
#[test]
fn recordings_without_checksums_open_completely() {
    for (name, is_cut_off) in [("v1", false), ("v1-cut-off", true)] {
        let (_place, store) = store();
        let directory = copied(name, &store);
        assert!(!manifest_text(&directory).contains("crc32c"), "{name} is of before");
        let recording = Recording::open(&directory).expect("it opens");
        check(&recording);
        assert!(recording.manifest().documents.is_empty());
        assert_eq!(recording.verify().expect("readable"), []);
        let list = store.list().expect("a list");
        assert!(list.len() == 1 && !list[0].damaged && list[0].problem.is_none(), "{list:?}");
        drop(recording);

        let report = repair(&directory).expect("repaired");
        assert_eq!(report.actions.is_empty(), !is_cut_off, "{name}: {report:?}");
        assert!(report.set_aside.is_empty() && report.rows_lost == 0, "{name}: {report:?}");
        check(&Recording::open(&directory).expect("it opens"));

        let id = directory.file_name().expect("a name").to_string_lossy().into_owned();
        store.tag(&id, &["old".into()], &[]).expect("tagged");
        assert!(manifest_text(&directory).contains("crc32c"), "{name}");
        let recording = Recording::open(&directory).expect("it opens");
        check(&recording);
        assert_eq!(recording.manifest().tags, ["old"]);
        assert_eq!(recording.verify().expect("readable"), []);
    }
}
