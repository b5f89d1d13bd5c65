//! The one formatter for numbers, times, sizes and untrusted texts that people read.

use time::OffsetDateTime;

/// A dash, shown where there is no value.
pub const NOTHING: &str = "-";

/// Milliseconds in the unit that keeps three digits: `1.23 µs`, `12.3 ms`, `4.50 s`.
pub fn milliseconds(value: f64) -> String {
    if value == 0.0 {
        return "0 ms".to_owned();
    }
    let unit = TimeUnit::of(value);
    format!("{} {}", unit.number(value), unit.name())
}

/// Nanoseconds in the unit that keeps three digits.
pub fn nanoseconds(value: f64) -> String {
    milliseconds(value / 1e6)
}

/// The unit of a column or a line of times, chosen for one of them so that all can be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeUnit {
    Nanoseconds,
    Microseconds,
    Milliseconds,
    Seconds,
}

impl TimeUnit {
    pub fn of(milliseconds: f64) -> Self {
        // A value that rounds to 1000 of its unit is shown in the next one.
        match milliseconds.abs() {
            size if size >= 999.95 => Self::Seconds,
            size if size >= 0.999_95 => Self::Milliseconds,
            size if size >= 0.000_999_95 => Self::Microseconds,
            _ => Self::Nanoseconds,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Nanoseconds => "ns",
            Self::Microseconds => "µs",
            Self::Milliseconds => "ms",
            Self::Seconds => "s",
        }
    }

    pub fn scale(self, milliseconds: f64) -> f64 {
        match self {
            Self::Nanoseconds => milliseconds * 1e6,
            Self::Microseconds => milliseconds * 1e3,
            Self::Milliseconds => milliseconds,
            Self::Seconds => milliseconds / 1e3,
        }
    }

    /// The number without the unit.
    pub fn number(self, milliseconds: f64) -> String {
        digits(self.scale(milliseconds))
    }

    /// The number without the unit, with at most `significant` digits: a clock's noise is not shown.
    pub fn number_with(self, milliseconds: f64, significant: u32) -> String {
        let full = self.number(milliseconds);
        if significant >= 3 || milliseconds == 0.0 {
            return full;
        }
        let value = self.scale(milliseconds);
        let magnitude = 10f64.powi(value.abs().log10().floor() as i32 + 1 - significant.max(1) as i32);
        let rounded = digits((value / magnitude).round() * magnitude);
        // Trailing zeros after the point would claim precision again.
        match rounded.contains('.') {
            true => rounded.trim_end_matches('0').trim_end_matches('.').to_owned(),
            false => rounded,
        }
    }

    /// Decimals that align a column of times: four digits of the typical time. Clocks resolve some ten nanoseconds,
    /// so times below 100 µs get three.
    pub fn decimals(self, typical_ms: f64) -> usize {
        let digits = if typical_ms.abs() < 0.1 { 3 } else { 4 };
        let before = self.scale(typical_ms).abs().max(1e-9).log10().floor() as i32 + 1;
        usize::try_from(digits - before.max(1)).unwrap_or(0).min(3)
    }

    /// The number without the unit, with a fixed number of decimals.
    pub fn fixed(self, milliseconds: f64, decimals: usize) -> String {
        let value = self.scale(milliseconds);
        if value.abs() >= 9999.5 { digits(value) } else { format!("{value:.decimals$}") }
    }
}

impl std::fmt::Display for TimeUnit {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.name())
    }
}

/// Three significant digits: 1.23, 12.3, 123, 1 234; below 0.01 one digit and its zeros.
pub fn digits(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        "?".to_owned()
    } else if size >= 999.95 {
        format!("{}{}", if value < 0.0 { "-" } else { "" }, count(size.round() as u64))
    } else if size >= 999.5 {
        // Three digits would round up to 1000, a number that was not measured.
        format!("{value:.1}")
    } else if size >= 99.95 {
        format!("{value:.0}")
    } else if size >= 9.995 {
        format!("{value:.1}")
    } else if size >= 0.0095 || size == 0.0 {
        format!("{value:.2}")
    } else if size >= 0.000_05 {
        format!("{value:.4}")
    } else {
        format!("{value:.0e}")
    }
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

/// `1 node`, `2 nodes`, `2 processes`, `2 context switches`.
pub fn counted(value: u64, what: &str) -> String {
    let ending = match value {
        1 => "",
        _ if what.ends_with('s') || what.ends_with("tch") => "es",
        _ => "s",
    };
    format!("{} {what}{ending}", count(value))
}

/// `2nd`, `3rd`, `4th`.
pub fn ordinal(value: u64) -> String {
    let ending = match (value % 10, value % 100) {
        (1, rest) if rest != 11 => "st",
        (2, rest) if rest != 12 => "nd",
        (3, rest) if rest != 13 => "rd",
        _ => "th",
    };
    format!("{}{ending}", count(value))
}

