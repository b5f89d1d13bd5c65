//! Losses: what the session lost while recording, and what the reader had to skip, each with a reason.

use std::fmt;

/// Why bytes of a file gave no records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Reason {
    /// A buffer's header has an impossible size; the reader searched for the next one.
    BadBufferHeader,
    /// The file ends inside a buffer; the records before the end were read.
    FileEndsInBuffer,
    /// Bytes at the end of the file are zero: it was preallocated and not closed.
    EmptyTail,
    /// The header states more buffers than the file has.
    BuffersMissing,
    /// The session did not close the file; its header has no end time and no number of buffers.
    NotClosed,
    /// The two fields for the end of a buffer's events disagree; it was read as far as it has records.
    BadDataEnd,
    /// The file has more buffers than the memory limit of the index allows.
    TooManyBuffers,
    /// A buffer is compressed in a way that is not supported.
    UnsupportedCompression,
    /// Compressed bytes are damaged; everything before the damage was read.
    DamagedCompression,
    /// There is no record where one should begin; the rest of the buffer is skipped.
    NotARecord,
    /// A record's size is impossible; the rest of the buffer is skipped.
    BadRecordSize,
    /// A record with an undocumented header kind; that record is skipped.
    UnknownHeader,
    /// The extended items of a record do not fit into it; that record is skipped.
    BadExtendedItems,
    /// The performance counters announced in a record's header do not fit into it; that record is skipped.
    BadCounters,
    /// A record is older than the previous one on its processor; it keeps its position.
    TimeRunsBack,
    /// The header's clock has no frequency; 10 MHz is assumed.
    NoClockFrequency,
}

impl Reason {
    pub const ALL: [Self; 16] = [
        Self::BadBufferHeader,
        Self::FileEndsInBuffer,
        Self::EmptyTail,
        Self::BuffersMissing,
        Self::NotClosed,
        Self::BadDataEnd,
        Self::TooManyBuffers,
        Self::UnsupportedCompression,
        Self::DamagedCompression,
        Self::NotARecord,
        Self::BadRecordSize,
        Self::UnknownHeader,
        Self::BadExtendedItems,
        Self::BadCounters,
        Self::TimeRunsBack,
        Self::NoClockFrequency,
    ];

    /// A short name for tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BadBufferHeader => "bad_buffer_header",
            Self::FileEndsInBuffer => "file_ends_in_buffer",
            Self::EmptyTail => "empty_tail",
            Self::BuffersMissing => "buffers_missing",
            Self::NotClosed => "not_closed",
            Self::BadDataEnd => "bad_data_end",
            Self::TooManyBuffers => "too_many_buffers",
            Self::UnsupportedCompression => "unsupported_compression",
            Self::DamagedCompression => "damaged_compression",
            Self::NotARecord => "not_a_record",
            Self::BadRecordSize => "bad_record_size",
            Self::UnknownHeader => "unknown_header",
            Self::BadExtendedItems => "bad_extended_items",
            Self::BadCounters => "bad_counters",
            Self::TimeRunsBack => "time_runs_back",
            Self::NoClockFrequency => "no_clock_frequency",
        }
    }

    /// Whether records can be missing because of it; the others are only irregularities.
    pub const fn loses_records(self) -> bool {
        !matches!(self, Self::EmptyTail | Self::NotClosed | Self::TimeRunsBack | Self::NoClockFrequency)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BadBufferHeader => "a buffer's header is damaged",
            Self::FileEndsInBuffer => "the file ends inside a buffer",
            Self::EmptyTail => "the end of the file was never written",
            Self::BuffersMissing => "the file has fewer buffers than its header says",
            Self::NotClosed => "the session did not close the file",
            Self::BadDataEnd => "a buffer has two different ends of its events",
            Self::TooManyBuffers => "the file has too many buffers for one index; cut it first",
            Self::UnsupportedCompression => "a buffer is compressed with a method other than XPRESS",
            Self::DamagedCompression => "compressed bytes are damaged",
            Self::NotARecord => "there is no record where one should begin",
            Self::BadRecordSize => "a record has an impossible size",
            Self::UnknownHeader => "a record has an unknown kind of header",
            Self::BadExtendedItems => "the extended items of a record do not fit",
            Self::BadCounters => "the performance counters of a record do not fit",
            Self::TimeRunsBack => "a record is older than the previous one on its processor",
            Self::NoClockFrequency => "the clock has no frequency, 10 MHz is assumed",
        })
    }
}

/// How often one [`Reason`] applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Skipped {
    pub count: u64,
    /// Bytes in the file or, for compressed buffers, in the decompressed buffer.
    pub bytes: u64,
    /// File offset of the first affected buffer.
    pub first_offset: u64,
}

/// Everything that a reader skipped or found irregular.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Damage {
    by_reason: [Skipped; Reason::ALL.len()],
}

impl Damage {
    pub fn is_empty(&self) -> bool {
        self.by_reason.iter().all(|skipped| skipped.count == 0)
    }

    /// Whether records can be missing.
    pub fn loses_records(&self) -> bool {
        self.iter().any(|(reason, _)| reason.loses_records())
    }

    pub fn get(&self, reason: Reason) -> Skipped {
        self.by_reason[reason as usize]
    }

    /// All reasons that occurred.
    pub fn iter(&self) -> impl Iterator<Item = (Reason, Skipped)> + '_ {
        Reason::ALL
            .into_iter()
            .map(|reason| (reason, self.get(reason)))
            .filter(|(_, skipped)| skipped.count > 0)
    }

    pub(crate) fn add(&mut self, reason: Reason, bytes: u64, offset: u64) {
        self.merge_one(reason, Skipped { count: 1, bytes, first_offset: offset });
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (reason, skipped) in other.iter() {
            self.merge_one(reason, skipped);
        }
    }

    pub(crate) fn merge_one(&mut self, reason: Reason, more: Skipped) {
        let slot = &mut self.by_reason[reason as usize];
        slot.first_offset =
            if slot.count == 0 { more.first_offset } else { slot.first_offset.min(more.first_offset) };
        slot.count = slot.count.saturating_add(more.count);
        slot.bytes = slot.bytes.saturating_add(more.bytes);
    }
}

impl fmt::Debug for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// Losses of the session, according to the file, and of the reader.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Losses {
    /// Events without a free buffer, according to the header.
    pub events_lost: u64,
    /// Buffers that the session could not write, according to the header.
    pub buffers_lost: u64,
    /// Buffers that state that events were lost before them.
    pub buffers_marked_events_lost: u64,
    /// Buffers that state that a buffer was lost before them.
    pub buffers_marked_buffer_lost: u64,
    /// Buffers whose real-time backup was corrupt.
    pub buffers_marked_corrupt: u64,
    /// Notices of lost events, buffers and files that a real-time consumer wrote into its file; each may represent
    /// many. Known after a walk.
    pub real_time_events_lost: u64,
    pub real_time_buffers_lost: u64,
    pub real_time_files_lost: u64,
    pub damage: Damage,
}

impl Losses {
    /// Nothing was lost and nothing was skipped.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_its_own_place_and_name() {
        let mut damage = Damage::default();
        for reason in Reason::ALL {
            damage.add(reason, 8, 100);
        }
        damage.add(Reason::NotARecord, 16, 50);
        assert_eq!(damage.get(Reason::NotARecord), Skipped { count: 2, bytes: 24, first_offset: 50 });
        let mut names: Vec<_> = damage.iter().map(|(reason, _)| reason.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Reason::ALL.len());
    }
}
