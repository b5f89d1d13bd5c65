//! Which processes are kept at the full rate, and what happens to the others.

use std::collections::BTreeMap;
use std::ops::Range;

use ortscope_core::live::{GapReason, Limits, LiveView, Tier, TrackId};
use ortscope_core::schema::{ProcessRow, ProcessSampleRow, SampleEndRow, TickRow};

use crate::support::{MS, Memory, SECOND, pid, process};

/// Processes and the CPU time they have used.
#[derive(Default)]
struct Processes {
    used_ms: BTreeMap<u32, u64>,
}

impl Processes {
    /// Ticks of 100 ms in which process n uses `load(n)` percent of a core.
    fn run(&mut self, memory: &mut Memory, ticks: Range<u64>, numbers: &[u32], load: impl Fn(u32) -> u64) {
        for tick in ticks {
            memory.take(numbers.iter().map(|number| {
                let used_ms = self.used_ms.entry(*number).or_default();
                *used_ms += load(*number);
                process(pid(*number), tick * 100 * MS, *used_ms * MS)
            }));
        }
    }
}

fn run(memory: &mut Memory, ticks: Range<u64>, numbers: &[u32], load: impl Fn(u32) -> u64) {
    Processes::default().run(memory, ticks, numbers, load);
}

fn full_rate(view: &LiveView, number: u32) -> usize {
    view.rows(&TrackId::process(pid(number), "working_set_bytes"), 0, u64::MAX)
        .map_or(0, |rows| rows.values.len())
}

fn selected(view: &LiveView) -> Vec<u32> {
    let mut selected: Vec<u32> = view.selected_processes().iter().map(|process| process.pid).collect();
    selected.sort_unstable();
    selected
}

fn limits(selected_processes: usize) -> Limits {
    Limits { selected_processes, ..Limits::default() }
}

#[test]
fn the_busiest_have_full_rate_rows_and_all_have_aggregates() {
    let mut memory = Memory::new(limits(3));
    let processes: Vec<u32> = (1..=10).collect();
    run(&mut memory, 0..300, &processes, |number| u64::from(number) * 10);
    assert_eq!(selected(&memory.view), [8, 9, 10]);
    assert!(full_rate(&memory.view, 10) > 200);
    for number in processes {
        let track = TrackId::process(pid(number), "cpu_percent");
        let history = memory.view.history(&track, 0, u64::MAX, 100).expect("known");
        assert_eq!((history.tier, history.points.len()), (Tier::Seconds, 30));
        assert!((history.points[20].mean - f64::from(number) * 10.0).abs() < 0.01);
    }
    let rows = memory.view.rows(&TrackId::process(pid(1), "cpu_percent"), 0, u64::MAX).expect("known");
    assert_eq!((rows.values.len(), rows.covered_from_ns), (0, None));
}

/// Context switches are read once a second while rows come ten times: between two readings nothing is known, and it is
/// not 0.
#[test]
fn a_slowly_updated_counter_keeps_its_rate_in_between() {
    let mut memory = Memory::new(limits(3));
    let switches = TrackId::process(pid(1), "context_switches_per_second");
    let now = |memory: &Memory, tick: u64| {
        let values = memory.view.current(tick * 100 * MS).values;
        values.iter().find(|value| value.id == switches).map(|value| value.value)
    };
    let run = |memory: &mut Memory, ticks: Range<u64>, total: &dyn Fn(u64) -> u64| {
        for tick in ticks {
            let row = process(pid(1), tick * 100 * MS, tick * MS);
            memory.take([ProcessSampleRow { context_switches: Some(total(tick)), ..row }]);
        }
    };
    run(&mut memory, 0..40, &|tick| tick / 10 * 500);
    assert_eq!(now(&memory, 39), Some(500.0), "read at 3.0 s, shown at 3.9 s");
    // It stops growing: slightly more than one update interval later the rate is 0.
    run(&mut memory, 40..60, &|_| 1500);
    assert_eq!(now(&memory, 59), Some(0.0));
}

