//! A file as a whole: its header, facts known before any event is read, and the walks over its records.

use std::io;
use std::ops::ControlFlow;

use crate::buffer::{BUFFER_HEADER_BYTES, BufferHeader, MAX_BUFFER_BYTES};
use crate::cursor::{BufferCursor, Outcome, Shared, Tally};
use crate::index::{self, Index};
use crate::losses::{Losses, Reason};
use crate::{ClockKind, EventRecord, Hook, Identity, LogFileHeader, PointerSize, Storage, merge, parallel};

/// Why a file cannot be read at all. Damage after its header is not an error: see [`Losses`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EtlError {
    #[error("not an ETL file: {0}; check that the file is a trace and not compressed (unzip it first)")]
    NotEtl(&'static str),
    #[error("the file is truncated inside its header and unreadable; record it again")]
    HeaderCut,
    #[error("the file could not be read: {0}")]
    Io(#[from] io::Error),
}

/// How the buffers of a file are compressed, according to its first buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    None,
    Lznt1,
    Xpress,
    XpressHuffman,
    Unknown(u16),
}

/// Result of a walk: the same counts for every kind of walk.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Walk {
    /// Records passed to the callback, including the header's own.
    pub records: u64,
    /// All losses in [`Etl::losses`], and what the walk had to skip.
    pub losses: Losses,
    /// The callback requested a stop: the counts end there.
    pub stopped: bool,
}

/// An ETL file in memory.
pub type EtlBytes<'a> = Etl<&'a [u8]>;

/// A file of event records. Opening reads its headers; each walk reads its events again.
#[derive(Debug)]
pub struct Etl<S> {
    storage: S,
    header: LogFileHeader,
    first: BufferHeader,
    compression: Compression,
    index: Index,
    losses: Losses,
}

impl<S: Storage> Etl<S> {
    pub fn new(storage: S) -> Result<Self, EtlError> {
        let first = index::header_at(&storage, 0)?.ok_or(EtlError::HeaderCut)?;
        if !first.has_plausible_size() {
            return Err(EtlError::NotEtl("it does not begin with a trace buffer"));
        }
        let mut losses = Losses::default();
        let header = read_header(&storage, &mut losses)?;
        let is_compressed_file = header.log_file_mode & crate::log_file_modes::COMPRESSED != 0;
        losses.events_lost = u64::from(header.events_lost);
        losses.buffers_lost = u64::from(header.buffers_lost);
        let no_frequency = match header.clock.kind() {
            ClockKind::SystemTime => false,
            ClockKind::ProcessorCycles => header.cpu_mhz == 0,
            _ => header.performance_frequency == 0,
        };
        if no_frequency {
            losses.damage.add(Reason::NoClockFrequency, 0, 0);
        }
        let index = Index::build(&storage, &first, &header, &mut losses)?;
        let compression = match (is_compressed_file || index.compressed_buffers > 0, first.state as u16) {
            (false, _) => Compression::None,
            (true, 2) => Compression::Lznt1,
            (true, 3) => Compression::Xpress,
            (true, 4) => Compression::XpressHuffman,
            (true, other) => Compression::Unknown(other),
        };
        Ok(Self { storage, header, first, compression, index, losses })
    }

    pub fn header(&self) -> &LogFileHeader {
        &self.header
    }

    /// The header of the first buffer.
    pub fn first_buffer(&self) -> &BufferHeader {
        &self.first
    }

    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// Number of buffers in the file, including the header's own.
    pub fn buffers(&self) -> u64 {
        self.index.buffers
    }

    pub fn compressed_buffers(&self) -> u64 {
        self.index.compressed_buffers
    }

