//! A whole day of sixty noisy tracks and some sessions fits into 100 MB with every second of it.

use ortscope_core::live::{Limits, Subject, Tier};
use ortscope_core::random::Random;
use ortscope_core::schema::{ProcessSampleRow, Text};

use crate::support::{HOUR, Memory, SECOND, inference, pid, process};

#[test]
fn a_day_in_seconds_fits() {
    let mut memory = Memory::new(Limits::default());
    let mut random = Random::new(9);
    let sessions: Vec<Text> = (0..4).map(|number| format!("session-{number}").into()).collect();
    let mut cpu_ns = [0; 15];
    let end_s = 24 * 3600 + 600;
    for minute in 0..end_s / 60 {
        let (mut samples, mut inferences) = (Vec::new(), Vec::new());
        for at in (minute * 120..(minute + 1) * 120).map(|half| half * SECOND / 2) {
            for (used, number) in cpu_ns.iter_mut().zip(0..) {
                *used += random.below(SECOND / 2);
                samples.push(ProcessSampleRow {
                    working_set_bytes: 400_000_000 + random.below(50_000_000),
                    private_bytes: Some(300_000_000 + random.below(50_000_000)),
                    thread_count: Some(8 + random.below(100)),
                    ..process(pid(number), at, *used)
                });
            }
            inferences.extend(
                sessions.iter().map(|session| inference(session, at, 4_000_000 + random.below(1_000_000))),
            );
        }
        memory.take(samples);
        memory.take(inferences);
    }
    let (view, now) = (&memory.view, end_s * SECOND);
    let bytes = view.bytes();
    println!("{} tracks, {:.1} MB", view.tracks().len(), bytes as f64 / 1e6);
    assert!(bytes <= 100_000_000, "{bytes}");
    assert_eq!(view.losses().total(), 0, "{:?}", view.losses());
    let tracks = view.tracks();
    assert_eq!(tracks.iter().filter(|track| matches!(track.id.subject, Subject::Process(_))).count(), 60);
    for track in tracks {
        let day = view.history(&track.id, now - 24 * HOUR, now, 100_000).expect("known");
        assert_eq!((day.tier, day.points.len()), (Tier::Seconds, 86_400), "{}", track.id);
        assert_eq!(day.gaps, [], "{}", track.id);
    }
}
