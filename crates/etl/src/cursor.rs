//! A position in the records of consecutive buffers.
//!
//! A cursor holds a window of its buffer: the buffer itself if the storage is memory and the buffer is not compressed,
//! otherwise a part that is read or decompressed as the cursor moves. A walk over a thousand processors therefore needs
//! a thousand small windows instead of a thousand buffers.

use std::io;
use std::ops::ControlFlow;

use crate::buffer::{BUFFER_HEADER_BYTES, BufferHeader, DataEnd, buffer_kinds};
use crate::header::{self, Context, RECORD_ALIGNMENT, Step};
use crate::index;
use crate::losses::{Losses, Reason};
use crate::payload::kernel::LOST_EVENT_CLASS;
use crate::xpress::{self, Decoder, Stop, WINDOW_BYTES};
use crate::{Compression, EventRecord, Identity, PointerSize, Storage};

/// What all cursors of a file share.
#[derive(Debug)]
pub(crate) struct Shared<'s, S> {
    pub(crate) storage: &'s S,
    pub(crate) pointer_size: PointerSize,
    pub(crate) compression: Compression,
    /// Size of a buffer in the session's memory.
    pub(crate) buffer_bytes: usize,
    /// Minimum size of a window.
    pub(crate) window_bytes: usize,
}

// Derived implementations would require these traits of the storage itself.
impl<S> Clone for Shared<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Shared<'_, S> {}

/// Counts of a walk in progress.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally {
    pub(crate) records: u64,
    pub(crate) losses: Losses,
}

impl Tally {
    /// Adds the counts of a walk over other buffers.
    pub(crate) fn add(&mut self, other: &Self) {
        self.records += other.records;
        let (losses, more) = (&mut self.losses, &other.losses);
        losses.real_time_events_lost += more.real_time_events_lost;
        losses.real_time_buffers_lost += more.real_time_buffers_lost;
        losses.real_time_files_lost += more.real_time_files_lost;
        losses.damage.merge(&more.damage);
    }
}

/// Why [`BufferCursor::run`] returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The buffer has no more records.
    Ended,
    /// The next record is later than the limit.
    Later(u64),
    Stopped,
}

enum Source<'s> {
    /// The window has everything.
    Complete,
    Plain {
        next: u64,
    },
    Xpress {
        decoder: Decoder,
        /// Available compressed bytes.
        chunk: Chunk<'s>,
        at: usize,
        /// Offset of the compressed bytes that are still in the storage.
        next: u64,
        end: u64,
    },
}

enum Chunk<'s> {
    Borrowed(&'s [u8]),
    Owned(Vec<u8>),
}

impl Chunk<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Owned(bytes) => bytes,
        }
    }
}

pub(crate) struct BufferCursor<'s> {
    offset: u64,
    context: Context,
    window: Chunk<'s>,
    source: Source<'s>,
    /// Offsets of the window, the next record and the end of all records, from the buffer's start.
    base: usize,
    at: usize,
    end: usize,
    end_is_known: bool,
    /// The latest time so far, in this buffer and the previous ones.
    latest: u64,
}