    /// The processors that wrote buffers, in ascending order.
    pub fn processors(&self) -> impl ExactSizeIterator<Item = u16> + '_ {
        self.index.lanes.iter().map(|lane| lane.processor)
    }

    pub fn byte_length(&self) -> u64 {
        self.storage.byte_length()
    }

    /// Losses known before the events are read; [`Walk::losses`] is complete.
    pub fn losses(&self) -> &Losses {
        &self.losses
    }

    /// Passes every record to `each` in chronological order. The records of the header's buffer come first.
    pub fn ordered(&self, each: impl FnMut(&EventRecord<'_>) -> ControlFlow<()>) -> Result<Walk, EtlError> {
        self.ordered_in_windows(merge::window_bytes(self.index.lanes.len()), each)
    }

    fn ordered_in_windows(
        &self,
        window_bytes: usize,
        mut each: impl FnMut(&EventRecord<'_>) -> ControlFlow<()>,
    ) -> Result<Walk, EtlError> {
        let shared = self.shared(window_bytes);
        let mut tally = self.tally();
        let stopped = self.walk_header_buffer(shared, &mut tally, &mut each)?
            || merge::walk(shared, &self.index, &mut tally, &mut each)?;
        Ok(Walk { records: tally.records, losses: tally.losses, stopped })
    }

    /// Passes every record to one of several workers, each on its own thread, in no order: for counting and
    /// searching. Returns the workers. `threads` of 0 means one per processor.
    pub fn unordered<W: Send>(
        &self,
        threads: usize,
        start: impl Fn() -> W + Sync,
        each: impl Fn(&mut W, &EventRecord<'_>) + Sync,
    ) -> Result<(Vec<W>, Walk), EtlError> {
        let threads = parallel::threads(threads);
        let shared = self.shared(merge::window_bytes(threads));
        let mut tally = self.tally();
        let mut first = start();
        self.walk_header_buffer(shared, &mut tally, &mut |record| {
            each(&mut first, record);
            ControlFlow::Continue(())
        })?;
        let workers = parallel::walk(shared, &self.index.lanes, threads, first, &start, &each, &mut tally)?;
        Ok((workers, Walk { records: tally.records, losses: tally.losses, stopped: false }))
    }

    /// Passes only the records of the header's buffer.
    pub(crate) fn header_buffer(
        &self,
        each: &mut impl FnMut(&EventRecord<'_>) -> ControlFlow<()>,
    ) -> Result<bool, EtlError> {
        self.walk_header_buffer(self.shared(1 << 12), &mut Tally::default(), each)
    }

    /// Size of the largest decompressed buffer.
    pub(crate) fn largest_buffer(&self) -> usize {
        self.index.largest_buffer
    }

    fn walk_header_buffer<'s>(
        &'s self,
        shared: Shared<'s, S>,
        tally: &mut Tally,
        each: &mut impl FnMut(&EventRecord<'_>) -> ControlFlow<()>,
    ) -> Result<bool, EtlError> {
        let Some(mut cursor) = BufferCursor::open(shared, 0, 0, Vec::new(), &mut tally.losses)? else {
            return Ok(false);
        };
        Ok(cursor.run(shared, u64::MAX, tally, each)? == Outcome::Stopped)
    }

    fn shared(&self, window_bytes: usize) -> Shared<'_, S> {
        Shared {
            storage: &self.storage,
            pointer_size: self.header.pointer_size,
            compression: self.compression,
            buffer_bytes: self.header.buffer_size as usize,
            window_bytes,
        }
    }

    fn tally(&self) -> Tally {
        Tally { records: 0, losses: self.losses.clone() }
    }
}

/// The first record of the first buffer.
fn read_header<S: Storage>(storage: &S, losses: &mut Losses) -> Result<LogFileHeader, EtlError> {
    let shared = Shared {
        storage,
        pointer_size: PointerSize::Eight,
        compression: Compression::None,
        buffer_bytes: MAX_BUFFER_BYTES,
        window_bytes: 1 << 12,
    };
    let mut tally = Tally::default();
    let mut header = None;
    let mut is_header_event = false;
    if let Some(mut cursor) = BufferCursor::open(shared, 0, 0, Vec::new(), &mut tally.losses)? {
        cursor.run(shared, u64::MAX, &mut tally, &mut |record| {
            is_header_event = matches!(record.identity, Identity::Kernel { hook: Hook(0), .. });
            if is_header_event {
                header = LogFileHeader::parse(record.payload, record.pointer_size, record.ticks);
            }
            ControlFlow::Break(())
        })?;
    }
    *losses = Losses::default();
    match header {
        Some(header) => Ok(header),
        None if storage.byte_length() < (BUFFER_HEADER_BYTES + 0x20 + 0x118) as u64 => {
            Err(EtlError::HeaderCut)
        }
        None if is_header_event => Err(EtlError::NotEtl("its header event is too short")),
        None => Err(EtlError::NotEtl("its first event is not a trace header")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EtlFile;

    /// Windows smaller than most records, and windows that end in the middle of matches.
    #[test]
    fn the_size_of_the_window_does_not_matter() {
        let root = std::env::var("ORTSCOPE_CORPUS")
            .unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data").to_owned());
        for name in ["perfview_SelfDescribingSingleEvent", "dotnetperf_DynamicEvents", "tx_CrossMachineHTTP"]
        {
            let Ok(file) = EtlFile::open(format!("{root}/etl/{name}.etl")) else {
                println!("skipped: no {name} in {root}; set ORTSCOPE_CORPUS");
                continue;
            };
            let collect = |window_bytes: usize| {
                let mut records = Vec::new();
                let walk = file
                    .ordered_in_windows(window_bytes, |record| {
                        let sum = record.bytes.iter().map(|&byte| u64::from(byte)).sum::<u64>();
                        records.push((record.ticks, record.bytes.len(), sum));
                        ControlFlow::Continue(())
                    })
                    .unwrap();
                assert!(walk.losses.is_empty(), "{:?}", walk.losses);
                records
            };
            let whole = collect(usize::MAX);
            for window_bytes in [1, 100, 8_191, 10_000] {
                assert!(collect(window_bytes) == whole, "{name} in windows of {window_bytes}");
            }
        }
    }
}
