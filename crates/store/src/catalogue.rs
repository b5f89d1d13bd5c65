//! The list of recordings, cached in SQLite so that listing need not open each one.
//!
//! The recordings are the source of truth; the catalogue only caches their manifests. It is compared with the
//! directory whenever it is read, rebuilt when damaged, and skipped where it cannot be written.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use rusqlite::{Connection, Row, params};
use serde::Serialize;

use crate::StoreError;
use crate::files::is_written;
use crate::files::{JOURNAL, MANIFEST, SEGMENTS, bytes_below, entries};
use crate::manifest::{Found, Manifest};

const FILE: &str = "catalogue.sqlite";
/// Version of the table below; another one is dropped and made again.
const VERSION: i64 = 1;
const SCHEMA: &str = "
    DROP TABLE IF EXISTS recordings;
    CREATE TABLE recordings (
        id TEXT PRIMARY KEY, stamp TEXT NOT NULL, name TEXT, tags TEXT NOT NULL, origin TEXT NOT NULL,
        subject TEXT NOT NULL, command TEXT, ortscope_version TEXT NOT NULL, started_unix_ns INTEGER NOT NULL,
        ended_unix_ns INTEGER, duration_ns INTEGER, reason TEXT, row_count INTEGER NOT NULL, bytes INTEGER NOT NULL
    ) STRICT;";

/// A recording in the list.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Entry {
    pub id: String,
    pub directory: PathBuf,
    pub name: Option<String>,
    pub tags: Vec<String>,
    pub origin: String,
    pub subject: String,
    pub command: Option<String>,
    pub ortscope_version: String,
    pub started_unix_ns: u64,
    pub ended_unix_ns: Option<u64>,
    /// From its start to its end; none if it did not end in order.
    pub duration_ns: Option<u64>,
    /// Why it ended.
    pub reason: Option<String>,
    /// Stored rows; none if unknown without reading the recording.
    pub rows: Option<u64>,
    /// Size on disk.
    pub bytes: u64,
    /// It ended in order. Otherwise it was cut off, or is being written: it can be read in any case.
    pub finished: bool,
    /// Somebody writes it now.
    pub being_written: bool,
    /// It cannot be read; `problem` explains why.
    pub damaged: bool,
    pub problem: Option<String>,
    /// It is encrypted. Without its key only id, size and time are known; `problem` explains this.
    pub encrypted: bool,
    /// It has a name or a tag; also known without the key.
    #[serde(skip)]
    pub(crate) is_kept: bool,
}

/// All recordings of a store, newest first.
pub(crate) fn list(root: &Path) -> Result<Vec<Entry>, StoreError> {
    let mut catalogue = Catalogue::open(root);
    let remembered = catalogue.as_ref().map(Catalogue::load).unwrap_or_default();
    let mut found = Vec::new();
    let mut changed = Vec::new();
    for directory in entries(root)?.into_iter().filter(|path| is_recording(path)) {
        let id = name_of(&directory);
        let stamp = stamp(&directory);
        match remembered.get(&id) {
            Some((at, entry)) if *at == stamp => found.push(Entry { directory, ..entry.clone() }),
            _ => {
                let entry = look(&directory)?;
                if is_remembered(&entry) {
                    changed.push((stamp, entry.clone()));
                }
                found.push(entry);
            }
        }
    }
    let gone = remembered.keys().filter(|id| !found.iter().any(|entry| entry.id == **id));
    let gone: Vec<String> = gone.cloned().collect();
    if let Some(catalogue) = &mut catalogue
        && let Err(error) = catalogue.update(&changed, &gone)
    {
        // A read-only place: the list is complete without it.
        tracing::debug!("{error}");
    }
    found.sort_by(|a, b| b.started_unix_ns.cmp(&a.started_unix_ns).then_with(|| b.id.cmp(&a.id)));
    Ok(found)
}

/// Remembers a recording that has just ended or changed.
pub(crate) fn note(root: &Path, directory: &Path) -> Result<(), StoreError> {
    let entry = look(directory)?;
    let changed = if is_remembered(&entry) { vec![(stamp(directory), entry)] } else { Vec::new() };
    Catalogue::open(root).map_or(Ok(()), |mut catalogue| catalogue.update(&changed, &[]))
}