#[test]
fn a_place_changes_hands_only_for_a_much_busier_process() {
    let (mut memory, mut processes) = (Memory::new(limits(1)), Processes::default());
    processes.run(&mut memory, 0..100, &[1, 2], |number| if number == 1 { 50 } else { 40 });
    assert_eq!(selected(&memory.view), [1]);
    processes.run(&mut memory, 100..300, &[1, 2], |number| if number == 1 { 50 } else { 70 });
    assert_eq!(selected(&memory.view), [1]);
    assert_eq!(memory.view.losses().deselected_rows, 0);
    processes.run(&mut memory, 300..500, &[1, 2], |number| if number == 1 { 50 } else { 170 });
    assert_eq!(selected(&memory.view), [2]);
    assert!(memory.view.losses().deselected_rows > 100);
}

#[test]
fn selected_ones_come_first_and_the_selection_can_change() {
    let mut memory = Memory::new(limits(2));
    let processes: Vec<u32> = (1..=6).collect();
    assert_eq!(memory.view.select_processes(vec![pid(3), pid(3), pid(99)]), 2);
    run(&mut memory, 0..100, &processes, |number| u64::from(number) * 10);
    // A process that was not seen takes no place.
    assert_eq!(selected(&memory.view), [3, 6]);
    assert_eq!(memory.view.select_processes(vec![pid(1), pid(2), pid(3)]), 2);
    assert_eq!(selected(&memory.view), [1, 2]);
    run(&mut memory, 100..200, &processes, |number| u64::from(number) * 10);
    assert_eq!((full_rate(&memory.view, 1), full_rate(&memory.view, 3)), (100, 0));
    let track = TrackId::process(pid(1), "working_set_bytes");
    assert_eq!(memory.view.rows(&track, 0, u64::MAX).expect("known").covered_from_ns, Some(9900 * MS + 1));
    // The past of the one that was let go is still there in seconds.
    let track = TrackId::process(pid(3), "working_set_bytes");
    let history = memory.view.history(&track, 0, u64::MAX, 100).expect("known");
    assert_eq!((history.tier, history.points.len()), (Tier::Seconds, 20));
    memory.view.select_processes(Vec::new());
    assert_eq!(selected(&memory.view).len(), 2);
}

#[test]
fn an_idle_process_takes_the_place_of_one_that_ended_after_a_minute() {
    let mut memory = Memory::new(limits(1));
    run(&mut memory, 0..100, &[1, 2], |number| if number == 1 { 90 } else { 0 });
    memory.take([ProcessRow {
        timestamp_ns: 9950 * MS,
        pid: 1,
        process_start: pid(1).start,
        event: "exited".into(),
        ..ProcessRow::default()
    }]);
    run(&mut memory, 100..600, &[2], |_| 0);
    assert_eq!(selected(&memory.view), [1], "its last moments can be looked at for a minute");
    run(&mut memory, 600..720, &[2], |_| 0);
    assert_eq!(selected(&memory.view), [2]);
    let track = TrackId::process(pid(1), "cpu_percent");
    let history = memory.view.history(&track, 0, 60 * SECOND, 100).expect("known");
    assert_eq!(history.points.len(), 10);
    assert_eq!(
        history.gaps.last().map(|gap| (gap.from_ns, &gap.reason)),
        Some((9950 * MS, &GapReason::Ended))
    );
}

#[test]
fn names_are_kept_whether_they_come_before_or_after_the_first_sample() {
    let named = |number: u32, name: &str| ProcessRow {
        pid: number.into(),
        process_start: pid(number).start,
        event: "seen".into(),
        name: name.into(),
        ..ProcessRow::default()
    };
    let mut memory = Memory::new(Limits::default());
    memory.take([named(1, "before")]);
    run(&mut memory, 0..3, &[1, 2, 3], |_| 10);
    memory.take([named(2, "after")]);
    let label = |number: u32| {
        let tracks = memory.view.tracks();
        let id = TrackId::process(pid(number), "cpu_percent");
        tracks.iter().find(|track| track.id == id).and_then(|track| track.label.clone())
    };
    assert_eq!((label(1).as_deref(), label(2).as_deref(), label(3)), (Some("before"), Some("after"), None));
}

