//! The process sampler with a simulated system in virtual time: which processes are observed, when, and at what rate.

mod backup_thread;
mod real;
#[path = "../../../ort/tests/support/skips.rs"]
mod skips;
#[allow(dead_code, reason = "shared with the trust tests, which use the rest")]
#[allow(clippy::allow_attributes, reason = "`expect` would fail there")]
mod world;

use std::collections::{BTreeMap, BTreeSet};

use ortscope_core::schema::{
    AnnotationRow, DeviceSampleRow, ProcessRow, ProcessSampleRow, SystemSampleRow, ThreadSampleRow,
    UnavailabilityRow,
};
use ortscope_sources::SamplerOptions;
use ortscope_sources::sampler::{Exclude, Glob, Rates, Targets};

use world::{BEGIN, Event, FakeProcess, MS, SECOND, World, watch};

fn world(processes: &[(u32, FakeProcess)], ends_after: u64) -> World {
    World {
        processes: processes.iter().cloned().collect(),
        ends_after,
        reports_exits: true,
        ..World::default()
    }
}

fn pids(rows: &[ProcessSampleRow]) -> BTreeSet<u64> {
    rows.iter().map(|row| row.pid).collect()
}

fn events(rows: &[ProcessRow], pid: u64) -> Vec<(String, u64)> {
    let of = rows.iter().filter(|row| row.pid == pid);
    of.map(|row| (row.event.to_string(), (row.timestamp_ns - BEGIN) / MS)).collect()
}

#[test]
fn every_group_has_its_rate_and_rows_are_full() {
    let seen =
        watch(SamplerOptions::default(), world(&[(7, FakeProcess::named("a", 1))], 2 * SECOND - 20 * MS));
    let rows = seen.rows::<ProcessSampleRow>();
    assert_eq!(rows.len(), 100, "50 Hz for two seconds");
    let different =
        |value: fn(&ProcessSampleRow) -> u64| rows.iter().map(value).collect::<BTreeSet<_>>().len();
    assert_eq!(different(|row| row.cpu_time_ns), 100);
    assert_eq!(different(|row| row.working_set_bytes), 20);
    assert_eq!(different(|row| row.read_bytes.unwrap()), 20);
    assert_eq!(different(|row| row.handle_count.unwrap()), 2);
    let system = seen.rows::<SystemSampleRow>();
    assert_eq!(system.len(), 20);
    assert!(system.iter().all(|row| row.process_count == Some(1)));
    assert_eq!((seen.cost.late_ticks, seen.cost.skipped_ticks), (0, 0));
    assert!(seen.report.losses.is_empty() && seen.report.source_errors.is_empty(), "{:?}", seen.report);
}

#[test]
fn all_rows_of_a_tick_have_the_same_time_and_order() {
    let processes: Vec<_> = (10..40).map(|pid| (pid, FakeProcess::named("x", 1))).collect();
    let seen = watch(SamplerOptions::default(), world(&processes, SECOND));
    let rows = seen.rows::<ProcessSampleRow>();
    let mut ticks = BTreeMap::<u64, Vec<u64>>::new();
    for row in &rows {
        ticks.entry(row.timestamp_ns).or_default().push(row.pid);
    }
    let first = ticks.values().next().unwrap();
    assert_eq!(first.len(), 30);
    assert!(ticks.values().all(|tick| tick == first));
}

#[test]
fn processes_start_and_exit_with_their_times_and_codes() {
    let short = FakeProcess { exit_code: Some(3), ..FakeProcess::named("short", 50) };
    let mut world = world(&[(7, FakeProcess::named("a", 1))], 2 * SECOND);
    world.script = vec![
        (250 * MS, Event::Start(8, short)),
        (730 * MS, Event::End(8)),
        (900 * MS, Event::Rename(7, "b")),
    ];
    let seen = watch(SamplerOptions::default(), world);
    let rows = seen.rows::<ProcessRow>();
    assert_eq!(events(&rows, 7), [("seen".into(), 0), ("seen".into(), 1000)]);
    assert_eq!(&*rows.iter().rfind(|row| row.pid == 7).unwrap().name, "b");
    assert_eq!(events(&rows, 8), [("seen".into(), 300), ("exited".into(), 740)]);
    assert_eq!(rows.iter().rfind(|row| row.pid == 8).unwrap().exit_code, Some(3));
    let samples = seen.rows::<ProcessSampleRow>();
    let last = samples.iter().filter(|row| row.pid == 8).map(|row| row.timestamp_ns).max().unwrap();
    assert_eq!(last, BEGIN + 720 * MS, "no sample at the tick that noticed the exit");
    let line = rows[0].command_line.as_deref().unwrap();
    assert!(line.contains("--token") && !line.contains("secret"), "{line}");
}

