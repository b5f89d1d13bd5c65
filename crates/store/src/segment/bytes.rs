//! Reading and writing of small values in a block of bytes. Reading never goes beyond the end.

/// Description of a damaged block.
pub(super) type Problem = String;

pub(super) fn put_varint(into: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        into.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    into.push(value as u8);
}

/// The rest of a block.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    pub fn byte(&mut self) -> Result<u8, Problem> {
        let (first, rest) = self.0.split_first().ok_or("it ends early")?;
        self.0 = rest;
        Ok(*first)
    }

    pub fn take(&mut self, count: usize) -> Result<&'a [u8], Problem> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or("it ends early")?;
        self.0 = rest;
        Ok(taken)
    }

    pub fn varint(&mut self) -> Result<u64, Problem> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err("a number in it has no end".into())
    }

    /// A count that must not exceed `most`, so that nothing is allocated on a block's word alone.
    pub fn count(&mut self, most: usize) -> Result<usize, Problem> {
        let count = self.varint()?;
        usize::try_from(count)
            .ok()
            .filter(|count| *count <= most)
            .ok_or_else(|| format!("it claims {count} entries where at most {most} can be"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_round_trip_and_truncation_is_detected() {
        let numbers = [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX];
        let mut written = Vec::new();
        for number in numbers {
            put_varint(&mut written, number);
        }
        let mut bytes = Bytes(&written);
        for number in numbers {
            assert_eq!(bytes.varint(), Ok(number));
        }
        assert!(bytes.varint().is_err());
        assert!(Bytes(&[0xff; 11]).varint().is_err());
        assert!(Bytes(&[200, 1]).count(100).is_err());
    }
}
