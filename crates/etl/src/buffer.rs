//! The header of one buffer (`WMI_BUFFER_HEADER`): its size in the file, the end of its events, the processor that wrote
//! it, and whether it is compressed.
//!
//! Several fields contain garbage once the buffer is on disk (the current offset, list pointers); only those that are
//! valid in real files from Vista to Windows 11 are read.

use crate::le::Head;

/// Events begin behind the buffer's header.
pub(crate) const BUFFER_HEADER_BYTES: usize = 0x48;

/// The largest buffer a session can have (16 MiB since Windows 8).
pub(crate) const MAX_BUFFER_BYTES: usize = 16 << 20;

/// Bits of [`BufferHeader::flags`].
pub mod buffer_flags {
    pub const FLUSH_MARKER: u16 = 0x01;
    pub const EVENTS_LOST: u16 = 0x02;
    pub const BUFFER_LOST: u16 = 0x04;
    pub const REAL_TIME_BACKUP_CORRUPT: u16 = 0x08;
    pub const REAL_TIME_BACKUP: u16 = 0x10;
    pub const PROCESSOR_INDEX: u16 = 0x20;
    pub const COMPRESSED: u16 = 0x40;
}

/// Origin of the buffer; [`BufferHeader::kind`].
pub mod buffer_kinds {
    pub const GENERIC: u16 = 0;
    pub const RUNDOWN: u16 = 1;
    pub const CONTEXT_SWAP: u16 = 2;
    pub const REFERENCE_TIME: u16 = 3;
    pub const HEADER: u16 = 4;
    pub const BATCHED: u16 = 5;
    pub const EMPTY_MARKER: u16 = 6;
    pub const DEBUG_INFO: u16 = 7;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferHeader {
    /// Size of this buffer in the file, including the header.
    pub size: u32,
    pub saved_offset: u32,
    /// When the buffer was flushed; the unit depends on the writer of the file.
    pub time_stamp: u64,
    /// Unique in the file; 0 is the header buffer.
    pub sequence: i64,
    pub processor: u16,
    pub logger: u16,
    /// 3 means flushed. In the header buffer of a compressed file the low half is the compression method.
    pub state: u32,
    /// End of the uncompressed events, from the start of the buffer.
    pub offset: u32,
    pub flags: u16,
    pub kind: u16,
}

/// Where the events of a buffer end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DataEnd {
    Known(usize),
    /// The buffer's fields disagree: events are read up to here, or to the first bytes that are not a record.
    Doubtful(usize),
}

impl DataEnd {
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::Known(end) | Self::Doubtful(end) => end,
        }
    }
}

impl BufferHeader {
    pub fn parse(bytes: &[u8; BUFFER_HEADER_BYTES]) -> Self {
        let head = Head(bytes);
        let flags = head.u16(0x34);
        // Before Windows 8 the second byte was an alignment of 8 instead of the upper half of an index.
        let processor = if flags & buffer_flags::PROCESSOR_INDEX != 0 {
            head.u16(0x28) & 0x07ff
        } else {
            u16::from(head.u8(0x28))
        };
        Self {
            size: head.u32(0),
            saved_offset: head.u32(4),
            time_stamp: head.u64(0x10),
            sequence: head.u64(0x18) as i64,
            processor,
            logger: head.u16(0x2a),
            state: head.u32(0x2c),
            offset: head.u32(0x30),
            flags,
            kind: head.u16(0x36),
        }
    }

    pub fn is_compressed(&self) -> bool {
        self.flags & buffer_flags::COMPRESSED != 0
    }

    /// Whether this buffer size is possible; the walk over the file depends on it.
    pub(crate) fn has_plausible_size(&self) -> bool {
        (BUFFER_HEADER_BYTES..=MAX_BUFFER_BYTES).contains(&(self.size as usize))
    }

    /// Where the events end in the decompressed buffer. `in_memory` is the size of the session's buffers, the upper
    /// limit.
    pub(crate) fn data_end(&self, in_memory: usize) -> DataEnd {
        let limit = if self.is_compressed() { in_memory.min(MAX_BUFFER_BYTES) } else { self.size as usize };
        let plausible =
            |end: u32| Some(end as usize).filter(|end| (BUFFER_HEADER_BYTES..=limit).contains(end));
        match (plausible(self.offset), plausible(self.saved_offset)) {
            (Some(end), Some(saved)) if end == saved => DataEnd::Known(end),
            // Only header buffers have two ends: events were added after the first was saved.
            (Some(end), _) if self.kind == buffer_kinds::HEADER => DataEnd::Known(end),
            (Some(end), Some(saved)) => DataEnd::Doubtful(end.max(saved)),
            (Some(end), None) | (None, Some(end)) => DataEnd::Doubtful(end),
            (None, None) => DataEnd::Doubtful((self.size as usize).max(limit).min(MAX_BUFFER_BYTES)),
        }
    }

    /// Strict enough to find the next buffer after damage without mistaking noise for one.
    pub(crate) fn looks_like_data_buffer(&self, logger: u16) -> bool {
        self.has_plausible_size()
            && self.offset == self.saved_offset
            && self.data_end(MAX_BUFFER_BYTES) == DataEnd::Known(self.offset as usize)
            && self.logger == logger
            && self.flags < 0x80
            && self.kind <= buffer_kinds::DEBUG_INFO
            && self.sequence > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_alignment_byte_of_windows_7_is_not_part_of_the_processor() {
        let mut bytes = [0; BUFFER_HEADER_BYTES];
        bytes[0x28] = 3;
        bytes[0x29] = 8;
        assert_eq!(BufferHeader::parse(&bytes).processor, 3);
        bytes[0x34] = 0x20;
        assert_eq!(BufferHeader::parse(&bytes).processor, 3, "an index has eleven bits");
        bytes[0x29] = 1;
        assert_eq!(BufferHeader::parse(&bytes).processor, 0x103);
    }

    #[test]
    fn an_end_outside_the_buffer_is_not_believed() {
        let mut bytes = [0; BUFFER_HEADER_BYTES];
        bytes[..4].copy_from_slice(&0x1000_u32.to_le_bytes());
        bytes[0x30..0x34].copy_from_slice(&0x2000_u32.to_le_bytes());
        assert_eq!(BufferHeader::parse(&bytes).data_end(0x1000), DataEnd::Doubtful(0x1000));
        bytes[4..8].copy_from_slice(&0x800_u32.to_le_bytes());
        assert_eq!(
            BufferHeader::parse(&bytes).data_end(0x1000),
            DataEnd::Doubtful(0x800),
            "the saved offset is used instead"
        );
    }
}
