//! Recovery from the rings of a channel whose observer is gone.

use std::collections::BTreeMap;
use std::path::Path;

use ortscope_channel::message::{ProgramMessage, SessionNote};
use ortscope_channel::{
    ChannelReader, ControlPage, FrameKind, InferenceRecord, JournaledChannel, Phase, Recovered, RingReader,
    RingWriter, recover_rings,
};
use ortscope_core::identity::ProcessIdentity;
use ortscope_core::schema::{AnnotationRow, InferenceRow, MemoryRow, SessionRow, Text};

const OWNER: ProcessIdentity = ProcessIdentity { pid: 42, start: 4711 };

fn record(sequence: u64) -> InferenceRecord {
    InferenceRecord {
        start_ns: 1_000 + sequence,
        planned_ns: 1_000 + sequence,
        copy_in_ns: 1,
        run_ns: 2,
        copy_out_ns: 3,
        sequence,
        batch_size: 4,
        queue_depth: None,
        token: None,
        stream: 0,
        session: 1,
        phase: Phase::Steady,
        ok: true,
    }
}

fn sequences(recovered: &Recovered) -> Vec<u64> {
    let rows = recovered.batches.iter().flat_map(|batch| batch.rows::<InferenceRow>());
    rows.map(|row| row.sequence).collect()
}

fn recover(directory: &Path, positions: &[(&str, u64)]) -> Recovered {
    let positions: BTreeMap<String, u64> =
        positions.iter().map(|(name, position)| ((*name).to_owned(), *position)).collect();
    recover_rings(directory, &positions, &[Text::from("first"), Text::from("second")]).expect("readable")
}

#[test]
fn recovered_rows_equal_those_of_a_live_channel() {
    let directory = tempfile::tempdir().unwrap();
    let page = ControlPage::create(directory.path()).unwrap();
    page.beat(5_000);
    let mut stream = RingWriter::create(directory.path(), "stream-0", 4096, OWNER).unwrap();
    let mut messages = RingWriter::create(directory.path(), "messages", 4096, OWNER).unwrap();
    for sequence in 0..3 {
        stream.write_inference(&record(sequence));
    }
    messages.try_write(FrameKind::MESSAGE, b"last words");
    messages.try_write(FrameKind(9), b"of a later program");
    let recovered = recover(directory.path(), &[]);
    assert_eq!((recovered.frames, recovered.damaged, recovered.lost), (5, 1, 0));
    let rows: Vec<InferenceRow> =
        recovered.batches.iter().flat_map(|batch| batch.rows::<InferenceRow>()).collect();
    assert_eq!(rows.len(), 3);
    assert_eq!((&*rows[2].session_id, &*rows[2].phase, rows[2].batch_size), ("second", "steady", Some(4)));
    let words: Vec<AnnotationRow> =
        recovered.batches.iter().flat_map(|batch| batch.rows::<AnnotationRow>()).collect();
    assert_eq!(
        (&*words[0].text, words[0].timestamp_ns),
        ("last words", 5_000),
        "the observer's last sign of life"
    );
    let again: Vec<(&str, u64)> = recovered.positions.iter().map(|(name, at)| (name.as_str(), *at)).collect();
    assert_eq!(recover(directory.path(), &again).batches, []);
}

#[test]
fn reading_begins_at_the_journaled_position_and_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("stream-0.ring");
    let mut ring = RingWriter::create(directory.path(), "stream-0", 4096, OWNER).unwrap();
    for sequence in 0..10 {
        ring.write_inference(&record(sequence));
    }
    drop(ring);
    let before = std::fs::read(&path).unwrap();
    let writable = std::fs::metadata(&path).unwrap().permissions();
    let mut read_only = writable.clone();
    read_only.set_readonly(true);
    std::fs::set_permissions(&path, read_only).unwrap();
    assert_eq!(
        sequences(&recover(directory.path(), &[("stream-0.ring", 4 * 88)])),
        (4..10).collect::<Vec<_>>()
    );
    assert!(sequences(&recover(directory.path(), &[("stream-0.ring", 10 * 88)])).is_empty());
    // The journal knows more than the ring: a power loss took the ring's last frames.
    assert!(sequences(&recover(directory.path(), &[("stream-0.ring", 20 * 88)])).is_empty());
    let mut reader = RingReader::open_for_recovery(&path).unwrap();
    assert_eq!(reader.read(|_, _| {}).frames, 10);
    reader.mark();
    reader.release();
    assert_eq!(reader.tail(), 880, "in our copy");
    assert!(std::fs::read(&path).unwrap() == before, "the file is as it was");
    drop(reader);
    // Not every system lets the directory be removed otherwise.
    std::fs::set_permissions(&path, writable).unwrap();
}