/// The exit is noticed only by a failing read, and by then the pid belongs to another process.
#[test]
fn a_reused_pid_is_another_process() {
    for reports_exits in [true, false] {
        let mut world = world(&[(7, FakeProcess::named("first", 1))], SECOND);
        world.reports_exits = reports_exits;
        world.script =
            vec![(510 * MS, Event::End(7)), (510 * MS, Event::Start(7, FakeProcess::named("second", 2)))];
        let seen = watch(SamplerOptions::default(), world);
        let rows = seen.rows::<ProcessRow>();
        let reasons: Vec<_> =
            rows.iter().map(|row| (row.process_start, row.event.to_string(), row.name.to_string())).collect();
        let wanted = [(1, "seen", "first"), (1, "exited", "first"), (2, "seen", "second")];
        assert_eq!(reasons, wanted.map(|(start, event, name)| (start, event.into(), name.into())));
        let samples = seen.rows::<ProcessSampleRow>();
        let starts: BTreeSet<u64> = samples.iter().map(|row| row.process_start).collect();
        assert_eq!(starts, BTreeSet::from([1, 2]));
    }
}

#[test]
fn pid_targets_end_the_run_and_are_not_replaced_by_reused_pids() {
    let mut world =
        world(&[(7, FakeProcess::named("systemd", 1)), (9, FakeProcess::named("b", 1))], 100 * SECOND);
    world.script =
        vec![(510 * MS, Event::End(7)), (510 * MS, Event::Start(7, FakeProcess::named("second", 2)))];
    let seen = watch(SamplerOptions::of_pids(vec![7, 7, 4711], 50.0), world);
    let rows = seen.rows::<ProcessSampleRow>();
    assert_eq!(pids(&rows), BTreeSet::from([7]));
    assert!(rows.iter().all(|row| row.process_start == 1));
    assert_eq!(rows.len(), 26, "0 to 500 ms, each once although it was targeted twice");
    let missing = seen.rows::<UnavailabilityRow>();
    let absent = missing.iter().find(|row| &*row.track == "process/4711").unwrap();
    assert_eq!(&*absent.reason, "process 4711 does not exist");
    assert!(seen.rows::<SystemSampleRow>().is_empty() && seen.rows::<DeviceSampleRow>().is_empty());
}

#[test]
fn names_patterns_families_and_exclusions_select_processes() {
    let child = |name: &str, parent: u32| FakeProcess { parent, ..FakeProcess::named(name, 1) };
    let processes = [
        (1, FakeProcess::named("systemd", 1)),
        (2, FakeProcess { kernel_thread: true, ..FakeProcess::named("kthreadd", 1) }),
        (20, child("python3", 1)),
        (21, child("bash", 1)),
        // A child with a smaller id than its parent.
        (19, child("grandchild", 22)),
        (22, child("child", 21)),
        (23, child("python-helper", 1)),
    ];
    let run = |targets: Targets, exclude: Exclude| {
        let options = SamplerOptions { targets, exclude, ..SamplerOptions::default() };
        pids(&watch(options, world(&processes, SECOND)).rows::<ProcessSampleRow>())
    };
    let python = || Targets { patterns: vec![Glob::new("py*").unwrap()], ..Targets::default() };
    let helpers = Exclude { patterns: vec![Glob::new("*helper").unwrap()], ..Exclude::default() };
    assert_eq!(run(Targets::default(), Exclude::default()), BTreeSet::from([19, 20, 21, 22, 23]));
    assert_eq!(run(Targets::default(), Exclude::nothing()), BTreeSet::from([1, 2, 19, 20, 21, 22, 23]));
    assert_eq!(run(python(), Exclude::default()), BTreeSet::from([20, 23]));
    assert_eq!(run(python(), helpers), BTreeSet::from([20]));
    let family = Targets { children_of: vec![21], ..Targets::default() };
    assert_eq!(run(family, Exclude::default()), BTreeSet::from([19, 22]));
    let with_parent = Targets { pids: vec![21], children_of: vec![21], ..Targets::default() };
    assert_eq!(run(with_parent, Exclude::default()), BTreeSet::from([19, 21, 22]));
    let mixed = Targets { pids: vec![1], names: vec!["bash".into()], ..Targets::default() };
    assert_eq!(run(mixed, Exclude::default()), BTreeSet::from([1, 21]));
}

