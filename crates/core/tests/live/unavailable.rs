//! A value or a reason: histories include intervals without a value.

use ortscope_core::live::{Gap, GapReason, Limits, TrackId};
use ortscope_core::schema::UnavailabilityRow;

use crate::support::{Memory, SECOND, system};

fn row(track: &str, from_s: u64, to_s: Option<u64>) -> UnavailabilityRow {
    UnavailabilityRow {
        from_ns: from_s * SECOND,
        to_ns: to_s.map(|second| second * SECOND),
        track: track.into(),
        reason: "no permission".into(),
        hint: Some("run as administrator".into()),
    }
}

fn gap(from_s: u64, to_s: u64) -> Gap {
    let reason =
        GapReason::Unavailable { reason: "no permission".into(), hint: Some("run as administrator".into()) };
    Gap { from_ns: from_s * SECOND, to_ns: to_s * SECOND, reason }
}

#[test]
fn a_track_without_values_has_a_reason() {
    let mut memory = Memory::new(Limits::default());
    let track = TrackId::device("package-0", "power_watts");
    assert!(memory.view.history(&track, 0, 10 * SECOND, 10).is_err());
    memory.take([row("device/package-0/power_watts", 2, None)]);
    let history = memory.view.history(&track, 0, 10 * SECOND, 10).expect("a reason is known");
    assert_eq!((history.points.len(), history.covered_from_ns), (0, None));
    assert_eq!(history.gaps, [gap(2, 10)]);
    let current = memory.view.current(5 * SECOND);
    assert!(current.values.is_empty());
    assert_eq!(
        (&*current.unavailable[0].track, &*current.unavailable[0].reason),
        ("device/package-0/power_watts", "no permission")
    );
    assert!(memory.view.current(SECOND).unavailable.is_empty(), "not yet");
}

#[test]
fn an_interval_ends_with_its_end_or_with_the_next_value() {
    let mut memory = Memory::new(Limits::default());
    let track = TrackId::system("cpu_percent");
    memory.take((0..5).map(|second| system(second * SECOND, 1.0)));
    memory.take([row("system/cpu_percent", 5, None)]);
    let gaps = |memory: &Memory| memory.view.history(&track, 0, 100 * SECOND, 100).expect("known").gaps;
    assert_eq!(gaps(&memory), [gap(5, 100)]);
    assert_eq!(memory.view.current(6 * SECOND).unavailable.len(), 1);
    memory.take((20..30).map(|second| system(second * SECOND, 1.0)));
    assert_eq!(gaps(&memory), [gap(5, 20)]);
    assert_eq!(memory.view.current(31 * SECOND).unavailable.len(), 0);
    memory.take([row("system/cpu_percent", 5, Some(18)), row("cpu_percent", 40, Some(50))]);
    assert_eq!(gaps(&memory), [gap(5, 18), gap(40, 50)]);
    assert_eq!(memory.view.unavailable(45 * SECOND, 46 * SECOND).len(), 1);
    assert_eq!(memory.view.unavailable(0, 100 * SECOND).len(), 2);
    assert_eq!(memory.view.unavailable(60 * SECOND, 100 * SECOND).len(), 0);
}

#[test]
fn an_end_applies_even_if_the_rows_were_evicted() {
    let mut memory = Memory::new(Limits { ring_samples: 10, ..Limits::default() });
    memory.take((0..5).map(|second| system(second * SECOND, 1.0)));
    memory.take([row("system", 5, None)]);
    memory.take((1000..2000).map(|second| system(second * SECOND, 1.0)));
    let history =
        memory.view.history(&TrackId::system("cpu_percent"), 0, 1500 * SECOND, 10_000).expect("known");
    assert_eq!(history.gaps, [gap(5, 1000)]);
}

#[test]
fn repeated_reports_add_no_intervals() {
    let mut memory = Memory::new(Limits { unavailable_intervals: 10, ..Limits::default() });
    memory.take((0..10_000).map(|second| row("gpu", second, None)));
    assert_eq!(memory.view.unavailable(0, u64::MAX).len(), 1);
    memory.take((0..100).map(|number| row(&format!("gpu{number}"), number, Some(number + 1))));
    assert_eq!(
        (memory.view.unavailable(0, u64::MAX).len(), memory.view.losses().unavailable_intervals),
        (10, 91)
    );
}