/// The entry according to the recording's own files.
pub(crate) fn look(directory: &Path) -> Result<Entry, StoreError> {
    let mut locked = None;
    let (manifest, problem) = match Manifest::read(directory) {
        Ok(Found::Whole(manifest)) => (*manifest, None),
        Ok(Found::Missing) => (Manifest::of_lost(directory), Some(format!("{MANIFEST} is missing"))),
        Ok(Found::Damaged(problem)) => (Manifest::of_lost(directory), Some(format!("{MANIFEST}: {problem}"))),
        // Complete, as far as visible from outside.
        Err(error @ (StoreError::NoKey { .. } | StoreError::Key { .. })) => {
            // Kept if it cannot be decided.
            locked = Some(!matches!(error, StoreError::NoKey { is_kept: false, .. }));
            let manifest = Manifest { subject: "encrypted".into(), ..Manifest::of_lost(directory) };
            (manifest, Some(error.to_string()))
        }
        Err(error) => (Manifest::of_lost(directory), Some(error.to_string())),
    };
    let (is_locked, encrypted, is_kept) = (
        locked.is_some(),
        locked.is_some() || manifest.encryption.is_some(),
        locked.unwrap_or(manifest.is_kept()),
    );
    let started_unix_ns =
        if manifest.started.unix_ns == 0 { modified_unix_ns(directory) } else { manifest.started.unix_ns };
    Ok(Entry {
        // Users refer to the directory name; the manifest has the same id unless the directory was copied.
        id: name_of(directory),
        directory: directory.to_owned(),
        name: manifest.name,
        tags: manifest.tags,
        origin: manifest.origin,
        subject: manifest.subject,
        command: manifest.command,
        ortscope_version: manifest.ortscope_version,
        started_unix_ns,
        ended_unix_ns: manifest.end.as_ref().map(|end| end.ended.unix_ns),
        duration_ns: manifest
            .end
            .as_ref()
            .map(|end| end.ended.monotonic_ns.saturating_sub(manifest.started.monotonic_ns)),
        finished: manifest.end.is_some(),
        being_written: manifest.end.is_none() && is_written(directory),
        damaged: problem.is_some() && !is_locked,
        encrypted,
        is_kept,
        problem,
        rows: manifest.end.as_ref().map(|end| end.rows.values().sum()),
        reason: manifest.end.map(|end| end.reason),
        bytes: bytes_below(directory),
    })
}

/// Encrypted entries are not cached, because the catalogue is readable.
fn is_remembered(entry: &Entry) -> bool {
    entry.finished && !entry.encrypted
}

pub(crate) fn is_recording(path: &Path) -> bool {
    let is_hidden = path.file_name().is_none_or(|name| name.to_string_lossy().starts_with('.'));
    !is_hidden && path.is_dir() && [MANIFEST, SEGMENTS, JOURNAL].iter().any(|part| path.join(part).exists())
}

