//! A recording that is read. Nothing in it is ever changed by reading: it may lie in a read-only place, be written by
//! another process at the same time, or have been cut off by a crash.

mod condition;
mod expand;
mod known;
mod open;
mod rings;
mod rows;
mod ticks;
mod unit;

use std::path::{Path, PathBuf};

use ortscope_channel::disk::open_to_read;
use ortscope_core::schema::{TableId, TableKind};
use ortscope_core::tables::{Batches, ReadError, Scan, Tables};
use serde::{Serialize, Serializer};

pub use condition::{Condition, Damage};
pub(crate) use unit::Unit;

use crate::StoreError;
use crate::encryption::{document_name, open_small};
use crate::files::{DOCUMENTS, bytes_below, is_plain_name, read_small};
use crate::manifest::{Found, Manifest};
use crate::pack::Unpacked;
use expand::Expander;

/// A recording that is read.
#[derive(Debug)]
pub struct Recording {
    /// The directory of its files; for a packed recording, where they were unpacked.
    directory: PathBuf,
    /// The path given by the user.
    path: PathBuf,
    manifest: Manifest,
    condition: Condition,
    units: Vec<Unit>,
    /// Removed with this value.
    _unpacked: Option<Unpacked>,
}

/// How much of a table a recording has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TableSummary {
    #[serde(serialize_with = "name_of_table")]
    pub table: TableId,
    /// Rows that are kept; of sampled tables those that changed.
    pub rows: u64,
    pub from_ns: u64,
    pub to_ns: u64,
    /// Size on disk; size in memory for rows that are still in the journal.
    pub bytes: u64,
}

fn name_of_table<S: Serializer>(table: &TableId, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(table.def().name)
}

impl Recording {
    /// Opens the recording in a directory or in a packed file. Only the directories of its segments are read, and the
    /// journal if there still is one.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        open::open(path)
    }

    /// Opens a recording that this process has locked, so that it cannot change.
    pub(crate) fn open_locked(directory: &Path) -> Result<Self, StoreError> {
        open::open_directory(directory, false)
    }

    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Completeness. Damage inside segments is found by reading or with [`Recording::verify`].
    pub fn condition(&self) -> &Condition {
        &self.condition
    }

    /// The path it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The tables that have rows.
    pub fn tables(&self) -> Vec<TableSummary> {
        let summary = |table: &TableId| {
            let mut sum = unit::Extent::default();
            for extent in self.units.iter().filter_map(|unit| unit.tables.get(table)) {
                sum.include(extent.rows, extent.from_ns, extent.to_ns, extent.bytes);
            }
            let unit::Extent { rows, from_ns, to_ns, bytes } = sum;
            (rows > 0).then_some(TableSummary { table: *table, rows, from_ns, to_ns, bytes })
        };
        TableId::ALL.iter().filter_map(summary).collect()
    }

    /// A document that was kept with it, such as `run.json`; `None` if there is none of that name.
    pub fn document(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        if !is_plain_name(name) {
            return Err(StoreError::Argument(format!("'{name}' cannot be the name of a document")));
        }
        let path = self.directory.join(DOCUMENTS).join(name);
        let read = || -> Result<Option<Vec<u8>>, StoreError> {
            let Some(bytes) = read_small(&path)? else { return Ok(None) };
            let Some(seal) = &self.manifest.encryption else { return Ok(Some(bytes)) };
            let opened = open_small(seal, &document_name(name), &bytes);
            let place = format!("{DOCUMENTS}/{name}");
            opened.map(Some).map_err(|problem| StoreError::damaged(place, problem))
        };
        let bytes = read()?;
        if bytes.as_ref().is_none_or(|bytes| self.manifest.has_document(name, bytes)) {
            return Ok(bytes);
        }
        // Whoever writes the recording may have replaced it since this was opened; its checksum came first.
        let manifest = Manifest::read_with(&self.directory, self.manifest.encryption.as_ref())?;
        let bytes = read()?;
        match (manifest, bytes) {
            (Found::Whole(manifest), Some(bytes)) if manifest.has_document(name, &bytes) => Ok(Some(bytes)),
            (_, None) => Ok(None),
            _ => Err(StoreError::damaged(format!("{DOCUMENTS}/{name}"), "its checksum does not hold")),
        }
    }

    pub fn bytes_on_disk(&self) -> u64 {
        bytes_below(&self.path)
    }

    /// How many rows a scan for every tick gives. Reads the ticks and the keys of the table.
    pub fn logical_rows(&self, table: TableId) -> Result<u64, ReadError> {
        match table.def().kind {
            TableKind::Events => Ok(self.row_count(table)),
            TableKind::Samples(_) => Expander::new(&self.units, table, &Scan::all().columns(&[])).count(),
        }
    }

    /// Reads and checks every block once; returns damage beyond [`Recording::condition`].
    pub fn verify(&self) -> Result<Vec<Damage>, StoreError> {
        let mut damaged = Vec::new();
        for segment in self.units.iter().filter_map(Unit::segment) {
            let mut file = open_to_read(&segment.path)?;
            for chunk in &segment.footer.chunks {
                if let Err(error) = segment.read_chunk(&mut file, chunk) {
                    let ReadError::Damaged { place, problem } = error else {
                        return Err(error.into());
                    };
                    damaged.push(Damage { place, problem, rows_lost: Some(chunk.rows) });
                }
            }
        }
        for name in self.manifest.documents.keys() {
            if let Err(StoreError::Damaged { place, problem }) = self.document(name) {
                damaged.push(Damage { place, problem, rows_lost: Some(0) });
            }
        }
        Ok(damaged)
    }

    pub(crate) fn units(&self) -> &[Unit] {
        &self.units
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }
}

impl Tables for Recording {
    fn row_count(&self, table: TableId) -> u64 {
        self.units.iter().filter_map(|unit| unit.tables.get(&table)).map(|extent| extent.rows).sum()
    }

    fn time_range_ns(&self) -> Option<(u64, u64)> {
        let extents = || self.units.iter().flat_map(|unit| unit.tables.values());
        Some((extents().map(|extent| extent.from_ns).min()?, extents().map(|extent| extent.to_ns).max()?))
    }

    /// An error names one place that cannot be read; what lies behind it follows.
    fn scan(&self, table: TableId, scan: &Scan) -> Batches<'_> {
        if scan.every_tick && matches!(table.def().kind, TableKind::Samples(_)) {
            return Box::new(Expander::new(&self.units, table, scan));
        }
        let scan = scan.clone();
        Box::new(self.units.iter().flat_map(move |unit| unit.scan(table, &scan)))
    }
}
