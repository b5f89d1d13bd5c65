//! A field's value, borrowed from the payload, and the visitor for the fields of an event.

use std::fmt::{self, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::payload::scalar::{InType, Scalar};
use crate::payload::{Cursor, NarrowText, ValueMap, WideText};
use crate::{Guid, PointerSize};

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    Signed(i64),
    Unsigned(u64),
    /// A number that its provider shows in hexadecimal: flags, status codes, handles.
    Hex(u64),
    Pointer(u64),
    Single(f32),
    Double(f64),
    Bool(bool),
    Wide(WideText<'a>),
    Narrow(NarrowText<'a>),
    Binary(&'a [u8]),
    Guid(Guid),
    Sid(Sid<'a>),
    /// Units of 100 ns since 1601.
    FileTime(u64),
    SystemTime(SystemTime),
    Ipv4(Ipv4Addr),
    Ipv6(Ipv6Addr),
    Array(Array<'a>),
    /// A number with a name in its schema.
    Named {
        number: u64,
        map: &'a ValueMap,
    },
}

impl Value<'_> {
    /// The value as a number, if it is one: lengths and counts come from other fields.
    pub fn as_u64(&self) -> Option<u64> {
        match *self {
            Self::Unsigned(n)
            | Self::Hex(n)
            | Self::Pointer(n)
            | Self::FileTime(n)
            | Self::Named { number: n, .. } => Some(n),
            Self::Signed(n) => u64::try_from(n).ok(),
            Self::Bool(b) => Some(u64::from(b)),
            _ => None,
        }
    }

    /// Writes a JSON value: numbers, booleans and arrays as such, everything else as a string.
    pub fn write_json<W: fmt::Write>(&self, out: &mut W) -> fmt::Result {
        match self {
            Self::Signed(n) => write!(out, "{n}"),
            Self::Unsigned(n) => write!(out, "{n}"),
            Self::Bool(b) => write!(out, "{b}"),
            Self::Single(n) if n.is_finite() => write!(out, "{n}"),
            Self::Double(n) if n.is_finite() => write!(out, "{n}"),
            Self::Single(_) | Self::Double(_) => out.write_str("null"),
            Self::Array(array) => {
                out.write_char('[')?;
                for (index, item) in array.iter().enumerate() {
                    if index > 0 {
                        out.write_char(',')?;
                    }
                    item.write_json(out)?;
                }
                out.write_char(']')
            }
            other => {
                out.write_char('"')?;
                write!(JsonEscape(out), "{other}")?;
                out.write_char('"')
            }
        }
    }
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signed(n) => write!(f, "{n}"),
            Self::Unsigned(n) => write!(f, "{n}"),
            Self::Hex(n) | Self::Pointer(n) => write!(f, "{n:#x}"),
            Self::Single(n) => write!(f, "{n}"),
            Self::Double(n) => write!(f, "{n}"),
            Self::Bool(b) => write!(f, "{b}"),
            Self::Wide(text) => write!(f, "{text}"),
            Self::Narrow(text) => write!(f, "{text}"),
            Self::Binary(bytes) => bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
            Self::Guid(guid) => write!(f, "{guid}"),
            Self::Sid(sid) => write!(f, "{sid}"),
            Self::FileTime(ticks) => write!(f, "{}", SystemTime::from_file_time(*ticks)),
            Self::SystemTime(time) => write!(f, "{time}"),
            Self::Ipv4(address) => write!(f, "{address}"),
            Self::Ipv6(address) => write!(f, "{address}"),
            Self::Array(array) => {
                f.write_char('[')?;
                for (index, item) in array.iter().enumerate() {
                    if index > 0 {
                        f.write_str(", ")?;
                    }
                    write!(f, "{item}")?;
                }
                f.write_char(']')
            }
            Self::Named { number, map } => map.write(*number, f),
        }
    }
}

struct JsonEscape<'w, W>(&'w mut W);

impl<W: fmt::Write> fmt::Write for JsonEscape<'_, W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|c| match c {
            '"' => self.0.write_str("\\\""),
            '\\' => self.0.write_str("\\\\"),
            '\n' => self.0.write_str("\\n"),
            '\r' => self.0.write_str("\\r"),
            '\t' => self.0.write_str("\\t"),
            c if c < ' ' => write!(self.0, "\\u{:04x}", u32::from(c)),
            c => self.0.write_char(c),
        })
    }
}

/// Elements of one type, decoded on access. The bytes were checked to hold `len` of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Array<'a> {
    pub(crate) element: Scalar,
    pub(crate) bytes: &'a [u8],
    pub(crate) len: usize,
    pub(crate) pointer_size: PointerSize,
}

impl<'a> Array<'a> {
    /// All pointers in these bytes.
    pub fn of_pointers(bytes: &'a [u8], pointer_size: PointerSize) -> Self {
        let len = bytes.len() / pointer_size.bytes();
        Self { element: Scalar::plain(InType::POINTER), bytes, len, pointer_size }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn iter(&self) -> impl Iterator<Item = Value<'a>> + use<'a> {
        let mut cursor = Cursor::new(self.bytes, self.pointer_size, 0);
        let element = self.element;
        (0..self.len).map_while(move |_| element.read(&mut cursor, None).ok())
    }
}

/// A security identifier: revision, authority and sub-authorities, whose lengths were checked.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sid<'a> {
    bytes: &'a [u8],
}

