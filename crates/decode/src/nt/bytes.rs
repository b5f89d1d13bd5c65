//! Numbers at fixed offsets.

pub(super) fn u8_at(bytes: &[u8], at: usize) -> Option<u8> {
    bytes.get(at).copied()
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    array_at(bytes, at).map(u16::from_le_bytes)
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    array_at(bytes, at).map(u32::from_le_bytes)
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    array_at(bytes, at).map(u64::from_le_bytes)
}

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// The numbers of a structure whose length was already checked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fixed<'a>(pub &'a [u8]);

impl Fixed<'_> {
    pub fn u32(self, at: usize) -> u32 {
        u32_at(self.0, at).unwrap_or_default()
    }

    pub fn i32(self, at: usize) -> i32 {
        self.u32(at).cast_signed()
    }

    pub fn u64(self, at: usize) -> u64 {
        u64_at(self.0, at).unwrap_or_default()
    }
}

/// UTF-16 to UTF-8; unpaired surrogates become U+FFFD.
pub(super) fn push_utf16(text: &[u8], out: &mut Vec<u8>) {
    let units = text.chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
    let mut buffer = [0; 4];
    for character in char::decode_utf16(units) {
        let character = character.unwrap_or(char::REPLACEMENT_CHARACTER);
        out.extend_from_slice(character.encode_utf8(&mut buffer).as_bytes());
    }
}