/// A number with an SI prefix: `6.78 MB`, `3.40 GHz`, `25.6 k`.
pub fn prefixed(value: f64, unit: &str) -> String {
    let size = value.abs();
    let (scale, prefix) = match size {
        size if size >= 999.95e9 => (1e12, "T"),
        size if size >= 999.95e6 => (1e9, "G"),
        size if size >= 999.95e3 => (1e6, "M"),
        size if size >= 999.95 => (1e3, "k"),
        _ => (1.0, ""),
    };
    let number =
        if scale == 1.0 && value.fract() == 0.0 { format!("{value:.0}") } else { digits(value / scale) };
    format!("{number} {prefix}{unit}").trim_end().to_owned()
}

/// 1 MB = 1,000,000 bytes.
pub fn bytes(value: f64) -> String {
    prefixed(value, "B")
}

/// A memory change with its sign.
pub fn bytes_change(value: f64) -> String {
    if value < 0.0 { format!("-{}", bytes(-value)) } else { format!("+{}", bytes(value)) }
}

/// A ratio as percent: 0.4 %, 12 %.
pub fn percent(ratio: f64) -> String {
    let value = ratio * 100.0;
    if value == 0.0 || value.abs() >= 9.95 {
        format!("{value:.0} %")
    } else if value.abs() >= 0.05 {
        format!("{value:.1} %")
    } else {
        "< 0.1 %".to_owned()
    }
}

/// A duration from 0.1 ms to days: `12.3 s`, `4 min 05 s`, `26 h 03 min`.
pub fn duration(seconds: f64) -> String {
    if seconds < 99.95 {
        return milliseconds(seconds * 1e3);
    }
    let whole = seconds.round() as u64;
    match whole {
        ..3600 => format!("{} min {:02} s", whole / 60, whole % 60),
        _ => format!("{} h {:02} min", count(whole / 3600), whole % 3600 / 60),
    }
}

/// The age of something in whole units: `12 s`, `3 min`, `2 h`.
pub fn age(ns: u64) -> String {
    match ns / 1_000_000_000 {
        seconds @ ..120 => format!("{seconds} s"),
        seconds @ ..7_200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3_600),
    }
}

/// Bytes for narrow columns, 1 M = 1,000,000 bytes: `512B`, `1.5k`, `117M`.
pub fn narrow_bytes(value: f64) -> String {
    let text = narrow_count(value);
    if text.ends_with(|last: char| last.is_ascii_digit()) { format!("{text}B") } else { text }
}

/// A count or a rate for narrow columns: `12`, `1.5k`, `3.2M`.
pub fn narrow_count(value: f64) -> String {
    const PREFIXES: [&str; 6] = ["", "k", "M", "G", "T", "P"];
    if !value.is_finite() {
        return NOTHING.to_owned();
    }
    if value > 0.0 && value < 9.95 && value.fract() > 1e-9 {
        return format!("{value:.1}");
    }
    let (mut value, mut prefix) = (value, 0);
    // 999.5 would be shown with four digits.
    while value.abs() >= 999.5 && prefix + 1 < PREFIXES.len() {
        value /= 1e3;
        prefix += 1;
    }
    let decimals = usize::from(prefix > 0 && value.abs() < 99.95);
    format!("{value:.decimals$}{}", PREFIXES[prefix])
}

/// Percent (0 to 100 or more) for narrow columns, with one decimal below 1,000.
pub fn narrow_percent(value: f64) -> String {
    if value < 999.95 { format!("{value:.1}") } else { format!("{value:.0}") }
}

/// A formatted value, or the dash.
pub fn or_nothing(value: Option<f64>, format: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| NOTHING.to_owned(), format)
}

/// A moment of a recording, for tables: `12.345 s`.
pub fn moment(seconds: f64) -> String {
    format!("{seconds:.3} s")
}

/// `2026-11-15 13:04:05 UTC` for nanoseconds since 1970.
pub fn utc(unix_ns: u64) -> String {
    let moment = i64::try_from(unix_ns / 1_000_000_000).ok();
    let Some(moment) = moment.and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok()) else {
        return "?".to_owned();
    };
    let (date, time) = (moment.date(), moment.time());
    let (hour, minute, second) = time.as_hms();
    format!(
        "{:04}-{:02}-{:02} {hour:02}:{minute:02}:{second:02} UTC",
        date.year(),
        u8::from(date.month()),
        date.day()
    )
}

/// Maximum length of a text of a recording in a report.
pub const MAX_TEXT: usize = 300;

