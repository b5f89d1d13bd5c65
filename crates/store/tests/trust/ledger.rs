//! The requested disk operations, and the possible states of the disk after a power loss.
//!
//! A disk keeps synced data. Of everything else any part may be there: some file systems journal file names in order
//! and others do not, and bytes reach the disk by sectors, of which the last may be half written.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use ortscope_channel::disk::{Change, Witness};
use ortscope_core::random::Random;

const SECTOR: usize = 512;

/// The target of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Node {
    Directory,
    File(u64),
}

/// A change of names that is not known to be on the disk.
#[derive(Debug, Clone)]
enum Naming {
    Make(PathBuf, Node),
    Rename(PathBuf, PathBuf, Node),
    Remove(PathBuf),
}

type Names = BTreeMap<PathBuf, Node>;
type Bytes = Arc<Vec<u8>>;

#[derive(Debug, Clone, Default)]
struct Content {
    /// The last synced content.
    durable: Option<Bytes>,
    current: Bytes,
}

/// The disk at one moment of a possible power loss.
#[derive(Debug, Clone)]
pub struct Moment {
    durable: Arc<Names>,
    pending: Vec<Naming>,
    contents: BTreeMap<u64, Content>,
    /// The number of rows acknowledged as durable.
    pub safe_rows: u64,
    /// The last disk operation.
    pub last: String,
}

#[derive(Debug, Default)]
struct State {
    names: Names,
    durable: Arc<Names>,
    pending: Vec<Naming>,
    contents: BTreeMap<u64, Content>,
    next_file: u64,
    safe_rows: u64,
    moments: Vec<Moment>,
}

/// Watches one disk.
#[derive(Debug)]
pub struct Ledger {
    root: PathBuf,
    state: Mutex<State>,
}

