//! GUIDs of providers and event classes, in the byte order of Windows.

use std::fmt;
use std::str::FromStr;

/// A GUID as in a file: the first three parts are little endian.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Guid {
    pub data1: u32,
    pub data2: u16,
    pub data3: u16,
    pub data4: [u8; 8],
}

/// The text is not a GUID such as `3d6fa8d1-fe05-11d0-9dda-00c04fd7ba7c`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a GUID; expected 8-4-4-4-12 hexadecimal digits, with or without braces")]
pub struct NotAGuid;

impl Guid {
    /// `Guid::new(0x3d6fa8d1_fe05_11d0_9dda_00c04fd7ba7c)`: the digits in written order.
    pub const fn new(digits: u128) -> Self {
        Self {
            data1: (digits >> 96) as u32,
            data2: (digits >> 80) as u16,
            data3: (digits >> 64) as u16,
            data4: (digits as u64).to_be_bytes(),
        }
    }

    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        let [a0, a1, a2, a3, b0, b1, c0, c1, d @ ..] = bytes;
        Self {
            data1: u32::from_le_bytes([a0, a1, a2, a3]),
            data2: u16::from_le_bytes([b0, b1]),
            data3: u16::from_le_bytes([c0, c1]),
            data4: d,
        }
    }

    pub fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&self.data1.to_le_bytes());
        bytes[4..6].copy_from_slice(&self.data2.to_le_bytes());
        bytes[6..8].copy_from_slice(&self.data3.to_le_bytes());
        bytes[8..].copy_from_slice(&self.data4);
        bytes
    }

    pub fn is_zero(self) -> bool {
        self == Self::default()
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let d = self.data4;
        write!(f, "{:08x}-{:04x}-{:04x}-{:02x}{:02x}-", self.data1, self.data2, self.data3, d[0], d[1])?;
        d[2..].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Guid {
    type Err = NotAGuid;

    fn from_str(text: &str) -> Result<Self, NotAGuid> {
        let text = text.strip_prefix('{').and_then(|t| t.strip_suffix('}')).unwrap_or(text);
        let well_formed = text.len() == 36
            && text.bytes().enumerate().all(|(i, byte)| match i {
                8 | 13 | 18 | 23 => byte == b'-',
                _ => byte.is_ascii_hexdigit(),
            });
        if !well_formed {
            return Err(NotAGuid);
        }
        u128::from_str_radix(&text.replace('-', ""), 16).map(Self::new).map_err(|_| NotAGuid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_bytes_agree_with_windows() {
        let guid: Guid = "{3d6fa8d1-fe05-11d0-9dda-00c04fd7ba7c}".parse().expect("a GUID");
        assert_eq!(guid, Guid::new(0x3d6fa8d1_fe05_11d0_9dda_00c04fd7ba7c));
        assert_eq!(guid.to_bytes()[..4], [0xd1, 0xa8, 0x6f, 0x3d]);
        assert_eq!(Guid::from_bytes(guid.to_bytes()), guid);
        assert_eq!(guid.to_string(), "3d6fa8d1-fe05-11d0-9dda-00c04fd7ba7c");
        assert_eq!("3d6fa8d1-fe05-11d0-9dda-00c04fd7ba7".parse::<Guid>(), Err(NotAGuid));
        assert_eq!("3d6fa8d1-fe05-11d0-9dda-00c04fd7baéx".parse::<Guid>(), Err(NotAGuid));
    }
}
