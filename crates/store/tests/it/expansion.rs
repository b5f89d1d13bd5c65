//! Unchanged rows are reconstructed exactly.

use std::collections::BTreeMap;

use crate::simulation::Simulation;
use ortscope_core::batch::Batch;
use ortscope_core::random::Random;
use ortscope_core::schema::{DeviceSampleRow, ProcessSampleRow, SystemSampleRow, TableId, ThreadSampleRow};
use ortscope_core::tables::{Scan, Tables};
use ortscope_store::Recording;
use proptest::prelude::*;

use crate::support::*;

const EVERY_TICK: Scan = Scan { from_ns: None, to_ns: None, columns: None, every_tick: true };

/// By tick, the rows sorted by pid.
type Ticks = BTreeMap<u64, Vec<ProcessSampleRow>>;

fn by_tick(rows: impl IntoIterator<Item = ProcessSampleRow>) -> Ticks {
    let mut ticks = Ticks::new();
    for row in rows {
        ticks.entry(row.timestamp_ns).or_default().push(row);
    }
    for rows in ticks.values_mut() {
        rows.sort_by_key(|row| (row.pid, row.process_start));
    }
    ticks
}

/// A population that lives: processes are born, die, come back, change their order, sleep and work.
#[derive(Debug)]
struct Population {
    random: Random,
    alive: Vec<ProcessSampleRow>,
    time_ns: u64,
    busy_of_thousand: u64,
}

impl Population {
    fn new(seed: u64, busy_of_thousand: u64) -> Self {
        let mut population =
            Self { random: Random::new(seed), alive: Vec::new(), time_ns: 5_000, busy_of_thousand };
        for _ in 0..population.random.below(60) {
            population.be_born();
        }
        population
    }

    fn be_born(&mut self) {
        let row = ProcessSampleRow {
            // Few ids, so that they come back with another start time, or the same.
            pid: self.random.below(40),
            process_start: self.random.below(3),
            priority: Some(-5),
            ..ProcessSampleRow::default()
        };
        let is_there =
            |other: &ProcessSampleRow| (other.pid, other.process_start) == (row.pid, row.process_start);
        if !self.alive.iter().any(is_there) {
            let at = self.random.below(self.alive.len() as u64 + 1) as usize;
            self.alive.insert(at, row);
        }
    }

    fn tick(&mut self) -> Vec<ProcessSampleRow> {
        self.time_ns += 1 + self.random.below(10_000_000);
        if self.random.chance(60) {
            self.be_born();
        }
        if self.random.chance(60) && !self.alive.is_empty() {
            let gone = self.random.below(self.alive.len() as u64) as usize;
            self.alive.remove(gone);
        }
        if self.random.chance(5) {
            self.alive.clear();
        }
        if self.random.chance(20) && self.alive.len() > 2 {
            self.alive.rotate_left(1);
        }
        for row in &mut self.alive {
            row.timestamp_ns = self.time_ns;
            if self.random.chance(self.busy_of_thousand) {
                row.cpu_time_ns += self.random.below(1 << 40);
                row.user_time_ns = self.random.chance(500).then_some(row.cpu_time_ns / 2);
                row.working_set_bytes = self.random.next_u64();
            }
        }
        self.alive.clone()
    }
}

/// Cuts rows into batches anywhere, also within a tick.
fn batches(ticks: &[Vec<ProcessSampleRow>], random: &mut Random) -> Vec<Batch> {
    let rows: Vec<ProcessSampleRow> = ticks.iter().flatten().cloned().collect();
    let mut batches = Vec::new();
    let mut start = 0;
    while start < rows.len() {
        let length = if random.chance(300) { random.below(1500) } else { random.below(90) } as usize + 1;
        let end = (start + length).min(rows.len());
        batches.push(batch(&rows[start..end]));
        start = end;
    }
    batches
}

