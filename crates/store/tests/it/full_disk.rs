//! A full disk. `ORTSCOPE_TEST_SMALL_DISK` names a directory on a file system of 16 MB, for example `mount -t tmpfs
//! -o size=16M tmpfs DIRECTORY`.

use ortscope_core::schema::{InferenceRow, LossRow, ProcessSampleRow};
use ortscope_core::tables::Scan;
use ortscope_store::{Recording, Store, StoreErrorKind, repair};

use crate::support::*;

#[test]
#[ignore = "needs a small file system"]
fn a_full_disk_is_an_error_and_stored_rows_survive() {
    let Some(place) = std::env::var_os("ORTSCOPE_TEST_SMALL_DISK") else {
        return;
    };
    let place = tempfile::tempdir_in(place).expect("a directory on the small disk");
    let store = Store::open(place.path());
    let writer = begin(&store);
    let filler = place.path().join("filler");
    let (mut kept, mut failed) = (Vec::new(), 0);
    let ticks = busy_ticks(3000);
    let mut samples_kept = Vec::new();
    for (step, tick) in (0..3000_u64).zip(&ticks) {
        // Somebody else fills the disk, and frees it again.
        if step == 300 {
            let mut bytes = 16 << 20;
            while bytes > 4096 && fs_err::write(&filler, vec![1; bytes]).is_err() {
                bytes -= 64 << 10;
            }
        }
        if step == 1500 {
            fs_err::remove_file(&filler).expect("freed");
        }
        match writer.append(&inferences(step * 20..(step + 1) * 20)) {
            Ok(()) => kept.extend(step * 20..(step + 1) * 20),
            Err(error) => {
                assert_eq!(error.kind(), StoreErrorKind::NoSpace, "{error}");
                failed += 1;
            }
        }
        if writer.append(tick).is_ok() {
            samples_kept.extend(tick.rows::<ProcessSampleRow>());
        }
        if failed > 0 && step % 50 == 0 {
            // The journal retries with every sync.
            std::thread::sleep(std::time::Duration::from_millis(30));
        }
    }
    assert!(failed > 0, "the disk was never full");
    assert!(kept.last() > Some(&40_000), "it went on when there was room: {:?}", kept.last());
    let directory = writer.directory().to_owned();
    let finished = writer.finish("finished");
    if let Err(error) = &finished {
        assert_eq!(error.kind(), StoreErrorKind::NoSpace, "{error}");
    }
    let check = |recording: &Recording| {
        let numbers: Vec<u64> =
            rows::<InferenceRow>(recording, &Scan::all()).iter().map(|row| row.sequence).collect();
        assert!(kept.iter().all(|number| numbers.binary_search(number).is_ok()), "what was kept is there");
        let reconstructed = rows::<ProcessSampleRow>(recording, &Scan { every_tick: true, ..Scan::all() });
        let originals: std::collections::HashMap<_, _> = ticks
            .iter()
            .flat_map(|tick| tick.rows::<ProcessSampleRow>().collect::<Vec<_>>())
            .map(|row| ((row.timestamp_ns, row.pid), row))
            .collect();
        assert!(
            reconstructed.iter().all(|row| originals.get(&(row.timestamp_ns, row.pid)) == Some(row)),
            "nothing is wrong"
        );
        assert!(rows::<LossRow>(recording, &Scan::all()).is_empty(), "counting is the pipeline's part");
    };
    check(&Recording::open(&directory).expect("readable"));
    repair(&directory).expect("repaired");
    let recording = Recording::open(&directory).expect("readable");
    assert!(recording.condition().finished && recording.condition().is_whole());
    check(&recording);
}
