//! Wall clock changes and system sleep: no sample is lost or misplaced, and the recording has events for them.

use std::sync::Arc;

use ortscope_core::clock::VirtualClock;
use ortscope_core::schema::{AnnotationRow, ProcessSampleRow, SystemSampleRow, WallAnchorRow};
use ortscope_sources::SamplerOptions;

use crate::world::{BEGIN, Event, FakeProcess, MS, SECOND, WALL_AHEAD, World, watch, watch_by};

const HOUR: u64 = 3600 * SECOND;

#[test]
fn clock_changes_and_sleep_are_only_events() {
    let hour = HOUR as i64;
    let world = World {
        processes: [(7, FakeProcess::named("a", 1))].into(),
        ends_after: 10 * SECOND - 20 * MS,
        reports_exits: true,
        script: vec![
            (2500 * MS, Event::SetWall(hour)),
            (4500 * MS, Event::SetWall(-hour)),
            (6500 * MS, Event::Sleep(HOUR)),
        ],
        ..World::default()
    };
    let seen = watch(SamplerOptions::default(), world);
    let rows = seen.rows::<ProcessSampleRow>();
    assert_eq!(rows.len(), 500, "50 Hz for ten seconds");
    assert!(rows.windows(2).all(|two| two[1].timestamp_ns - two[0].timestamp_ns == 20 * MS));
    assert!(rows.windows(2).all(|two| two[1].cpu_time_ns >= two[0].cpu_time_ns));
    assert_eq!(seen.rows::<SystemSampleRow>().len(), 100);
    assert_eq!((seen.cost.late_ticks, seen.cost.skipped_ticks), (0, 0));

    let events: Vec<AnnotationRow> =
        seen.rows::<AnnotationRow>().into_iter().filter(|row| &*row.kind == "clock").collect();
    let events_found: Vec<(u64, bool, bool)> = events
        .iter()
        .map(|row| {
            let has = |words: &str| row.text.contains(words);
            ((row.timestamp_ns - BEGIN) / SECOND, has("forward by 60.0 min"), has("back by 60.0 min"))
        })
        .collect();
    assert_eq!(events_found, [(3, true, false), (5, false, true), (7, false, false)]);
    assert!(events[2].text.starts_with("the machine slept for 60.0 min"), "{}", events[2].text);
    // After each of them, the adjacent anchor gives the wall time.
    let ahead: Vec<i64> = seen
        .rows::<WallAnchorRow>()
        .iter()
        .map(|row| row.unix_ns as i64 - row.timestamp_ns as i64 - WALL_AHEAD)
        .collect();
    assert_eq!(ahead, [hour, 0, hour]);
}

/// Windows' monotonic clock continues during sleep: the hour passes, and none of its samples count as skipped.
#[test]
fn sleep_with_a_continuing_clock_skips_no_samples() {
    let clock = Arc::new(VirtualClock::starting_at(BEGIN));
    let world = World {
        processes: [(7, FakeProcess::named("a", 1))].into(),
        ends_after: HOUR + 10 * SECOND,
        reports_exits: true,
        script: vec![(4500 * MS, Event::SleepThrough(HOUR))],
        clock: Some(Arc::clone(&clock)),
        ..World::default()
    };
    let seen = watch_by(clock, SamplerOptions::default(), world);
    let rows = seen.rows::<ProcessSampleRow>();
    let gaps: Vec<u64> = rows
        .windows(2)
        .map(|two| two[1].timestamp_ns - two[0].timestamp_ns)
        .filter(|gap| *gap != 20 * MS)
        .collect();
    assert!(matches!(gaps[..], [gap] if (HOUR..HOUR + 40 * MS).contains(&gap)), "{gaps:?}");
    assert_eq!((seen.cost.late_ticks, seen.cost.skipped_ticks), (0, 0));
    let events = seen.rows::<AnnotationRow>();
    let events_found: Vec<&str> =
        events.iter().filter(|row| &*row.kind == "clock").map(|row| &*row.text).collect();
    assert_eq!(events_found, ["the machine slept for 60.0 min; nothing was measured in that time"]);
    // The wall clock was not changed: its difference stays the same.
    let anchors = seen.rows::<WallAnchorRow>();
    let ahead: Vec<i64> =
        anchors.iter().map(|row| row.unix_ns as i64 - row.timestamp_ns as i64 - WALL_AHEAD).collect();
    assert_eq!(ahead, [0]);
}

/// Clocks of a real machine, for a moment: no event without a cause.
#[test]
fn an_ordinary_clock_causes_no_events() {
    let seen = watch(
        SamplerOptions::default(),
        World {
            processes: [(7, FakeProcess::named("a", 1))].into(),
            ends_after: 60 * SECOND,
            ..World::default()
        },
    );
    assert!(seen.rows::<AnnotationRow>().iter().all(|row| &*row.kind != "clock"));
    assert!(seen.rows::<WallAnchorRow>().is_empty());
}
