//! The files of an audit chain: appending, rotation, verification.

use std::fs::TryLockError;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};

use fs_err::{File, OpenOptions};
use serde::{Deserialize, Serialize};

use super::{Entry, Event};
use crate::error::ServerError;
use crate::security::{hex, private_directory, sha256, write_private};

const FOLDER: &str = "audit";
const HEAD: &str = "head.json";
const LOCK: &str = "lock";
/// Size at which a new file is started.
const MAX_FILE_BYTES: u64 = 16 << 20;
/// Maximum number of files of a chain.
const MAX_FILES: usize = 16;
const MAX_CHAINS: u32 = 64;
const ZEROS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// Number and hash of the last line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Head {
    number: u64,
    sha256: String,
}

/// A chain open for writing.
#[derive(Debug)]
pub struct Chain {
    directory: PathBuf,
    file: File,
    file_bytes: u64,
    head: Head,
    dirty: bool,
    _lock: std::fs::File,
}

/// Opens the first chain that no other process writes.
pub fn open_chain(state: &Path) -> Result<Chain, ServerError> {
    let root = private_directory(&state.join(FOLDER))?;
    for number in 1..=MAX_CHAINS {
        let directory = private_directory(&root.join(number.to_string()))?;
        let path = directory.join(LOCK);
        let lock = OpenOptions::new().create(true).append(true).open(&path)?.into_parts().0;
        match lock.try_lock() {
            Ok(()) => return Chain::open(directory, lock),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
    }
    Err(ServerError::Unsafe(format!("{MAX_CHAINS} servers write audit logs in {} already", root.display())))
}

impl Chain {
    fn open(directory: PathBuf, lock: std::fs::File) -> Result<Self, ServerError> {
        // Only complete lines count: a killed server may have left a partial line.
        let mut head = Head { number: 0, sha256: ZEROS.into() };
        let names = files(&directory)?;
        for name in names.iter().rev() {
            let mut last = None;
            for line in lines(name)? {
                let line = line?;
                if let Ok(entry) = serde_json::from_slice::<Entry>(&line) {
                    last = Some(Head { number: entry.number, sha256: hex(&sha256(&line)) });
                }
            }
            if let Some(found) = last {
                head = found;
                break;
            }
        }
        // Always starts a new file; existing files are never changed.
        let file = new_file(&directory, head.number + 1)?;
        let mut chain = Self { directory, file, file_bytes: 0, head, dirty: true, _lock: lock };
        chain.sync()?;
        Ok(chain)
    }

    pub fn append(&mut self, event: Event, unix_ms: u64) -> Result<(), ServerError> {
        if self.file_bytes >= MAX_FILE_BYTES {
            self.sync()?;
            self.file = new_file(&self.directory, self.head.number + 1)?;
            self.file_bytes = 0;
            let names = files(&self.directory)?;
            for old in names.iter().take(names.len().saturating_sub(MAX_FILES)) {
                fs_err::remove_file(old)?;
            }
        }
        let entry =
            Entry { number: self.head.number + 1, unix_ms, event, previous_sha256: self.head.sha256.clone() };
        let mut line = serde_json::to_vec(&entry).map_err(std::io::Error::other)?;
        let hash = hex(&sha256(&line));
        line.push(b'\n');
        self.file.write_all(&line)?;
        self.file_bytes += line.len() as u64;
        self.head = Head { number: entry.number, sha256: hash };
        self.dirty = true;
        Ok(())
    }

    pub fn sync(&mut self) -> Result<(), ServerError> {
        if std::mem::take(&mut self.dirty) {
            self.file.sync_data()?;
            let head = serde_json::to_vec(&self.head).map_err(std::io::Error::other)?;
            write_private(&self.directory.join(HEAD), &head)?;
        }
        Ok(())
    }
}

/// Creates a file, readable by its owner only, for lines from this number on.
fn new_file(directory: &Path, first: u64) -> Result<File, ServerError> {
    let path = directory.join(format!("{first:012}.jsonl"));
    if !path.exists() {
        write_private(&path, b"")?;
    }
    Ok(OpenOptions::new().append(true).open(path)?)
}

/// The files of a chain, oldest first.
fn files(directory: &Path) -> Result<Vec<PathBuf>, ServerError> {
    let mut names = Vec::new();
    for entry in fs_err::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "jsonl") {
            names.push(path);
        }
    }
    names.sort();
    Ok(names)
}

fn lines(path: &Path) -> Result<impl Iterator<Item = std::io::Result<Vec<u8>>>, ServerError> {
    Ok(BufReader::new(File::open(path)?)
        .split(b'\n')
        .filter(|line| !matches!(line, Ok(line) if line.is_empty())))
}

fn chains(state: &Path) -> Result<Vec<PathBuf>, ServerError> {
    let root = state.join(FOLDER);
    let numbers = 1..=MAX_CHAINS;
    Ok(numbers.map(|number| root.join(number.to_string())).filter(|path| path.is_dir()).collect())
}

/// The result of verifying all chains.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Verified {
    pub chains: u64,
    pub entries: u64,
    /// Problems in one sentence each; empty if nothing was changed.
    pub problems: Vec<String>,
    /// Notes that are no problems.
    pub notes: Vec<String>,
}

/// Verifies every line of every chain.
pub fn verify(state: &Path) -> Result<Verified, ServerError> {
    let mut verified = Verified::default();
    for directory in chains(state)? {
        verified.chains += 1;
        check_chain(&directory, &mut verified)?;
    }
    Ok(verified)
}

