//! Numbers and lines from bytes, without allocation and without assuming UTF-8.

/// Decimal digits only; `None` for anything else or on overflow.
pub fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |value, byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit < 10)?;
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// The same with an optional sign.
pub(super) fn signed(text: &[u8]) -> Option<i64> {
    match text.strip_prefix(b"-") {
        Some(digits) => 0i64.checked_sub_unsigned(number(digits)?),
        None => i64::try_from(number(text)?).ok(),
    }
}

/// Fields between blanks.
pub(super) fn fields(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty())
}

/// Lines that end with a newline: the last one of a truncated file may contain half a number.
pub(super) fn whole_lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split_inclusive(|byte| *byte == b'\n').filter_map(|line| line.strip_suffix(b"\n"))
}

/// `key:   value` lines, both trimmed.
pub(super) fn colon_pairs(text: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    whole_lines(text).filter_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        Some((line[..colon].trim_ascii(), line[colon + 1..].trim_ascii()))
    })
}

/// `key value` lines.
pub(super) fn blank_pairs(text: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    whole_lines(text).filter_map(|line| {
        let mut parts = fields(line);
        Some((parts.next()?, parts.next()?))
    })
}

/// `123 kB` as bytes.
pub(super) fn kilobytes(value: &[u8]) -> Option<u64> {
    number(value.strip_suffix(b"kB")?.trim_ascii_end())?.checked_mul(1024)
}

/// The first `key : value` line of `/proc/cpuinfo`.
pub fn cpuinfo_value(text: &str, key: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim().to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_parsed_completely_or_not_at_all() {
        assert_eq!(number(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(number(b"18446744073709551616"), None);
        assert_eq!((number(b""), number(b"1 "), number(b"+1"), number(b"1a")), (None, None, None, None));
        assert_eq!((signed(b"-20"), signed(b"7"), signed(b"-")), (Some(-20), Some(7), None));
        assert_eq!((kilobytes(b"2 kB"), kilobytes(b"2"), kilobytes(b"2 MB")), (Some(2048), None, None));
    }

    #[test]
    fn a_truncated_line_is_ignored() {
        let pairs: Vec<_> = colon_pairs(b"a: 1\nb: 23").collect();
        assert_eq!(pairs, [(&b"a"[..], &b"1"[..])]);
    }
}