#[test]
fn without_a_position_all_remaining_records_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let mut ring = RingWriter::create(directory.path(), "stream-0", 4096, OWNER).unwrap();
    let mut channel = ChannelReader::new(directory.path());
    for sequence in 0..10 {
        ring.write_inference(&record(sequence));
    }
    channel.drain(|_, _| {}).unwrap();
    assert_eq!(sequences(&recover(directory.path(), &[])).len(), 10, "freed, but not overwritten");

    for sequence in 10..100 {
        assert!(ring.write_inference(&record(sequence)));
        if sequence < 80 {
            channel.drain(|_, _| {}).unwrap();
        }
    }
    assert_eq!(sequences(&recover(directory.path(), &[])), (80..100).collect::<Vec<_>>());
    // A position that was overwritten meanwhile, which only a power loss in the journal can explain.
    assert_eq!(
        sequences(&recover(directory.path(), &[("stream-0.ring", 88)])),
        (80..100).collect::<Vec<_>>()
    );
    // Nothing was freed without being journaled: what lies before the tail but is still there, is read on request.
    assert_eq!(
        sequences(&recover(directory.path(), &[("stream-0.ring", ring_position_of(78))])),
        (78..100).collect::<Vec<_>>()
    );
}

/// Where record `number` begins in a ring of 4096 bytes: 46 frames of 88 bytes, and 48 bytes of padding.
fn ring_position_of(number: u64) -> u64 {
    number / 46 * 4096 + number % 46 * 88
}

#[test]
fn reported_losses_are_not_reported_again() {
    let directory = tempfile::tempdir().unwrap();
    let mut ring = RingWriter::create(directory.path(), "stream-0", 4096, OWNER).unwrap();
    let mut channel = ChannelReader::new(directory.path());
    for sequence in 0..50 {
        ring.write_inference(&record(sequence));
    }
    assert_eq!(recover(directory.path(), &[]).lost, 4);
    assert_eq!(channel.drain(|_, _| {}).unwrap().lost[&FrameKind::INFERENCE], 4);
    assert_eq!(recover(directory.path(), &[]).lost, 0, "reported and released");
    for sequence in 50..100 {
        ring.write_inference(&record(sequence));
    }
    assert_eq!(channel.read(|_, _| {}).unwrap().lost[&FrameKind::INFERENCE], 4);
    assert_eq!(recover(directory.path(), &[]).lost, 4, "reported, but perhaps not stored");
}

#[test]
fn invalid_rings_are_counted_and_a_missing_directory_is_empty() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("junk.ring"), [7; 5000]).unwrap();
    let mut ring = RingWriter::create(directory.path(), "stream-0", 4096, OWNER).unwrap();
    ring.write_inference(&record(0));
    let recovered = recover(directory.path(), &[]);
    assert_eq!((recovered.frames, recovered.damaged), (1, 1));
    assert_eq!(recover(&directory.path().join("nowhere"), &[]), Recovered::default());
}

/// They were found as plain annotations once, so that a recording that was cut off had inferences of unknown models.
#[test]
fn program_messages_become_the_same_rows_as_with_a_live_reader() {
    let base = tempfile::tempdir().unwrap();
    let directory = base.path().join("process-77-abc");
    std::fs::create_dir(&directory).unwrap();
    let mut ring = RingWriter::create(&directory, "process-77-1", 4096, OWNER).unwrap();
    let note = SessionNote {
        timestamp_ns: 11,
        session: 1,
        model_name: "resnet".into(),
        execution_providers: vec!["CPUExecutionProvider".into()],
        requested_providers: vec!["CUDAExecutionProvider".into()],
        ort_version: Some("1.31.1".into()),
        options: None,
        memory_before_bytes: Some(10),
        memory_after_bytes: Some(30),
    };
    let span = ProgramMessage::Span {
        timestamp_ns: 12,
        duration_ns: 5,
        name: "decode".into(),
        trace_id: None,
        thread: 0,
        ok: true,
    };
    for message in [ProgramMessage::Session(note), span] {
        ring.try_write(FrameKind::MESSAGE, &serde_json::to_vec(&message).unwrap());
    }
    let recovered = recover(&directory, &[]);
    assert_eq!(recovered.damaged, 0);
    let sessions: Vec<SessionRow> = recovered.batches.iter().flat_map(|batch| batch.rows()).collect();
    assert_eq!(sessions.len(), 1);
    assert_eq!(
        (&*sessions[0].model_name, &*sessions[0].session_id, sessions[0].pid),
        ("resnet", "second", Some(77))
    );
    let memory: Vec<MemoryRow> = recovered.batches.iter().flat_map(|batch| batch.rows()).collect();
    assert_eq!(memory.iter().map(|row| row.bytes).collect::<Vec<_>>(), [10, 30]);
    let marks: Vec<AnnotationRow> = recovered.batches.iter().flat_map(|batch| batch.rows()).collect();
    let kinds: Vec<(&str, u64)> = marks.iter().map(|row| (&*row.kind, row.timestamp_ns)).collect();
    assert_eq!(kinds, [("provider_fallback", 11), ("span", 12)]);
    // Rows in the journal are not returned again.
    let mut journaled = JournaledChannel::default();
    recovered.batches.iter().for_each(|batch| journaled.see(batch));
    let ids = [Text::from("first"), Text::from("second")];
    assert_eq!(journaled.recover(&directory, &ids).unwrap().batches, []);
}