fn check_chain(directory: &Path, verified: &mut Verified) -> Result<(), ServerError> {
    let mut last: Option<Head> = None;
    for path in files(directory)? {
        let place = path.display();
        let mut torn: Option<usize> = None;
        for (index, line) in lines(&path)?.enumerate() {
            let line = line?;
            if let Some(torn) = torn.take() {
                verified.problems.push(format!("{place}, line {}: it is not an entry", torn + 1));
            }
            let Ok(entry) = serde_json::from_slice::<Entry>(&line) else {
                torn = Some(index);
                continue;
            };
            match &last {
                None if entry.number == 1 && entry.previous_sha256 != ZEROS => {
                    verified.problems.push(format!("{place}: the first entry does not start a chain"));
                }
                None if entry.number > 1 => {
                    verified
                        .notes
                        .push(format!("{place}: entries before number {} were rotated away", entry.number));
                }
                Some(last) if last.sha256 != entry.previous_sha256 || last.number + 1 != entry.number => {
                    let sentence =
                        format!("{place}, entry {}: it does not follow entry {}", entry.number, last.number);
                    verified.problems.push(sentence);
                }
                _ => {}
            }
            verified.entries += 1;
            last = Some(Head { number: entry.number, sha256: hex(&sha256(&line)) });
        }
        if torn.is_some() {
            verified.notes.push(format!(
                "{place}: the last line is incomplete; the server was killed while writing it"
            ));
        }
    }
    let head: Option<Head> = match fs_err::read(directory.join(HEAD)) {
        Ok(bytes) => serde_json::from_slice(&bytes).ok(),
        Err(_) => None,
    };
    let place = directory.display();
    match (head, last) {
        (None, None) => {}
        (None, Some(_)) => verified.problems.push(format!("{place}: {HEAD} is missing or damaged")),
        (Some(head), last) => {
            let number = last.as_ref().map_or(0, |last| last.number);
            if number < head.number {
                verified.problems.push(format!(
                    "{place}: entries {} to {} are missing",
                    number + 1,
                    head.number
                ));
            } else if last.is_some_and(|last| last.number == head.number && last.sha256 != head.sha256) {
                verified.problems.push(format!("{place}: the last entry was changed"));
            }
        }
    }
    Ok(())
}

/// The newest entries of all chains, newest first.
pub fn entries(state: &Path, most: usize) -> Result<Vec<Entry>, ServerError> {
    let mut found: Vec<Entry> = Vec::new();
    for directory in chains(state)? {
        let mut of_chain = 0;
        for path in files(&directory)?.iter().rev() {
            let entries = lines(path)?.filter_map(|line| serde_json::from_slice::<Entry>(&line.ok()?).ok());
            let mut newest: std::collections::VecDeque<Entry> = std::collections::VecDeque::new();
            for entry in entries {
                if newest.len() >= most {
                    newest.pop_front();
                }
                newest.push_back(entry);
            }
            of_chain += newest.len();
            found.extend(newest);
            if of_chain >= most {
                break;
            }
        }
    }
    found.sort_by_key(|entry| std::cmp::Reverse((entry.unix_ms, entry.number)));
    found.truncate(most);
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(what: &str) -> Event {
        Event { what: what.into(), status: 200, ..Event::default() }
    }

    fn state_with(lines: usize) -> tempfile::TempDir {
        let state = tempfile::tempdir().expect("a directory");
        let mut chain = open_chain(state.path()).expect("a chain");
        for number in 0..lines {
            chain.append(event(&format!("GET /{number}")), number as u64).expect("written");
        }
        chain.sync().expect("written");
        state
    }

    fn change(state: &Path, change: impl FnOnce(String) -> String) {
        let path = files(&state.join(FOLDER).join("1")).expect("files").pop().expect("one");
        let text = fs_err::read_to_string(&path).expect("text");
        fs_err::write(&path, change(text)).expect("written");
    }

    #[test]
    fn an_untouched_log_verifies_also_after_restarts() {
        let state = state_with(5);
        {
            let mut chain = open_chain(state.path()).expect("again");
            chain.append(event("more"), 9).expect("written");
            let _other = open_chain(state.path()).expect("another server has a chain of its own");
        }
        let verified = verify(state.path()).expect("read");
        assert_eq!((verified.chains, verified.entries, verified.problems.len()), (2, 6, 0), "{verified:?}");
        assert_eq!(entries(state.path(), 2).expect("read")[0].event.what, "more");
    }

    #[test]
    fn every_change_shows() {
        type Change = fn(String) -> String;
        let changes: [(&str, Change); 5] = [
            ("a word", |text| text.replacen("GET /2", "GET /7", 1)),
            ("a line left out", |text| {
                text.lines().filter(|line| !line.contains("/2\"")).map(|line| format!("{line}\n")).collect()
            }),
            ("the end cut off", |text| text.lines().take(3).map(|line| format!("{line}\n")).collect()),
            ("the last entry", |text| text.replacen("GET /4", "GET /9", 1)),
            ("two lines swapped", |text| {
                let mut lines: Vec<&str> = text.lines().collect();
                lines.swap(1, 2);
                lines.join("\n") + "\n"
            }),
        ];
        for (name, how) in changes {
            let state = state_with(5);
            change(state.path(), how);
            assert!(!verify(state.path()).expect("read").problems.is_empty(), "{name}");
        }
    }

    #[test]
    fn a_torn_last_line_is_a_note() {
        let state = state_with(5);
        change(state.path(), |text| text + "{\"number\":6,\"unix");
        let verified = verify(state.path()).expect("read");
        assert_eq!((verified.problems.len(), verified.notes.len()), (0, 1));
    }
}