impl<'s> BufferCursor<'s> {
    /// `spare` is memory of an earlier cursor. `None` if the buffer has nothing to read.
    pub(crate) fn open<S: Storage>(
        shared: Shared<'s, S>,
        offset: u64,
        latest: u64,
        spare: Vec<u8>,
        losses: &mut Losses,
    ) -> io::Result<Option<Self>> {
        let Some(buffer) = index::header_at(shared.storage, offset)? else { return Ok(None) };
        let file_left = shared.storage.byte_length() - offset;
        let size_here = u64::from(buffer.size).min(file_left);
        let mut data_end = buffer.data_end(shared.buffer_bytes);
        if buffer.kind == buffer_kinds::HEADER
            && !fill_follows(shared.storage, offset, size_here, data_end.bytes())?
        {
            data_end = DataEnd::Doubtful(buffer.size as usize);
        }
        if let DataEnd::Doubtful(_) = data_end {
            losses.damage.add(Reason::BadDataEnd, 0, offset);
        }
        let end = data_end.bytes();
        let data = offset + BUFFER_HEADER_BYTES as u64;
        let context = context_of(&buffer, shared.pointer_size);
        let mut cursor = Self {
            offset,
            context,
            window: Chunk::Owned(spare),
            source: Source::Complete,
            base: BUFFER_HEADER_BYTES,
            at: BUFFER_HEADER_BYTES,
            end,
            end_is_known: matches!(data_end, DataEnd::Known(_)),
            latest,
        };
        if let Chunk::Owned(window) = &mut cursor.window {
            window.clear();
        }
        if buffer.is_compressed() {
            if shared.compression != Compression::Xpress {
                losses.damage.add(Reason::UnsupportedCompression, u64::from(buffer.size), offset);
                return Ok(None);
            }
            let packed = size_here.saturating_sub(BUFFER_HEADER_BYTES as u64);
            let borrowed =
                usize::try_from(packed).ok().and_then(|packed| shared.storage.borrowed(data, packed));
            let (chunk, next) = match borrowed {
                Some(bytes) => (Chunk::Borrowed(bytes), data + packed),
                None => (Chunk::Owned(Vec::new()), data),
            };
            cursor.source =
                Source::Xpress { decoder: Decoder::default(), chunk, at: 0, next, end: data + packed };
        } else {
            cursor.end = end.min(usize::try_from(size_here).unwrap_or(usize::MAX));
            let bytes = cursor.end.saturating_sub(BUFFER_HEADER_BYTES);
            match shared.storage.borrowed(data, bytes) {
                Some(bytes) => cursor.window = Chunk::Borrowed(bytes),
                None => cursor.source = Source::Plain { next: data },
            }
        }
        Ok(Some(cursor))
    }

    /// Reads and decompresses the whole buffer now.
    pub(crate) fn load<S: Storage>(&mut self, shared: Shared<'s, S>, tally: &mut Tally) -> io::Result<()> {
        let whole = Shared { window_bytes: usize::MAX, ..shared };
        while !matches!(self.source, Source::Complete) {
            self.fill(whole, 8, tally)?;
        }
        Ok(())
    }

    /// Sets the end time of the previous buffer.
    pub(crate) fn continue_from(&mut self, latest: u64) {
        self.latest = latest;
    }

    pub(crate) fn latest(&self) -> u64 {
        self.latest
    }

    /// Returns its memory for the next cursor.
    pub(crate) fn into_spare(self) -> Vec<u8> {
        match self.window {
            Chunk::Owned(bytes) => bytes,
            Chunk::Borrowed(_) => Vec::new(),
        }
    }

