//! A unit is what one journal file became: a segment, or the file itself while it is not one yet.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ortscope_channel::ChannelError;
use ortscope_channel::journal::{JournalFileReader, JournalOutcome};
use ortscope_channel::seal::Sealer;
use ortscope_core::batch::Batch;
use ortscope_core::schema::TableId;
use ortscope_core::tables::{ReadError, Scan};

use super::rows::{JournalRows, SegmentRows};
use crate::encryption::Seal;
use crate::segment::Segment;

/// Rows that were kept together, in the order of the journal.
#[derive(Debug)]
pub(crate) struct Unit {
    pub number: u64,
    source: Source,
    pub tables: BTreeMap<TableId, Extent>,
    /// Nothing is missing in it, as far as it knows.
    pub complete: bool,
    /// The unit before it is there.
    pub follows: bool,
}

/// How much of a table there is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Extent {
    pub rows: u64,
    pub from_ns: u64,
    pub to_ns: u64,
    pub bytes: u64,
}

#[derive(Debug)]
enum Source {
    Segment(Arc<Segment>),
    /// A journal file that will not grow. While the recording is being written it may turn into the segment any moment.
    Journal {
        file: PathBuf,
        segment: PathBuf,
        seal: Option<Seal>,
        damaged_frames: u64,
    },
    /// Content of the journal's last file when the recording was opened, or of rings.
    Memory(Vec<Batch>),
}

impl Extent {
    pub fn include(&mut self, rows: u64, from_ns: u64, to_ns: u64, bytes: u64) {
        let is_first = self.rows == 0;
        self.from_ns = if is_first { from_ns } else { self.from_ns.min(from_ns) };
        self.to_ns = if is_first { to_ns } else { self.to_ns.max(to_ns) };
        self.rows += rows;
        self.bytes += bytes;
    }

    fn include_batch(&mut self, batch: &Batch) {
        let times = batch.times_ns();
        if let (Some(from), Some(to)) = (times.iter().min(), times.iter().max()) {
            self.include(batch.len() as u64, *from, *to, batch.bytes() as u64);
        }
    }
}

impl Unit {
    pub fn of_segment(number: u64, segment: Segment) -> Self {
        let mut tables: BTreeMap<TableId, Extent> = BTreeMap::new();
        for table in TableId::ALL {
            for chunk in segment.chunks(*table) {
                let extent = tables.entry(*table).or_default();
                extent.include(chunk.rows, chunk.from_ns, chunk.to_ns, chunk.bytes());
            }
        }
        let complete = segment.footer.damaged_frames == 0;
        Self { number, source: Source::Segment(Arc::new(segment)), tables, complete, follows: false }
    }

    /// Reads a journal file once. One that may still grow is kept in memory, so that counted and read rows agree.
    pub fn of_journal(
        number: u64,
        file: &Path,
        segment: &Path,
        grows: bool,
        seal: Option<&Seal>,
    ) -> Result<(Self, JournalOutcome), ChannelError> {
        let mut reader = open_journal(file, seal)?;
        let mut tables: BTreeMap<TableId, Extent> = BTreeMap::new();
        let mut batches = Vec::new();
        while let Some(batch) = reader.next_batch() {
            tables.entry(batch.table()).or_default().include_batch(&batch);
            if grows {
                batches.push(batch);
            }
        }
        let outcome = reader.outcome().clone();
        let damaged_frames = outcome.damaged_frames;
        let source = if grows {
            Source::Memory(batches)
        } else {
            let (file, segment, seal) = (file.to_owned(), segment.to_owned(), seal.cloned());
            Source::Journal { file, segment, seal, damaged_frames }
        };
        let complete = damaged_frames == 0;
        Ok((Self { number, source, tables, complete, follows: false }, outcome))
    }

    pub fn of_memory(number: u64, batches: Vec<Batch>) -> Self {
        let mut tables: BTreeMap<TableId, Extent> = BTreeMap::new();
        for batch in &batches {
            tables.entry(batch.table()).or_default().include_batch(batch);
        }
        Self { number, source: Source::Memory(batches), tables, complete: true, follows: true }
    }

    pub fn rows(&self) -> u64 {
        self.tables.values().map(|extent| extent.rows).sum()
    }

    pub fn segment(&self) -> Option<&Arc<Segment>> {
        match &self.source {
            Source::Segment(segment) => Some(segment),
            Source::Journal { .. } | Source::Memory(_) => None,
        }
    }

    /// The rows of a table that the scan wants, as they are kept, in the order of time within a segment.
    pub fn scan<'a>(
        &'a self,
        table: TableId,
        scan: &Scan,
    ) -> Box<dyn Iterator<Item = Result<Batch, ReadError>> + 'a> {
        let has_some = self.tables.get(&table).is_some_and(|extent| {
            scan.from_ns.is_none_or(|from| extent.to_ns >= from)
                && scan.to_ns.is_none_or(|to| extent.from_ns < to)
        });
        if !has_some {
            return Box::new(std::iter::empty());
        }
        match &self.source {
            Source::Segment(segment) => Box::new(SegmentRows::new(Arc::clone(segment), table, scan)),
            Source::Journal { file, segment, seal, damaged_frames } => {
                rows_of_journal((file, *damaged_frames), segment, seal.as_ref(), table, scan)
            }
            Source::Memory(batches) => {
                let scan = scan.clone();
                let of_table = batches.iter().filter(move |batch| batch.table() == table);
                Box::new(of_table.map(move |batch| Ok(wanted(batch.clone(), &scan))))
            }
        }
    }
}

fn open_journal(file: &Path, seal: Option<&Seal>) -> Result<JournalFileReader, ChannelError> {
    JournalFileReader::open_sealed(file, seal.map(|seal| seal as &dyn Sealer))
}

fn rows_of_journal(
    (file, known_damage): (&Path, u64),
    segment: &Path,
    seal: Option<&Seal>,
    table: TableId,
    scan: &Scan,
) -> Box<dyn Iterator<Item = Result<Batch, ReadError>> + 'static> {
    let failed = |error: ReadError| Box::new(std::iter::once(Err(error)));
    match open_journal(file, seal) {
        Ok(reader) => Box::new(JournalRows::new(reader, (file, known_damage), table, scan)),
        // Its rows have become a segment since the recording was opened.
        Err(ChannelError::Io(gone)) if gone.kind() == std::io::ErrorKind::NotFound => {
            match Segment::open(segment, seal) {
                Ok(Ok(segment)) => Box::new(SegmentRows::new(Arc::new(segment), table, scan)),
                Ok(Err(problem)) => {
                    failed(ReadError::Damaged { place: segment.display().to_string(), problem })
                }
                Err(error) => failed(error.into()),
            }
        }
        Err(ChannelError::Io(error)) => failed(error.into()),
        Err(error) => {
            failed(ReadError::Damaged { place: file.display().to_string(), problem: error.to_string() })
        }
    }
}

/// The rows of a batch that a scan wants.
pub(super) fn wanted(batch: Batch, scan: &Scan) -> Batch {
    if scan.from_ns.is_none() && scan.to_ns.is_none() {
        return batch;
    }
    let keep: Vec<bool> = batch.times_ns().iter().map(|time| scan.wants_time(*time)).collect();
    if keep.iter().all(|keep| *keep) { batch } else { batch.filter(&keep) }
}
