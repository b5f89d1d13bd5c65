//! A program with more profiles than can be read: its inferences do not wait for them.

use ortscope_channel::message::ProgramMessage;
use ortscope_channel::{ChannelWriter, FrameKind, InferenceRecord, Phase, process_directory};
use ortscope_core::identity::ProcessIdentity;
use ortscope_core::pipeline::Pipeline;
use ortscope_core::schema::{AnnotationRow, InferenceRow};
use ortscope_sources::programs::ProgramsSource;

use crate::world::Collect;

const RUNS: u64 = 1000;

fn record(sequence: u64) -> InferenceRecord {
    InferenceRecord {
        start_ns: 1_000_000 + sequence * 1000,
        planned_ns: 1_000_000 + sequence * 1000,
        copy_in_ns: 0,
        run_ns: 500,
        copy_out_ns: 0,
        sequence,
        batch_size: 1,
        queue_depth: None,
        token: None,
        stream: 0,
        session: 0,
        phase: Phase::Profiled,
        ok: true,
    }
}

/// Regression: each pass read every announced profile, however long that took. On a busy machine passes became longer
/// until the rings of the inferences were full, and of ten sessions with 1000 inferences per second more than half were
/// lost.
#[test]
fn unread_profiles_are_counted_and_no_inference_is_lost() {
    let base = tempfile::tempdir().unwrap();
    let directory = process_directory(base.path(), std::process::id());
    let owner = || ProcessIdentity { pid: std::process::id(), start: 0 };
    let writer = ChannelWriter::new(&directory, 2 << 20, owner).unwrap();
    for sequence in 0..RUNS {
        assert!(writer.write_inference(&record(sequence)));
        let message = ProgramMessage::Profile {
            timestamp_ns: 1_000_000,
            session: 0,
            sequence,
            prefix: directory.join(format!("profile-0-{sequence}-")),
        };
        assert!(writer.write(FrameKind::MESSAGE, &serde_json::to_vec(&message).unwrap()));
    }
    let source = ProgramsSource::new(base.path(), Box::new(|_| {}));
    let collect = Collect::default();
    let running = Pipeline::default().source(source).sink(collect.clone()).start().unwrap();
    let begin = std::time::Instant::now();
    while (collect.rows_so_far::<InferenceRow>().len() as u64) < RUNS {
        assert!(begin.elapsed().as_secs() < 60, "timed out");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    running.control().stop();
    let report = running.join();
    // None of them has a file: all are lost and counted.
    assert_eq!(report.losses, [("programs".into(), "profiles".into(), RUNS)]);
    let seen = collect.into_seen(report, ortscope_sources::sampler::OwnCost::default());
    let mut sequences: Vec<u64> = seen.rows::<InferenceRow>().iter().map(|row| row.sequence).collect();
    sequences.sort_unstable();
    assert_eq!(sequences, (0..RUNS).collect::<Vec<_>>());
    // Those within the limit name their run.
    let annotations = seen.rows::<AnnotationRow>().iter().filter(|row| &*row.kind == "profile").count();
    assert!((1..=256).contains(&annotations), "{annotations}");
}
