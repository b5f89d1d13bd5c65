//! Reads the bytes of one payload. Every read is checked; nothing here panics or allocates.

use crate::payload::{NarrowText, WideText};
use crate::{Guid, PointerSize};

/// The payload ended before the field did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Short {
    /// Offset of the field.
    pub at: usize,
}

#[derive(Debug, Clone, Copy)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    pub pointer_size: PointerSize,
    /// Version of the event: the width or presence of some fields depends on it.
    pub version: u16,
}

impl<'a> Cursor<'a> {
    pub fn new(bytes: &'a [u8], pointer_size: PointerSize, version: u16) -> Self {
        Self { bytes, at: 0, pointer_size, version }
    }

    pub fn position(&self) -> usize {
        self.at
    }

    pub fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or(&[])
    }

    pub fn is_at_end(&self) -> bool {
        self.at >= self.bytes.len()
    }

    #[inline]
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], Short> {
        let rest = self.rest();
        let taken = rest.get(..count).ok_or(Short { at: self.at })?;
        self.at += count;
        Ok(taken)
    }

    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Short> {
        let taken = *self.rest().first_chunk::<N>().ok_or(Short { at: self.at })?;
        self.at += N;
        Ok(taken)
    }

    #[inline]
    pub fn u8(&mut self) -> Result<u8, Short> {
        self.array::<1>().map(|[byte]| byte)
    }

    #[inline]
    pub fn u16(&mut self) -> Result<u16, Short> {
        self.array().map(u16::from_le_bytes)
    }

    #[inline]
    pub fn u32(&mut self) -> Result<u32, Short> {
        self.array().map(u32::from_le_bytes)
    }

    #[inline]
    pub fn u64(&mut self) -> Result<u64, Short> {
        self.array().map(u64::from_le_bytes)
    }

    /// Four or eight bytes, depending on the event's pointer size.
    #[inline]
    pub fn pointer(&mut self) -> Result<u64, Short> {
        match self.pointer_size {
            PointerSize::Four => self.u32().map(u64::from),
            PointerSize::Eight => self.u64(),
        }
    }

    pub fn guid(&mut self) -> Result<Guid, Short> {
        self.array().map(Guid::from_bytes)
    }

    /// UTF-16 up to NUL, which is skipped, or to the end: writers omit the last terminator.
    pub fn wide(&mut self) -> WideText<'a> {
        let text = WideText::new(self.rest()).until_nul();
        let end = self.at + text.bytes().len();
        self.at = if end + 2 <= self.bytes.len() { end + 2 } else { self.bytes.len() };
        text
    }

    pub fn narrow(&mut self) -> NarrowText<'a> {
        let text = NarrowText::new(self.rest()).until_nul();
        self.at = (self.at + text.bytes().len() + 1).min(self.bytes.len());
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_refused_and_strings_may_miss_their_terminator() {
        let mut cursor = Cursor::new(b"a\0b\0\0\0xyz\0q", PointerSize::Eight, 0);
        assert_eq!(cursor.wide(), "ab");
        assert_eq!(cursor.narrow(), "xyz");
        assert_eq!(cursor.u16(), Err(Short { at: 10 }));
        assert_eq!(cursor.narrow(), "q");
        assert!(cursor.is_at_end());
        assert_eq!(cursor.pointer(), Err(Short { at: 11 }));
        assert_eq!(cursor.wide(), "");
    }
}
