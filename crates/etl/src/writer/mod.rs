//! Writes `.etl` files that Windows tools can open: a header buffer, then buffers of one processor each.
//!
//! The writer holds one buffer per processor and writes it when it is full. The header is written first, like that of a
//! running session, and again by [`Writer::finish`]: a file whose writer crashed can still be read.

pub mod kernel;
mod record;
mod trace_logging;

use std::io::{self, Seek, SeekFrom, Write};

pub use record::{CounterBytes, Place};
pub use trace_logging::{Field, Provider, TraceLoggingEvent, Value, simple_types};

use crate::buffer::{BUFFER_HEADER_BYTES, MAX_BUFFER_BYTES, buffer_flags, buffer_kinds};
use crate::clock::{Clock, ClockKind, FileTime};
use crate::header::RECORD_ALIGNMENT;
use crate::{
    EventDescriptor, ExtendedItem, Guid, Hook, LogFileHeader, PointerSize, TimeZone, log_file_modes,
};

/// A record's size field has 16 bits.
pub(crate) const MAX_RECORD_BYTES: usize = u16::MAX as usize;
const MIN_BUFFER: usize = 4 << 10;
/// Limit for the buffers of all processors together; beyond it the fullest is written early.
const MAX_OPEN_BYTES: usize = 24 << 20;
/// Maximum buffer size of a copy, so that early writes waste little space.
const MAX_COPIED_BUFFER: usize = 1 << 20;
/// Flushed to disk.
const STATE_FLUSHED: u32 = 3;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    #[error(
        "an event of {bytes} bytes does not fit into a record of {limit} bytes; make it smaller or the buffers larger"
    )]
    TooLarge { bytes: usize, limit: usize },
    #[error("processor {0} is out of range; the file was created for fewer processors (2048 at most)")]
    NoSuchProcessor(u16),
    #[error(
        "an event is older than the previous one on processor {0}; write the events of a processor in chronological order"
    )]
    TimeRunsBack(u16),
    #[error("the elements of an array have different types; use one type for all of them")]
    MixedArray,
    #[error("a name contains a NUL character, which ends names in this format; remove it")]
    NulInName,
    #[error("{0} performance counters do not fit into one event; the limit is 7")]
    TooManyCounters(usize),
    #[error("a structure has {0} fields; 1 to 127 are supported; split it")]
    TooManyFields(usize),
    #[error("buffers of {0} bytes are not supported; choose 4 KiB to 16 MiB in steps of 1 KiB")]
    BadBufferSize(u32),
    #[error("the file could not be written: {0}")]
    Io(#[from] io::Error),
}

/// Settings of a new file.
#[derive(Debug, Clone)]
pub struct FileSettings {
    header: LogFileHeader,
    logger: u16,
}

impl FileSettings {
    /// A file of a 64-bit machine with a clock of `frequency` ticks per second; `start_ticks` corresponds to
    /// `start`.
    pub fn new(processors: u16, frequency: u64, start_ticks: u64, start: FileTime) -> Self {
        let header = LogFileHeader {
            buffer_size: 64 << 10,
            version: [10, 0, 1, 5],
            os_build: 19041,
            processors: u32::from(processors.max(1)),
            end_time: FileTime(0),
            timer_resolution: 156_250,
            maximum_file_size: 0,
            log_file_mode: log_file_modes::SEQUENTIAL,
            buffers_written: 0,
            start_buffers: 1,
            pointer_size: PointerSize::Eight,
            events_lost: 0,
            cpu_mhz: 1_000,
            reserved_pointers: [0; 2],
            time_zone: TimeZone::default(),
            boot_time: start,
            performance_frequency: frequency,
            start_time: start,
            clock: Clock::new(ClockKind::PerformanceCounter, frequency, start_ticks, start),
            buffers_lost: 0,
            logger_name: String::new(),
            log_file_name: String::new(),
        };
        Self { header, logger: 1 }
    }

    /// A file like another one, but uncompressed and not circular, that can hold its records.
    pub(crate) fn like(header: &LogFileHeader, largest_buffer: usize) -> Self {
        let mut header = header.clone();
        header.log_file_mode &=
            !(log_file_modes::COMPRESSED | log_file_modes::CIRCULAR | log_file_modes::PREALLOCATE);
        header.log_file_mode |= log_file_modes::SEQUENTIAL;
        if header.version[2] == 2 {
            // The third number is 2 in compressed files; the same systems write 1.5 otherwise.
            header.version[2..].copy_from_slice(&[1, 5]);
        }
        let needed = largest_buffer.max(header.buffer_size as usize).clamp(MIN_BUFFER, MAX_COPIED_BUFFER);
        header.buffer_size = needed.next_multiple_of(1024) as u32;
        header.end_time = FileTime(0);
        header.buffers_written = 0;
        header.maximum_file_size = 0;
        Self { header, logger: 1 }
    }