/// A new process has its parent's name until it executes its program.
#[test]
fn a_process_joins_when_its_name_matches() {
    let mut world = world(&[(20, FakeProcess::named("bash", 1))], 3 * SECOND);
    world.script = vec![
        (400 * MS, Event::Start(30, FakeProcess::named("bash", 5))),
        (450 * MS, Event::Rename(30, "python3")),
        (1500 * MS, Event::Rename(20, "python3")),
    ];
    let targets = Targets { names: vec!["python3".into()], ..Targets::default() };
    let seen = watch(SamplerOptions { targets, ..SamplerOptions::default() }, world);
    let rows = seen.rows::<ProcessRow>();
    assert_eq!(events(&rows, 30), [("seen".into(), 500)]);
    assert_eq!(events(&rows, 20).len(), 1);
}

#[test]
fn a_run_ends_with_its_targets_and_their_families() {
    let child = |name: &str, parent: u32, start| FakeProcess { parent, ..FakeProcess::named(name, start) };
    let run = |targets: Targets, script: Vec<(u64, Event)>| {
        let mut world =
            world(&[(20, FakeProcess::named("sh", 1)), (21, child("python", 20, 1))], 10 * SECOND);
        world.script = script;
        let seen =
            watch(SamplerOptions { targets, end_with_targets: true, ..SamplerOptions::default() }, world);
        let last = seen.rows::<ProcessRow>().last().expect("processes").timestamp_ns;
        let end = seen.rows::<SystemSampleRow>().last().expect("ticks").timestamp_ns;
        (end < BEGIN + 10 * SECOND, (last - BEGIN) / MS)
    };
    let python = || Targets { patterns: vec![Glob::new("python").unwrap()], ..Targets::default() };
    assert_eq!(run(python(), vec![(SECOND, Event::End(21))]), (true, 1000));
    // No process has the name yet: it is waited for.
    let later = Targets { names: vec!["later".into()], ..Targets::default() };
    let come_and_go =
        vec![(SECOND, Event::Start(30, FakeProcess::named("later", 5))), (2 * SECOND, Event::End(30))];
    assert_eq!(run(later, come_and_go), (true, 2000));
    // The family is empty for a while, but the parent is running and has another child.
    let family = || Targets { children_of: vec![20], ..Targets::default() };
    let another = vec![
        (SECOND, Event::End(21)),
        (2 * SECOND, Event::Start(22, child("second", 20, 9))),
        (3 * SECOND, Event::End(20)),
        (4 * SECOND, Event::End(22)),
    ];
    assert_eq!(run(family(), another), (true, 4000));
    assert!(!run(family(), vec![(SECOND, Event::End(21))]).0, "the parent may have other children");
}

#[test]
fn a_rate_requested_later_is_applied() {
    let mut world = world(&[(7, FakeProcess::named("a", 1))], 3 * SECOND - MS);
    world.script = vec![(SECOND, Event::Rate(200.0)), (2 * SECOND, Event::Rate(1e9))];
    let seen = watch(SamplerOptions::default(), world);
    let in_second = |second: u64| {
        let range = BEGIN + second * SECOND + 50 * MS..BEGIN + (second + 1) * SECOND - 50 * MS;
        seen.rows::<ProcessSampleRow>().iter().filter(|row| range.contains(&row.timestamp_ns)).count()
    };
    assert_eq!((in_second(0), in_second(1), in_second(2)), (45, 180, 900));
}

#[test]
fn a_pause_is_neither_late_nor_skipped() {
    let mut world = world(&[(7, FakeProcess::named("a", 1))], SECOND);
    world.script = vec![(500 * MS, Event::Pause)];
    let seen = watch(SamplerOptions::default(), world);
    let rows = seen.rows::<ProcessSampleRow>();
    let before = rows.iter().filter(|row| row.timestamp_ns <= BEGIN + 500 * MS).count();
    assert_eq!(before, 26, "the tick of the pause is finished");
    assert!(rows.len() > before, "sampling continues");
    let next = rows[before].timestamp_ns;
    assert!(next >= BEGIN + 550 * MS, "{next}");
    assert_eq!((seen.cost.late_ticks, seen.cost.skipped_ticks), (0, 0));
}

#[test]
fn limits_apply_to_ten_thousand_processes() {
    let processes: Vec<_> = (100..10_100).map(|pid| (pid, FakeProcess::named("many", 1))).collect();
    let rates = Rates { cpu_hertz: 10.0, ..Rates::default() };
    let mut big = world(&processes, SECOND - 100 * MS);
    big.script = (100..5_100).map(|pid| (500 * MS, Event::End(pid))).collect();
    let seen = watch(SamplerOptions { rates: rates.clone(), ..SamplerOptions::default() }, big);
    let rows = seen.rows::<ProcessSampleRow>();
    assert_eq!(rows.len(), 5 * 10_000 + 5 * 5_000);
    let events = seen.rows::<ProcessRow>();
    assert_eq!(events.iter().filter(|row| &*row.event == "exited").count(), 5_000);
    assert!(seen.report.losses.is_empty(), "{:?}", seen.report.losses);

    let options = SamplerOptions { rates, max_processes: 1000, ..SamplerOptions::default() };
    let seen = watch(options, world(&processes, SECOND));
    assert_eq!(pids(&seen.rows::<ProcessSampleRow>()).len(), 1000);
    let lost: u64 = seen.report.losses.iter().map(|(_, _, count)| count).sum();
    assert_eq!(lost, 9000, "{:?}", seen.report.losses);
}

