//! Numbers for narrow columns: three digits and a unit, and a dash for what is not known.

/// What a column shows where there is no value.
pub const NOTHING: &str = "-";

const BYTE_UNITS: [&str; 6] = ["B", "K", "M", "G", "T", "P"];
const COUNT_UNITS: [&str; 5] = ["", "k", "M", "G", "T"];

/// A value by its format, or the dash.
pub fn or_nothing(value: Option<f64>, format: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| NOTHING.to_owned(), format)
}

/// Percent with one digit behind the point, none from 1,000 on.
pub fn percent(value: f64) -> String {
    if value < 999.95 { format!("{value:.1}") } else { format!("{value:.0}") }
}

/// Bytes in powers of 1024: `512B`, `1.5K`, `12.3M`, `117G`.
pub fn bytes(value: f64) -> String {
    scaled(value, 1024.0, &BYTE_UNITS)
}

/// The same with a space and the unit's full name, for sentences: `1.5 KiB`.
pub fn bytes_long(value: f64) -> String {
    let short = bytes(value);
    let digits = short.trim_end_matches(|char: char| char.is_ascii_alphabetic());
    let unit = &short[digits.len()..];
    if unit == "B" { format!("{digits} B") } else { format!("{digits} {unit}iB") }
}

/// A count or a rate in powers of 1000: `12`, `1.5k`, `3.2M`.
pub fn count(value: f64) -> String {
    if value > 0.0 && value < 9.95 && value.fract() > 1e-9 {
        return format!("{value:.1}");
    }
    scaled(value, 1000.0, &COUNT_UNITS)
}

/// A duration in nanoseconds with three digits: `812 ns`, `4.71 ms`.
pub fn nanos(value: f64) -> String {
    let units = [("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];
    let fitting = units.iter().rev().find(|(_, size)| value.abs() >= *size);
    let (unit, size) = fitting.copied().unwrap_or(("ns", 1.0));
    format!("{} {unit}", three_digits(value / size))
}

/// How long ago, in whole units: `0 s`, `12 s`, `3 min`, `2 h`.
pub fn age(nanos: u64) -> String {
    match nanos / 1_000_000_000 {
        seconds @ ..120 => format!("{seconds} s"),
        seconds @ ..7_200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3_600),
    }
}

fn scaled(value: f64, step: f64, units: &[&str]) -> String {
    let mut value = if value.is_finite() { value } else { return NOTHING.to_owned() };
    let mut unit = 0;
    // 999.5 would be shown as 1000: four digits.
    while value.abs() >= 999.5 && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    let digits =
        if unit == 0 || value.abs() >= 99.95 { format!("{value:.0}") } else { format!("{value:.1}") };
    format!("{digits}{}", units.get(unit).unwrap_or(&""))
}

fn three_digits(value: f64) -> String {
    if value.abs() >= 99.95 {
        format!("{value:.0}")
    } else if value.abs() >= 9.995 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_counts_keep_to_five_characters() {
        let mib = 1024.0 * 1024.0;
        let wanted =
            [(0.0, "0B"), (999.0, "999B"), (1000.0, "1.0K"), (1536.0, "1.5K"), (117.4 * mib, "117M")];
        for (value, text) in wanted {
            assert_eq!(bytes(value), text);
        }
        assert_eq!((bytes_long(1536.0).as_str(), bytes_long(3.0).as_str()), ("1.5 KiB", "3 B"));
        for power in 0..60 {
            assert!(bytes(2f64.powi(power) * 0.999).len() <= 5 && count(2f64.powi(power)).len() <= 8);
        }
        assert_eq!((count(0.0), count(0.5), count(12.4)), ("0".into(), "0.5".into(), "12".into()));
        assert_eq!((count(12_345.0), count(f64::NAN)), ("12.3k".into(), NOTHING.into()));
    }

    #[test]
    fn times_keep_three_digits() {
        let wanted = [(0.0, "0.00 ns"), (812.0, "812 ns"), (4_712_345.0, "4.71 ms"), (61e9, "61.0 s")];
        for (value, text) in wanted {
            assert_eq!(nanos(value), text);
        }
        assert_eq!(
            (age(0), age(12_400_000_000), age(180_000_000_000)),
            ("0 s".into(), "12 s".into(), "3 min".into())
        );
        assert_eq!((percent(100.04), percent(1_600.2)), ("100.0".into(), "1600".into()));
    }
}
