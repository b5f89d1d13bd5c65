//! Numbers for people: enough digits to compare, no more than the clock can support.

/// Nanoseconds in the unit that keeps three digits.
pub fn nanos(value: f64) -> String {
    let (scaled, unit) = nanos_scaled(value);
    format!("{} {unit}", digits(scaled))
}

/// Value and unit of nanoseconds: ns, µs, ms or s.
pub fn nanos_scaled(value: f64) -> (f64, &'static str) {
    let size = value.abs();
    if size < 1e3 {
        (value, "ns")
    } else if size < 1e6 {
        (value / 1e3, "µs")
    } else if size < 1e9 {
        (value / 1e6, "ms")
    } else {
        (value / 1e9, "s")
    }
}

/// A value in a unit that was chosen for its neighbours, so that a line reads in one unit.
pub fn nanos_in(value: f64, unit: &str) -> String {
    let divisor = match unit {
        "ns" => 1.0,
        "µs" => 1e3,
        "ms" => 1e6,
        _ => 1e9,
    };
    digits(value / divisor)
}

/// The same with at most so many significant digits: what a clock cannot resolve is not shown.
pub fn nanos_in_digits(value: f64, unit: &str, significant: u32) -> String {
    let full = nanos_in(value, unit);
    if significant >= 3 || value == 0.0 {
        return full;
    }
    let magnitude = 10f64.powi(value.abs().log10().floor() as i32 + 1 - significant.max(1) as i32);
    let rounded = nanos_in((value / magnitude).round() * magnitude, unit);
    // Trailing zeros behind the point would claim digits again.
    if rounded.contains('.') {
        rounded.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        rounded
    }
}

/// Three significant digits: 1.23, 12.3, 123, 1 234.
pub fn digits(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        "?".to_owned()
    } else if size >= 999.5 {
        count(size.round() as u64)
    } else if size >= 99.95 {
        format!("{value:.0}")
    } else if size >= 9.995 {
        format!("{value:.1}")
    } else if size >= 0.0095 || size == 0.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.4}")
    }
}

pub fn seconds(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0} s") } else { format!("{value:.1} s") }
}

/// Thousands apart: 12 345.
pub fn count(value: u64) -> String {
    let text = value.to_string();
    let mut out = String::with_capacity(text.len() + text.len() / 3);
    for (index, digit) in text.chars().enumerate() {
        if index > 0 && (text.len() - index).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

/// `1 node`, `2 nodes`, `2 processes`.
pub fn counted(value: u64, what: &str) -> String {
    let ending = match value {
        1 => "",
        _ if what.ends_with('s') => "es",
        _ => "s",
    };
    format!("{} {what}{ending}", count(value))
}

/// 1 MB = 1,000,000 bytes.
pub fn bytes(value: f64) -> String {
    let size = value.abs();
    if size < 1e3 {
        format!("{value:.0} B")
    } else if size < 1e6 {
        format!("{} kB", digits(value / 1e3))
    } else if size < 1e9 {
        format!("{} MB", digits(value / 1e6))
    } else {
        format!("{} GB", digits(value / 1e9))
    }
}

/// A change of memory, with its sign.
pub fn bytes_change(value: f64) -> String {
    if value < 0.0 { format!("-{}", bytes(-value)) } else { format!("+{}", bytes(value)) }
}

/// 1.69 M, 25.6 k.
pub fn magnitude(value: f64) -> String {
    if value < 1e3 {
        format!("{value:.0}")
    } else if value < 1e6 {
        format!("{} k", digits(value / 1e3))
    } else if value < 1e9 {
        format!("{} M", digits(value / 1e6))
    } else {
        format!("{} G", digits(value / 1e9))
    }
}

/// A ratio as percent: 0.4 %, 12 %.
pub fn percent(ratio: f64) -> String {
    let value = ratio * 100.0;
    if value == 0.0 || value.abs() >= 9.95 { format!("{value:.0} %") } else { format!("{value:.1} %") }
}

/// Text on one line, cut to `most` characters.
pub fn one_line(text: &str, most: usize) -> String {
    let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if joined.chars().count() <= most {
        return joined;
    }
    let mut cut: String = joined.chars().take(most.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_in_every_unit() {
        for (value, text) in [
            (0.0, "0.00 ns"),
            (312.4, "312 ns"),
            (1_234.0, "1.23 µs"),
            (12_340_000.0, "12.3 ms"),
            (99_960_000.0, "100 ms"),
            (1_500_000_000.0, "1.50 s"),
            (4_321e9, "4 321 s"),
        ] {
            assert_eq!(nanos(value), text);
        }
    }

    #[test]
    fn unsupported_digits_are_not_shown() {
        assert_eq!(nanos_in_digits(3_142.0, "µs", 2), "3.1");
        assert_eq!(nanos_in_digits(3_142.0, "µs", 3), "3.14");
        assert_eq!(nanos_in_digits(43.0, "µs", 1), "0.04");
        assert_eq!(nanos_in_digits(5_960.0, "µs", 1), "6");
    }

    #[test]
    fn counts_and_sizes() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_234_567), "1 234 567");
        assert_eq!(bytes(6_783_084.0), "6.78 MB");
        assert_eq!(bytes_change(-2_000.0), "-2.00 kB");
        assert_eq!(magnitude(1_690_000.0), "1.69 M");
        assert_eq!(percent(0.004), "0.4 %");
        assert_eq!(percent(0.94), "94 %");
        assert_eq!(digits(f64::NAN), "?");
    }
}
