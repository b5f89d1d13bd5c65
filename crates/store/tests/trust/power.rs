//! After a power loss at any time, durable rows are there, rows are right, and a repair completes the recording.

use std::path::Path;
use std::sync::Arc;

use ortscope_channel::disk::{Witness, watch};
use ortscope_core::random::Random;
use ortscope_store::{Recording, Store, repair};

use crate::figures::{disk, print_failure, print_figure, seeds};
use crate::ledger::{Ledger, Moment};
use crate::workload::{batch, begin_seeded, document, look, recording_in};

/// How many seeds share one recording: making it takes longer than losing power.
pub const SEEDS_PER_RECORDING: u64 = 25;

/// Makes a recording and gives every moment of it.
pub fn record(seed: u64) -> (tempfile::TempDir, Vec<Moment>) {
    let directory = disk();
    let ledger = Ledger::new(directory.path());
    let watch = watch(directory.path(), Arc::clone(&ledger) as Arc<dyn Witness>);
    let store = Store::open(directory.path().join("runs"));
    let mut random = Random::new(seed);
    let writer = begin_seeded(&store, seed).expect("begun");
    let mut rows = 0;
    while rows < 500 {
        let more = 1 + random.below(12);
        writer.append(&batch(seed, rows..rows + more)).expect("kept");
        rows += more;
        writer.settle();
        if random.chance(200) {
            ledger.mark();
        }
        if random.chance(200) {
            writer.sync().expect("synced");
            ledger.safe(rows);
        }
        if random.chance(20) {
            writer.set_subject(format!("{rows} rows")).expect("said");
        }
        if random.chance(20) {
            writer.write_document("run.json", &document(rows > 250)).expect("written");
        }
    }
    if random.chance(700) {
        writer.finish("finished").expect("finished");
        ledger.safe(rows);
    } else {
        drop(writer);
    }
    drop(watch);
    let moments = ledger.into_moments();
    (directory, moments)
}

/// Runs a check for every seed, on a moment of a recording.
pub fn at_moments(
    seeds: std::ops::Range<u64>,
    mut check: impl FnMut(u64, u64, &Path, &Moment, &mut Random),
) -> u64 {
    let mut recorded: Option<(u64, tempfile::TempDir, Vec<Moment>)> = None;
    let mut moments_seen = 0;
    for seed in seeds {
        let of = seed / SEEDS_PER_RECORDING;
        if recorded.as_ref().is_none_or(|(made, ..)| *made != of) {
            let (directory, moments) = record(of);
            moments_seen += moments.len() as u64;
            recorded = Some((of, directory, moments));
        }
        let (_, directory, moments) = recorded.as_ref().expect("just made");
        let mut random = Random::new(seed ^ 0x7a51);
        let moment = &moments[random.below(moments.len() as u64) as usize];
        // The seed and the moment, so that a failure can be made again.
        let place = format!("seed {seed}, after: {}", moment.last);
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            check(seed, of, directory.path(), moment, &mut random);
        }));
        if let Err(panic) = caught {
            print_failure(&place);
            std::panic::resume_unwind(panic);
        }
    }
    moments_seen
}

#[test]
fn durable_rows_survive_a_power_loss() {
    let seeds = seeds(150);
    let count = seeds.end - seeds.start;
    let (mut rows_read, mut with_damage, mut killed) = (0, 0, 0);
    let moments = at_moments(seeds, |seed, of, root, moment, random| {
        let disk = disk();
        let is_killed = seed % 5 == 4;
        if is_killed {
            killed += 1;
            moment.keep_power(root, disk.path());
        } else {
            moment.lose_power(root, disk.path(), random);
        }
        let Some(directory) = recording_in(&disk.path().join("runs")) else {
            assert_eq!(moment.safe_rows, 0, "the recording is gone");
            return;
        };
        let before = match look(&directory, of) {
            Ok(seen) => seen,
            Err(error) => {
                assert_eq!(moment.safe_rows, 0, "{error}");
                return;
            }
        };
        let is_safe = |number: u64| before.rows.contains(&number);
        let lost = (0..moment.safe_rows).find(|number| !is_safe(*number));
        assert_eq!(lost, None, "a row that was safe is lost; {:?}", before.condition);
        assert!(
            before.document.is_none_or(|found| found == document(false) || found == document(true)),
            "a document that was never written"
        );
        rows_read += before.rows.len() as u64;
        with_damage += u64::from(!before.condition.is_whole());
        if is_killed {
            // One that was killed before it had a manifest has none, and no rows.
            let has_begun = before.condition.damaged.iter().all(|damage| damage.place != "manifest.json");
            assert!(
                before.condition.is_whole() || !has_begun,
                "a kill damages nothing: {:?}",
                before.condition
            );
            assert!(has_begun || moment.safe_rows == 0);
        }

        let report = repair(&directory).expect("repaired");
        let after = look(&directory, of).expect("readable after its repair");
        assert_eq!(after.rows, before.rows, "a repair keeps what can be read: {report:?}");
        assert!(after.condition.is_whole() && after.condition.finished, "{:?}", after.condition);
        assert_eq!(repair(&directory).expect("again").actions, Vec::<String>::new());
        drop(Recording::open(&directory).expect("opens"));
    });
    print_figure("power_loss_seeds", count);
    print_figure("power_loss_moments", moments);
    print_figure("power_loss_rows_read", rows_read);
    print_figure("power_loss_unsynced_damage_told", with_damage);
    print_figure("power_kept_kills", killed);
}