    pub fn buffer_bytes(mut self, bytes: u32) -> Self {
        self.header.buffer_size = bytes;
        self
    }

    pub fn names(mut self, logger: &str, file: &str) -> Self {
        self.header.logger_name = logger.to_owned();
        self.header.log_file_name = file.to_owned();
        self
    }

    pub fn logger_id(mut self, logger: u16) -> Self {
        self.logger = logger;
        self
    }

    /// Sets the machine that the events come from.
    pub fn machine(mut self, os_build: u32, cpu_mhz: u32, boot_time: FileTime) -> Self {
        self.header.os_build = os_build;
        self.header.cpu_mhz = cpu_mhz;
        self.header.boot_time = boot_time;
        self
    }

    pub fn time_zone(mut self, time_zone: TimeZone) -> Self {
        self.header.time_zone = time_zone;
        self
    }

    /// Sets the losses before the events were written.
    pub fn lost(mut self, events: u32, buffers: u32) -> Self {
        self.header.events_lost = events;
        self.header.buffers_lost = buffers;
        self
    }
}

/// Contents of a finished file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Records passed to the writer, without the header's own.
    pub records: u64,
    pub buffers: u32,
    pub bytes: u64,
}

#[derive(Debug, Default)]
struct OpenBuffer {
    /// Grows with its events, including the header; empty until the first one.
    bytes: Vec<u8>,
    latest: u64,
}

/// Writes one file. Events of one processor must be in chronological order.
#[derive(Debug)]
pub struct Writer<W: Write + Seek> {
    out: W,
    header: LogFileHeader,
    header_records: Vec<Vec<u8>>,
    logger: u16,
    open: Vec<OpenBuffer>,
    /// In all buffers.
    open_bytes: usize,
    buffers: u32,
    records: u64,
    latest: u64,
}

impl<W: Write + Seek> Writer<W> {
    pub fn new(out: W, settings: FileSettings) -> Result<Self, WriteError> {
        Self::with_group_masks(out, settings, None)
    }

    /// `group_masks` state which kernel events were enabled; tools show them, and some use them to decide what to
    /// draw.
    pub fn with_group_masks(
        out: W,
        settings: FileSettings,
        group_masks: Option<[u32; 8]>,
    ) -> Result<Self, WriteError> {
        let header = &settings.header;
        let mut header_records = Vec::new();
        if let Some(masks) = group_masks {
            let mut payload: Vec<u8> = masks.into_iter().flat_map(u32::to_le_bytes).collect();
            // The version of the kernel's events; 0 for sessions other than the kernel's.
            payload.extend(0_u32.to_le_bytes());
            let place = Place::at(0, header.clock.start_ticks()).in_thread(0, 0);
            header_records.push(record::system(header.pointer_size, &place, Hook(0x0005), 2, &payload)?);
        }
        Self::with_header_records(out, settings, header_records)
    }

    /// `header_records` follow the header's own event.
    pub(crate) fn with_header_records(
        out: W,
        settings: FileSettings,
        header_records: Vec<Vec<u8>>,
    ) -> Result<Self, WriteError> {
        let FileSettings { header, logger } = settings;
        let bytes = header.buffer_size as usize;
        if !(MIN_BUFFER..=MAX_BUFFER_BYTES).contains(&bytes) || !bytes.is_multiple_of(1024) {
            return Err(WriteError::BadBufferSize(header.buffer_size));
        }
        let mut writer = Self {
            out,
            header,
            header_records,
            logger,
            open: Vec::new(),
            open_bytes: 0,
            buffers: 1,
            records: 0,
            latest: 0,
        };
        writer.latest = writer.header.clock.start_ticks();
        writer.write_header()?;
        Ok(writer)
    }

    /// A kernel event with its thread, or without one if `place` has none.
    pub fn kernel(
        &mut self,
        place: &Place,
        hook: Hook,
        version: u16,
        payload: &[u8],
    ) -> Result<(), WriteError> {
        let bytes = match place.thread() {
            Some(_) => record::system(self.header.pointer_size, place, hook, version, payload)?,
            None => record::perfinfo(
                self.header.pointer_size,
                place,
                hook,
                version,
                &CounterBytes::NONE,
                payload,
            )?,
        };
        self.in_order(place, &bytes)
    }

