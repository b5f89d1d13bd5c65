//! Several writers and readers on one store.

use ortscope_store::{Recording, Retention, Store, StoreErrorKind, repair};

use crate::figures::{disk, print_figure};
use crate::workload::{batch, begin, look};

/// Concurrent recordings do not disturb each other, nor do concurrent lists, repairs and prunes.
#[test]
fn writers_on_one_store_do_not_disturb_each_other() {
    const WRITERS: u64 = 6;
    const ROUNDS: u64 = 4;
    let directory = disk();
    let root = directory.path().join("runs");
    let write = |writer: u64| {
        let store = Store::open(&root);
        for round in 0..ROUNDS {
            let seed = writer * 100 + round;
            let writer = begin(&store).expect("begun");
            for start in (0..300).step_by(25) {
                writer.append(&batch(seed, start..start + 25)).expect("kept");
            }
            // A repair during writing is refused with the reason.
            let refused = repair(writer.directory()).expect_err("it is being written");
            assert_eq!(refused.kind(), StoreErrorKind::InUse, "{refused}");
            let finished = writer.finish("finished").expect("finished");
            let seen = look(&finished.directory, seed).expect("readable");
            assert!(seen.condition.is_whole() && seen.condition.finished);
            assert_eq!(seen.rows.len(), 300);
        }
    };
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            scope.spawn(move || write(writer));
        }
        scope.spawn(|| {
            let store = Store::open(&root);
            for _ in 0..30 {
                for entry in store.list().expect("a list") {
                    Recording::open(&entry.directory).expect("opens while others write");
                }
                assert!(store.prune(&Retention::default(), false).expect("nothing to prune").is_empty());
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
        });
    });
    let list = Store::open(&root).list().expect("a list");
    assert_eq!(list.len() as u64, WRITERS * ROUNDS);
    assert!(list.iter().all(|entry| entry.finished && !entry.damaged));
    print_figure("writers_recordings", WRITERS * ROUNDS);
}
