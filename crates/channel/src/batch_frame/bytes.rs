//! Values to little-endian bytes and back, with every length checked.

/// Appends 8 bytes per value.
pub fn put_words(out: &mut Vec<u8>, values: impl ExactSizeIterator<Item = u64>) {
    put_chunks(out, values.map(u64::to_le_bytes));
}

/// Appends the width, the minimum, and 0, 1, 2, 4 or 8 bytes per value for its offset from the minimum.
pub fn put_numbers(out: &mut Vec<u8>, values: impl ExactSizeIterator<Item = u64> + Clone) {
    let (least, most) =
        values.clone().fold((u64::MAX, 0), |(least, most), value| (least.min(value), most.max(value)));
    let width = match most.wrapping_sub(least) {
        0 => 0,
        1..=0xff => 1,
        0x100..=0xffff => 2,
        0x1_0000..=0xffff_ffff => 4,
        _ => 8,
    };
    out.push(width);
    out.extend_from_slice(&least.to_le_bytes());
    let more = values.map(|value| value.wrapping_sub(least));
    match width {
        0 => {}
        1 => out.extend(more.map(|value| value as u8)),
        2 => put_chunks(out, more.map(|value| (value as u16).to_le_bytes())),
        4 => put_chunks(out, more.map(|value| (value as u32).to_le_bytes())),
        _ => put_chunks(out, more.map(u64::to_le_bytes)),
    }
}

fn put_chunks<const N: usize>(out: &mut Vec<u8>, values: impl ExactSizeIterator<Item = [u8; N]>) {
    let start = out.len();
    out.resize(start + values.len() * N, 0);
    let (slots, _) = out[start..].as_chunks_mut::<N>();
    for (slot, value) in slots.iter_mut().zip(values) {
        *slot = value;
    }
}

/// A number such that signed numbers have the order of unsigned ones.
pub fn from_signed(value: i64) -> u64 {
    value as u64 ^ 1 << 63
}

pub fn to_signed(value: u64) -> i64 {
    (value ^ 1 << 63) as i64
}

/// Appends one bit per value, the first in the lowest bit.
pub fn put_bits(out: &mut Vec<u8>, values: &[bool]) {
    out.extend(
        values.chunks(8).map(|chunk| {
            chunk.iter().enumerate().fold(0, |byte, (bit, value)| byte | u8::from(*value) << bit)
        }),
    );
}

/// Reads from the front of a payload; `None` when it is over.
#[derive(Debug, Clone, Copy)]
pub struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(front)
    }

    pub fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    pub fn half(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.take(2)?.try_into().ok()?))
    }

    pub fn number(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    /// `count` words.
    pub fn words(&mut self, count: usize) -> Option<impl Iterator<Item = u64> + 'a> {
        let (words, _) = self.take(count.checked_mul(8)?)?.as_chunks::<8>();
        Some(words.iter().map(|word| u64::from_le_bytes(*word)))
    }

    /// `count` numbers as [`put_numbers`] wrote them.
    pub fn numbers(&mut self, count: usize) -> Option<Vec<u64>> {
        let width = usize::from(self.byte()?);
        let least = self.words(1)?.next()?;
        let bytes = self.take(count.checked_mul(width)?)?;
        let with_least = |more: u64| least.wrapping_add(more);
        Some(match width {
            0 => vec![least; count],
            1 => bytes.iter().map(|byte| with_least(u64::from(*byte))).collect(),
            2 => {
                bytes.as_chunks().0.iter().map(|half| with_least(u16::from_le_bytes(*half).into())).collect()
            }
            4 => {
                bytes.as_chunks().0.iter().map(|half| with_least(u32::from_le_bytes(*half).into())).collect()
            }
            8 => bytes.as_chunks().0.iter().map(|word| with_least(u64::from_le_bytes(*word))).collect(),
            _ => return None,
        })
    }

    /// Goes over what [`Bytes::numbers`] would read.
    pub fn skip_numbers(&mut self, count: usize) -> Option<()> {
        let width = usize::from(self.byte()?);
        self.take(8)?;
        self.take(count.checked_mul(width)?).map(drop)
    }

    /// `count` bits.
    pub fn bits(&mut self, count: usize) -> Option<Vec<bool>> {
        let bytes = self.take(count.div_ceil(8))?;
        Some((0..count).map(|index| bytes[index / 8] >> (index % 8) & 1 == 1).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_bits_come_back() {
        let mut out = vec![1];
        put_words(&mut out, [7, u64::MAX].into_iter());
        let marks = [true, false, false, true, true, false, true, false, true, true, false];
        put_bits(&mut out, &marks);
        let series: [&[u64]; 6] =
            [&[9, 9], &[300, 301, 555], &[1 << 20, 0], &[1 << 63, 1 << 31], &[u64::MAX, 0], &[u64::MAX]];
        for numbers in series {
            put_numbers(&mut out, numbers.iter().copied());
        }
        put_numbers(&mut out, [-5, 3].map(from_signed).into_iter());
        assert_eq!(out[out.len() - 11], 1, "negative and positive numbers can be close together");
        let mut bytes = Bytes(&out);
        assert_eq!(bytes.byte(), Some(1));
        assert_eq!(bytes.words(2).expect("two words").collect::<Vec<_>>(), [7, u64::MAX]);
        assert_eq!(bytes.bits(11).as_deref(), Some(marks.as_slice()));
        for numbers in series {
            let mut copy = bytes;
            copy.skip_numbers(numbers.len()).expect("it is there");
            assert_eq!(bytes.numbers(numbers.len()).as_deref(), Some(numbers));
            assert_eq!(copy.0.len(), bytes.0.len());
        }
        assert_eq!(bytes.numbers(2).expect("two").into_iter().map(to_signed).collect::<Vec<_>>(), [-5, 3]);
        assert_eq!(bytes.byte(), None);
        assert!(bytes.words(usize::MAX).is_none() && bytes.bits(1).is_none());
    }
}
