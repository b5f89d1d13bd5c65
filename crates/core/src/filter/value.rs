//! Values of terms: patterns, numbers with units, times.

use std::cmp::Ordering;
use std::fmt;

use super::parse::Char;

/// A text with wildcards: the parts between the stars. One part is a text without a star.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern {
    parts: Vec<String>,
}

impl Pattern {
    /// A star outside quotes is a wildcard.
    pub(super) fn new(chars: &[Char]) -> Self {
        let parts = chars.split(|c| *c == Char::Plain('*'));
        Self { parts: parts.map(|part| part.iter().filter_map(|c| c.text()).collect()).collect() }
    }

    /// Nothing but stars: matches everything.
    pub(super) fn is_blank(&self) -> bool {
        self.parts.iter().all(String::is_empty)
    }

    /// The whole text is the pattern.
    pub(super) fn is(&self, text: &str) -> bool {
        self.anchored(text, false)
    }

    /// The text begins with the pattern.
    pub(super) fn begins(&self, text: &str) -> bool {
        self.anchored(text, true)
    }

    fn anchored(&self, text: &str, open_end: bool) -> bool {
        let Some((first, others)) = self.parts.split_first() else {
            return false;
        };
        let Some(mut rest) = without_prefix(text, first) else {
            return false;
        };
        let Some((last, middle)) = others.split_last() else {
            return open_end || rest.is_empty();
        };
        for part in middle {
            match find(rest, part) {
                Some(at) => rest = &rest[at + part.len()..],
                None => return false,
            }
        }
        if open_end { find(rest, last).is_some() } else { ends_with(rest, last) }
    }

    /// The pattern is somewhere in the text.
    pub(super) fn is_in(&self, text: &str) -> bool {
        let mut rest = text;
        self.parts.iter().all(|part| match find(rest, part) {
            Some(at) => {
                rest = &rest[at + part.len()..];
                true
            }
            None => false,
        })
    }
}

// Comparing bytes and then slicing the text is sound: a needle of whole characters that equals bytes of a text, but for
// the case of ASCII letters, begins and ends at the text's character boundaries.

fn without_prefix<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let head = text.as_bytes().get(..prefix.len())?;
    head.eq_ignore_ascii_case(prefix.as_bytes()).then(|| &text[prefix.len()..])
}

fn ends_with(text: &str, suffix: &str) -> bool {
    let Some(start) = text.len().checked_sub(suffix.len()) else {
        return false;
    };
    text.as_bytes()[start..].eq_ignore_ascii_case(suffix.as_bytes())
}

fn find(text: &str, needle: &str) -> Option<usize> {
    if needle.is_empty() {
        return Some(0);
    }
    text.as_bytes().windows(needle.len()).position(|window| window.eq_ignore_ascii_case(needle.as_bytes()))
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.parts.as_slice() {
            return f.write_str(&quoted(only));
        }
        for (index, part) in self.parts.iter().enumerate() {
            if index > 0 {
                f.write_str("*")?;
            }
            if !part.is_empty() {
                f.write_str(&quoted(part))?;
            }
        }
        Ok(())
    }
}

/// The text as it is written in a filter: quoted if it contains special characters.
pub(super) fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '+');
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compare {
    Equal,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

impl Compare {
    pub(super) fn holds(self, value: Number, wanted: Number) -> bool {
        // A NaN compares with nothing.
        let Some(order) = value.compare(wanted) else {
            return false;
        };
        match self {
            Self::Equal => order == Ordering::Equal,
            Self::Greater => order == Ordering::Greater,
            Self::GreaterOrEqual => order != Ordering::Less,
            Self::Less => order == Ordering::Less,
            Self::LessOrEqual => order != Ordering::Greater,
        }
    }
}

impl fmt::Display for Compare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Equal => ":",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
        })
    }
}

/// Whole numbers are compared exactly, regardless of size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Number {
    Integer(i128),
    Real(f64),
}

