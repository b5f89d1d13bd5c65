//! Searches eight bytes at a time: the next quote, the end of a nested value, and whether a text is plain.
//!
//! A profile consists mostly of quotes and names. These searches are made some fifty times per event, so none of them
//! examines single bytes unless necessary.

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x80 * ONES;
const LOW: u64 = 0x7f * ONES;

const fn every(byte: u8) -> u64 {
    ONES * byte as u64
}

/// Marks zero bytes. The lowest mark is correct; above it there may be false ones.
#[inline]
fn zeros_from_lowest(word: u64) -> u64 {
    word.wrapping_sub(ONES) & !word & HIGH
}

/// Marks exactly the zero bytes.
#[inline]
fn zeros(word: u64) -> u64 {
    !((word & LOW).wrapping_add(LOW) | word | LOW)
}

/// Whether the number of marks is odd.
#[inline]
fn is_odd(marks: u64) -> bool {
    ((marks >> 7).wrapping_mul(ONES) >> 56) & 1 == 1
}

/// The byte index of the lowest mark.
#[inline]
fn lowest(marks: u64) -> usize {
    (marks.trailing_zeros() / 8) as usize
}

/// The next quote at or after `start`.
#[inline]
pub(super) fn find_quote(bytes: &[u8], start: usize) -> Option<usize> {
    let (words, rest) = bytes.get(start..)?.as_chunks();
    let mut at = start;
    for word in words {
        let marks = zeros_from_lowest(u64::from_le_bytes(*word) ^ every(b'"'));
        if marks != 0 {
            return Some(at.wrapping_add(lowest(marks)));
        }
        at = at.wrapping_add(8);
    }
    rest.iter().position(|byte| *byte == b'"').map(|found| at + found)
}

/// End of the list or object whose opening bracket is at `start`: behind its closing bracket. Brackets in texts are
/// ignored; texts must not contain escapes. `None` if it does not end.
pub(super) fn end_of_nested(bytes: &[u8], start: usize) -> Option<usize> {
    let (words, _) = bytes.get(start..)?.as_chunks();
    let mut at = start;
    let mut depth = 0usize;
    // The parity of all quotes so far.
    let mut quotes_before = 0u64;
    for word in words {
        let word = u64::from_le_bytes(*word);
        let quotes = zeros(word ^ every(b'"'));
        // `[` and `{`, `]` and `}` differ only in the bit 0x20.
        let folded = word | every(0x20);
        let opening = folded ^ every(b'{');
        let closing = folded ^ every(b'}');
        if (zeros_from_lowest(opening) | zeros_from_lowest(closing)) != 0 {
            let opening = zeros(opening);
            let mut brackets = opening | zeros(closing);
            while brackets != 0 {
                let mark = brackets & brackets.wrapping_neg();
                brackets ^= mark;
                if is_odd(quotes_before ^ (quotes & mark.wrapping_sub(1))) {
                    continue;
                }
                if opening & mark != 0 {
                    depth = depth.wrapping_add(1);
                    continue;
                }
                depth = depth.wrapping_sub(1);
                if depth == 0 {
                    return Some(at + lowest(mark) + 1);
                }
            }
        }
        quotes_before ^= quotes;
        at = at.wrapping_add(8);
    }
    end_bytewise(bytes, at, depth, is_odd(quotes_before))
}

#[cold]
fn end_bytewise(bytes: &[u8], start: usize, mut depth: usize, mut inside_text: bool) -> Option<usize> {
    for (at, byte) in bytes.iter().enumerate().skip(start) {
        match byte {
            b'"' => inside_text = !inside_text,
            b'{' | b'[' if !inside_text => depth += 1,
            b'}' | b']' if !inside_text => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// Whether a text has neither backslashes nor control characters. Written so that the compiler can vectorize it.
#[inline]
pub(super) fn is_plain(bytes: &[u8]) -> bool {
    bytes.iter().fold(0, |found, byte| found | u8::from(*byte < 0x20) | u8::from(*byte == b'\\')) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that are close to the significant ones, in every order.
    fn scrambled(round: usize) -> Vec<u8> {
        const BYTES: &[u8] = b"\"\"[]{}{}#!\x02\x7f\x80\xa2 a\\|~Z^_";
        let mut seed = round as u64;
        let length = 1 + round % 61;
        let next = |_| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            BYTES[(seed >> 40) as usize % BYTES.len()]
        };
        (0..length).map(next).collect()
    }

    #[test]
    fn quotes_are_found() {
        for round in 0..5000 {
            let bytes = scrambled(round);
            for from in 0..bytes.len() + 2 {
                let expected = (from..bytes.len()).find(|at| bytes[*at] == b'"');
                assert_eq!(find_quote(&bytes, from), expected, "{bytes:?} from {from}");
            }
        }
    }

    #[test]
    fn nested_values_end_where_the_bytewise_search_says() {
        let mut found = 0;
        for round in 0..20_000 {
            let bytes = scrambled(round);
            let starts = (0..bytes.len()).filter(|at| matches!(bytes[*at], b'[' | b'{'));
            for start in starts {
                let expected = end_bytewise(&bytes, start, 0, false);
                assert_eq!(end_of_nested(&bytes, start), expected, "{bytes:?} from {start}");
                found += usize::from(expected.is_some());
            }
        }
        assert!(found > 1000, "only {found} ended at all");
    }

    #[test]
    fn plain_texts_have_neither_backslashes_nor_control_characters() {
        assert!(is_plain("a text with \"quotes\", umlauts äöü and {brackets}".as_bytes()));
        for byte in (0..0x20).chain([b'\\']) {
            let mut bytes = [b'a'; 100];
            bytes[usize::from(byte)] = byte;
            assert!(!is_plain(&bytes));
        }
    }
}
