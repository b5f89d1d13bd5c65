//! Wrong order, wrong clocks, wrong numbers: each has a defined answer and is counted.

use ortscope_core::live::{Limits, Tier, TrackId};
use ortscope_core::schema::{DeviceSampleRow, ProcessSampleRow, Text};

use crate::support::{HOUR, MS, Memory, SECOND, inference, pid, process, system};

fn cpu(memory: &Memory, max_points: usize) -> Vec<(u64, u64)> {
    let history =
        memory.view.history(&TrackId::system("cpu_percent"), 0, u64::MAX, max_points).expect("known");
    assert_eq!(history.tier, Tier::Seconds);
    history.points.iter().map(|point| (point.from_ns / SECOND, point.count)).collect()
}

/// Ten values per second.
fn steady(from_s: u64, to_s: u64) -> impl Iterator<Item = ortscope_core::schema::SystemSampleRow> {
    (from_s * 10..to_s * 10).map(|tick| system(tick * 100 * MS, 50.0))
}

#[test]
fn late_inferences_enter_their_second_and_very_late_ones_only_the_rows() {
    let session: Text = "a".into();
    let mut memory = Memory::new(Limits { late_seconds: 30, ..Limits::default() });
    memory.take([inference(&session, 100 * SECOND, 1), inference(&session, 130 * SECOND, 2)]);
    memory.take([inference(&session, 100 * SECOND + 5, 3)]);
    assert_eq!(memory.view.losses().total(), 0);
    memory.take([inference(&session, 99 * SECOND, 4)]);
    assert_eq!((memory.view.losses().late_rows, memory.view.losses().total()), (1, 1));
    let track = TrackId::session("a", "latency_ns");
    let rows = memory.view.rows(&track, 0, u64::MAX).expect("known");
    assert_eq!(rows.values, [4.0, 1.0, 3.0, 2.0]);
    let seconds = memory.view.history(&track, 0, u64::MAX, 3).expect("known");
    assert_eq!(seconds.tier, Tier::Seconds);
    assert_eq!(seconds.points.iter().map(|point| point.count).collect::<Vec<_>>(), [2, 1]);
}

#[test]
fn simultaneous_inferences_all_count_but_duplicate_samples_do_not() {
    let session: Text = "a".into();
    let mut memory = Memory::new(Limits::default());
    memory.take((0..5).map(|_| inference(&session, SECOND, 1)));
    assert_eq!(
        memory.view.rows(&TrackId::session("a", "latency_ns"), 0, u64::MAX).expect("known").values.len(),
        5
    );
    memory.take((0..5).map(|number| system(SECOND, f64::from(number))));
    assert_eq!(memory.view.rows(&TrackId::system("cpu_percent"), 0, u64::MAX).expect("known").values, [0.0]);
    assert_eq!((memory.view.losses().repeated_rows, memory.view.losses().total()), (4, 4));
}

#[test]
fn one_row_of_a_broken_clock_changes_nothing() {
    let mut memory = Memory::new(Limits::default());
    memory.take(steady(0, 60));
    memory.take([system(u64::MAX, 99.0), system(u64::MAX - 1, 99.0), system(400_000 * SECOND, 99.0)]);
    memory.take(steady(60, 120));
    assert_eq!(memory.view.losses().ahead_rows, 3);
    assert_eq!(cpu(&memory, 1000), (0..120).map(|second| (second, 10)).collect::<Vec<_>>());
    assert_eq!(memory.view.current(120 * SECOND).values[0].age_ns, 100 * MS);
}

#[test]
fn a_first_row_of_a_broken_clock_is_outvoted() {
    let mut memory = Memory::new(Limits::default());
    memory.take([system(u64::MAX - 5, 99.0)]);
    memory.take(steady(1000, 1010));
    let losses = memory.view.losses();
    assert_eq!((losses.late_rows, losses.clock_back_buckets), (31, 1));
    // The rows before the clock was believed are missing in the buckets, not at the full rate.
    assert_eq!(cpu(&memory, 20)[0], (1003, 9));
    let rows = memory.view.rows(&TrackId::system("cpu_percent"), 0, 2000 * SECOND).expect("known");
    assert_eq!(rows.values.len(), 100);
}

#[test]
fn a_clock_that_jumps_ahead_is_followed() {
    let mut memory = Memory::new(Limits::default());
    memory.take(steady(0, 60));
    memory.take(steady(7200, 7260));
    assert_eq!(memory.view.losses().total(), 0, "two hours are a pause");
    let days = 3 * 86_400;
    memory.take(steady(days, days + 60));
    assert_eq!(memory.view.losses().ahead_rows, 31);
    let mut points = cpu(&memory, 1000);
    points.retain(|(second, _)| *second >= days);
    assert_eq!((points.len(), points[0], points[56]), (57, (days + 3, 9), (days + 59, 10)));
}

