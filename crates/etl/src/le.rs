//! Little-endian numbers at an offset, with bounds checks.

pub(crate) fn chunk_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk::<N>().copied()
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    chunk_at(bytes, at).map(u16::from_le_bytes)
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    chunk_at(bytes, at).map(u32::from_le_bytes)
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    chunk_at(bytes, at).map(u64::from_le_bytes)
}

/// Reads from a header whose size was checked; with constant offsets the checks are optimized away.
#[derive(Clone, Copy)]
pub(crate) struct Head<'a, const N: usize>(pub(crate) &'a [u8; N]);

impl<'a, const N: usize> Head<'a, N> {
    #[inline(always)]
    pub(crate) fn new(bytes: &'a [u8]) -> Option<Self> {
        bytes.first_chunk::<N>().map(Self)
    }

    #[inline(always)]
    pub(crate) fn u8(self, at: usize) -> u8 {
        self.0[at]
    }

    #[inline(always)]
    pub(crate) fn u16(self, at: usize) -> u16 {
        u16::from_le_bytes([self.0[at], self.0[at + 1]])
    }

    #[inline(always)]
    pub(crate) fn u32(self, at: usize) -> u32 {
        u32::from_le_bytes([self.0[at], self.0[at + 1], self.0[at + 2], self.0[at + 3]])
    }

    #[inline(always)]
    pub(crate) fn u64(self, at: usize) -> u64 {
        u64::from(self.u32(at)) | u64::from(self.u32(at + 4)) << 32
    }

    #[inline(always)]
    pub(crate) fn bytes16(self, at: usize) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&self.0[at..at + 16]);
        bytes
    }
}