impl<'a> Sid<'a> {
    /// Splits a SID from the front of the bytes, if there is a complete one.
    pub fn split(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let count = usize::from(*bytes.get(1)?);
        let (sid, rest) = bytes.split_at_checked(8 + 4 * count)?;
        Some((Self { bytes: sid }, rest))
    }

    pub fn bytes(self) -> &'a [u8] {
        self.bytes
    }
}

impl fmt::Display for Sid<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((head, parts)) = self.bytes.split_first_chunk::<8>() else { return f.write_str("S-?") };
        let [revision, _, authority @ ..] = *head;
        let authority = authority.iter().fold(0u64, |value, &byte| value << 8 | u64::from(byte));
        write!(f, "S-{revision}-{authority}")?;
        parts.as_chunks::<4>().0.iter().try_for_each(|part| write!(f, "-{}", u32::from_le_bytes(*part)))
    }
}

impl fmt::Debug for Sid<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// SYSTEMTIME: a broken-down time. It is shown as written; invalid dates are not corrected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SystemTime {
    pub year: u16,
    pub month: u16,
    pub day_of_week: u16,
    pub day: u16,
    pub hour: u16,
    pub minute: u16,
    pub second: u16,
    pub millisecond: u16,
    /// Units of 100 ns below the millisecond; only present in times from a FILETIME.
    pub ticks: u16,
}

impl SystemTime {
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        let word = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        Self {
            year: word(0),
            month: word(2),
            day_of_week: word(4),
            day: word(6),
            hour: word(8),
            minute: word(10),
            second: word(12),
            millisecond: word(14),
            ticks: 0,
        }
    }

    /// The proleptic Gregorian date and UTC time of units of 100 ns since 1601.
    pub fn from_file_time(ticks: u64) -> Self {
        const DAY: u64 = 864_000_000_000;
        let (days, rest) = (ticks / DAY, ticks % DAY);
        // Cycles of 400 years that begin on March 1, so that a leap day is the last of its year: 1601-01-01 is
        // day 584,694 counted from 0000-03-01.
        let shifted = days + 584_694;
        let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month + 2) / 5 + 1;
        let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
        Self {
            year: (era * 400 + year_of_era + carry) as u16,
            month: month as u16,
            day_of_week: ((days + 1) % 7) as u16,
            day: day as u16,
            hour: (rest / 36_000_000_000) as u16,
            minute: (rest / 600_000_000 % 60) as u16,
            second: (rest / 10_000_000 % 60) as u16,
            millisecond: (rest / 10_000 % 1000) as u16,
            ticks: (rest % 10_000) as u16,
        }
    }
}

impl fmt::Display for SystemTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { year, month, day, hour, minute, second, millisecond, ticks, .. } = self;
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millisecond:03}{ticks:04}Z"
        )
    }
}

/// The kind of a group of fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nest {
    Struct,
    /// An array of structures; each follows as a `Struct` of its own.
    Array(usize),
}

/// Receives every field of an event, in payload order. Names and values are valid only during the call.
pub trait Visitor {
    fn field(&mut self, name: &str, value: Value<'_>);

    /// The fields until the matching [`Self::close`] belong to the group with this name.
    fn open(&mut self, _name: &str, _nest: Nest) {}

    fn close(&mut self) {}
}

/// Ignores all fields: decoding is checked, values are dropped.
impl Visitor for () {
    fn field(&mut self, _name: &str, _value: Value<'_>) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_as_calendars_do() {
        assert_eq!(Value::FileTime(133_171_255_616_974_395).to_string(), "2023-01-02T09:32:41.6974395Z");
        assert_eq!(Value::FileTime(0).to_string(), "1601-01-01T00:00:00.0000000Z");
        assert_eq!(Value::FileTime(116_444_736_000_000_000).to_string(), "1970-01-01T00:00:00.0000000Z");
        assert_eq!(SystemTime::from_file_time(116_444_736_000_000_000).day_of_week, 4);
        assert_eq!(Value::FileTime(125_962_560_000_000_000).to_string(), "2000-02-29T00:00:00.0000000Z");
        assert!(!Value::FileTime(u64::MAX).to_string().is_empty());
    }

    #[test]
    fn json_keeps_kinds_and_escapes_text() {
        let json = |value: Value<'_>| {
            let mut out = String::new();
            value.write_json(&mut out).expect("strings take everything");
            out
        };
        assert_eq!(json(Value::Narrow(NarrowText::new(b"a\"\\\n\x01"))), r#""a\"\\\n\u0001""#);
        assert_eq!(json(Value::Signed(-3)), "-3");
        assert_eq!(json(Value::Double(f64::NAN)), "null");
        assert_eq!(json(Value::Pointer(255)), r#""0xff""#);
        let bytes = [1, 0, 0, 0, 2, 0, 0, 0];
        assert_eq!(json(Value::Array(Array::of_pointers(&bytes, PointerSize::Four))), r#"["0x1","0x2"]"#);
    }

    #[test]
    fn sids_print_as_windows_does() {
        let bytes = [1, 2, 0, 0, 0, 0, 0, 5, 32, 0, 0, 0, 32, 2, 0, 0, 9];
        let (sid, rest) = Sid::split(&bytes).expect("a SID");
        assert_eq!((sid.to_string().as_str(), rest), ("S-1-5-32-544", &[9][..]));
        assert!(Sid::split(&bytes[..15]).is_none());
    }
}
