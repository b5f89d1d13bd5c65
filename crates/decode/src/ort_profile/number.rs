//! Numbers in profiles: bare or quoted, integers or fractions.

use super::keys::Reads;

/// The integer at the start of `bytes` and its length; `None` if there is none or it has more than 18 digits.
#[inline]
pub(super) fn leading_number(bytes: &[u8]) -> Option<(i64, usize)> {
    let is_negative = bytes.first() == Some(&b'-');
    let sign = usize::from(is_negative);
    let mut value = 0i64;
    let mut length = sign;
    for byte in bytes.get(sign..)? {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        value = value.wrapping_mul(10).wrapping_add(i64::from(digit));
        length += 1;
    }
    // Eighteen digits always fit.
    let digits = length - sign;
    if digits == 0 || digits > 18 {
        return None;
    }
    Some((if is_negative { -value } else { value }, length))
}

/// Parses the value of a numeric key; times become nanoseconds.
pub(super) fn parse(bytes: &[u8], reads: Reads) -> Option<i64> {
    match leading_number(bytes) {
        Some((value, length)) if length == bytes.len() => scaled(value, reads),
        _ => {
            let text = std::str::from_utf8(bytes).ok()?;
            match text.parse::<i64>() {
                Ok(value) => scaled(value, reads),
                Err(_) if reads == Reads::Time => fraction_as_ns(text),
                Err(_) => None,
            }
        }
    }
}

/// Converts an integer to the stored unit: times are written in microseconds.
#[inline]
pub(super) fn scaled(value: i64, reads: Reads) -> Option<i64> {
    if reads == Reads::Time { value.checked_mul(1000) } else { Some(value) }
}

/// NaN and infinity are not times.
fn fraction_as_ns(text: &str) -> Option<i64> {
    let micros: f64 = text.parse().ok()?;
    let nanos = (micros * 1000.0).round();
    // Beyond 2^53 (104 days) a float no longer has nanosecond resolution.
    (nanos.is_finite() && nanos.abs() < 9_007_199_254_740_992.0).then_some(nanos as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers() {
        assert_eq!(parse(b"0", Reads::Number), Some(0));
        assert_eq!(parse(b"-12", Reads::Number), Some(-12));
        assert_eq!(parse(b"9223372036854775807", Reads::Number), Some(i64::MAX));
        assert_eq!(parse(b"-9223372036854775808", Reads::Number), Some(i64::MIN));
        for bad in [&b""[..], b"-", b"--1", b"1x", b" 1", b"9223372036854775808", b"NaN", b"1.5", b"\xff"] {
            assert_eq!(parse(bad, Reads::Number), None, "{bad:?}");
        }
        assert_eq!(leading_number(b"123,"), Some((123, 3)));
        assert_eq!(leading_number(b"-7}"), Some((-7, 2)));
        assert_eq!(leading_number(b"1234567890123456789"), None);
        assert_eq!(leading_number(&[b'9'; 1000]), None);
        assert_eq!(leading_number(b"x"), None);
    }

    #[test]
    fn times() {
        assert_eq!(parse(b"12", Reads::Time), Some(12_000));
        assert_eq!(parse(b"-3", Reads::Time), Some(-3_000));
        assert_eq!(parse(b"12.345", Reads::Time), Some(12_345));
        assert_eq!(parse(b"1e3", Reads::Time), Some(1_000_000));
        let none =
            [&b"NaN"[..], b"Infinity", b"-Infinity", b"inf", b"1e300", b"9223372036854775807", b"null", b""];
        for bad in none {
            assert_eq!(parse(bad, Reads::Time), None, "{bad:?}");
        }
    }
}