#[test]
fn a_clock_that_goes_back_is_followed_and_later_data_dropped() {
    let mut memory = Memory::new(Limits::default());
    memory.take(steady(0, 600));
    memory.take(steady(100, 200));
    let losses = memory.view.losses();
    assert_eq!(losses.late_rows, 31);
    assert!(losses.clock_back_buckets >= 497, "{losses:?}");
    let track = TrackId::system("cpu_percent");
    let points = memory.view.history(&track, 0, u64::MAX, 250).expect("known").points;
    let seconds: Vec<u64> = points.iter().map(|point| point.from_ns / SECOND).collect();
    // Second 103 was open when the clock was believed: rows of the first time are gone, the rest is there.
    assert_eq!(seconds, (0..200).collect::<Vec<_>>());
    assert_eq!(memory.view.current(0).values[0].timestamp_ns, 199_900 * MS);
}

#[test]
fn non_finite_numbers_are_counted_and_dropped() {
    let mut memory = Memory::new(Limits::default());
    let values = [1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, -0.0, 2.0];
    memory.take(values.iter().zip(0..).map(|(value, tick)| system(tick * MS, *value)));
    assert_eq!((memory.view.losses().not_finite_values, memory.view.losses().total()), (4, 4));
    let history = memory.view.history(&TrackId::system("cpu_percent"), 0, SECOND, 1).expect("known");
    let point = history.points[0];
    assert_eq!((point.count, point.min, point.max, point.mean), (3, 0.0, 2.0, 1.0));
    assert_eq!(memory.view.current(0).values[0].value, 2.0);
}

#[test]
fn negative_numbers_and_zeros_keep_their_percentiles() {
    let mut memory = Memory::new(Limits::default());
    let row = |tick: u64, value: f64| DeviceSampleRow {
        timestamp_ns: tick * MS,
        device: "thermometer".into(),
        metric: "temperature_celsius".into(),
        value,
        source: "hwmon".into(),
        method: "measured".into(),
    };
    memory.take((0..1000).map(|tick| row(tick, if tick < 900 { -40.0 } else { -10.0 })));
    memory.take((1000..2000).map(|tick| row(tick, 0.0)));
    let track = TrackId::device("thermometer", "temperature_celsius");
    let points = memory.view.history(&track, 0, u64::MAX, 10).expect("known").points;
    assert!((points[0].p50 / -40.0 - 1.0).abs() < 0.01 && (points[0].p95 / -10.0 - 1.0).abs() < 0.01);
    assert_eq!((points[1].p50, points[1].p99, points[1].mean), (0.0, 0.0, 0.0));
    let info = &memory.view.tracks()[0];
    assert_eq!((&*info.source, &*info.method), ("hwmon", "measured"));
}

#[test]
fn a_decreasing_counter_gives_no_rate_and_a_late_tick_an_average() {
    let process_id = pid(1);
    let mut memory = Memory::new(Limits::default());
    let rows = [(0, 0), (100, 50), (200, 10), (300, 60), (1300, 560), (1300, 900)];
    memory.take(rows.map(|(at, cpu)| process(process_id, at * MS, cpu * MS)));
    let track = TrackId::process(process_id, "cpu_percent");
    let rows = memory.view.rows(&track, 0, u64::MAX).expect("known");
    // Selection starts with the end of the first batch, so rows at the full rate follow.
    assert!(rows.values.is_empty());
    let history = memory.view.history(&track, 0, u64::MAX, 10).expect("known");
    let points: Vec<(u64, f64, f64)> =
        history.points.iter().map(|point| (point.count, point.min, point.max)).collect();
    assert_eq!(points, [(2, 50.0, 50.0), (1, 50.0, 50.0)]);
    let losses = memory.view.losses();
    assert_eq!((losses.counters_back, losses.repeated_rows, losses.total()), (1, 1, 2));
}

#[test]
fn a_process_that_reuses_an_id_starts_anew() {
    let (first, second) = (pid(1), ortscope_core::identity::ProcessIdentity { pid: 1, start: 999 });
    let mut memory = Memory::new(Limits::default());
    memory.take([process(first, SECOND, 5 * HOUR), process(first, 2 * SECOND, 5 * HOUR + SECOND)]);
    memory.take([process(second, 3 * SECOND, 0), process(second, 4 * SECOND, SECOND / 2)]);
    assert_eq!(memory.view.losses().total(), 0);
    let value = |identity| {
        let history = memory.view.history(&TrackId::process(identity, "cpu_percent"), 0, u64::MAX, 10);
        history.expect("known").points[0].mean
    };
    assert_eq!((value(first), value(second)), (100.0, 50.0));
}

#[test]
fn an_invalid_process_id_is_rejected() {
    let mut memory = Memory::new(Limits::default());
    memory.take([ProcessSampleRow { pid: u64::MAX, ..ProcessSampleRow::default() }]);
    assert_eq!((memory.view.losses().invalid_rows, memory.view.tracks().len()), (1, 0));
}
