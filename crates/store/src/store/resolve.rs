//! Which recording is meant.

use std::path::{Path, PathBuf};

use crate::StoreError;
use crate::catalogue::{self, Entry};

/// Names that are offered when nothing fits.
const MAX_OFFERED: usize = 3;

pub(super) fn resolve(root: &Path, run: &str) -> Result<PathBuf, StoreError> {
    let path = Path::new(run);
    let is_path = run.contains(['/', '\\']) || run == "." || run == "..";
    if run.is_empty() {
        return Err(StoreError::Argument("no recording is named".into()));
    }
    if is_path {
        return if path.exists() { Ok(path.to_owned()) } else { Err(unknown(run, &[])) };
    }
    let entries = catalogue::list(root)?;
    if run == "last" {
        return entries.first().map(|entry| entry.directory.clone()).ok_or_else(|| unknown(run, &entries));
    }
    let ways: [&dyn Fn(&Entry) -> bool; 3] =
        [&|entry| entry.id == run, &|entry| entry.name.as_deref() == Some(run), &|entry| {
            entry.id.starts_with(run) || last_part(&entry.id).starts_with(run)
        }];
    for way in ways {
        let meant: Vec<&Entry> = entries.iter().filter(|entry| way(entry)).collect();
        match meant.as_slice() {
            [] => {}
            [only] => return Ok(only.directory.clone()),
            several => {
                let candidates = several.iter().take(10).map(|entry| described(entry)).collect();
                return Err(StoreError::Ambiguous { run: run.into(), candidates });
            }
        }
    }
    if path.exists() { Ok(path.to_owned()) } else { Err(unknown(run, &entries)) }
}

/// The random part of an id: short enough to type.
fn last_part(id: &str) -> &str {
    id.rsplit('-').next().unwrap_or(id)
}

fn described(entry: &Entry) -> String {
    match &entry.name {
        Some(name) => format!("{} ({name})", entry.id),
        None => entry.id.clone(),
    }
}

fn unknown(run: &str, entries: &[Entry]) -> StoreError {
    let names = entries.iter().flat_map(|entry| {
        [Some(entry.id.as_str()), Some(last_part(&entry.id)), entry.name.as_deref()].into_iter().flatten()
    });
    let most = (run.chars().count() / 3).max(2);
    let mut close: Vec<(usize, &str)> =
        names.map(|name| (distance(run, name), name)).filter(|(steps, _)| *steps <= most).collect();
    close.sort_unstable();
    close.dedup();
    let close = close.into_iter().take(MAX_OFFERED).map(|(_, name)| format!("'{name}'")).collect();
    StoreError::Unknown { run: run.into(), close }
}

/// How many letters must be changed, added or removed to get from one word to the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.to_lowercase().chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.to_lowercase().chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let changed = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_counted_in_letters() {
        assert_eq!(distance("baseline", "baseline"), 0);
        assert_eq!(distance("basline", "baseline"), 1);
        assert_eq!(distance("Baseline", "baselien"), 2);
        assert_eq!(distance("", "abc"), 3);
    }
}