#[test]
fn a_tick_without_a_row_repeats_the_row_before() {
    let mut memory = Memory::new(Limits::default());
    let tick = |at: u64| TickRow { timestamp_ns: at * 100 * MS, table: "process_samples".into() };
    memory.take([process(pid(1), 0, 0), process(pid(2), 0, 0)]);
    memory.take([tick(0)]);
    memory.take([process(pid(1), 100 * MS, 50 * MS), process(pid(2), 100 * MS, 20 * MS)]);
    memory.take([tick(1)]);
    // From here on process 1 does not change, process 2 is gone.
    memory.take([SampleEndRow {
        timestamp_ns: 200 * MS,
        table: "process_samples".into(),
        key: format!("[{}, {}]", pid(2).pid, pid(2).start).into(),
    }]);
    memory.take((2..10).map(tick));
    let point = |number: u32, metric: &str| {
        let track = TrackId::process(pid(number), metric);
        memory.view.history(&track, 0, SECOND, 1).expect("known").points[0]
    };
    assert_eq!((point(1, "cpu_percent").count, point(1, "working_set_bytes").count), (9, 10));
    assert!((point(1, "cpu_percent").mean - 50.0 / 9.0).abs() < 1e-5);
    assert_eq!((point(2, "cpu_percent").count, point(2, "working_set_bytes").count), (1, 2));
    assert_eq!(memory.view.losses().total(), 0);
    // When it changes again, its rate counts from the last tick.
    memory.take([process(pid(1), SECOND, 60 * MS)]);
    let track = TrackId::process(pid(1), "cpu_percent");
    let current = memory.view.current(SECOND);
    assert_eq!(current.values.iter().find(|value| value.id == track).map(|value| value.value), Some(10.0));
}

#[test]
fn ticks_and_ends_that_make_no_sense_are_ignored() {
    let mut memory = Memory::new(Limits::default());
    memory.take([process(pid(1), SECOND, 0)]);
    let tables = ["inferences", "losses", "no such table", "", "system_samples"];
    memory.take(tables.map(|table| TickRow { timestamp_ns: 5 * SECOND, table: table.into() }));
    let keys = ["", "[]", "[1]", "{}", "[1, \"x\"]", "[99999999999, 1]", "[7, 7]", "nonsense"];
    for table in tables.into_iter().chain(["process_samples", "device_samples"]) {
        memory.take(keys.map(|key| SampleEndRow { timestamp_ns: 1, table: table.into(), key: key.into() }));
    }
    assert_eq!(memory.view.losses().total(), 0);
    assert_eq!(memory.view.tracks().len(), 1);
}

#[test]
fn a_thousand_live_processes_do_not_push_each_other_out() {
    let mut memory = Memory::new(Limits { tracks: 200, selected_processes: 5, ..Limits::default() });
    let mut processes = Processes::default();
    let numbers: Vec<u32> = (1..=1000).collect();
    processes.run(&mut memory, 0..3, &numbers, |_| 1);
    let evicted = memory.view.losses().evicted_tracks;
    processes.run(&mut memory, 3..50, &numbers, |_| 1);
    let losses = memory.view.losses();
    assert_eq!(losses.evicted_tracks, evicted, "no eviction after the first ticks");
    assert!(losses.refused_rows > 40_000);
    let kept = memory.view.tracks().len();
    assert!((190..=200).contains(&kept), "{kept}");
    // A process that becomes busy is admitted.
    processes.run(&mut memory, 50..80, &numbers, |number| if number == 1000 { 95 } else { 1 });
    assert!(selected(&memory.view).contains(&1000));
    assert!(memory.view.tracks().len() <= 200);
    // So does one that is selected.
    memory.view.select_processes(vec![pid(999)]);
    processes.run(&mut memory, 80..90, &numbers, |number| if number == 1000 { 95 } else { 1 });
    assert!(full_rate(&memory.view, 999) > 0);
}
