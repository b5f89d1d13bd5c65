//! `EVENT_RECORD` as passed to a consumer: structures with pointers that are valid for one call.
#![expect(unsafe_code, reason = "dereferences the pointers of a record")]

use ortscope_decode::etw::live::{Extended, HEADER_BYTES, Parts};

/// `EVENT_HEADER_EXTENDED_DATA_ITEM`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct RawItem {
    pub reserved: u16,
    pub kind: u16,
    pub linkage: u16,
    pub bytes: u16,
    /// An address, always 64 bits.
    pub data: u64,
}

/// `EVENT_RECORD`.
#[repr(C, align(8))]
#[derive(Debug)]
pub struct RawRecord {
    pub header: [u8; HEADER_BYTES],
    /// The processor number: 16 bits if the header's flags say so, otherwise 8 bits followed by the alignment.
    pub processor: u16,
    pub logger: u16,
    pub items: u16,
    pub payload_bytes: u16,
    pub item_list: *const RawItem,
    pub payload: *const u8,
    pub context: *mut std::ffi::c_void,
}

const PROCESSOR_INDEX: u16 = 0x0200;

impl RawRecord {
    /// The parts of the record, and its extended items.
    ///
    /// # Safety
    /// The pointers must be null or refer to as many items and bytes as the record states while the result is used,
    /// as Windows guarantees during a callback.
    pub(super) unsafe fn parts(&self) -> (Parts<'_>, impl Iterator<Item = Extended<'_>> + Clone) {
        let flags = u16::from_le_bytes([self.header[4], self.header[5]]);
        let processor = if flags & PROCESSOR_INDEX == 0 { self.processor & 0xff } else { self.processor };
        // SAFETY: guaranteed by the caller.
        let payload = unsafe { slice(self.payload, usize::from(self.payload_bytes)) };
        // SAFETY: guaranteed by the caller.
        let items = unsafe { slice(self.item_list, usize::from(self.items)) };
        let items = items.iter().map(|item| {
            let data = std::ptr::with_exposed_provenance(item.data as usize);
            // SAFETY: the guarantee includes the items' data.
            Extended { kind: item.kind, data: unsafe { slice(data, usize::from(item.bytes)) } }
        });
        (Parts { header: &self.header, processor, logger: self.logger, payload }, items)
    }
}

/// # Safety
/// `start` must be null or refer to `count` values while the slice is used.
unsafe fn slice<'a, T>(start: *const T, count: usize) -> &'a [T] {
    if start.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: not null, and guaranteed by the caller.
    unsafe { std::slice::from_raw_parts(start, count) }
}