fn check_windows(recording: &Recording, original: &Ticks, random: &mut Random) {
    let times: Vec<u64> = original.keys().copied().collect();
    for _ in 0..6 {
        let at = |random: &mut Random| times[random.below(times.len() as u64) as usize] + random.below(2);
        let (a, b) = (at(random), at(random));
        let scan = Scan { from_ns: Some(a.min(b)), to_ns: Some(a.max(b)), ..EVERY_TICK };
        let wanted: Ticks = original
            .iter()
            .filter(|(time, _)| scan.wants_time(**time))
            .map(|(time, rows)| (*time, rows.clone()))
            .collect();
        assert_eq!(by_tick(rows(recording, &scan)), wanted, "{scan:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn every_row_comes_back(seed in any::<u64>(), busy in prop_oneof![Just(0_u64), Just(50), Just(700), Just(1000)]) {
        let mut population = Population::new(seed, busy);
        // Ticks without any process leave no trace, because there is no row.
        let ticks: Vec<_> = (0..400).map(|_| population.tick()).filter(|rows| !rows.is_empty()).collect();
        prop_assume!(ticks.len() > 10);
        let original = by_tick(ticks.iter().flatten().cloned());
        let (_directory, store) = store();
        let writer = begin(&store);
        let mut random = Random::new(seed ^ 1);
        for batch in batches(&ticks, &mut random) {
            writer.append(&batch).expect("kept");
        }

        // While it is written: everything but the last tick, which is not complete.
        let recording = Recording::open(writer.directory()).expect("readable while written");
        prop_assert!(recording.condition().being_written);
        let last = *original.keys().last().expect("ticks");
        let mut so_far = by_tick(rows(&recording, &EVERY_TICK));
        let last_rows = so_far.remove(&last).unwrap_or_default();
        prop_assert!(last_rows.iter().all(|row| original[&last].contains(row)));
        let mut but_last = original.clone();
        but_last.remove(&last);
        prop_assert_eq!(&so_far, &but_last);

        let directory = writer.finish("finished").expect("finished").directory;
        let recording = Recording::open(&directory).expect("readable");
        prop_assert!(recording.condition().is_whole() && recording.condition().finished);
        prop_assert_eq!(by_tick(rows(&recording, &EVERY_TICK)), original.clone());
        let logical = recording.logical_rows(TableId::ProcessSamples).expect("readable");
        prop_assert_eq!(logical, ticks.iter().map(|rows| rows.len() as u64).sum::<u64>());
        check_windows(&recording, &original, &mut random);
        // The stored rows are a subset of the written ones.
        let kept: Vec<ProcessSampleRow> = rows(&recording, &Scan::all());
        prop_assert!(kept.iter().all(|row| original[&row.timestamp_ns].contains(row)));
    }
}

#[test]
fn a_quiet_machine_is_small_and_few_segments_reconstruct_it() {
    let (_directory, store) = store();
    let writer = begin(&store);
    let mut simulation = Simulation::new(3, 104, 100);
    let mut original = Ticks::new();
    for _ in 0..3000 {
        let tick = simulation.next_tick();
        writer.append(&tick).expect("kept");
        original.extend(by_tick(tick.rows()));
    }
    let directory = writer.finish("finished").expect("finished").directory;
    let recording = Recording::open(&directory).expect("readable");
    assert!(segments(&directory).len() > 1, "the test wants several segments");
    let kept = recording.row_count(TableId::ProcessSamples);
    assert!(kept < 312_000 / 12, "{kept} of 312000 rows kept");
    assert_eq!(by_tick(rows(&recording, &EVERY_TICK)), original);
}

#[test]
fn only_requested_columns_are_reconstructed() {
    let (_directory, store) = store();
    let writer = begin(&store);
    for tick in 1..5_u64 {
        let row = |pid: u64| ProcessSampleRow {
            timestamp_ns: tick * 100,
            pid,
            cpu_time_ns: 7,
            working_set_bytes: 9,
            ..ProcessSampleRow::default()
        };
        writer.append(&batch(&[row(1), row(2)])).expect("kept");
    }
    let directory = writer.finish("finished").expect("finished").directory;
    let recording = Recording::open(&directory).expect("readable");
    let scan = Scan { every_tick: true, ..Scan::all() }.columns(&["cpu_time_ns"]);
    let reconstructed: Vec<ProcessSampleRow> = rows(&recording, &scan);
    assert_eq!(reconstructed.len(), 8);
    assert!(reconstructed.iter().all(|row| row.cpu_time_ns == 7 && row.working_set_bytes == 0));
}

#[test]
fn tables_without_keys_with_texts_and_with_nan_are_reconstructed() {
    let (_directory, store) = store();
    let writer = begin(&store);
    let (mut system, mut threads, mut devices) = (Vec::new(), Vec::new(), Vec::new());
    for tick in 1..200_u64 {
        let timestamp_ns = tick * 1000;
        system.push(SystemSampleRow {
            timestamp_ns,
            cpu_percent: Some(if tick < 100 { f64::NAN } else { 50.0 }),
            ..SystemSampleRow::default()
        });
        threads.push(ThreadSampleRow {
            timestamp_ns,
            pid: 1,
            tid: 2,
            name: Some(format!("worker-{}", tick / 50).as_str().into()),
            state: (tick % 70 > 3).then(|| "waiting".into()),
            ..ThreadSampleRow::default()
        });
        for device in ["gpu0", "gpu1"].iter().take(1 + (tick as usize / 60) % 2) {
            devices.push(DeviceSampleRow {
                timestamp_ns,
                device: (*device).into(),
                metric: "power_watts".into(),
                value: -0.0,
                ..DeviceSampleRow::default()
            });
        }
    }
    for (system, threads) in system.iter().zip(&threads) {
        writer.append(&batch(std::slice::from_ref(system))).expect("kept");
        writer.append(&batch(std::slice::from_ref(threads))).expect("kept");
    }
    writer.append(&batch(&devices)).expect("kept");
    let directory = writer.finish("finished").expect("finished").directory;
    let recording = Recording::open(&directory).expect("readable");
    assert!(count(&recording, TableId::SystemSamples) < 4);
    assert!(count(&recording, TableId::ThreadSamples) < 12);
    let reconstructed: Vec<SystemSampleRow> = rows(&recording, &EVERY_TICK);
    // NaN is not equal to itself, so the rows are compared as text.
    assert_eq!(format!("{reconstructed:?}"), format!("{system:?}"));
    assert_eq!(rows::<ThreadSampleRow>(&recording, &EVERY_TICK), threads);
    assert_eq!(rows::<DeviceSampleRow>(&recording, &EVERY_TICK), devices);
}

/// Two sources of one table with their own clocks: late rows count only for their own time.
#[test]
fn late_rows_are_kept_and_change_no_tick() {
    let row = |timestamp_ns: u64, pid: u64, cpu_time_ns: u64| ProcessSampleRow {
        timestamp_ns,
        pid,
        cpu_time_ns,
        ..ProcessSampleRow::default()
    };
    let (_directory, store) = store();
    let writer = begin(&store);
    let mut original = Vec::new();
    for tick in 1..50_u64 {
        let mut rows = vec![row(tick * 1000, 1, 7), row(tick * 1000, 2, tick / 10)];
        if tick % 5 == 0 {
            // Late, between ticks.
            rows.push(row(tick * 1000 - 300, 3, 99));
            rows.push(row(tick * 1000 - 300, 1, 55));
        }
        writer.append(&batch(&rows)).expect("kept");
        original.extend(rows);
    }
    let directory = writer.finish("finished").expect("finished").directory;
    let recording = Recording::open(&directory).expect("readable");
    assert_eq!(by_tick(rows(&recording, &EVERY_TICK)), by_tick(original));
}

/// A row that is late for a completed tick cannot be distinguished from that tick, but the following ticks are right
/// again.
#[test]
fn a_late_row_of_a_tick_does_no_lasting_harm() {
    let row =
        |timestamp_ns: u64, pid: u64| ProcessSampleRow { timestamp_ns, pid, ..ProcessSampleRow::default() };
    let (_directory, store) = store();
    let writer = begin(&store);
    writer
        .append(&batch(&[row(1000, 1), row(2000, 1), row(1000, 9), row(3000, 1), row(4000, 1)]))
        .expect("kept");
    let directory = writer.finish("finished").expect("finished").directory;
    let recording = Recording::open(&directory).expect("readable");
    let reconstructed = by_tick(rows(&recording, &EVERY_TICK));
    let pids = |time: u64| reconstructed[&time].iter().map(|row| row.pid).collect::<Vec<_>>();
    assert_eq!(pids(1000), [1, 9]);
    assert_eq!(pids(3000), [1]);
    assert_eq!(pids(4000), [1]);
}