    /// Passes the records up to and including `limit` to `each`.
    #[inline]
    pub(crate) fn run<S: Storage>(
        &mut self,
        shared: Shared<'s, S>,
        limit: u64,
        tally: &mut Tally,
        each: &mut impl FnMut(&EventRecord<'_>) -> ControlFlow<()>,
    ) -> io::Result<Outcome> {
        loop {
            if self.at >= self.end {
                return Ok(Outcome::Ended);
            }
            if !matches!(self.source, Source::Complete) {
                self.hold_record(shared, tally)?;
                // Damage may have moved the end.
                if self.at >= self.end {
                    return Ok(Outcome::Ended);
                }
            }
            let bytes = self.window.bytes().get(self.at - self.base..).unwrap_or(&[]);
            let left = self.end - self.at;
            let advance = match header::read(&bytes[..left.min(bytes.len())], self.context) {
                Step::Record(record) => {
                    // A record without a time keeps its position.
                    let time = record.ticks.max(self.latest);
                    if time > limit {
                        return Ok(Outcome::Later(time));
                    }
                    if record.ticks < self.latest && record.ticks != 0 {
                        tally.losses.damage.add(Reason::TimeRunsBack, 0, self.offset);
                    }
                    self.latest = time;
                    tally.records += 1;
                    note_real_time_loss(&record, &mut tally.losses);
                    let size = record.bytes.len();
                    if each(&record).is_break() {
                        self.at += size.next_multiple_of(RECORD_ALIGNMENT);
                        return Ok(Outcome::Stopped);
                    }
                    size
                }
                Step::Skip { reason, size } => {
                    tally.losses.damage.add(reason, size as u64, self.offset);
                    size
                }
                Step::Broken(reason) => {
                    tally.losses.damage.add(reason, left as u64, self.offset);
                    self.at = self.end;
                    return Ok(Outcome::Ended);
                }
                Step::End => {
                    // Fill bytes among the events: something was there.
                    if self.end_is_known && left >= RECORD_ALIGNMENT {
                        tally.losses.damage.add(Reason::NotARecord, left as u64, self.offset);
                    }
                    self.at = self.end;
                    return Ok(Outcome::Ended);
                }
            };
            self.at += advance.next_multiple_of(RECORD_ALIGNMENT);
        }
    }

    /// Loads the whole next record into the window, as far as the buffer has it.
    fn hold_record<S: Storage>(&mut self, shared: Shared<'s, S>, tally: &mut Tally) -> io::Result<()> {
        let mut needed = 8;
        loop {
            let bytes = self.window.bytes();
            let chunk = bytes.get(self.at - self.base..).unwrap_or(&[]);
            if chunk.len() >= needed {
                let size = chunk.first_chunk().and_then(header::record_size).unwrap_or(8);
                if size <= chunk.len() {
                    return Ok(());
                }
                needed = size;
            }
            if matches!(self.source, Source::Complete) {
                return Ok(());
            }
            self.fill(shared, needed, tally)?;
        }
    }

    /// Extends the window to at least `needed` bytes from the next record, unless the buffer ends.
    fn fill<S: Storage>(
        &mut self,
        shared: Shared<'s, S>,
        needed: usize,
        tally: &mut Tally,
    ) -> io::Result<()> {
        let Chunk::Owned(window) = &mut self.window else { return Ok(()) };
        // Drops everything before the next record, except what later matches can refer to.
        let keep_from = match self.source {
            Source::Xpress { .. } => (self.at - self.base).min(window.len().saturating_sub(WINDOW_BYTES)),
            _ => (self.at - self.base).min(window.len()),
        };
        window.drain(..keep_from);
        self.base += keep_from;
        let target = (self.at - self.base + needed).max(shared.window_bytes).min(self.end - self.base);
        match &mut self.source {
            Source::Complete => {}
            Source::Plain { next } => {
                let old = window.len();
                window.resize(target.max(old), 0);
                shared.storage.read_into(*next, &mut window[old..])?;
                *next += (window.len() - old) as u64;
            }
            Source::Xpress { decoder, chunk, at, next, end } => loop {
                if let Chunk::Owned(bytes) = chunk
                    && *next < *end
                    && bytes.len() - *at < xpress::MAX_TOKEN
                {
                    bytes.drain(..*at);
                    *at = 0;
                    let more = usize::try_from(*end - *next).unwrap_or(usize::MAX);
                    let more = more.min(shared.window_bytes.max(1 << 12));
                    let old = bytes.len();
                    bytes.resize(old + more, 0);
                    shared.storage.read_into(*next, &mut bytes[old..])?;
                    *next += more as u64;
                }
                let mut input = xpress::Input { bytes: chunk.bytes(), at: *at, is_last: *next >= *end };
                let stop = decoder.run(&mut input, window, target);
                *at = input.at;
                match stop {
                    Ok(Stop::Limit) => break,
                    Ok(Stop::InputEnds) if *next < *end => {}
                    Ok(Stop::InputEnds) | Err(_) => {
                        let missing = self.end.saturating_sub(self.base + window.len());
                        tally.losses.damage.add(Reason::DamagedCompression, missing as u64, self.offset);
                        self.end = self.base + window.len();
                        break;
                    }
                }
            },
        }
        if self.base + window.len() >= self.end {
            self.source = Source::Complete;
        }
        Ok(())
    }
}

/// Header buffers have their end in one place only, so it is checked against the fill bytes behind it.
fn fill_follows<S: Storage>(storage: &S, offset: u64, size: u64, end: usize) -> io::Result<bool> {
    let mut bytes = [0xff; 4];
    if end as u64 + bytes.len() as u64 <= size {
        storage.read_into(offset + end as u64, &mut bytes)?;
    }
    Ok(bytes == [0xff; 4])
}

fn context_of(buffer: &BufferHeader, pointer_size: PointerSize) -> Context {
    Context { processor: buffer.processor, logger: buffer.logger, pointer_size }
}

#[inline]
fn note_real_time_loss(record: &EventRecord<'_>, losses: &mut Losses) {
    if let Identity::Classic(classic) = &record.identity
        && classic.class == LOST_EVENT_CLASS
    {
        match classic.kind {
            32 => losses.real_time_events_lost += 1,
            33 => losses.real_time_buffers_lost += 1,
            34 => losses.real_time_files_lost += 1,
            _ => {}
        }
    }
}