impl Number {
    fn compare(self, other: Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Integer(a), Self::Integer(b)) => Some(a.cmp(&b)),
            (a, b) => a.real().partial_cmp(&b.real()),
        }
    }

    fn real(self) -> f64 {
        match self {
            Self::Integer(value) => value as f64,
            Self::Real(value) => value,
        }
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        if let Ok(value) = text.parse::<i64>() {
            return Some(Self::Integer(value.into()));
        }
        if let Ok(value) = text.parse::<u64>() {
            return Some(Self::Integer(value.into()));
        }
        let digits = text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.'));
        text.parse::<f64>().ok().filter(|value| digits && value.is_finite()).map(Self::Real)
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(value) => write!(f, "{value}"),
            // The debug form keeps the decimal point that distinguishes it from an integer.
            Self::Real(value) => write!(f, "{value:?}"),
        }
    }
}

/// A time: since the start of the recording, or absolute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    SinceStart(u64),
    Absolute(u64),
}

impl Moment {
    pub(super) fn at(self, start_ns: u64) -> u64 {
        match self {
            Self::SinceStart(nanos) => start_ns.saturating_add(nanos),
            Self::Absolute(nanos) => nanos,
        }
    }

    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let nanos = duration_ns(text)?;
        Ok(if text.trim().ends_with("ns") { Self::Absolute(nanos) } else { Self::SinceStart(nanos) })
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absolute(nanos) => write!(f, "{nanos}ns"),
            // A value in nanoseconds would be absolute, so fractions of a microsecond are written as decimals.
            Self::SinceStart(nanos) if !nanos.is_multiple_of(1_000) => {
                write!(f, "{}.{:03}us", nanos / 1_000, nanos % 1_000)
            }
            Self::SinceStart(0) => f.write_str("0s"),
            Self::SinceStart(nanos) => f.write_str(&duration_text(*nanos)),
        }
    }
}

const DURATION_UNITS: &[(&str, u64)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("min", 60_000_000_000),
    ("s", 1_000_000_000),
    ("h", 3_600_000_000_000),
];

const SIZE_UNITS: &[(&str, u64)] = &[
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("B", 1),
];

/// `1.5ms` as nanoseconds, exactly.
pub(super) fn duration_ns(text: &str) -> Result<u64, String> {
    if text.trim_start().starts_with('-') {
        return Err("a duration cannot be negative".to_owned());
    }
    let Some((number, factor)) = with_unit(text, DURATION_UNITS) else {
        return Err("a duration needs a unit: ns, us, ms, s, min or h".to_owned());
    };
    scaled(number, factor).ok_or_else(|| "it is not a duration in whole nanoseconds, like 1.5ms".to_owned())
}

/// `2MiB` or `2048` as bytes, exactly.
pub(super) fn size_bytes(text: &str) -> Option<u64> {
    let (number, factor) = with_unit(text, SIZE_UNITS)?;
    scaled(number, factor)
}

fn with_unit<'a>(text: &'a str, units: &[(&str, u64)]) -> Option<(&'a str, u64)> {
    units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?.trim(), *factor)))
}

/// A decimal number times a factor, if that is a whole number that fits.
fn scaled(number: &str, factor: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty()
        || !digits(whole)
        || !digits(fraction)
        || (fraction.is_empty() && number.contains('.'))
    {
        return None;
    }
    // More digits than this cannot be whole units of anything here.
    let fraction = fraction.trim_end_matches('0');
    if fraction.len() > 18 || whole.len() > 20 {
        return None;
    }
    let scale = 10u128.pow(fraction.len() as u32);
    let fraction = if fraction.is_empty() { 0 } else { fraction.parse::<u128>().ok()? };
    let units = whole.parse::<u128>().ok()?.checked_mul(scale)?.checked_add(fraction)?;
    let product = units.checked_mul(factor.into())?;
    if product.is_multiple_of(scale) { u64::try_from(product / scale).ok() } else { None }
}

/// Nanoseconds in the largest unit that keeps them whole.
pub(super) fn duration_text(nanos: u64) -> String {
    let units = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)];
    let unit = units.iter().find(|(_, factor)| nanos > 0 && nanos.is_multiple_of(*factor));
    unit.map_or_else(|| format!("{nanos}ns"), |(unit, factor)| format!("{}{unit}", nanos / factor))
}