    /// A kernel event with performance counters, such as a context switch.
    pub fn kernel_with_counters(
        &mut self,
        place: &Place,
        hook: Hook,
        version: u16,
        counters: &CounterBytes<'_>,
        payload: &[u8],
    ) -> Result<(), WriteError> {
        let bytes = record::perfinfo(self.header.pointer_size, place, hook, version, counters, payload)?;
        self.in_order(place, &bytes)
    }

    /// A classic event: a class instead of a provider, and no schema in the file.
    pub fn classic(
        &mut self,
        place: &Place,
        classic: &crate::Classic,
        payload: &[u8],
    ) -> Result<(), WriteError> {
        let bytes = record::full(self.header.pointer_size, place, classic, payload)?;
        self.in_order(place, &bytes)
    }

    /// An event of a manifest-based provider; the file lacks the manifest, so readers need it or their own table.
    pub fn event(
        &mut self,
        place: &Place,
        provider: Guid,
        descriptor: &EventDescriptor,
        payload: &[u8],
    ) -> Result<(), WriteError> {
        let related = place.related_activity.map(Guid::to_bytes);
        let item = related.as_ref().map(|bytes| (ExtendedItem::RELATED_ACTIVITY, &bytes[..]));
        let items = item.as_slice();
        let bytes = record::event(self.header.pointer_size, place, provider, descriptor, items, payload)?;
        self.in_order(place, &bytes)
    }

    /// An event with its own schema; every tool shows its fields by name.
    pub fn trace_logging(&mut self, place: &Place, event: &TraceLoggingEvent<'_>) -> Result<(), WriteError> {
        let bytes = trace_logging::record(self.header.pointer_size, place, event)?;
        self.in_order(place, &bytes)
    }

    /// A record of another file. Its time may be before the last one's if it was so in that file.
    pub fn raw(&mut self, processor: u16, ticks: u64, record: &[u8]) -> Result<(), WriteError> {
        self.push(processor, ticks, record)
    }

    /// Writes all buffers so far, so that they survive this process. Costs up to one buffer of space each.
    pub fn flush(&mut self) -> Result<(), WriteError> {
        for processor in 0..self.open.len() {
            self.write_buffer(processor, 0)?;
        }
        Ok(self.out.flush()?)
    }

    /// Writes the last buffers and the final header.
    pub fn finish(mut self) -> Result<(W, Written), WriteError> {
        for processor in 0..self.open.len() {
            self.write_buffer(processor, buffer_flags::FLUSH_MARKER)?;
        }
        let bytes = self.out.stream_position()?;
        self.header.end_time = self.header.time_of(self.latest).max(FileTime(1));
        self.header.buffers_written = self.buffers;
        self.out.seek(SeekFrom::Start(0))?;
        self.write_header()?;
        self.out.seek(SeekFrom::End(0))?;
        self.out.flush()?;
        Ok((self.out, Written { records: self.records, buffers: self.buffers, bytes }))
    }

    fn in_order(&mut self, place: &Place, record: &[u8]) -> Result<(), WriteError> {
        let latest = self.open.get(usize::from(place.processor)).map_or(0, |open| open.latest);
        if place.ticks < latest {
            return Err(WriteError::TimeRunsBack(place.processor));
        }
        self.push(place.processor, place.ticks, record)
    }

    fn push(&mut self, processor: u16, ticks: u64, record: &[u8]) -> Result<(), WriteError> {
        let limit = self.header.buffer_size as usize;
        if BUFFER_HEADER_BYTES + record.len().next_multiple_of(RECORD_ALIGNMENT) > limit
            || record.len() > MAX_RECORD_BYTES
        {
            let limit = (limit - BUFFER_HEADER_BYTES).min(MAX_RECORD_BYTES);
            return Err(WriteError::TooLarge { bytes: record.len(), limit });
        }
        if processor >= 0x800 {
            return Err(WriteError::NoSuchProcessor(processor));
        }
        let index = usize::from(processor);
        if self.open.len() <= index {
            self.open.resize_with(index + 1, OpenBuffer::default);
        }
        let padded = record.len().next_multiple_of(RECORD_ALIGNMENT);
        if self.open[index].bytes.len() + padded > limit {
            self.write_buffer(index, 0)?;
        }
        if self.open_bytes > MAX_OPEN_BYTES {
            self.write_fullest()?;
        }
        let open = &mut self.open[index];
        self.open_bytes -= open.bytes.len();
        if open.bytes.is_empty() {
            open.bytes.resize(BUFFER_HEADER_BYTES, 0);
        }
        open.bytes.extend_from_slice(record);
        let padded = open.bytes.len().next_multiple_of(RECORD_ALIGNMENT);
        open.bytes.resize(padded, 0);
        self.open_bytes += padded;
        open.latest = open.latest.max(ticks);
        self.latest = self.latest.max(ticks);
        self.header.processors = self.header.processors.max(u32::from(processor) + 1);
        self.records += 1;
        Ok(())
    }