impl Ledger {
    pub fn new(root: &Path) -> Arc<Self> {
        Arc::new(Self { root: root.to_owned(), state: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic in a test before")
    }

    /// This many rows were acknowledged as durable.
    pub fn safe(&self, rows: u64) {
        let mut state = self.lock();
        state.safe_rows = rows;
        state.moment("the rows are safe");
    }

    /// A moment between two changes: mapped memory has more than the last sync saw.
    pub fn mark(&self) {
        self.lock().moment("rows were appended");
    }

    pub fn into_moments(self: Arc<Self>) -> Vec<Moment> {
        std::mem::take(&mut self.lock().moments)
    }
}

impl Witness for Ledger {
    fn before(&self, _: &Change<'_>) -> std::io::Result<()> {
        Ok(())
    }

    fn after(&self, change: &Change<'_>) {
        // Syncs triggered by the clock would make a seed irreproducible. The next sync by the program itself has the
        // same effect.
        if matches!(change, Change::Sync(_)) && std::thread::current().name() == Some("journal-sync") {
            return;
        }
        let mut state = self.lock();
        match *change {
            Change::MakeDirectory(path) => {
                let missing: Vec<&Path> = path.ancestors().take_while(|above| *above != self.root).collect();
                missing.into_iter().rev().for_each(|path| state.make(path, Node::Directory));
            }
            // The real name of a temporary file is known when it is synced.
            Change::MakeFile(path) if path.is_file() => {
                state.make_file(path);
            }
            Change::Sync(path) => state.sync(path),
            Change::SyncDirectory(path) => state.sync_names(path),
            Change::Rename { from, to } => state.rename(from, to),
            Change::RemoveFile(path) => state.remove(path),
            Change::RemoveDirectory(path) => {
                let below: Vec<PathBuf> =
                    state.names.keys().filter(|name| name.starts_with(path)).cloned().collect();
                below.iter().rev().for_each(|path| state.remove(path));
            }
            // Nothing that a disk must have kept.
            Change::MakeFile(_) | Change::Allocate(..) | Change::Write(..) | Change::Shorten(..) => return,
        }
        state.moment(&format!("{change:?}"));
    }
}

impl State {
    fn make(&mut self, path: &Path, node: Node) {
        if self.names.contains_key(path) {
            return;
        }
        self.names.insert(path.to_owned(), node);
        self.pending.push(Naming::Make(path.to_owned(), node));
    }

    fn make_file(&mut self, path: &Path) -> u64 {
        if let Some(Node::File(number)) = self.names.get(path) {
            return *number;
        }
        self.next_file += 1;
        self.contents.insert(self.next_file, Content::default());
        self.make(path, Node::File(self.next_file));
        self.next_file
    }

    fn sync(&mut self, path: &Path) {
        // A journal file may be synced once more when it has become a segment and is gone.
        let Ok(bytes) = fs_err::read(path) else { return };
        let bytes = Arc::new(bytes);
        let number = self.make_file(path);
        self.contents.insert(number, Content { durable: Some(Arc::clone(&bytes)), current: bytes });
    }

    fn sync_names(&mut self, directory: &Path) {
        let mut durable = Names::clone(&self.durable);
        let is_here = |naming: &Naming| match naming {
            Naming::Make(path, _) | Naming::Rename(_, path, _) | Naming::Remove(path) => {
                path.parent() == Some(directory)
            }
        };
        for naming in self.pending.extract_if(.., |naming| is_here(naming)) {
            apply(&mut durable, &naming);
        }
        self.durable = Arc::new(durable);
    }

    fn rename(&mut self, from: &Path, to: &Path) {
        if let Some(node) = self.names.remove(from) {
            self.names.insert(to.to_owned(), node);
            self.pending.push(Naming::Rename(from.to_owned(), to.to_owned(), node));
        }
    }

    fn remove(&mut self, path: &Path) {
        if self.names.remove(path).is_some() {
            self.pending.push(Naming::Remove(path.to_owned()));
        }
    }

    fn moment(&mut self, last: &str) {
        for (path, node) in &self.names {
            let Node::File(number) = node else { continue };
            // Only the journal is written without an immediate sync.
            if path.extension().is_none_or(|ending| ending != "frames") {
                continue;
            }
            // It may already be gone when the removal is reported.
            let Ok(bytes) = fs_err::read(path) else { continue };
            let content = self.contents.entry(*number).or_default();
            if *content.current != bytes {
                content.current = Arc::new(bytes);
            }
        }
        let (durable, pending) = (Arc::clone(&self.durable), self.pending.clone());
        let (contents, safe_rows) = (self.contents.clone(), self.safe_rows);
        self.moments.push(Moment { durable, pending, contents, safe_rows, last: last.to_owned() });
    }
}

fn apply(names: &mut Names, naming: &Naming) {
    match naming {
        Naming::Make(path, node) => {
            names.insert(path.clone(), *node);
        }
        Naming::Rename(from, to, node) => {
            names.remove(from);
            names.insert(to.clone(), *node);
        }
        Naming::Remove(path) => {
            names.remove(path);
        }
    }
}

impl Moment {
    /// Writes a disk to `to` as it may be found after the power went: chosen by chance.
    pub fn lose_power(&self, root: &Path, to: &Path, random: &mut Random) {
        let names = self.names_left(random);
        // Of the sectors that were not synced: none, all, or some.
        let share = [0, 1000, 500, 50, 950][random.below(5) as usize];
        for (path, node) in &names {
            let relative = path.strip_prefix(root).expect("a path below the root");
            let target = to.join(relative);
            // A name in a directory whose own name was lost cannot be reached.
            if !target.parent().is_some_and(Path::is_dir) {
                continue;
            }
            match node {
                Node::Directory => fs_err::create_dir(&target).expect("made"),
                Node::File(number) => {
                    let bytes = self.contents[number].left(share, random);
                    fs_err::write(&target, bytes).expect("written");
                }
            }
        }
    }

    /// Everything is there: the program was killed, but the machine keeps running.
    pub fn keep_power(&self, root: &Path, to: &Path) {
        let mut names = Names::clone(&self.durable);
        self.pending.iter().for_each(|naming| apply(&mut names, naming));
        for (path, node) in &names {
            let target = to.join(path.strip_prefix(root).expect("a path below the root"));
            match node {
                Node::Directory => fs_err::create_dir_all(&target).expect("made"),
                Node::File(number) => {
                    fs_err::write(&target, &*self.contents[number].current).expect("written");
                }
            }
        }
    }

    fn names_left(&self, random: &mut Random) -> Names {
        let mut names = Names::clone(&self.durable);
        // In order up to some point, or any of them.
        let in_order = random.chance(500);
        let until = random.below(self.pending.len() as u64 + 1) as usize;
        for (index, naming) in self.pending.iter().enumerate() {
            if if in_order { index < until } else { random.chance(500) } {
                apply(&mut names, naming);
            }
        }
        names
    }
}

impl Content {
    /// The bytes of a file, sector by sector as it was synced or as it was written since.
    fn left(&self, share_of_new: u64, random: &mut Random) -> Vec<u8> {
        let none = Bytes::default();
        let (old, new) = (self.durable.as_ref().unwrap_or(&none), &self.current);
        if old == new {
            return new.to_vec();
        }
        // A length is a change like any other. The bytes in between have never been written.
        let mut left = old.to_vec();
        if random.chance(share_of_new.max(1)) {
            left.resize(new.len(), 0);
        }
        for start in (0..left.len().min(new.len())).step_by(SECTOR) {
            if random.chance(share_of_new) {
                let whole = (start + SECTOR).min(left.len()).min(new.len());
                // Now and then the power goes in the middle of a sector.
                let end = if random.chance(5) { start + (whole - start) / 2 } else { whole };
                left[start..end].copy_from_slice(&new[start..end]);
            }
        }
        left
    }
}
