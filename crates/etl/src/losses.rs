//! What a file does not have: what its session lost while it ran, and what a reader had to skip, each with its reason.

use std::fmt;

/// Why bytes of a file gave no records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Reason {
    /// A buffer's header names an impossible size; the reader looked for the next one.
    BadBufferHeader,
    /// The file ends inside a buffer; the records before the end were read.
    FileEndsInBuffer,
    /// Bytes at the end of the file are zero: it was preallocated and not closed.
    EmptyTail,
    /// The header says that more buffers were written than the file has.
    BuffersMissing,
    /// The session did not close the file; its header has no end time and no number of buffers.
    NotClosed,
    /// The two places where a buffer says where its events end disagree; it was read as far as it has records.
    BadDataEnd,
    /// The file has more buffers than can be put in order in the memory that a reader may use.
    TooManyBuffers,
    /// A buffer is compressed in a way that is not supported.
    UnsupportedCompression,
    /// Compressed bytes are damaged; what came before the damage was read.
    DamagedCompression,
    /// Bytes where a record should begin are none; the rest of the buffer is skipped.
    NotARecord,
    /// A record's size is impossible; the rest of the buffer is skipped.
    BadRecordSize,
    /// A record with a kind of header that no documentation names; that record is skipped.
    UnknownHeader,
    /// The extended items of a record do not fit into it; that record is skipped.
    BadExtendedItems,
    /// The performance counters that a record's header announces do not fit into it; that record is skipped.
    BadCounters,
    /// A record is older than the one before it on its processor; it was given where it stands.
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

    /// Whether records can be missing because of it; the others only say that something is odd.
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
            Self::BadDataEnd => "a buffer says in two ways where its events end",
            Self::TooManyBuffers => "the file has too many buffers for one index; cut it first",
            Self::UnsupportedCompression => "a buffer is compressed with a method other than XPRESS",
            Self::DamagedCompression => "compressed bytes are damaged",
            Self::NotARecord => "there is no record where one should begin",
            Self::BadRecordSize => "a record has an impossible size",
            Self::UnknownHeader => "a record has an unknown kind of header",
            Self::BadExtendedItems => "the extended items of a record do not fit",
            Self::BadCounters => "the performance counters of a record do not fit",
            Self::TimeRunsBack => "a record is older than the one before it on its processor",
            Self::NoClockFrequency => "the clock has no frequency, 10 MHz is assumed",
        })
    }
}

/// How often one [`Reason`] applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Skipped {
    pub count: u64,
    /// Bytes in the file or, within compressed buffers, of the decompressed buffer.
    pub bytes: u64,
    /// Where in the file the buffer begins that had it first.
    pub first_offset: u64,
}

/// Everything that a reader skipped or found odd.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Damage {
    by_reason: [Skipped; Reason::ALL.len()],
}

impl Damage {
    pub fn is_empty(&self) -> bool {
        self.by_reason.iter().all(|skipped| skipped.count == 0)
    }

    /// Whether records can be missing, not only oddities.
    pub fn loses_records(&self) -> bool {
        self.iter().any(|(reason, _)| reason.loses_records())
    }

    pub fn get(&self, reason: Reason) -> Skipped {
        self.by_reason[reason as usize]
    }

    /// What happened at least once.
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

/// What the session lost, as far as the file says, and what the reader could not use.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Losses {
    /// Events for which the session had no room, as its header says.
    pub events_lost: u64,
    /// Buffers that the session could not write, as its header says.
    pub buffers_lost: u64,
    /// Buffers that say that events were lost before them.
    pub buffers_marked_events_lost: u64,
    /// Buffers that say that a buffer was lost before them.
    pub buffers_marked_buffer_lost: u64,
    /// Buffers whose real-time backup was corrupt.
    pub buffers_marked_corrupt: u64,
    /// Notices of lost events, buffers and files that a real-time consumer wrote into its file; each may stand for many.
    /// Known after a walk.
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
