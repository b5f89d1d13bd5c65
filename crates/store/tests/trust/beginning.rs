//! The first moments of a recording.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use ortscope_channel::disk::{Change, Witness, watch};
use ortscope_store::{Recording, Store};

use crate::figures::disk;
use crate::workload::begin;

/// Inspects the store before and after every change, like a reader after a kill at that moment.
#[derive(Debug)]
struct Looks {
    root: PathBuf,
    moments: Mutex<Vec<(String, Option<String>)>>,
}

impl Looks {
    fn look(&self, change: &Change<'_>) {
        let problem = problem_in(&self.root);
        self.moments.lock().expect("no panic before").push((format!("{change:?}"), problem));
    }
}

fn problem_in(root: &Path) -> Option<String> {
    // As lists do: these parts make a directory a recording.
    let is_recording =
        |path: &PathBuf| ["manifest.json", "journal", "segments"].iter().any(|part| path.join(part).exists());
    let entries = fs_err::read_dir(root).ok()?.flatten().map(|entry| entry.path());
    entries.filter(is_recording).find_map(|directory| match Recording::open(&directory) {
        Ok(recording) if recording.condition().is_whole() => None,
        Ok(recording) => Some(recording.condition().sentences().join("; ")),
        Err(error) => Some(error.to_string()),
    })
}

impl Witness for Looks {
    fn before(&self, change: &Change<'_>) -> std::io::Result<()> {
        self.look(change);
        Ok(())
    }

    fn after(&self, change: &Change<'_>) {
        self.look(change);
    }
}

/// The journal was made before the manifest: 3 of 1000 recorders that were killed left a recording without one, which counts as
/// damaged.
#[test]
fn a_kill_at_the_start_leaves_nothing_or_a_complete_recording() {
    let directory = disk();
    let root = directory.path().join("runs");
    let looks = Arc::new(Looks { root: root.clone(), moments: Mutex::default() });
    let watched = watch(&root, Arc::clone(&looks) as Arc<dyn Witness>);
    let writer = begin(&Store::open(&root)).expect("begun");
    drop(watched);
    let moments = std::mem::take(&mut *looks.moments.lock().expect("no panic before"));
    assert!(moments.len() > 10, "{moments:?}");
    let bad: Vec<_> = moments.iter().filter(|(_, problem)| problem.is_some()).collect();
    assert!(bad.is_empty(), "{bad:?}");
    writer.finish("finished").expect("finished");
}