#[test]
fn threads_have_their_own_rows_within_the_limit() {
    let many = FakeProcess { threads: 10_000, ..FakeProcess::named("many", 1) };
    let options = SamplerOptions { threads: true, max_threads: 15_000, ..SamplerOptions::default() };
    let seen = watch(options, world(&[(7, many.clone()), (8, many)], 100 * MS));
    let rows = seen.rows::<ThreadSampleRow>();
    assert_eq!(rows.len(), 2 * 15_000);
    assert_eq!((rows[0].state.as_deref(), rows[0].name.as_deref()), (Some("waiting"), Some("worker")));
    assert_eq!(seen.report.losses, [("process-sampler".into(), "threads beyond the limit".into(), 10_000)]);
    let row = &seen.rows::<ProcessSampleRow>()[0];
    assert_eq!(row.active_threads, Some(10_000));
}

#[test]
fn names_may_contain_any_bytes() {
    let hostile = FakeProcess { name: b"evil) R 1\n(\xff\x1b[31m".to_vec(), ..FakeProcess::named("", 1) };
    let empty = FakeProcess::named("", 1);
    let seen = watch(SamplerOptions::default(), world(&[(7, hostile), (8, empty)], SECOND));
    let rows = seen.rows::<ProcessRow>();
    assert_eq!(&*rows.iter().find(|row| row.pid == 7).unwrap().name, "evil) R 1\n(\u{fffd}\x1b[31m");
    assert_eq!(&*rows.iter().find(|row| row.pid == 8).unwrap().name, "");
}

#[test]
fn missing_metrics_are_reported_once() {
    let denied = |name| FakeProcess { io_denied: true, ..FakeProcess::named(name, 1) };
    let seen = watch(SamplerOptions::default(), world(&[(7, denied("a")), (8, denied("b"))], 2 * SECOND));
    let rows = seen.rows::<UnavailabilityRow>();
    let reasons: Vec<_> = rows.iter().map(|row| (&*row.track, &*row.reason, row.hint.as_deref())).collect();
    assert_eq!(reasons, [("gdi_objects", "not here", None), ("read_bytes", "denied", Some("be root"))]);
    assert!(seen.rows::<ProcessSampleRow>().iter().all(|row| row.read_bytes.is_none()));
}

#[test]
fn an_expensive_system_is_sampled_less_often_with_a_note() {
    // 2 ms per tick: 10% of a core at 50 Hz.
    let mut expensive = world(&[(7, FakeProcess::named("a", 1))], 60 * SECOND);
    expensive.own_cpu_per_tick_ns = 2 * MS;
    let seen = watch(SamplerOptions::default(), expensive);
    assert!(seen.cost.rate_hertz <= 25.0 && seen.cost.rate_hertz > 15.0, "{:?}", seen.cost);
    assert_eq!(seen.cost.asked_hertz, 50.0);
    assert!(seen.cost.cpu_ratio.unwrap() <= 0.051, "{:?}", seen.cost);
    let notes = seen.rows::<AnnotationRow>();
    assert!(!notes.is_empty() && notes.iter().all(|note| &*note.kind == "sampling_rate"));
    assert!(notes[0].text.contains("limit of 5.0 %"), "{}", notes[0].text);
    let own = seen.rows::<DeviceSampleRow>();
    let ratios: Vec<f64> =
        own.iter().filter(|row| &*row.metric == "own_cpu_ratio").map(|row| row.value).collect();
    assert!(ratios.len() > 50 && (ratios[0] - 0.1).abs() < 0.01, "{ratios:?}");
    let samples = seen.rows::<ProcessSampleRow>();
    let late = samples.iter().filter(|row| row.timestamp_ns > BEGIN + 50 * SECOND).count();
    assert!((150..=250).contains(&late), "{late}");
}

#[test]
fn a_cheap_system_keeps_its_rate() {
    let mut cheap = world(&[(7, FakeProcess::named("a", 1))], 30 * SECOND - 20 * MS);
    cheap.own_cpu_per_tick_ns = 50_000;
    let seen = watch(SamplerOptions::default(), cheap);
    assert_eq!(seen.rows::<ProcessSampleRow>().len(), 1500);
    assert!(seen.rows::<AnnotationRow>().is_empty());
}