/// Makes untrusted text harmless for every output: on one line, at most `max` characters, without control characters
/// (terminals obey them) and without marks that reverse the writing direction (they make a text look like another).
pub fn clean(text: &str, max: usize) -> String {
    let mut out = String::with_capacity(text.len().min(max * 4));
    let mut length = 0;
    let mut pending_space = false;
    for character in text.chars() {
        if character.is_whitespace() {
            pending_space = length > 0;
            continue;
        }
        if length + usize::from(pending_space) >= max {
            if length >= max {
                out.pop();
            }
            out.push('…');
            return out;
        }
        if pending_space {
            out.push(' ');
            length += 1;
            pending_space = false;
        }
        let direction =
            matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        out.push(if character.is_control() || direction { '\u{fffd}' } else { character });
        length += 1;
    }
    out
}

/// [`clean`] with the usual length.
pub fn cleaned(text: &str) -> String {
    clean(text, MAX_TEXT)
}

/// A text cut to a width, for columns.
pub fn cut(text: &str, max: usize) -> String {
    if text.chars().count() <= max {
        return text.to_owned();
    }
    let mut out: String = text.chars().take(max.saturating_sub(1)).collect();
    out.push('…');
    out
}

/// `CPU` for `CPUExecutionProvider`.
pub fn provider(name: &str) -> &str {
    name.strip_suffix("ExecutionProvider").filter(|short| !short.is_empty()).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_keep_three_digits() {
        for (value, text) in [
            (0.0, "0 ms"),
            (0.000_312_4, "312 ns"),
            (0.001_234, "1.23 µs"),
            (0.999_6, "999.6 µs"),
            (0.999_96, "1.00 ms"),
            (-0.001_234, "-1.23 µs"),
            (99.96, "100 ms"),
            (1500.0, "1.50 s"),
            (4_321_000.0, "4 321 s"),
        ] {
            assert_eq!(milliseconds(value), text);
        }
    }

    #[test]
    fn counts_sizes_and_lengths() {
        assert_eq!((count(0), count(1_234_567)), ("0".into(), "1 234 567".into()));
        assert_eq!(bytes(6_783_084.0), "6.78 MB");
        assert_eq!(
            (bytes(0.0), bytes(512.0), bytes_change(-2000.0)),
            ("0 B".into(), "512 B".into(), "-2.00 kB".into())
        );
        assert_eq!(
            (percent(0.004), percent(0.94), percent(0.000_1)),
            ("0.4 %".into(), "94 %".into(), "< 0.1 %".into())
        );
        assert_eq!(
            (digits(-1234.0), digits(f64::NAN), digits(0.000_001)),
            ("-1 234".into(), "?".into(), "1e-6".into())
        );
        assert_eq!([1, 2, 3, 4, 11, 22].map(ordinal).join(" "), "1st 2nd 3rd 4th 11th 22nd");
        assert_eq!(
            (duration(12.3), duration(245.0), duration(93_780.0)),
            ("12.3 s".into(), "4 min 05 s".into(), "26 h 03 min".into())
        );
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(utc(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(utc(951_782_400_000_000_000), "2000-02-29 00:00:00 UTC");
        assert_eq!(utc(1_794_778_349_149_105_526), "2026-11-15 21:32:29 UTC");
    }

    #[test]
    fn narrow_columns_keep_to_five_characters() {
        let wanted = [(0.0, "0B"), (999.0, "999B"), (1000.0, "1.0k"), (1536.0, "1.5k"), (117.4e6, "117M")];
        for (value, text) in wanted {
            assert_eq!(narrow_bytes(value), text);
        }
        for power in 0..50 {
            assert!(narrow_bytes(2f64.powi(power) * 0.999).len() <= 5, "2^{power}");
        }
        assert_eq!([0.0, 0.5, 12.4, 12_345.0].map(narrow_count), ["0", "0.5", "12", "12.3k"]);
        assert_eq!((narrow_count(f64::NAN), narrow_percent(1_600.2)), (NOTHING.into(), "1600".into()));
        assert_eq!([0, 12_400_000_000, 180_000_000_000].map(age), ["0 s", "12 s", "3 min"]);
    }

    #[test]
    fn digits_below_the_noise_of_the_clock_are_not_shown() {
        let microseconds = |ns: f64, digits| TimeUnit::Microseconds.number_with(ns / 1e6, digits);
        assert_eq!(microseconds(3_142.0, 2), "3.1");
        assert_eq!(microseconds(3_142.0, 3), "3.14");
        assert_eq!(microseconds(43.0, 1), "0.04");
        assert_eq!(microseconds(5_960.0, 1), "6");
    }

    #[test]
    fn texts_lose_what_terminals_obey() {
        assert_eq!(cleaned("a\u{1b}[31mred\n\n b\u{202e}x "), "a\u{fffd}[31mred b\u{fffd}x");
        assert_eq!(clean("abcdef", 4), "abc…");
        assert_eq!(clean("abcd", 4), "abcd");
        assert_eq!(clean("ab cd", 3), "ab…");
        assert_eq!((cut("ünïcode", 4), provider("CPUExecutionProvider")), ("ünï…".into(), "CPU"));
    }
}