    /// Limits the memory of the buffers of very many processors.
    fn write_fullest(&mut self) -> Result<(), WriteError> {
        let fullest = (0..self.open.len()).max_by_key(|&processor| self.open[processor].bytes.len());
        fullest.map_or(Ok(()), |processor| self.write_buffer(processor, 0))
    }

    /// Writes a processor's buffer if it has events.
    fn write_buffer(&mut self, processor: usize, extra_flags: u16) -> Result<(), WriteError> {
        let open = &mut self.open[processor];
        if open.bytes.is_empty() {
            return Ok(());
        }
        let head = BufferHead {
            size: self.header.buffer_size,
            end: open.bytes.len() as u32,
            time_stamp: open.latest,
            sequence: u64::from(self.buffers),
            processor: processor as u16,
            logger: self.logger,
            flags: buffer_flags::PROCESSOR_INDEX | extra_flags,
            kind: buffer_kinds::GENERIC,
        };
        open.bytes[..BUFFER_HEADER_BYTES].copy_from_slice(&head.to_bytes());
        // The unused end is filled with ones, like in Windows.
        let mut bytes = std::mem::take(&mut open.bytes);
        self.open_bytes -= bytes.len();
        bytes.resize(self.header.buffer_size as usize, 0xff);
        self.out.write_all(&bytes)?;
        self.buffers = self.buffers.saturating_add(1);
        Ok(())
    }

    fn write_header(&mut self) -> Result<(), WriteError> {
        let place = Place::at(0, self.header.clock.start_ticks()).in_thread(0, 0);
        let mut bytes = vec![0; BUFFER_HEADER_BYTES];
        bytes.extend(record::system(
            self.header.pointer_size,
            &place,
            Hook(0),
            2,
            &self.header.to_payload(),
        )?);
        for record in &self.header_records {
            bytes.resize(bytes.len().next_multiple_of(RECORD_ALIGNMENT), 0);
            bytes.extend_from_slice(record);
        }
        bytes.resize(bytes.len().next_multiple_of(RECORD_ALIGNMENT), 0);
        let head = BufferHead {
            size: self.header.buffer_size,
            end: bytes.len() as u32,
            time_stamp: 0,
            sequence: 0,
            processor: 0,
            logger: self.logger,
            flags: buffer_flags::PROCESSOR_INDEX | buffer_flags::FLUSH_MARKER,
            kind: buffer_kinds::HEADER,
        };
        bytes[..BUFFER_HEADER_BYTES].copy_from_slice(&head.to_bytes());
        bytes.resize(self.header.buffer_size as usize, 0xff);
        Ok(self.out.write_all(&bytes)?)
    }
}

struct BufferHead {
    size: u32,
    end: u32,
    time_stamp: u64,
    sequence: u64,
    processor: u16,
    logger: u16,
    flags: u16,
    kind: u16,
}

impl BufferHead {
    fn to_bytes(&self) -> [u8; BUFFER_HEADER_BYTES] {
        let mut bytes = [0; BUFFER_HEADER_BYTES];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(0, &self.size.to_le_bytes());
        for end_at in [4, 8, 0x30] {
            put(end_at, &self.end.to_le_bytes());
        }
        put(0x10, &self.time_stamp.to_le_bytes());
        put(0x18, &self.sequence.to_le_bytes());
        put(0x28, &self.processor.to_le_bytes());
        put(0x2a, &self.logger.to_le_bytes());
        put(0x2c, &STATE_FLUSHED.to_le_bytes());
        put(0x34, &self.flags.to_le_bytes());
        put(0x36, &self.kind.to_le_bytes());
        bytes
    }
}