fn name_of(directory: &Path) -> String {
    directory.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Tells whether a manifest has changed since it was remembered.
fn stamp(directory: &Path) -> String {
    let metadata = std::fs::metadata(directory.join(MANIFEST));
    let bytes = metadata.map_or(0, |metadata| metadata.len());
    format!("{}-{bytes}", modified_unix_ns(&directory.join(MANIFEST)))
}

fn modified_unix_ns(path: &Path) -> u64 {
    let modified = std::fs::metadata(path).and_then(|metadata| metadata.modified());
    let since = modified.ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since.and_then(|since| u64::try_from(since.as_nanos()).ok()).unwrap_or(0)
}

#[derive(Debug)]
struct Catalogue {
    connection: Connection,
}

impl Catalogue {
    /// `None` where there cannot be one. A damaged one is set aside.
    fn open(root: &Path) -> Option<Self> {
        let path = root.join(FILE);
        match Self::try_open(&path).map_err(StoreError::from) {
            Ok(catalogue) => Some(catalogue),
            Err(StoreError::Damaged { .. }) => {
                tracing::warn!("the catalogue of recordings was damaged and is made again");
                fs_err::rename(&path, path.with_extension("damaged")).ok()?;
                Self::try_open(&path).ok()
            }
            // No directory yet, or a read-only one.
            Err(_) => None,
        }
    }

    fn try_open(path: &Path) -> rusqlite::Result<Self> {
        let connection = Connection::open(path)?;
        connection.busy_timeout(Duration::from_secs(2))?;
        let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        if version != VERSION {
            connection.execute_batch(SCHEMA)?;
            connection.pragma_update(None, "user_version", VERSION)?;
        }
        // Damage shows when the table is read, not when the file is opened.
        connection.query_row("SELECT count(*), max(stamp), max(bytes) FROM recordings", [], |_| Ok(()))?;
        Ok(Self { connection })
    }

    /// Stamp and entry by id. Unreadable entries are built again.
    fn load(&self) -> BTreeMap<String, (String, Entry)> {
        let query =
            "SELECT id, stamp, name, tags, origin, subject, command, ortscope_version, started_unix_ns,
                     ended_unix_ns, duration_ns, reason, row_count, bytes FROM recordings";
        let read = || -> rusqlite::Result<Vec<(String, Entry)>> {
            self.connection.prepare(query)?.query_map([], entry_of)?.collect()
        };
        match read() {
            Ok(rows) => rows.into_iter().map(|(stamp, entry)| (entry.id.clone(), (stamp, entry))).collect(),
            Err(error) => {
                tracing::warn!("the catalogue of recordings cannot be read: {error}");
                BTreeMap::new()
            }
        }
    }

    fn update(&mut self, changed: &[(String, Entry)], gone: &[String]) -> Result<(), StoreError> {
        if changed.is_empty() && gone.is_empty() {
            return Ok(());
        }
        let transaction = self.connection.transaction()?;
        for id in gone {
            transaction.execute("DELETE FROM recordings WHERE id = ?1", [id])?;
        }
        for (stamp, entry) in changed {
            let tags = serde_json::to_string(&entry.tags).unwrap_or_default();
            transaction.execute(
                "INSERT OR REPLACE INTO recordings VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
                params![
                    entry.id,
                    stamp,
                    entry.name,
                    tags,
                    entry.origin,
                    entry.subject,
                    entry.command,
                    entry.ortscope_version,
                    to_sql(entry.started_unix_ns),
                    entry.ended_unix_ns.map(to_sql),
                    entry.duration_ns.map(to_sql),
                    entry.reason,
                    to_sql(entry.rows.unwrap_or(0)),
                    to_sql(entry.bytes),
                ],
            )?;
        }
        Ok(transaction.commit()?)
    }
}

fn to_sql(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn entry_of(row: &Row<'_>) -> rusqlite::Result<(String, Entry)> {
    let number = |index: usize| row.get::<_, i64>(index).map(|value| u64::try_from(value).unwrap_or(0));
    let maybe = |index: usize| {
        row.get::<_, Option<i64>>(index).map(|value| value.and_then(|value| u64::try_from(value).ok()))
    };
    let tags: String = row.get(3)?;
    let entry = Entry {
        id: row.get(0)?,
        directory: PathBuf::new(),
        name: row.get(2)?,
        tags: serde_json::from_str(&tags).unwrap_or_default(),
        origin: row.get(4)?,
        subject: row.get(5)?,
        command: row.get(6)?,
        ortscope_version: row.get(7)?,
        started_unix_ns: number(8)?,
        ended_unix_ns: maybe(9)?,
        duration_ns: maybe(10)?,
        reason: row.get(11)?,
        rows: Some(number(12)?),
        bytes: number(13)?,
        finished: true,
        being_written: false,
        damaged: false,
        problem: None,
        encrypted: false,
        is_kept: false,
    };
    let is_kept = entry.name.is_some() || !entry.tags.is_empty();
    Ok((row.get(1)?, Entry { is_kept, ..entry }))
}
