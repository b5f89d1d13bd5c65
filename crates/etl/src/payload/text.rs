//! Strings in events: byte slices that are converted to text on demand.

use std::fmt::{self, Write as _};

/// UTF-16LE without its terminator. Lone surrogates are shown as U+FFFD.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct WideText<'a> {
    bytes: &'a [u8],
}

impl<'a> WideText<'a> {
    /// An odd last byte is dropped.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes: &bytes[..bytes.len() & !1] }
    }

    pub fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    pub fn is_empty(self) -> bool {
        self.bytes.is_empty()
    }

    pub fn units(self) -> impl Iterator<Item = u16> + 'a {
        self.bytes.as_chunks::<2>().0.iter().map(|&pair| u16::from_le_bytes(pair))
    }

    pub fn chars(self) -> impl Iterator<Item = char> + 'a {
        char::decode_utf16(self.units()).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    /// The text up to the first NUL: fixed-size fields are padded with NULs.
    #[must_use]
    pub fn until_nul(self) -> Self {
        Self { bytes: &self.bytes[..2 * units_before_nul(self.bytes)] }
    }
}

/// Four units at a time: finding the ends of strings is most of the work of decoding a merged trace.
fn units_before_nul(bytes: &[u8]) -> usize {
    const ONES: u64 = 0x0001_0001_0001_0001;
    const TOPS: u64 = 0x8000_8000_8000_8000;
    let (blocks, rest) = bytes.as_chunks::<8>();
    for (index, block) in blocks.iter().enumerate() {
        let word = u64::from_le_bytes(*block);
        // The lowest set bit is the top of the first zero unit; units above it may be wrong, none below.
        let zeroes = word.wrapping_sub(ONES) & !word & TOPS;
        if zeroes != 0 {
            return 4 * index + zeroes.trailing_zeros() as usize / 16;
        }
    }
    let pairs = rest.as_chunks::<2>().0;
    4 * blocks.len() + pairs.iter().position(|pair| *pair == [0, 0]).unwrap_or(pairs.len())
}

impl fmt::Display for WideText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.chars().try_for_each(|c| f.write_char(c))
    }
}

impl fmt::Debug for WideText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        self.chars().flat_map(char::escape_debug).try_for_each(|c| f.write_char(c))?;
        f.write_char('"')
    }
}

impl PartialEq<str> for WideText<'_> {
    fn eq(&self, other: &str) -> bool {
        self.units().eq(other.encode_utf16())
    }
}

impl PartialEq<&str> for WideText<'_> {
    fn eq(&self, other: &&str) -> bool {
        *self == **other
    }
}

/// One byte per character, without the terminator: UTF-8 if valid, otherwise Latin-1, because the traced machine's code
/// page is not in the file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct NarrowText<'a> {
    bytes: &'a [u8],
}

impl<'a> NarrowText<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    pub fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    pub fn is_empty(self) -> bool {
        self.bytes.is_empty()
    }

    pub fn as_str(self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes).ok()
    }

    #[must_use]
    pub fn until_nul(self) -> Self {
        let end = self.bytes.iter().position(|&byte| byte == 0);
        Self { bytes: end.map_or(self.bytes, |end| &self.bytes[..end]) }
    }
}

impl fmt::Display for NarrowText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.as_str() {
            Some(text) => f.write_str(text),
            None => self.bytes.iter().try_for_each(|&byte| f.write_char(char::from(byte))),
        }
    }
}

impl fmt::Debug for NarrowText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        match self.as_str() {
            Some(text) => write!(f, "{}", text.escape_debug())?,
            None => write!(f, "{}", self.bytes.escape_ascii())?,
        }
        f.write_char('"')
    }
}

impl PartialEq<str> for NarrowText<'_> {
    fn eq(&self, other: &str) -> bool {
        self.bytes == other.as_bytes()
    }
}

impl PartialEq<&str> for NarrowText<'_> {
    fn eq(&self, other: &&str) -> bool {
        *self == **other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_nul_is_found_wherever_it_lies() {
        for length in 0..20 {
            for nul in 0..=length {
                // Units whose one byte is zero, and a second NUL behind the first.
                let mut units = vec![[0x00, 0x80]; length];
                units.iter_mut().step_by(3).for_each(|unit| *unit = [1, 0]);
                units.iter_mut().skip(nul).step_by(2).for_each(|unit| *unit = [0, 0]);
                assert_eq!(
                    WideText::new(units.as_flattened()).until_nul().bytes().len(),
                    2 * nul,
                    "{length} {nul}"
                );
            }
        }
    }

    #[test]
    fn broken_surrogates_and_odd_bytes_still_show() {
        assert_eq!(WideText::new(&[0x41, 0, 0, 0xd8, 0x42, 0, 0x43]).to_string(), "A\u{fffd}B");
        assert_eq!(WideText::new(b"A\0B\0\0\0C\0").until_nul(), "AB");
        assert_eq!(NarrowText::new(b"caf\xe9").to_string(), "café");
        assert_eq!(NarrowText::new("café".as_bytes()).to_string(), "café");
    }
}
