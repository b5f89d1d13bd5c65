//! Failures of the journal, and the speed of the filter. Omitted rows are tested where they are reconstructed.

use std::collections::BTreeMap;
use std::time::Instant;

use ortscope_core::batch::Batch;
use ortscope_core::schema::{ProcessSampleRow, SampleEndRow, TableId, TickRow};

use super::ChangeFilter;
use crate::simulation::Simulation;
use ortscope_core::random::Random;

/// A reader's reconstruction: the rows of each tick.
#[derive(Debug, Default)]
struct Reconstruction {
    rows: BTreeMap<u64, Vec<ProcessSampleRow>>,
    ends: BTreeMap<u64, Vec<String>>,
    ticks: Vec<u64>,
}

impl Reconstruction {
    fn keep(&mut self, batch: &Batch) {
        for row in batch.rows::<ProcessSampleRow>() {
            self.rows.entry(row.timestamp_ns).or_default().push(row);
        }
        for end in batch.rows::<SampleEndRow>() {
            self.ends.entry(end.timestamp_ns).or_default().push(end.key.to_string());
        }
        self.ticks.extend(batch.rows::<TickRow>().map(|tick| tick.timestamp_ns));
    }

    fn ticks(mut self) -> BTreeMap<u64, Vec<ProcessSampleRow>> {
        let mut known: BTreeMap<String, ProcessSampleRow> = BTreeMap::new();
        let mut reconstructed = BTreeMap::new();
        for tick in std::mem::take(&mut self.ticks) {
            for (_, gone) in self.ends.range(..=tick) {
                known.retain(|key, _| !gone.contains(key));
            }
            self.ends = self.ends.split_off(&(tick + 1));
            for row in self.rows.remove(&tick).unwrap_or_default() {
                known.insert(format!("[{},{}]", row.pid, row.process_start), row);
            }
            let at = |row: &ProcessSampleRow| ProcessSampleRow { timestamp_ns: tick, ..row.clone() };
            reconstructed.insert(tick, known.values().map(at).collect());
        }
        reconstructed
    }
}

/// Whatever rows the journal rejects, reconstructed ticks are correct.
#[test]
fn reconstructed_ticks_are_correct_with_an_unreliable_journal() {
    for seed in 0..20 {
        let mut simulation = Simulation::new(seed, 30, 100);
        let mut random = Random::new(seed);
        let mut filter = ChangeFilter::default();
        let mut reconstructed = Reconstruction::default();
        let mut original = BTreeMap::new();
        let (mut failed, mut file) = (0, 1);
        for _ in 0..400 {
            let tick = simulation.next_tick();
            original.insert(tick.times_ns()[0], tick.rows::<ProcessSampleRow>().collect::<Vec<_>>());
            file += u64::from(random.chance(20));
            // A tick in two parts: either may fail, and the first writes of each may still succeed.
            let middle = random.below(31) as usize;
            for part in [(0..middle).collect::<Vec<_>>(), (middle..tick.len()).collect()] {
                let part = tick.take(&part);
                let filtered = filter.apply(&part, file);
                let written = if random.chance(30) { random.below(3) as usize } else { 3 };
                filtered.batches().take(written).for_each(|batch| reconstructed.keep(batch));
                if filtered.batches().count() > written {
                    failed += 1;
                    filter.not_kept(&filtered);
                }
            }
        }
        filter.finish().iter().for_each(|batch| reconstructed.keep(batch));
        assert!(failed > 3, "the test wants failures");
        let reconstructed = reconstructed.ticks();
        assert!(reconstructed.len() > 300, "{} of 400 ticks are reconstructed", reconstructed.len());
        for (tick, mut rows) in reconstructed {
            let mut wanted = original.remove(&tick).expect("a tick that was");
            wanted.sort_by_key(|row| row.pid);
            rows.sort_by_key(|row| row.pid);
            assert_eq!(rows, wanted, "seed {seed}");
        }
    }
}

#[test]
fn events_pass_and_empty_batches_do_no_harm() {
    let mut filter = ChangeFilter::default();
    let batch = Simulation::new(1, 1, 1).next_inferences(5);
    let filtered = filter.apply(&batch, 1);
    assert!(filtered.rows.len() == 5 && filtered.batches().count() == 1);
    let empty = Batch::new(TableId::ProcessSamples);
    assert_eq!(filter.apply(&empty, 1).batches().count(), 0);
    assert!(filter.finish().is_empty());
}

/// The benchmark of the store states this share, so the simulation must keep it.
#[test]
fn simulation_is_repeatable_and_changes_about_one_row_in_twenty() {
    let mut a = Simulation::new(7, 104, 100);
    let mut b = Simulation::new(7, 104, 100);
    let mut before: Vec<ProcessSampleRow> = Vec::new();
    let (mut changed, mut rows) = (0, 0);
    for _ in 0..500 {
        let tick = a.next_tick();
        assert_eq!(tick, b.next_tick());
        let now: Vec<ProcessSampleRow> = tick.rows().collect();
        let same = |row: &ProcessSampleRow| {
            before
                .iter()
                .any(|old| ProcessSampleRow { timestamp_ns: row.timestamp_ns, ..old.clone() } == *row)
        };
        changed += now.iter().filter(|row| !same(row)).count();
        rows += now.len();
        before = now;
    }
    let share = changed as f64 / rows as f64;
    assert!((0.03..0.07).contains(&share), "{share}");
    assert_eq!(a.next_inferences(1000), b.next_inferences(1000));
}

/// Printed for people: `cargo test -p ortscope-store -- --ignored --nocapture filter_cost`. The median, since other
/// programs on the machine take their time too.
#[test]
#[ignore = "measures"]
fn filter_cost() {
    for round in 0..5 {
        let mut simulation = Simulation::new(round, 104, 100);
        let mut filter = ChangeFilter::default();
        let mut spent_ns = Vec::new();
        let (mut kept, mut rows) = (0, 0);
        for _ in 0..5000 {
            let tick = simulation.next_tick();
            let start = Instant::now();
            kept += filter.apply(&tick, 1).rows.len();
            spent_ns.push(start.elapsed().as_nanos() as f64 / tick.len() as f64);
            rows += tick.len();
        }
        spent_ns.sort_by(f64::total_cmp);
        println!(
            "{:.1} ns per logical row (p10 {:.1}, p90 {:.1}), {kept} of {rows} kept ({:.2} %)",
            spent_ns[2500],
            spent_ns[500],
            spent_ns[4500],
            kept as f64 * 100.0 / rows as f64
        );
    }
}
