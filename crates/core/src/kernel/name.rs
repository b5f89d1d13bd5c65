//! Names of threads as the kernel keeps them: 16 bytes, any bytes.

use std::fmt;

/// At most 16 bytes up to the first NUL; they need not be UTF-8 and may hold blanks and newlines.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct ThreadName(pub [u8; 16]);

impl ThreadName {
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let mut name = [0; 16];
        for (to, from) in name.iter_mut().zip(bytes.iter().take_while(|byte| **byte != 0)) {
            *to = *from;
        }
        Self(name)
    }

    pub fn as_bytes(&self) -> &[u8] {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(self.0.len());
        &self.0[..end]
    }

    pub fn is_empty(&self) -> bool {
        self.0[0] == 0
    }
}

impl fmt::Display for ThreadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&String::from_utf8_lossy(self.as_bytes()))
    }
}

impl fmt::Debug for ThreadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(self.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::ThreadName;

    #[test]
    fn names_end_at_nul_and_may_hold_anything() {
        assert_eq!(ThreadName::from_bytes(b"a b\nc\0rest").to_string(), "a b\nc");
        assert_eq!(ThreadName::from_bytes(b"0123456789abcdefg").as_bytes(), b"0123456789abcdef");
        assert_eq!(ThreadName::from_bytes(b"\xff\xfe").to_string(), "\u{fffd}\u{fffd}");
        assert!(ThreadName::default().is_empty());
        assert_eq!(format!("{:6}|", ThreadName::from_bytes(b"ab")), "ab    |");
    }
}
