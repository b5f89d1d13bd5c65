//! Single bits flip anywhere in a recording. Each is found, or it changes nothing that can be read.

use std::path::{Path, PathBuf};

use ortscope_core::random::Random;
use ortscope_store::{StoreErrorKind, repair};

use crate::figures::{disk, print_figure, seeds};
use crate::power::at_moments;
use crate::workload::{look, recording_in};

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs_err::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if fs_err::metadata(&path).expect("a file").len() > 0 {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Flips a bit in the used part: most of a journal file may be unused.
fn flip(path: &Path, random: &mut Random) {
    let mut bytes = fs_err::read(path).expect("a file");
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(1, |last| last + 1);
    let bit = random.below(used as u64 * 8) as usize;
    bytes[bit / 8] ^= 1 << (bit % 8);
    fs_err::write(path, bytes).expect("written");
}

#[test]
fn every_flipped_bit_is_detected_or_harmless() {
    let seeds = seeds(150);
    let count = seeds.end - seeds.start;
    let (mut found, mut harmless) = (0, 0);
    at_moments(seeds, |_, of, root, moment, random| {
        let disk = disk();
        moment.keep_power(root, disk.path());
        let Some(directory) = recording_in(&disk.path().join("runs")) else { return };
        let Ok(before) = look(&directory, of) else { return };
        let files = files(&directory);
        if files.is_empty() {
            return;
        }
        let path = &files[random.below(files.len() as u64) as usize];
        flip(path, random);
        match look(&directory, of) {
            Ok(after) => {
                let is_same = after.rows == before.rows
                    && after.manifest == before.manifest
                    && after.document == before.document;
                assert!(after.rows.is_subset(&before.rows), "rows came out of nothing");
                assert!(
                    is_same || after.reports_damage(),
                    "an undetected flipped bit in {}: {} of {} rows, {:?}",
                    path.display(),
                    after.rows.len(),
                    before.rows.len(),
                    after.condition
                );
                if after.reports_damage() {
                    found += 1;
                } else {
                    harmless += 1;
                }
                repair(&directory).expect("repaired");
                let repaired = look(&directory, of).expect("readable after its repair");
                assert!(!repaired.reports_damage(), "{:?}", repaired.condition);
                assert!(repaired.rows.is_superset(&after.rows), "a repair keeps what can be read");
            }
            Err(error) => {
                assert_eq!(error.kind(), StoreErrorKind::Damaged, "{error}");
                found += 1;
            }
        }
    });
    print_figure("bit_flip_seeds", count);
    print_figure("bit_flips_found", found);
    print_figure("bit_flips_without_effect", harmless);
    print_figure("bit_flips_not_found", 0);
}
