//! Rows out of one file, chunk by chunk.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fs_err::File;
use ortscope_channel::disk::open_to_read;
use ortscope_channel::journal::JournalFileReader;
use ortscope_core::batch::Batch;
use ortscope_core::schema::{Column, TableId, TableKind};
use ortscope_core::tables::{ReadError, Scan};

use super::unit::wanted;
use crate::columns::{batch_of, integers, pick};
use crate::segment::Segment;

/// The rows of a table in a segment. A damaged chunk is an error; later chunks follow.
#[derive(Debug)]
pub(super) struct SegmentRows {
    segment: Arc<Segment>,
    /// Opened with the first chunk.
    file: Option<File>,
    /// The chunks that may have rows the scan wants, last one first.
    chunks: Vec<usize>,
    scan: Scan,
}

impl SegmentRows {
    pub fn new(segment: Arc<Segment>, table: TableId, scan: &Scan) -> Self {
        let chunks = segment
            .chunk_numbers(table)
            .filter(|number| {
                let chunk = &segment.footer.chunks[*number];
                scan.from_ns.is_none_or(|from| chunk.to_ns >= from)
                    && scan.to_ns.is_none_or(|to| chunk.from_ns < to)
            })
            .collect::<Vec<_>>();
        Self { segment, file: None, chunks: chunks.into_iter().rev().collect(), scan: scan.clone() }
    }

    fn read(&mut self, number: usize) -> Result<Batch, ReadError> {
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(open_to_read(&self.segment.path)?),
        };
        let chunk = &self.segment.footer.chunks[number];
        let batch = self.segment.decode(file, chunk, |column| self.scan.wants_column(column))?;
        Ok(in_time_order(wanted(batch, &self.scan)))
    }
}

impl Iterator for SegmentRows {
    type Item = Result<Batch, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let number = self.chunks.pop()?;
            match self.read(number) {
                Ok(batch) if batch.is_empty() => {}
                result => return Some(result),
            }
        }
    }
}

/// Sampled rows lie by key in a segment; readers get them by time.
fn in_time_order(batch: Batch) -> Batch {
    match time_order(batch.times_ns()) {
        Some(order) if matches!(batch.table().def().kind, TableKind::Samples(_)) => {
            batch_of(batch.table(), batch.columns().iter().map(|column| pick(column, &order)).collect())
        }
        _ => batch,
    }
}

/// Brings columns into the order of their first one, the time.
pub(super) fn sort_by_time(columns: &mut [Column]) {
    if let Some(order) = columns.first().and_then(|times| time_order(integers(times))) {
        for column in columns {
            *column = pick(column, &order);
        }
    }
}

/// The order in which these times ascend; `None` if they do.
fn time_order(times: &[u64]) -> Option<Vec<u32>> {
    if times.is_sorted() {
        return None;
    }
    let mut order: Vec<u32> = (0..times.len() as u32).collect();
    order.sort_by_key(|row| times[*row as usize]);
    Some(order)
}

/// The rows of a table in a journal file, in the order they were written.
#[derive(Debug)]
pub(super) struct JournalRows {
    reader: JournalFileReader,
    place: PathBuf,
    /// Damage that was counted when the recording was opened.
    known_damage: u64,
    table: TableId,
    scan: Scan,
    is_over: bool,
}

impl JournalRows {
    pub fn new(
        reader: JournalFileReader,
        (place, known_damage): (&Path, u64),
        table: TableId,
        scan: &Scan,
    ) -> Self {
        Self { reader, place: place.to_owned(), known_damage, table, scan: scan.clone(), is_over: false }
    }
}

impl Iterator for JournalRows {
    type Item = Result<Batch, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        while let Some(batch) = self.reader.next_batch() {
            if batch.table() == self.table {
                let batch = wanted(batch, &self.scan);
                if !batch.is_empty() {
                    return Some(Ok(batch));
                }
            }
        }
        self.is_over = true;
        // The file was overwritten while it was read, because it has become a segment: better an error than fewer rows.
        (self.reader.outcome().damaged_frames > self.known_damage).then(|| {
            let problem = "it was changed while it was read; read it again".to_owned();
            Err(ReadError::Damaged { place: self.place.display().to_string(), problem })
        })
    }
}
